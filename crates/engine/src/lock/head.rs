//! One lock name: its grants and its queue. No threads, no clock; the result depends on the calls alone.

use std::time::Duration;

use plimsoll_policy::{Priority, Rank, Requester};
use smallvec::SmallVec;

use super::mode::Mode;

/// A holder or waiter: a transaction's slot in the [lock table](super::LockTable).
pub type Slot = u32;

/// A mode that a transaction holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The transaction.
    pub slot: Slot,
    /// The mode.
    pub mode: Mode,
}

/// A request that has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiter {
    /// The transaction.
    pub slot: Slot,
    /// The mode it will hold when granted: for a conversion the supremum of old and new.
    pub mode: Mode,
    /// Whether it holds a weaker mode already.
    pub conversion: bool,
    /// Decides its place, and the fate of holders that block it.
    pub ticket: Ticket,
    /// Increases with each request for this name.
    arrival: u64,
    /// When the name was first granted to another waiter while this one waited.
    passed: Option<Duration>,
}

/// Facts about a waiter's transaction, so that a queue is judged without a look at its transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// Its place in the queue, from the scheduler.
    pub rank: Rank,
    /// The facts for the scheduler.
    pub requester: Requester,
    /// Its CPU priority.
    pub cpu: Priority,
    /// The number of its wait, which also changes when it is given a better place. A search that sees the same number
    /// twice knows that it has waited for the same transactions, and perhaps more, all the time between.
    pub sequence: u64,
}

impl Waiter {
    /// A number that increases with each request for this name.
    pub(super) fn arrival(&self) -> u64 {
        self.arrival
    }

    /// When the name was first granted to another waiter while this one waited.
    pub fn passed(&self) -> Option<Duration> {
        self.passed
    }
}

/// The answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The transaction held enough already; nothing changed.
    Held,
    /// Granted, and the transaction had no grant on this name before.
    Granted,
    /// Granted as a stronger mode than before.
    Converted,
    /// It must wait.
    Wait,
}

/// How a transaction blocks a waiter of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block {
    /// As a holder: its grant conflicts with what the waiter wants, or it waits ahead to convert its grant.
    Grant,
    /// As a waiter that holds nothing of this name: its request is ahead.
    Queue,
}

/// Grants and queue of one lock name.
#[derive(Debug, Default)]
pub struct Head {
    grants: SmallVec<[Grant; 3]>,
    /// The number of grants of each mode, so that a busy name is judged without looking at each grant.
    counts: [u32; 6],
    queue: Vec<Waiter>,
    /// The number of requests that have had to wait so far.
    arrivals: u64,
    /// For a table: whether all intentions on it are grants here ([`intents`](super::intents)).
    pub(super) is_gathering: bool,
}

impl Head {
    /// Asks for `mode`. `ticket` is called only if the request has to wait.
    pub fn request(&mut self, slot: Slot, mode: Mode, ticket: impl FnOnce() -> Ticket) -> Answer {
        if self.is_idle() {
            self.grant(slot, mode);
            return Answer::Granted;
        }
        let own = self.grants.iter().position(|grant| grant.slot == slot);
        let held = own.map(|at| self.grants[at].mode);
        if held.is_some_and(|held| held.covers(mode)) {
            return Answer::Held;
        }
        let wanted = held.map_or(mode, |held| held.supremum(mode));
        if self.queue.is_empty() && self.is_free_for(wanted, held) {
            return match own {
                Some(at) => {
                    self.regrant(at, wanted);
                    Answer::Converted
                }
                None => {
                    self.grant(slot, wanted);
                    Answer::Granted
                }
            };
        }
        assert!(self.position(slot).is_none(), "invariant 2: one request of a transaction on a name");
        self.arrivals += 1;
        let (conversion, arrival) = (held.is_some(), self.arrivals);
        let waiter = Waiter { slot, mode: wanted, conversion, ticket: ticket(), arrival, passed: None };
        // It may be the best of the queue and grantable at once, past waiters of a lower rank.
        if self.place(&waiter) == 0 && self.is_free_for(wanted, held) {
            self.settle(&waiter);
            return if conversion { Answer::Converted } else { Answer::Granted };
        }
        self.enqueue(waiter);
        Answer::Wait
    }

    /// Takes note of an intention that its holder has kept to itself so far.
    pub(super) fn admit(&mut self, slot: Slot, mode: Mode) {
        assert!(self.is_free_for(mode, None), "invariants 1 and 10: an intention beside something stronger");
        self.grant(slot, mode);
    }

    /// Whether there are no waiters, and no grants stronger than an intention.
    pub(super) fn has_intentions_only(&self) -> bool {
        self.queue.is_empty()
            && [Mode::S, Mode::SIX, Mode::U, Mode::X].iter().all(|mode| self.counts[*mode as usize] == 0)
    }

