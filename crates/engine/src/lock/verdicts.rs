//! Verdicts on transactions that block others: when schedulers are asked, and how their verdicts are carried out.
//!
//! A **pair** is a waiter and a holder that blocks it; for a scheduler that asks for it, also a waiter and a waiter ahead
//! in the same queue, which is then called the holder, too. Pairs are found with a partition locked
//! ([`LockTable::note_new_waiter`], [`LockTable::note_new_holder`], [`LockTable::note_waiters_behind`]). Pairs that
//! need an action are carried out afterwards, with no partition locked ([`LockTable::carry_out`]). Each pair is checked
//! again, since the action for an earlier one may have changed it.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use plimsoll_policy::{Blockers, CpuVerdict, Facts, Priority, Requester, Stance, Verdict};

use super::head::{Block, Head, Slot, Waiter};
use super::member::{Life, Member, Reprieve, RequestError, State};
use super::name::LockName;
use super::statistics::Counters;
use super::table::LockTable;
use crate::table::latch;

/// A waiter and a holder that blocks it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) name: LockName,
    pub(super) requester: Slot,
    pub(super) holder: Slot,
}

/// Actions to be taken by [`LockTable::carry_out`] when no partition is locked and no index is latched any more, before
/// the thread does anything else.
#[derive(Debug, Default)]
pub struct Todo {
    /// Pairs with a verdict.
    pub(super) pairs: Vec<Pair>,
    /// Waiters for which other transactions may wait from now on, which did not before.
    pub(super) waiters: Vec<Slot>,
}

impl Drop for Todo {
    fn drop(&mut self) {
        let is_done = self.pairs.is_empty() && self.waiters.is_empty();
        assert!(is_done || std::thread::panicking(), "invariant 4: what has to follow is left undone");
    }
}

/// The verdicts of both schedulers on a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ruling {
    verdict: Verdict,
    inherits_cpu: bool,
}

impl Ruling {
    const NOTHING: Ruling = Ruling { verdict: Verdict::Wait, inherits_cpu: false };
}

/// The result of an action on a pair in the partition of its name, to be followed up outside.
enum FollowUp {
    Nothing,
    Raised,
    /// The holder is a victim; its life before that.
    Doomed(Life),
}

impl LockTable {
    /// A waiter is new, or has another priority: schedulers are asked about every holder that blocks it. In the
    /// partition of the name.
    pub(super) fn note_new_waiter(&self, head: &Head, name: LockName, member: &Member, todo: &mut Todo) {
        let Some(at) = head.position(member.slot) else { return };
        let waiter = &head.queue()[at];
        head.holders_in_the_way(member.slot, |slot| {
            let holder = self.member(slot);
            holder.note_contended(name);
            self.note(waiter, name, &holder, Block::Grant, todo);
        });
        self.note_queue(head, name, member, todo);
        if waiter.conversion && at + 1 < head.queue().len() {
            // It holds the name and waits ahead of others: they are considered when its contended names are.
            member.note_contended(name);
        }
    }

    /// Adds the pairs of a waiter with the waiters ahead of it and behind it, if the scheduler judges them. In the
    /// partition of the name.
    fn note_queue(&self, head: &Head, name: LockName, member: &Member, todo: &mut Todo) {
        let Some(waiter) = head.position(member.slot).map(|at| &head.queue()[at]) else { return };
        if !self.counts(Block::Queue) {
            return;
        }
        head.queue_ahead(member.slot)
            .for_each(|ahead| self.note(waiter, name, &self.member(ahead), Block::Queue, todo));
        // One that converts holds the name: it blocks the others by its grant.
        if !waiter.conversion {
            head.queue_behind(member.slot)
                .iter()
                .for_each(|behind| self.note(behind, name, member, Block::Queue, todo));
        }
    }

    /// A holder is new: schedulers are asked for the waiters that it blocks. In the partition of the name.
    pub(super) fn note_new_holder(&self, head: &Head, name: LockName, holder: &Member, todo: &mut Todo) {
        holder.note_contended(name);
        head.waiters_behind(holder.slot, |waiter| self.note(waiter, name, holder, Block::Grant, todo));
    }

    /// A holder has begun to wait itself, or has another priority: schedulers are asked again for all waiters behind
    /// it.
    pub(super) fn note_waiters_behind(&self, holder: &Member, todo: &mut Todo) {
        for name in holder.contended() {
            let hash = name.hash();
            let heads = self.partition(hash).lock();
            if let Some(head) = heads.get(name, hash) {
                head.waiters_behind(holder.slot, |waiter| self.note(waiter, name, holder, Block::Grant, todo));
            }
        }
    }

    /// Adds a pair if it needs an action.
    fn note(&self, waiter: &Waiter, name: LockName, holder: &Member, block: Block, todo: &mut Todo) {
        if self.rule(waiter, holder, &holder.life(), block) != Ruling::NOTHING {
            todo.pairs.push(Pair { name, requester: waiter.slot, holder: holder.slot });
        }
    }

