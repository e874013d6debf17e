//! One lock name: its grants and its queue. No threads, no clock; what happens depends on the calls alone.

use plimsoll_policy::Rank;
use smallvec::SmallVec;

use super::mode::Mode;

/// Who holds or waits: a transaction's slot in the [lock table](super::LockTable).
pub type Slot = u32;

/// A mode that a transaction holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Who.
    pub slot: Slot,
    /// What.
    pub mode: Mode,
}

/// A request that has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiter {
    /// Who.
    pub slot: Slot,
    /// The mode it will hold when granted: for a conversion the supremum of old and new.
    pub mode: Mode,
    /// Whether it holds a weaker mode already.
    pub conversion: bool,
    /// Its place among others, from the scheduler.
    pub rank: Rank,
}

/// What became of a request.
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

/// Grants and queue of one lock name.
#[derive(Debug, Default)]
pub struct Head {
    grants: SmallVec<[Grant; 3]>,
    /// How many grants there are of each mode, so that a busy name is judged without looking at each grant.
    counts: [u32; 6],
    queue: Vec<Waiter>,
}

impl Head {
    /// Asks for `mode`. `rank` is called only if the request has to wait.
    pub fn request(&mut self, slot: Slot, mode: Mode, rank: impl FnOnce() -> Rank) -> Answer {
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
        let waiter = Waiter { slot, mode: wanted, conversion: held.is_some(), rank: rank() };
        let at = self.place(&waiter);
        self.queue.insert(at, waiter);
        // It may be the best of the queue and grantable at once, past waiters of a lower rank.
        if at == 0 && self.is_free_for(wanted, held) {
            self.queue.remove(0);
            self.settle(&waiter);
            return if waiter.conversion { Answer::Converted } else { Answer::Granted };
        }
        Answer::Wait
    }

    /// Gives up whatever `slot` holds. Whoever can be granted now is granted and reported to `granted`.
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

    /// Takes a waiter out of the queue. Whoever can be granted now is granted and reported. False if it was not there.
    pub fn cancel(&mut self, slot: Slot, granted: impl FnMut(Waiter)) -> bool {
        let Some(at) = self.queue.iter().position(|waiter| waiter.slot == slot) else { return false };
        self.queue.remove(at);
        self.grant_waiters(granted);
        true
    }

    /// Gives `slot` at least `mode` whatever others hold: only for gaps that merge (see the [module](super)). If it waits here,
    /// its request becomes a conversion, and whoever can be granted now is granted and reported.
    pub fn grant_unconditionally(&mut self, slot: Slot, mode: Mode, granted: impl FnMut(Waiter)) -> Answer {
        match self.grants.iter().position(|grant| grant.slot == slot) {
            Some(at) if self.grants[at].mode.covers(mode) => Answer::Held,
            Some(at) => {
                self.regrant(at, self.grants[at].mode.supremum(mode));
                Answer::Converted
            }
            None => {
                self.grant(slot, mode);
                if let Some(at) = self.queue.iter().position(|waiter| waiter.slot == slot) {
                    // Left as it was, the request would wait for its own transaction's new grant for ever.
                    let waiter = self.queue.remove(at);
                    let waiter = Waiter { mode: waiter.mode.supremum(mode), conversion: true, ..waiter };
                    self.queue.insert(self.place(&waiter), waiter);
                    self.grant_waiters(granted);
                }
                Answer::Granted
            }
        }
    }

    /// Gives up the intention to insert into this gap, but not the right of having read it. Whoever can be granted now is
    /// granted and reported. Says whether something is still held.
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

    /// Every grant.
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// The waiters, best first.
    pub fn queue(&self) -> &[Waiter] {
        &self.queue
    }

    /// Nobody holds and nobody waits.
    pub fn is_idle(&self) -> bool {
        self.grants.is_empty() && self.queue.is_empty()
    }

    /// Calls `each` with every transaction that must do something before the waiter `slot` can be granted: holders whose mode
    /// conflicts, and everybody ahead in the queue.
    pub fn blockers(&self, slot: Slot, mut each: impl FnMut(Slot)) {
        let Some(at) = self.queue.iter().position(|waiter| waiter.slot == slot) else { return };
        let wanted = self.queue[at].mode;
        for grant in &self.grants {
            if grant.slot != slot && !grant.mode.is_compatible(wanted) {
                each(grant.slot);
            }
        }
        self.queue[..at].iter().for_each(|ahead| each(ahead.slot));
    }

    /// Whether the counted grants, less one of mode `own`, all go with `wanted`.
    fn is_free_for(&self, wanted: Mode, own: Option<Mode>) -> bool {
        Mode::ALL.into_iter().all(|mode| {
            let others = self.counts[mode as usize] - u32::from(own == Some(mode));
            others == 0 || mode.is_compatible(wanted)
        })
    }

    fn place(&self, waiter: &Waiter) -> usize {
        let order = |waiter: &Waiter| (!waiter.conversion, waiter.rank);
        self.queue.partition_point(|other| order(other) <= order(waiter))
    }

    fn grant(&mut self, slot: Slot, mode: Mode) {
        self.grants.push(Grant { slot, mode });
        self.counts[mode as usize] += 1;
    }

    fn regrant(&mut self, at: usize, mode: Mode) {
        self.counts[self.grants[at].mode as usize] -= 1;
        self.counts[mode as usize] += 1;
        self.grants[at].mode = mode;
    }

    fn settle(&mut self, waiter: &Waiter) {
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

#[cfg(test)]
mod tests;
