//! The choice among the waiters of a name that becomes free, for schedulers that [need facts](Facts) about them.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_policy::{Contender, Facts, Rank};

use super::head::{Head, Slot, Ticket, Waiter};
use super::member::Member;
use super::mode::Mode;
use super::name::LockName;
use super::table::LockTable;
use super::verdicts::Todo;

/// The waiters that a scheduler puts in front.
#[derive(Debug)]
struct Front {
    granted: Vec<Slot>,
    then: Option<Slot>,
}

impl Front {
    fn rank(&self, slot: Slot) -> Rank {
        if self.granted.contains(&slot) {
            Rank(0)
        } else if self.then == Some(slot) {
            Rank(1)
        } else {
            Rank::REST
        }
    }
}

impl LockTable {
    /// [Changes](Self::change) a head by giving up what `member` holds in a mode for which `frees` is true, and grants
    /// the name to the waiters that the scheduler chooses, if no other transaction holds it.
    pub(super) fn change_and_choose<R: Default>(
        &self,
        member: &Member,
        frees: fn(Mode) -> bool,
        name: LockName,
        todo: &mut Todo,
        change: impl FnOnce(&mut Head, &mut Vec<Waiter>) -> R,
    ) -> R {
        let front = match self.facts {
            Facts::Nothing => None,
            Facts::Ages | Facts::Dependents => self.choose(member, frees, name),
        };
        self.change(name, todo, |head, granted| {
            // Meanwhile a gap may have been merged into this name, whose readers hold it now.
            if let Some(front) = front.filter(|_| head.only_grant(member.slot).is_some_and(frees)) {
                self.put_in_front(head, &front);
            }
            change(head, granted)
        })
    }

    /// Asks the scheduler, if the name becomes free and several requests wait for it. With no partition locked: facts
    /// about other names are read one after another, so they may be a moment old. A request that comes in between waits
    /// for the next choice.
    fn choose(&self, member: &Member, frees: fn(Mode) -> bool, name: LockName) -> Option<Front> {
        let waiters = {
            let heads = self.partition(name.hash()).lock();
            let head = heads.get(name, name.hash())?;
            let becomes_free = head.only_grant(member.slot).is_some_and(frees);
            if !becomes_free || head.queue().len() < 2 {
                return None;
            }
            let mut waiters = head.queue().to_vec();
            waiters.sort_by_key(Waiter::arrival);
            waiters
        };
        let waits = (self.facts == Facts::Dependents).then(|| self.waits());
        let contender = |waiter: &Waiter| Contender {
            group: group(waiter.mode),
            began: self.member(waiter.slot).life().serial,
            dependents: waits.as_ref().map_or_else(Vec::new, |waits| waits.dependents(waiter.slot)),
        };
        let contenders: Vec<Contender> = waiters.iter().map(contender).collect();
        let batch = self.scheduler.choose(&contenders);
        let slot = |at: usize| waiters[at].slot;
        Some(Front { granted: batch.granted.into_iter().map(slot).collect(), then: batch.then.map(slot) })
    }

    /// Puts waiters in front. In the partition of the name, whose only holder gives it up next.
    ///
    /// A waiter that may have lost or gained a place gets a new number (invariant 7). No cycle needs to be searched for
    /// (invariant 4): all waiters wait only for each other and for those that are granted the name next, which run.
    fn put_in_front(&self, head: &mut Head, front: &Front) {
        head.reorder(|waiter| match front.rank(waiter.slot) {
            rank if rank == waiter.ticket.rank => waiter.ticket,
            rank => Ticket { rank, sequence: self.member(waiter.slot).next_wait(), ..waiter.ticket },
        });
    }

    /// Who waits and who holds, of the names that are waited for. With no partition locked.
    fn waits(&self) -> Waits {
        let mut names = BTreeSet::new();
        self.for_each_member(|member| names.extend(member.waiting.lock().name));
        let mut waits = Waits::default();
        for name in names {
            let heads = self.partition(name.hash()).lock();
            if let Some(head) = heads.get(name, name.hash()) {
                let waiters = head.queue().iter().map(|waiter| waiter.slot);
                waits.add(waiters.collect(), head.grants().iter().map(|grant| grant.slot));
            }
        }
        waits
    }
}

/// Requests whose modes have equal groups can hold a name together. IS and S could, too, but only tables have both.
fn group(mode: Mode) -> Option<u8> {
    match mode {
        Mode::IS | Mode::IX => Some(0),
        Mode::S => Some(1),
        Mode::SIX | Mode::U | Mode::X => None,
    }
}

/// The names that are waited for, at about the same time.
#[derive(Debug, Default)]
struct Waits {
    /// The waiters of each name.
    waiters: Vec<Vec<Slot>>,
    /// The places of names in `waiters`, by holder.
    held: BTreeMap<Slot, Vec<usize>>,
}

impl Waits {
    fn add(&mut self, waiters: Vec<Slot>, holders: impl Iterator<Item = Slot>) {
        for holder in holders {
            self.held.entry(holder).or_default().push(self.waiters.len());
        }
        self.waiters.push(waiters);
    }

    /// A transaction, those that wait for names that it holds, those that wait for names that these hold, and so on.
    fn dependents(&self, slot: Slot) -> Vec<Slot> {
        let mut found = BTreeSet::from([slot]);
        let mut todo = vec![slot];
        while let Some(holder) = todo.pop() {
            let names = self.held.get(&holder).into_iter().flatten();
            // Each once, so that a deadlock that is just being broken does not lead round and round.
            todo.extend(names.flat_map(|name| &self.waiters[*name]).copied().filter(|waiter| found.insert(*waiter)));
        }
        found.into_iter().collect()
    }
}

// A path, because a test compiles this file elsewhere (`tests/interleaving.rs`).
#[cfg(test)]
#[path = "choice/tests.rs"]
mod tests;
