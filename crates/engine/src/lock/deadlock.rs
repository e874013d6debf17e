//! The search for cycles among waiters.

use std::sync::atomic::Ordering;

use plimsoll_policy::{CycleMember, deadlock_victim};

use super::head::Slot;
use super::table::{LockTable, RequestError};

/// One step of the walk: who, in which of its waits, and whom it waits for that has not been looked at.
struct Step {
    slot: Slot,
    sequence: u64,
    blockers: Vec<Slot>,
}

impl LockTable {
    /// Rolls back victims until no cycle goes through the waiter `start`.
    ///
    /// Called after every new edge "waits for" (invariant 4 of the [module](super)), by the thread that made it and
    /// before that thread sleeps.
    pub(super) fn break_cycles(&self, start: Slot) {
        let _one_at_a_time = self.detector.lock();
        while let Some(cycle) = self.find_cycle(start) {
            let members: Vec<_> = cycle.iter().map(|&(slot, _)| self.member(slot)).collect();
            // Edges were read one after another. They all hold at once if nobody in the cycle stopped waiting since: a
            // waiter gives up neither its grants nor its place ahead of others. If somebody did, look again.
            let same_wait = |at: usize| {
                let waiting = members[at].waiting.lock();
                waiting.name.is_some() && waiting.sequence == cycle[at].1
            };
            if !(0..cycle.len()).all(same_wait) {
                continue;
            }
            let facts: Vec<_> = members
                .iter()
                .map(|member| CycleMember {
                    priority: member.priority(),
                    rollbacks: member.rollbacks.load(Ordering::Relaxed),
                    locks: member.locks.load(Ordering::Relaxed),
                    began: member.began.load(Ordering::Relaxed),
                })
                .collect();
            let victim = &members[deadlock_victim(&facts)];
            let name = victim.waiting.lock().name;
            if let Some(name) = name {
                self.refuse(victim, name, RequestError::Deadlock);
            }
        }
    }

    /// A cycle through `start`, as its members with the serial numbers of their waits.
    fn find_cycle(&self, start: Slot) -> Option<Vec<(Slot, u64)>> {
        let mut visited = vec![start];
        let mut path = vec![self.step(start)?];
        while let Some(last) = path.last_mut() {
            let Some(next) = last.blockers.pop() else {
                path.pop();
                continue;
            };
            if next == start {
                return Some(path.iter().map(|step| (step.slot, step.sequence)).collect());
            }
            if visited.contains(&next) {
                continue;
            }
            visited.push(next);
            path.extend(self.step(next));
        }
        None
    }

    /// Whom a member waits for; `None` if it does not wait.
    fn step(&self, slot: Slot) -> Option<Step> {
        let member = self.member(slot);
        let (name, sequence) = {
            let waiting = member.waiting.lock();
            (waiting.name?, waiting.sequence)
        };
        let mut blockers = Vec::new();
        self.blockers(slot, name, |blocker| blockers.push(blocker));
        Some(Step { slot, sequence, blockers })
    }
}
