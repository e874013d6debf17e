//! Whether the levers work.

use std::sync::atomic::Ordering;

use super::Governor;
use crate::settings::Lever;
use crate::settings::levers::{Server, at_server, own_levers, wants};

impl Governor {
    /// All levers of the governor, and whether they work now.
    pub fn levers(&self) -> Vec<Lever> {
        let settings = self.settings();
        let mut levers = own_levers(&settings);
        let health = self.health.lock();
        levers.extend(
            health
                .levers
                .iter()
                .cloned()
                .map(|lever| Lever { is_wanted: wants(&settings, lever.name) && !health.stands_by, ..lever }),
        );
        let server = Server {
            // While the server has not been asked, nothing is known to be missing.
            has_cores: health.control_up.is_none() || health.server_cores.or(settings.server_cores).is_some(),
            replay_off: health.replay_off.as_deref(),
            by_sql_alone: health.by_sql_alone.as_ref().map(|(why, is_elsewhere)| (why.as_str(), *is_elsewhere)),
        };
        at_server(&mut levers, &settings, &server);
        levers
    }

    /// Reports how a lever works, or why it does not.
    pub(crate) fn report(&self, name: &'static str, works: Result<String, String>) {
        let is_on = works.is_ok();
        let (Ok(why) | Err(why)) = works;
        let lever = Lever { name, is_on, is_wanted: true, why };
        let mut health = self.health.lock();
        match health.levers.iter_mut().find(|known| known.name == name) {
            Some(known) => *known = lever,
            None => health.levers.push(lever),
        }
    }

    /// Sets the version, newer than this governor, on which transactions are replayed all the same, or why they are not.
    pub(crate) fn trust_version(&self, major: Option<u32>, why: Option<String>) {
        self.health.lock().replay_off = why;
        // Relaxed: a transaction that is judged a moment earlier is not replayed.
        self.trusted_version.store(major.unwrap_or(0), Ordering::Relaxed);
    }

    /// Whether transactions may be replayed on a version, given as in `server_version_num`, although it is newer than
    /// this governor.
    pub(crate) fn trusts_version(&self, version: u32) -> bool {
        self.trusted_version.load(Ordering::Relaxed) == version / 10_000
    }

    /// The lever of that name, once its state was reported.
    pub(crate) fn lever(&self, name: &str) -> Option<Lever> {
        self.levers().into_iter().find(|lever| lever.name == name)
    }
}
