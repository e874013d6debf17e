//! How one thread of a governor wakes another.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Wakes one thread.
#[derive(Debug, Default)]
pub struct Bell {
    heard: Mutex<Heard>,
    wakes: Condvar,
}

/// Why a thread was woken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Heard {
    /// It was not woken: the time was over.
    #[default]
    Nothing,
    /// Server processes are to get other CPU shares.
    Shares,
    /// An important unit is late, or anything may have changed.
    Late,
}

impl Bell {
    /// Rings because a unit is late; cheap if the bell was already rung.
    pub fn ring(&self) {
        self.wake(Heard::Late);
    }

    /// Wakes the thread for that reason, unless it was already woken for a more important one.
    pub(super) fn wake(&self, why: Heard) {
        let mut heard = self.heard.lock();
        if *heard < why {
            *heard = why;
            self.wakes.notify_one();
        }
    }

    /// Waits until the thread is woken or the time is over, and returns the reason.
    pub fn wait(&self, at_most: Duration) -> Heard {
        let mut heard = self.heard.lock();
        if *heard == Heard::Nothing {
            self.wakes.wait_for(&mut heard, at_most);
        }
        std::mem::take(&mut *heard)
    }
}
