//! Levers, and whether they work.

use super::Governor;
use crate::settings::{own_levers, wants};

/// A lever of the governor and whether it works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lever {
    /// `admission`, `preemption`, `replay`, `retry`, `cpu shares`, `inheritance`, `awake cores`.
    pub name: &'static str,
    /// Whether it works.
    pub is_on: bool,
    /// Whether the settings ask for it.
    pub is_wanted: bool,
    /// Why it does not work, and what to do; or how it works.
    pub why: String,
}

impl Lever {
    /// Its state in a word: `works`; `off` if the settings do not ask for it; otherwise `failing`.
    pub fn state(&self) -> &'static str {
        match (self.is_on, self.is_wanted) {
            (true, _) => "works",
            (false, false) => "off",
            (false, true) => "failing",
        }
    }
}

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
        levers
    }

    /// The lever of that name, once its state was reported.
    pub(crate) fn lever(&self, name: &str) -> Option<Lever> {
        self.levers().into_iter().find(|lever| lever.name == name)
    }
}