    /// Releases the grant of `slot`, if it has one. Requests that can now be granted are granted and reported to
    /// `granted`.
    pub fn release(&mut self, slot: Slot, granted: impl FnMut(Waiter)) {
        if let Some(at) = self.grants.iter().position(|grant| grant.slot == slot) {
            let grant = self.grants.swap_remove(at);
            self.counts[grant.mode as usize] -= 1;
            self.grant_waiters(granted);
        }
    }

    /// Replaces the mode that `slot` holds by a weaker one.
    pub fn downgrade(&mut self, slot: Slot, mode: Mode, granted: impl FnMut(Waiter)) {
        if let Some(at) = self.grants.iter().position(|grant| grant.slot == slot) {
            debug_assert!(self.grants[at].mode.covers(mode), "downgrade to something stronger");
            self.regrant(at, mode);
            self.grant_waiters(granted);
        }
    }

    /// Takes a waiter out of the queue and returns it, if it was there. Requests that can now be granted are granted
    /// and reported.
    pub fn cancel(&mut self, slot: Slot, granted: impl FnMut(Waiter)) -> Option<Waiter> {
        let waiter = self.queue.remove(self.position(slot)?);
        self.grant_waiters(granted);
        Some(waiter)
    }

    /// Gives a waiter another ticket and the place that follows from it; among equals, its arrival decides. Requests
    /// that can now be granted are granted and reported.
    pub fn renew(&mut self, slot: Slot, ticket: Ticket, granted: impl FnMut(Waiter)) {
        let Some(at) = self.position(slot) else { return };
        let waiter = Waiter { ticket, ..self.queue[at] };
        if waiter.ticket.rank == self.queue[at].ticket.rank {
            self.queue[at] = waiter;
        } else {
            self.queue.remove(at);
            self.enqueue(waiter);
            self.grant_waiters(granted);
        }
    }

    /// Gives every waiter another ticket and the places that follow from these. Grants nothing; the caller does so next,
    /// by a release.
    pub(super) fn reorder(&mut self, ticket: impl Fn(&Waiter) -> Ticket) {
        for waiter in &mut self.queue {
            waiter.ticket = ticket(waiter);
        }
        self.queue.sort_by_key(Self::order);
    }

    /// The name has just been granted to a waiter: the remaining waiters note the time, once.
    pub fn note_grant(&mut self, now: Duration) {
        for waiter in &mut self.queue {
            waiter.passed.get_or_insert(now);
        }
    }

    /// Gives `slot` at least `mode` regardless of other grants: only for gaps that merge (see the [module](super)). If
    /// it waits here, its request becomes a conversion. Requests that can now be granted are granted and reported.
    pub(crate) fn grant_unconditionally(&mut self, slot: Slot, mode: Mode, granted: impl FnMut(Waiter)) -> Answer {
        match self.grants.iter().position(|grant| grant.slot == slot) {
            Some(at) if self.grants[at].mode.covers(mode) => Answer::Held,
            Some(at) => {
                self.regrant(at, self.grants[at].mode.supremum(mode));
                Answer::Converted
            }
            None => {
                self.grant(slot, mode);
                if let Some(at) = self.position(slot) {
                    // Unchanged, the request would wait forever for its own transaction's new grant.
                    let waiter = self.queue.remove(at);
                    self.enqueue(Waiter { mode: waiter.mode.supremum(mode), conversion: true, ..waiter });
                    self.grant_waiters(granted);
                }
                Answer::Granted
            }
        }
    }

    /// Releases the intention to insert into this gap, but not the lock of a transaction that has read it. Requests
    /// that can now be granted are granted and reported. Returns whether the transaction still holds a lock.
    pub fn give_up_intention(&mut self, slot: Slot, granted: impl FnMut(Waiter)) -> bool {
        match self.grants.iter().find(|grant| grant.slot == slot) {
            Some(grant) if grant.mode.covers(Mode::S) => {
                self.downgrade(slot, Mode::S, granted);
                true
            }
            _ => {
                self.release(slot, granted);
                false
            }
        }
    }

    /// The mode in which `slot` holds this name, if no other transaction does.
    pub(super) fn only_grant(&self, slot: Slot) -> Option<Mode> {
        match self.grants[..] {
            [grant] if grant.slot == slot => Some(grant.mode),
            _ => None,
        }
    }

    /// Every grant.
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// The waiters, best first.
    pub fn queue(&self) -> &[Waiter] {
        &self.queue
    }

    /// Whether there are neither holders nor waiters.
    pub fn is_idle(&self) -> bool {
        self.grants.is_empty() && self.queue.is_empty()
    }

    /// Where in the queue a transaction waits.
    pub fn position(&self, slot: Slot) -> Option<usize> {
        self.queue.iter().position(|waiter| waiter.slot == slot)
    }

    /// Calls `each` with every holder that blocks the waiter `slot`: its grant conflicts with what the waiter wants, or
    /// it waits ahead to convert its grant.
    pub(crate) fn holders_in_the_way(&self, slot: Slot, mut each: impl FnMut(Slot)) {
        let Some(at) = self.position(slot) else { return };
        let others = self.grants.iter().filter(|grant| grant.slot != slot);
        others.filter(|grant| self.is_in_the_way(grant, at)).for_each(|grant| each(grant.slot));
    }

