//! The search for cycles among waiters.

use std::sync::Arc;

use plimsoll_policy::{CycleMember, deadlock_victim};

use super::head::{Head, Slot};
use super::member::{Member, RequestError, State};
use super::mode::Mode;
use super::statistics::Counters;
use super::table::LockTable;
use super::verdicts::Todo;

/// The state of a search. Reused from search to search for its memory.
#[derive(Debug, Default)]
pub(super) struct Search {
    number: u64,
    /// By slot.
    seen: Vec<Visit>,
    /// Holders that have been seen and not yet expanded.
    todo: Vec<Slot>,
    /// The cycle found: its members with the numbers of their waits.
    cycle: Vec<(Slot, u64)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Visit {
    /// The last search in which it was seen.
    search: u64,
    /// Whether every member that it waits for has been seen, too.
    is_expanded: bool,
    /// The member that waits for it.
    parent: Slot,
    /// The number of its wait.
    sequence: u64,
}

/// The first two waiters for each mode: one of them is not the holder of a given grant.
type Wanted = [[Option<Slot>; 2]; Mode::ALL.len()];

impl Search {
    fn begin(&mut self, start: Slot) {
        self.number += 1;
        self.todo.clear();
        self.see(start, start);
        self.todo.push(start);
    }

    fn has_seen(&self, slot: Slot) -> bool {
        self.seen.get(slot as usize).is_some_and(|seen| seen.search == self.number)
    }

    fn is_expanded(&self, slot: Slot) -> bool {
        self.has_seen(slot) && self.seen[slot as usize].is_expanded
    }

    /// Records a member for which `parent` waits; false if it was recorded already.
    fn see(&mut self, slot: Slot, parent: Slot) -> bool {
        if self.has_seen(slot) {
            return false;
        }
        if slot as usize >= self.seen.len() {
            self.seen.resize(slot as usize + 1, Visit::default());
        }
        self.seen[slot as usize] = Visit { search: self.number, is_expanded: false, parent, sequence: 0 };
        true
    }

    /// Sees every member for which the waiter `slot` waits, and every member for which the waiters ahead of it in the
    /// same queue wait. Returns a waiter that waits for `start`, if any of them does.
    ///
    /// This takes one pass over the queue and one over the grants for all waiters of a queue together: at a waiter that
    /// was expanded before, the rest of the queue is known.
    fn expand(&mut self, head: &Head, at: usize, start: Slot) -> Option<Slot> {
        let slot = head.queue()[at].slot;
        let mut wanted = Wanted::default();
        for waiter in head.queue()[..=at].iter().rev() {
            if waiter.slot != slot {
                if waiter.slot == start {
                    return Some(slot);
                }
                if self.is_expanded(waiter.slot) {
                    break;
                }
                self.see(waiter.slot, slot);
            }
            let seen = &mut self.seen[waiter.slot as usize];
            (seen.is_expanded, seen.sequence) = (true, waiter.ticket.sequence);
            let [first, second] = &mut wanted[waiter.mode as usize];
            (if first.is_none() { first } else { second }).get_or_insert(waiter.slot);
        }
        for grant in head.grants() {
            let conflicting = Mode::ALL.into_iter().filter(|mode| !grant.mode.is_compatible(*mode));
            let mut waiters = conflicting.flat_map(|mode| wanted[mode as usize]).flatten();
            let Some(from) = waiters.find(|waiter| *waiter != grant.slot) else { continue };
            if grant.slot == start {
                return Some(from);
            }
            if self.see(grant.slot, from) {
                self.todo.push(grant.slot);
            }
        }
        None
    }

    /// The path to `last` is a cycle, because `last` waits for `start`.
    fn close(&mut self, start: Slot, last: Slot) {
        self.cycle.clear();
        let mut slot = last;
        loop {
            let seen = self.seen[slot as usize];
            assert!(seen.is_expanded, "invariant 7: every member of a cycle waits");
            self.cycle.push((slot, seen.sequence));
            if slot == start {
                return;
            }
            slot = seen.parent;
        }
    }
}

impl LockTable {
    /// Makes victims until no cycle goes through the waiter `start`.
    ///
    /// Called after every new edge "waits for" (invariant 4 of the [manual](super)), by the thread that made it and
    /// before that thread sleeps.
    pub(super) fn break_cycles(&self, start: Slot, todo: &mut Todo) {
        if self.member(start).state() != State::Waiting {
            return;
        }
        let mut search = self.detector.lock();
        while self.find_cycle(&mut search, start) {
            let members: Vec<_> = search.cycle.iter().map(|&(slot, _)| self.member(slot)).collect();
            // Edges were read one after another. They all hold at once if no member of the cycle has stopped waiting
            // since or got a better place: a waiter gives up neither its grants nor its place ahead of others.
            // Otherwise, search again.
            let lives: Vec<_> = members.iter().map(|member| member.life()).collect();
            let same_wait = |member: &Arc<Member>, sequence: u64| {
                let waiting = member.waiting.lock();
                waiting.name.is_some() && waiting.sequence == sequence
            };
            let still_holds = search.cycle.iter().zip(&members).all(|(&(_, number), member)| same_wait(member, number));
            // A victim that is still in its queue is about to be removed by the thread that chose it. That thread may
            // not be running, so this search removes the victim itself instead of waiting. A waiter that got a better
            // place or was granted has made the search stale; the next search sees that.
            let victim = members.iter().zip(&lives).find_map(|(member, life)| match life.state {
                State::Doomed(error) => Some((member, life.serial, error)),
                _ => None,
            });
            if let Some((member, serial, error)) = victim {
                self.take_out(member, serial, error, todo);
                continue;
            }
            if !still_holds || lives.iter().any(|life| life.state != State::Waiting) {
                continue;
            }
            let facts: Vec<_> = members
                .iter()
                .zip(&lives)
                .map(|(member, life)| CycleMember {
                    priority: member.initial_priority(),
                    rollbacks: member.rollbacks(),
                    locks: member.locks(),
                    began: life.serial,
                })
                .collect();
            let victim = deadlock_victim(&facts);
            let (member, serial) = (&members[victim], lives[victim].serial);
            if member.doom(serial, &[State::Waiting], RequestError::Deadlock).is_some() {
                Counters::count(&self.counters.deadlocks);
                self.take_out(member, serial, RequestError::Deadlock, todo);
            }
        }
    }

    /// Looks for a cycle through `start` and leaves it in `search`.
    fn find_cycle(&self, search: &mut Search, start: Slot) -> bool {
        search.begin(start);
        while let Some(slot) = search.todo.pop() {
            if search.is_expanded(slot) {
                continue;
            }
            let Some(name) = self.member(slot).waiting.lock().name else { continue };
            let hash = name.hash();
            let heads = self.partition(hash).lock();
            let Some(head) = heads.get(name, hash) else { continue };
            let last = head.position(slot).and_then(|at| search.expand(head, at, start));
            if let Some(last) = last {
                search.close(start, last);
                return true;
            }
        }
        false
    }
}