    /// Whether the lock scheduler gives verdicts on transactions that block others in this way.
    fn counts(&self, block: Block) -> bool {
        block == Block::Grant || self.scheduler.blockers() == Blockers::HoldersAndQueue
    }

    /// The waiter `requester`, if `holder` blocks it in a way that counts, and how.
    fn blocked<'a>(&self, head: &'a Head, requester: Slot, holder: Slot) -> Option<(&'a Waiter, Block)> {
        head.blocked_by(requester, holder).filter(|(_, block)| self.counts(*block))
    }

    /// Asks both schedulers; the CPU scheduler about holders only. A transaction that is ending or already a victim
    /// needs no action, except that its thread may inherit CPU priority. A promoted one is never rolled back
    /// (invariant 8).
    fn rule(&self, waiter: &Waiter, holder: &Member, life: &Life, block: Block) -> Ruling {
        let (requester, rollbacks) = (waiter.ticket.requester, holder.rollbacks());
        let waiting = life.state == State::Waiting;
        let lock = self.scheduler.verdict(&requester, &Stance { priority: life.priority, waiting, rollbacks });
        let requester = Requester { priority: waiter.ticket.cpu, ..requester };
        let cpu = match block {
            Block::Grant => self.cpu.scheduler.verdict(&requester, &Stance { priority: life.cpu, waiting, rollbacks }),
            Block::Queue => CpuVerdict::Wait,
        };
        let verdict = match cpu.joined(lock) {
            Verdict::Preempt | Verdict::PreemptIfWaiting | Verdict::PreemptAfter(_)
                if life.priority == Priority::PROMOTED || !matches!(life.state, State::Running | State::Waiting) =>
            {
                Verdict::Wait
            }
            // Asked again when the holder begins to wait.
            Verdict::PreemptIfWaiting if !waiting => Verdict::Wait,
            verdict => verdict,
        };
        Ruling { verdict, inherits_cpu: cpu == CpuVerdict::Inherit }
    }

    /// Carries out the verdicts on pairs, then searches for cycles, and repeats both for new pairs and waiters until
    /// none are left. With no partition locked.
    pub fn carry_out(&self, mut todo: Todo) {
        latch::assert_none_is_held();
        let mut at = 0;
        loop {
            while let Some(&pair) = todo.pairs.get(at) {
                self.carry_out_pair(pair, &mut todo);
                at += 1;
            }
            todo.pairs.clear();
            at = 0;
            // Only after all places are final: inheritance may remove cycles that it has made.
            let Some(waiter) = todo.waiters.pop() else { return };
            self.break_cycles(waiter, &mut todo);
        }
    }

    fn carry_out_pair(&self, pair: Pair, todo: &mut Todo) {
        let holder = self.member(pair.holder);
        match self.act_on(pair, &holder) {
            FollowUp::Nothing => {}
            FollowUp::Raised => {
                Counters::count(&self.counters.inheritances);
                self.after_raise(&holder, todo);
            }
            FollowUp::Doomed(life) => self.after_doom(&holder, &life, todo),
        }
    }

    /// Asks about a pair and takes the step that must be atomic with the question: in the partition of the name, where
    /// the holder cannot release its lock or leave the queue.
    fn act_on(&self, pair: Pair, holder: &Member) -> FollowUp {
        let hash = pair.name.hash();
        let heads = self.partition(hash).lock();
        let blocked = heads.get(pair.name, hash).and_then(|head| self.blocked(head, pair.requester, pair.holder));
        let Some((waiter, block)) = blocked else { return FollowUp::Nothing };
        let life = holder.life();
        let ruling = self.rule(waiter, holder, &life, block);
        let both = [State::Running, State::Waiting];
        let doomed = match ruling.verdict {
            Verdict::Preempt => self.doom(holder, &life, &both, &self.counters.preempted),
            Verdict::PreemptIfWaiting => self.doom(holder, &life, &both[1..], &self.counters.preempted_waiting),
            Verdict::PreemptAfter(reprieve) => {
                self.reprieve(pair, life.serial, reprieve);
                None
            }
            _ => None,
        };
        if let Some(life) = doomed {
            return FollowUp::Doomed(life);
        }
        let priority =
            if ruling.verdict == Verdict::Inherit { waiter.ticket.requester.priority } else { Priority::LOW };
        let cpu = if ruling.inherits_cpu { waiter.ticket.cpu } else { Priority::LOW };
        if raise(holder, life.serial, priority, cpu) { FollowUp::Raised } else { FollowUp::Nothing }
    }

    fn doom(&self, holder: &Member, life: &Life, from: &[State], counter: &AtomicU64) -> Option<Life> {
        let doomed = holder.doom(life.serial, from, RequestError::Preempted);
        if doomed.is_some() {
            Counters::count(counter);
        }
        doomed
    }

    /// A transaction was made a victim. If it waited, it is woken; if it runs, its next request fails.
    pub(super) fn after_doom(&self, victim: &Member, before: &Life, todo: &mut Todo) {
        assert!(before.priority != Priority::PROMOTED, "invariant 8: a promoted transaction is preempted");
        if before.state == State::Waiting {
            self.take_out(victim, before.serial, RequestError::Preempted, todo);
        }
    }

    /// A holder gets a reprieve, from the first moment that it blocked this waiter. In the partition of the name.
    fn reprieve(&self, pair: Pair, serial: u64, time: Duration) {
        let requester = self.member(pair.requester);
        let mut waiting = requester.waiting.lock();
        assert_eq!(waiting.name, Some(pair.name), "invariant 2: a member in a queue waits");
        let is_same = |reprieve: &Reprieve| (reprieve.holder, reprieve.serial) == (pair.holder, serial);
        if !waiting.reprieves.iter().any(is_same) {
            waiting.reprieves.push(Reprieve { holder: pair.holder, serial, ends: self.clock.now() + time });
            drop(waiting);
            // It may be sleeping without a deadline.
            requester.wake.notify_one();
        }
    }

    /// Drops the reprieves of holders that no longer block a waiter of this name: if they block it again, their time
    /// starts again. In the partition of the name.
    pub(super) fn forget_reprieves(&self, head: &Head) {
        if self.leaves_holders_alone {
            return;
        }
        for waiter in head.queue() {
            let member = self.member(waiter.slot);
            let mut waiting = member.waiting.lock();
            waiting.reprieves.retain(|reprieve| self.blocked(head, waiter.slot, reprieve.holder).is_some());
        }
    }

    /// The time of a holder is over. It is rolled back if the same transaction still blocks the same waiter, and the
    /// scheduler has not changed its verdict.
    pub(super) fn end_reprieve(&self, pair: Pair, serial: u64, todo: &mut Todo) {
        let holder = self.member(pair.holder);
        let doomed = {
            let hash = pair.name.hash();
            let heads = self.partition(hash).lock();
            let blocked = heads.get(pair.name, hash).and_then(|head| self.blocked(head, pair.requester, pair.holder));
            let life = holder.life();
            let is_due = blocked.filter(|_| life.serial == serial).is_some_and(|(waiter, block)| {
                matches!(self.rule(waiter, &holder, &life, block).verdict, Verdict::PreemptAfter(_) | Verdict::Preempt)
            });
            let both = [State::Running, State::Waiting];
            is_due.then(|| self.doom(&holder, &life, &both, &self.counters.preempted_late)).flatten()
        };
        if let Some(life) = doomed {
            self.after_doom(&holder, &life, todo);
        }
    }

    /// A transaction has another priority: its thread gets another nice value, it gets a new place in its queue, and
    /// all pairs that it is in are checked again.
    pub(super) fn after_raise(&self, member: &Member, todo: &mut Todo) {
        let life = member.life();
        self.cpu.raise(&member.thread_priority, life.serial, life.cpu);
        let mut own = Todo::default();
        let has_moved = member.waits_for(life.serial).is_some_and(|name| {
            self.change(name, todo, |head, granted| {
                // It may have been granted or removed since.
                let still_waits = member.waits_for(life.serial) == Some(name);
                let has_moved = still_waits && self.renew(head, member, granted);
                self.note_new_waiter(head, name, member, &mut own);
                has_moved
            })
        });
        todo.pairs.append(&mut own.pairs);
        // The waiters that it has passed now wait for it (invariant 4).
        todo.waiters.extend(has_moved.then_some(member.slot));
        self.after_change_of_wait(member, todo);
    }

    /// Gives a waiter the place of its present priority; returns whether that place differs.
    fn renew(&self, head: &mut Head, member: &Member, granted: &mut Vec<Waiter>) -> bool {
        let before = head.queue()[head.position(member.slot).expect("invariant 2: it waits for this name")].ticket;
        let mut ticket = self.ticket(member, before.sequence);
        if self.facts != Facts::Nothing {
            // Its place was chosen, and no priority changes that.
            ticket.rank = before.rank;
        }
        let moves = ticket.rank != before.rank;
        let ticket = if moves { self.ticket(member, member.next_wait()) } else { ticket };
        head.renew(member.slot, ticket, |waiter| granted.push(waiter));
        moves
    }

    /// A member has begun to wait, or has another priority: the locks that it holds are checked again.
    pub(super) fn after_change_of_wait(&self, member: &Member, todo: &mut Todo) {
        if !self.leaves_holders_alone {
            self.note_waiters_behind(member, todo);
        }
    }
}

/// Raises one transaction's priorities; returns whether any was lower.
fn raise(member: &Member, serial: u64, priority: Priority, cpu: Priority) -> bool {
    let raised = member.shift(|life| {
        let raised = Life { priority: life.priority.max(priority), cpu: life.cpu.max(cpu).max(priority), ..life };
        (life.serial == serial && life.state != State::Idle && raised != life).then_some(raised)
    });
    raised.is_some()
}
