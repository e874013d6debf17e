//! Sessions that end once they are idle, so that their clients connect again.

use std::sync::atomic::Ordering;

use super::SessionCard;

impl SessionCard {
    /// The session ends as soon as it is idle. Its worker must receive a command, so that it looks again.
    pub(crate) fn end_when_idle(&self) {
        // Relaxed: the command comes later, through a channel.
        self.ends_when_idle.store(true, Ordering::Relaxed);
    }

    /// Whether the session ends as soon as it is idle.
    pub(crate) fn ends_when_idle(&self) -> bool {
        self.ends_when_idle.load(Ordering::Relaxed)
    }
}
