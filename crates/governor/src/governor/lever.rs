//! Whether the levers work.

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
            host_away: health.host_away.as_deref(),
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

    /// The lever of that name, once its state was reported.
    pub(crate) fn lever(&self, name: &str) -> Option<Lever> {
        self.levers().into_iter().find(|lever| lever.name == name)
    }
}
