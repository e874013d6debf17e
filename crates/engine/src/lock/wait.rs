//! Waiting: how a request that cannot be granted begins to wait, sleeps, is taken out of its queue, or is given up.

use std::time::Duration;

use parking_lot::MutexGuard;

use super::head::Answer;
use super::heads::Heads;
use super::member::{Decision, Life, Member, RequestError, State};
use super::name::LockName;
use super::table::LockTable;
use super::verdicts::{Pair, Todo};
use crate::table::latch;

impl LockTable {
    /// Records that a member waits for a name, in whose queue it is, and carries out the consequences.
    #[cold]
    pub(super) fn begin_to_wait(
        &self,
        member: &Member,
        name: LockName,
        mut heads: MutexGuard<'_, Heads>,
    ) -> Result<Answer, RequestError> {
        let hash = name.hash();
        let head = heads.get_mut(name, hash).expect("the partition is locked and the request is in it");
        let ticket = head.queue()[head.position(member.slot).expect("it has just been put there")].ticket;
        // Published before the partition is unlocked, and so before another thread can wake it.
        let began = {
            let mut waiting = member.waiting.lock();
            let began =
                member.shift(|life| (life.state == State::Running).then_some(Life { state: State::Waiting, ..life }));
            if let Some(life) = began {
                waiting.name = Some(name);
                waiting.serial = life.serial;
                assert!(waiting.decision.is_none(), "invariant 2: one wait at a time");
            }
            began
        };
        let Some(life) = began else {
            // It was made a victim after the last check. No other request can have waited for this one yet, and this
            // one has blocked none.
            head.cancel(member.slot, |_| unreachable!("the partition has been locked since it came"));
            return member.check().map(|()| Answer::Wait);
        };
        // No thread decides about it before the partition is unlocked. Its wait is already recorded, so that it is
        // taken out again even if its thread dies.
        let requested = self.clock.now();
        {
            let mut waiting = member.waiting.lock();
            (waiting.requested, waiting.preempted) = (requested, false);
        }
        let mut todo = Todo::default();
        if !self.leaves_holders_alone {
            self.note_new_waiter(head, name, member, &mut todo);
        }
        drop(heads);
        self.after_change_of_wait(member, &mut todo);
        if (life.priority, life.cpu) != (ticket.requester.priority, ticket.cpu) {
            // It has inherited a priority between the ranking and the start of its wait.
            self.after_raise(member, &mut todo);
        }
        todo.waiters.push(member.slot);
        self.carry_out(todo);
        Ok(Answer::Wait)
    }

    /// Sleeps until the request that [`ask`](Self::ask) left waiting is decided.
    pub fn wait(&self, member: &Member) -> Decision {
        latch::assert_none_is_held();
        let mut waiting = member.waiting.lock();
        loop {
            if let Some((_, decision)) = waiting.decision.take() {
                return decision;
            }
            match waiting.deadline() {
                None => member.wake.wait(&mut waiting),
                Some(deadline) => {
                    let left = deadline.saturating_sub(self.clock.now());
                    if left.is_zero() {
                        MutexGuard::unlocked(&mut waiting, || self.expire(member));
                    } else {
                        member.wake.wait_for(&mut waiting, left);
                    }
                }
            }
        }
    }

    /// The decision about a waiting request, once there is one.
    pub fn outcome(&self, member: &Member) -> Option<Decision> {
        member.waiting.lock().decision.take().map(|(_, decision)| decision)
    }

    /// When [`expire`](Self::expire) must be called for a waiting member, on the table's clock; [`wait`](Self::wait)
    /// does so itself. A deadline may appear, and change, at any time.
    pub fn deadline(&self, member: &Member) -> Option<Duration> {
        member.waiting.lock().deadline()
    }

    /// Rolls back holders that block a waiter and whose time is over.
    pub fn expire(&self, member: &Member) {
        let now = self.clock.now();
        let (name, due) = {
            let mut waiting = member.waiting.lock();
            let Some(name) = waiting.name else { return };
            let due: Vec<_> = waiting.reprieves.extract_if(.., |reprieve| reprieve.ends <= now).collect();
            (name, due)
        };
        let mut todo = Todo::default();
        for reprieve in due {
            self.end_reprieve(
                Pair { name, requester: member.slot, holder: reprieve.holder },
                reprieve.serial,
                &mut todo,
            );
        }
        self.carry_out(todo);
    }

    /// Takes a victim out of the queue in which that transaction waits, if it still does, and lets its request fail.
    pub(super) fn take_out(&self, member: &Member, serial: u64, error: RequestError, todo: &mut Todo) {
        let Some(name) = member.waits_for(serial) else { return };
        self.change(name, todo, |head, granted| {
            // The name of a wait changes only in the partition of the name, so this check stays valid.
            if member.waits_for(serial) == Some(name) {
                let waiter = head.cancel(member.slot, |waiter| granted.push(waiter));
                let waiter = waiter.expect("invariant 2: a member that waits for a name is in its queue");
                self.decide(member, &waiter, Err(error), self.clock.now());
            }
        });
    }

    /// Gives up a request of a thread that will not read its outcome: it has died, or rolls back without having read
    /// it.
    pub(super) fn abandon_wait(&self, member: &Member) {
        let mut todo = Todo::default();
        let name = member.waiting.lock().name;
        if let Some(name) = name {
            self.change(name, &mut todo, |head, granted| {
                if head.cancel(member.slot, |waiter| granted.push(waiter)).is_some() {
                    let mut waiting = member.waiting.lock();
                    waiting.name = None;
                    waiting.reprieves.clear();
                }
            });
        }
        self.carry_out(todo);
        let decided = member.waiting.lock().decision.take();
        if let Some((name, Decision { outcome: Ok(Answer::Granted), .. })) = decided {
            self.release(member, name);
        }
    }
}
