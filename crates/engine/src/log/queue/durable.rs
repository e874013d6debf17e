//! How far the log is durable, and who waits for more.
//!
//! Whoever waits for a group sleeps on a number that changes when the group is durable. All of them are woken by one call and
//! go on at once; with a condition variable each would first have to take the queue's mutex from the one before, so that
//! the last of a large group would wait for as many changes of threads as the group has members.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use rustix::thread::futex;

use crate::log::LogError;

/// Changed with the queue's mutex locked, read without it.
#[derive(Debug, Default)]
pub(super) struct Durable {
    /// Groups below this number are durable.
    below: AtomicU64,
    failure: OnceLock<LogError>,
    /// Changes with each group of even or of odd number that becomes durable, and when the log fails. At most two groups are
    /// waited for at a time, so that the end of one wakes nobody who waits for the next.
    events: [CachePadded<AtomicU32>; 2],
}

impl Durable {
    /// Groups below this number are durable.
    pub(super) fn below(&self) -> u64 {
        self.below.load(Ordering::Acquire)
    }

    pub(super) fn failure(&self) -> Option<&LogError> {
        self.failure.get()
    }

    /// A group has become durable. Whoever waits for it is to be [woken](Self::wake).
    pub(super) fn reach(&self, group: u64) {
        self.below.store(group + 1, Ordering::Release);
    }

    pub(super) fn wake(&self, group: u64) {
        let event = &self.events[(group % 2) as usize];
        // Release: whoever sees the change sees why it was made.
        event.fetch_add(1, Ordering::Release);
        // The system refuses only what is no address; then nobody can sleep there either.
        let _ = futex::wake(event, futex::Flags::PRIVATE, i32::MAX as u32);
    }

    /// The log has failed: the first reason stays. Wakes everybody.
    pub(super) fn fail(&self, error: LogError) {
        let _ = self.failure.set(error);
        (0..2).for_each(|group| self.wake(group));
    }

    /// Sleeps until a group is durable; an error if the log fails before.
    pub(super) fn wait_for(&self, group: u64) -> Result<(), LogError> {
        let event = &self.events[(group % 2) as usize];
        loop {
            // Read before the rest: if that changes after it was looked at, this number does, and there is no sleep.
            let seen = event.load(Ordering::Acquire);
            if self.below() > group {
                return Ok(());
            }
            if let Some(failure) = self.failure() {
                return Err(failure.clone());
            }
            // Woken, interrupted, or too late to sleep: in any case it is looked at again.
            let _ = futex::wait(event, futex::Flags::PRIVATE, seen, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn everybody_who_waits_is_woken_for_its_group_or_by_the_failure() {
        for _ in 0..200 {
            let durable = Arc::new(Durable::default());
            let wait = |group: u64| {
                let durable = Arc::clone(&durable);
                std::thread::spawn(move || durable.wait_for(group))
            };
            let waiters: Vec<_> = (0..4).flat_map(|group| [group, group]).map(|group| (group, wait(group))).collect();
            for group in 0..3 {
                durable.reach(group);
                durable.wake(group);
            }
            let failure = LogError::Dead { reason: "no disk".to_owned() };
            durable.fail(failure.clone());
            durable.fail(LogError::Dead { reason: "another".to_owned() });
            for (group, waiter) in waiters {
                let expect = if group < 3 { Ok(()) } else { Err(failure.clone()) };
                assert_eq!(waiter.join().expect("it does not panic"), expect, "group {group}");
            }
        }
    }
}
