//! The groups that are durable, and the committers that wait for more.
//!
//! A committer that waits for a group sleeps on a number that changes when the group is durable. One call wakes all of
//! them, and they continue at once. With a condition variable, each would first have to take the queue's mutex from the
//! one before, so the last of a large group would wait for as many context switches as the group has members.

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
    /// Changes with each group of even or of odd number that becomes durable, and when the log fails. At most two
    /// groups are waited for at a time, so the end of one does not wake committers that wait for the next.
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

    /// A group has become durable. Committers that wait for it are then to be [woken](Self::wake).
    pub(super) fn reach(&self, group: u64) {
        self.below.store(group + 1, Ordering::Release);
    }

    pub(super) fn wake(&self, group: u64) {
        let event = &self.events[(group % 2) as usize];
        // Release: a thread that sees the change also sees its reason.
        event.fetch_add(1, Ordering::Release);
        // The call fails only for an invalid address, on which no thread can sleep.
        let _ = futex::wake(event, futex::Flags::PRIVATE, i32::MAX as u32);
    }

    /// The log has failed; the first reason stays. Wakes all committers.
    pub(super) fn fail(&self, error: LogError) {
        let _ = self.failure.set(error);
        (0..2).for_each(|group| self.wake(group));
    }

    /// Sleeps until a group is durable; an error if the log fails before.
    pub(super) fn wait_for(&self, group: u64) -> Result<(), LogError> {
        let event = &self.events[(group % 2) as usize];
        loop {
            // Read first: if the rest changes after it was checked, this number changes too, and the thread does not
            // sleep.
            let seen = event.load(Ordering::Acquire);
            if self.below() > group {
                return Ok(());
            }
            if let Some(failure) = self.failure() {
                return Err(failure.clone());
            }
            // Woken, interrupted, or too late to sleep: the loop checks again in every case.
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
