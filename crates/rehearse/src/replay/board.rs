//! What the sessions of one copy know of each other: values that were made, and units that have ended.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::value::Value;

/// How often a unit that waits looks whether the replay was stopped.
const GLANCE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Board {
    /// `None` within is a value that will not come.
    slots: Vec<OnceLock<Option<Value>>>,
    ends: Vec<Signal>,
}

#[derive(Debug, Default)]
struct Signal {
    has_ended: Mutex<bool>,
    changed: Condvar,
}

impl Board {
    pub fn new(slots: usize, awaited: usize) -> Self {
        Board {
            slots: (0..slots).map(|_| OnceLock::new()).collect(),
            ends: (0..awaited).map(|_| Signal::default()).collect(),
        }
    }

    /// Notes a value, or that it will not come. The first note counts.
    pub fn put(&self, slot: usize, value: Option<Value>) {
        let _ = self.slots[slot].set(value);
    }

    /// The value, if it has come.
    pub fn value(&self, slot: usize) -> Option<&Value> {
        self.slots[slot].get().and_then(Option::as_ref)
    }

    /// Notes that a unit has ended.
    pub fn end(&self, awaited: usize) {
        let signal = &self.ends[awaited];
        *signal.has_ended.lock() = true;
        signal.changed.notify_all();
    }

    /// Waits for a unit; returns whether it has ended in time.
    pub fn wait(&self, awaited: usize, until: Instant, stop: &AtomicBool) -> bool {
        let signal = &self.ends[awaited];
        let mut has_ended = signal.has_ended.lock();
        while !*has_ended {
            if Instant::now() >= until || stop.load(Ordering::Relaxed) {
                return false;
            }
            signal.changed.wait_until(&mut has_ended, until.min(Instant::now() + GLANCE));
        }
        true
    }
}