    /// Calls `each` with every waiter that the holder `slot` blocks.
    pub fn waiters_behind(&self, slot: Slot, mut each: impl FnMut(&Waiter)) {
        let Some(grant) = self.grants.iter().find(|grant| grant.slot == slot) else { return };
        for (at, waiter) in self.queue.iter().enumerate().filter(|(_, waiter)| waiter.slot != slot) {
            if self.is_in_the_way(grant, at) {
                each(waiter);
            }
        }
    }

    /// The waiters that hold nothing of this name, ahead of the waiter `slot`.
    pub(crate) fn queue_ahead(&self, slot: Slot) -> impl Iterator<Item = Slot> {
        let ahead = self.queue.iter().take(self.position(slot).unwrap_or(0));
        ahead.filter(|waiter| !waiter.conversion).map(|waiter| waiter.slot)
    }

    /// The waiters behind the waiter `slot`.
    pub(crate) fn queue_behind(&self, slot: Slot) -> &[Waiter] {
        self.position(slot).map_or(&[], |at| &self.queue[at + 1..])
    }

    /// The waiter `waiter`, if `other` blocks it, and how.
    pub fn blocked_by(&self, waiter: Slot, other: Slot) -> Option<(&Waiter, Block)> {
        let at = self.position(waiter)?;
        let grant = self.grants.iter().find(|grant| grant.slot == other && other != waiter);
        let block = match grant {
            Some(grant) => self.is_in_the_way(grant, at).then_some(Block::Grant),
            None => self.queue[..at].iter().any(|ahead| ahead.slot == other).then_some(Block::Queue),
        };
        block.map(|block| (&self.queue[at], block))
    }

    /// Whether a holder blocks another transaction, which waits at place `at`.
    fn is_in_the_way(&self, grant: &Grant, at: usize) -> bool {
        let converts_ahead =
            || self.queue[..at].iter().take_while(|ahead| ahead.conversion).any(|ahead| ahead.slot == grant.slot);
        !grant.mode.is_compatible(self.queue[at].mode) || converts_ahead()
    }

    /// Whether the counted grants, less one of mode `own`, are all compatible with `wanted`.
    fn is_free_for(&self, wanted: Mode, own: Option<Mode>) -> bool {
        Mode::ALL.into_iter().all(|mode| {
            let others = self.counts[mode as usize] - u32::from(own == Some(mode));
            others == 0 || mode.is_compatible(wanted)
        })
    }

    /// Invariant 3: conversions first, then by rank, then by arrival.
    fn order(waiter: &Waiter) -> (bool, Rank, u64) {
        (!waiter.conversion, waiter.ticket.rank, waiter.arrival)
    }

    fn place(&self, waiter: &Waiter) -> usize {
        self.queue.partition_point(|other| Self::order(other) <= Self::order(waiter))
    }

    fn enqueue(&mut self, waiter: Waiter) {
        let at = self.place(&waiter);
        self.queue.insert(at, waiter);
        let neighbours = &self.queue[at.saturating_sub(1)..(at + 2).min(self.queue.len())];
        assert!(neighbours.is_sorted_by_key(Self::order), "invariant 3: a queue out of order");
    }

    /// Adds a grant beside others with which it is compatible; only [`grant_unconditionally`](Self::grant_unconditionally)
    /// may be an exception.
    fn grant(&mut self, slot: Slot, mode: Mode) {
        debug_assert!(self.grants.iter().all(|grant| grant.slot != slot), "invariant 2: two grants of one transaction");
        self.grants.push(Grant { slot, mode });
        self.counts[mode as usize] += 1;
    }

    fn regrant(&mut self, at: usize, mode: Mode) {
        self.counts[self.grants[at].mode as usize] -= 1;
        self.counts[mode as usize] += 1;
        self.grants[at].mode = mode;
    }

    /// Grants a waiter's request.
    fn settle(&mut self, waiter: &Waiter) {
        let mut others = self.grants.iter().filter(|grant| grant.slot != waiter.slot);
        assert!(
            others.all(|grant| grant.mode.is_compatible(waiter.mode)),
            "invariant 1: grants that do not go together"
        );
        match self.grants.iter().position(|grant| grant.slot == waiter.slot) {
            Some(at) => self.regrant(at, waiter.mode),
            None => self.grant(waiter.slot, waiter.mode),
        }
    }

    fn grant_waiters(&mut self, mut granted: impl FnMut(Waiter)) {
        while let Some(&first) = self.queue.first() {
            let own = first.conversion.then(|| self.grants.iter().find(|grant| grant.slot == first.slot)).flatten();
            if !self.is_free_for(first.mode, own.map(|grant| grant.mode)) {
                break;
            }
            self.queue.remove(0);
            self.settle(&first);
            granted(first);
        }
    }
}

// A path, because a test compiles this file elsewhere (`tests/interleaving.rs`).
#[cfg(test)]
#[path = "head/tests.rs"]
mod tests;
