//! The lock table: heads in partitions, and the members that hold and wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard, RwLock};
use plimsoll_policy::{CPU_SCHEDULERS, Facts, LockScheduler, Priority, Requester, StarvationBound};

use super::deadlock::Search;
use super::head::{Answer, Head, Slot, Ticket, Waiter};
use super::heads::Heads;
use super::member::{Decision, Life, LockWait, Member, RequestError, State};
use super::mode::Mode;
use super::name::LockName;
use super::statistics::{Counters, LockStatistics};
use super::verdicts::Todo;
use crate::clock::Clock;
use crate::cpu_priority::CpuPriority;

/// The options of a lock table.
#[derive(Debug)]
pub struct LockOptions {
    /// Orders queues and decides about holders that block waiters.
    pub scheduler: Arc<dyn LockScheduler>,
    /// When work that was rolled back is promoted above every priority.
    pub starvation_bound: StarvationBound,
    /// The clock for waiting times and reprieves.
    pub clock: Arc<dyn Clock>,
    /// Gives threads their nice values, and decides about holders that block waiters.
    pub cpu: CpuPriority,
}

impl LockOptions {
    /// The default starvation bound, and unchanged nice values.
    pub fn new(scheduler: Arc<dyn LockScheduler>, clock: Arc<dyn Clock>) -> Self {
        let cpu = CpuPriority::new(CPU_SCHEDULERS[0]);
        LockOptions { scheduler, starvation_bound: StarvationBound::default(), clock, cpu }
    }
}

/// All locks of an engine.
#[derive(Debug)]
pub struct LockTable {
    partitions: Box<[CachePadded<Mutex<Heads>>]>,
    /// For each number, how many of the tables that share it [gather](super::intents).
    gathering: Box<[CachePadded<AtomicU32>]>,
    members: RwLock<Members>,
    pub(super) scheduler: Arc<dyn LockScheduler>,
    /// Whether neither scheduler has verdicts, so that they need not be asked.
    pub(super) leaves_holders_alone: bool,
    /// What the scheduler must know to choose among the waiters of a name that becomes free.
    pub(super) facts: Facts,
    starvation_bound: StarvationBound,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) cpu: CpuPriority,
    /// Numbers transactions.
    serial: CachePadded<AtomicU64>,
    pub(super) counters: Counters,
    /// One search for cycles at a time, so that two searches cannot each choose a victim in the same cycle.
    pub(super) detector: Mutex<Search>,
}

#[derive(Debug, Default)]
struct Members {
    all: Vec<Arc<Member>>,
    free: Vec<Slot>,
}

/// Enough that sixteen cores rarely meet at one partition; a power of two.
const PARTITIONS: usize = 256;

/// Tables with a separate number. Tables beyond share numbers; one that gathers slows down the others with its number.
const TABLES: usize = 64;

impl LockTable {
    /// An empty lock table.
    pub fn new(options: LockOptions) -> Self {
        let LockOptions { scheduler, starvation_bound, clock, cpu } = options;
        LockTable {
            partitions: (0..PARTITIONS).map(|_| CachePadded::default()).collect(),
            gathering: (0..TABLES).map(|_| CachePadded::default()).collect(),
            members: RwLock::default(),
            leaves_holders_alone: scheduler.leaves_holders_alone() && cpu.scheduler.leaves_holders_alone(),
            facts: scheduler.facts(),
            scheduler,
            starvation_bound,
            clock,
            cpu,
            serial: CachePadded::default(),
            counters: Counters::default(),
            detector: Mutex::default(),
        }
    }

    /// Adds a participant.
    pub fn join(&self) -> Arc<Member> {
        let mut members = self.members.write();
        if let Some(slot) = members.free.pop() {
            return Arc::clone(&members.all[slot as usize]);
        }
        let slot = Slot::try_from(members.all.len()).expect("fewer than 2^32 sessions");
        let member = Arc::new(Member::new(slot));
        members.all.push(Arc::clone(&member));
        member
    }

    /// Removes a participant that has no transaction.
    pub fn leave(&self, member: &Member) {
        assert_eq!(member.state(), State::Idle, "invariant 5: who leaves has no transaction");
        self.cpu.leave(&member.thread_priority);
        self.members.write().free.push(member.slot);
    }

    /// Starts a transaction of the calling thread with priority `own`; its work was rolled back `rollbacks` times
    /// before.
    pub fn begin(&self, member: &Member, own: Priority, rollbacks: u32) {
        let priority = self.starvation_bound.present(own, rollbacks);
        if priority == Priority::PROMOTED {
            Counters::count(&self.counters.promotions);
        }
        // Relaxed: it need only increase, to tell transactions and their ages apart.
        let serial = self.serial.fetch_add(1, Ordering::Relaxed) + 1;
        member.set_initial(priority, rollbacks);
        let initial = Life { serial, priority, cpu: priority, state: State::Running };
        let began = member.shift(|life| (life.state == State::Idle).then_some(initial));
        assert!(began.is_some(), "invariant 5: one transaction at a time");
        self.cpu.begin(&member.thread_priority, serial, priority);
    }

    /// From here on the transaction cannot be rolled back by others; an error if it was made a victim before. To be
    /// called before its commit record is made.
    pub fn commit_point(&self, member: &Member) -> Result<(), RequestError> {
        let ending =
            member.shift(|life| (life.state == State::Running).then_some(Life { state: State::Ending, ..life }));
        if ending.is_none() {
            member.check()?;
            unreachable!("it runs and is no victim");
        }
        Ok(())
    }

    /// The transaction will be rolled back, and from here on only by itself. A request that still waits is given up,
    /// and so is a grant that the thread has not seen because it died.
    pub fn roll_back(&self, member: &Member) {
        self.abandon_wait(member);
        let before = member.shift(|life| Some(Life { state: State::Ending, ..life }));
        if before.is_some_and(|life| life.state == State::Doomed(RequestError::Preempted)) {
            self.note_preemption(member);
        }
    }

    /// Tells the waiters that a holder blocks that it has been preempted. Those that come from here on wait for its
    /// rollback only.
    fn note_preemption(&self, holder: &Member) {
        for name in holder.contended() {
            let hash = name.hash();
            let heads = self.partition(hash).lock();
            if let Some(head) = heads.get(name, hash) {
                head.waiters_behind(holder.slot, |waiter| self.member(waiter.slot).waiting.lock().preempted = true);
            }
        }
    }

    /// The transaction has ended and has released all its locks.
    pub fn end(&self, member: &Member) {
        assert_eq!(member.locks(), 0, "invariant 5: who ends holds nothing");
        let ended = member.shift(|life| (life.state == State::Ending).then_some(Life { state: State::Idle, ..life }));
        assert!(ended.is_some(), "invariants 5 and 6: a member that ends has been ending, and no other interfered");
        if !self.leaves_holders_alone {
            member.forget_contended();
        }
        // Requests for tables that were refused.
        member.intents.lock().clear();
        self.cpu.end(&member.thread_priority);
    }

    /// Asks for a lock without sleeping. After [`Answer::Wait`] the member must be waited for by [`wait`](Self::wait)
    /// or polled by [`outcome`](Self::outcome), and must make no other request until then. Every request of a victim is
    /// an error.
    pub fn ask(&self, member: &Member, name: LockName, mode: Mode) -> Result<Answer, RequestError> {
        member.check()?;
        if let Some(answer) = self.intend(member, name, mode) {
            return Ok(answer);
        }
        let hash = name.hash();
        let mut heads = self.partition(hash).lock();
        let head = heads.head(name, hash);
        self.gather(head, member, name, mode);
        let answer = head.request(member.slot, mode, || self.ticket(member, member.next_wait()));
        match answer {
            Answer::Wait => return self.begin_to_wait(member, name, heads),
            Answer::Granted => member.count_grant(),
            Answer::Held | Answer::Converted => {}
        }
        if !self.leaves_holders_alone && answer != Answer::Held && !head.queue().is_empty() {
            // It has passed waiters, which it may block now.
            let mut todo = Todo::default();
            self.note_new_holder(head, name, member, &mut todo);
            drop(heads);
            self.carry_out(todo);
        }
        Ok(answer)
    }

    /// Releases one lock.
    pub fn release(&self, member: &Member, name: LockName) {
        if self.give_up_intent(member, name) {
            return member.count_release();
        }
        let mut todo = Todo::default();
        self.release_grant(member, name, &mut todo);
        member.count_release();
        self.carry_out(todo);
    }

    /// Releases a grant, and grants the name to waiters.
    pub(super) fn release_grant(&self, member: &Member, name: LockName, todo: &mut Todo) {
        self.change_and_choose(
            member,
            |_| true,
            name,
            todo,
            |head, granted| {
                head.release(member.slot, |waiter| granted.push(waiter));
            },
        );
    }

    /// The mode in which a member holds a name. For assertions and tests.
    pub fn held(&self, member: &Member, name: LockName) -> Option<Mode> {
        if let Some(mode) = self.intent(member, name) {
            return Some(mode);
        }
        let hash = name.hash();
        let heads = self.partition(hash).lock();
        let grants = heads.get(name, hash)?.grants();
        grants.iter().find(|grant| grant.slot == member.slot).map(|grant| grant.mode)
    }

    /// How many names have a grant or a waiter. For tests and statistics.
    pub fn name_count(&self) -> usize {
        self.partitions.iter().map(|partition| partition.lock().len()).sum()
    }

    /// How many requests wait now. For tests and statistics.
    pub fn waiter_count(&self) -> usize {
        self.partitions.iter().map(|partition| partition.lock().waiter_count()).sum()
    }

    /// The table's decisions so far.
    pub fn statistics(&self) -> LockStatistics {
        self.counters.read(self.cpu.refused())
    }

    /// Counts a transaction whose client has disconnected.
    pub(crate) fn note_abandoned(&self) {
        Counters::count(&self.counters.abandoned);
    }

    pub(super) fn member(&self, slot: Slot) -> Arc<Member> {
        Arc::clone(&self.members.read().all[slot as usize])
    }

    /// Calls `each` with every participant.
    pub(super) fn for_each_member(&self, each: impl FnMut(&Arc<Member>)) {
        self.members.read().all.iter().for_each(each);
    }

    /// How many of the tables that share this number gather.
    pub(super) fn gathering(&self, table: u32) -> &AtomicU32 {
        &self.gathering[table as usize % TABLES]
    }

    /// The facts about a waiting member that a queue needs.
    pub(super) fn ticket(&self, member: &Member, sequence: u64) -> Ticket {
        let life = member.life();
        let requester = Requester { priority: life.priority, rollbacks: member.rollbacks() };
        Ticket { rank: self.scheduler.rank(&requester), requester, cpu: life.cpu, sequence }
    }

    pub(super) fn partition(&self, hash: u64) -> &Mutex<Heads> {
        &self.partitions[Self::partition_number(hash)]
    }

    fn partition_number(hash: u64) -> usize {
        // Bits that the hash table inside the partition uses neither for its bucket (low) nor for its tag (top 7).
        (hash >> 40) as usize % PARTITIONS
    }

    /// The partitions of two names, locked in order of number; no second one if both names share theirs.
    pub(super) fn partition_pair(
        &self,
        [first, second]: [u64; 2],
    ) -> (MutexGuard<'_, Heads>, Option<MutexGuard<'_, Heads>>) {
        let [a, b] = [first, second].map(Self::partition_number);
        match a.cmp(&b) {
            std::cmp::Ordering::Equal => (self.partitions[a].lock(), None),
            std::cmp::Ordering::Less => {
                let first = self.partitions[a].lock();
                (first, Some(self.partitions[b].lock()))
            }
            std::cmp::Ordering::Greater => {
                let second = self.partitions[b].lock();
                (self.partitions[a].lock(), Some(second))
            }
        }
    }

    /// Changes a head, if it exists, and wakes waiters that can be granted. Adds new pairs to `todo`, to be carried out
    /// when no partition is locked any more.
    pub(super) fn change<R: Default>(
        &self,
        name: LockName,
        todo: &mut Todo,
        change: impl FnOnce(&mut Head, &mut Vec<Waiter>) -> R,
    ) -> R {
        let hash = name.hash();
        let mut heads = self.partition(hash).lock();
        let changed = heads.change(name, hash, |head| {
            let mut granted = Vec::new();
            let result = change(head, &mut granted);
            if !granted.is_empty() {
                self.let_in(head, name, &granted, todo);
            }
            self.end_gathering(head, name);
            result
        });
        changed.unwrap_or_default()
    }

    /// Wakes waiters whose requests have been granted, in the partition of their name.
    pub(super) fn let_in(&self, head: &mut Head, name: LockName, granted: &[Waiter], todo: &mut Todo) {
        let now = self.clock.now();
        let members: Vec<_> = granted.iter().map(|waiter| self.member(waiter.slot)).collect();
        for (waiter, member) in granted.iter().zip(&members) {
            let answer = if waiter.conversion { Answer::Converted } else { Answer::Granted };
            self.decide(member, waiter, Ok(answer), now);
        }
        head.note_grant(now);
        if !self.leaves_holders_alone && !head.queue().is_empty() {
            if granted.iter().any(|waiter| waiter.conversion) {
                // It was ahead of others, and its new mode may be compatible with theirs.
                self.forget_reprieves(head);
            }
            members.iter().for_each(|member| self.note_new_holder(head, name, member, todo));
        }
    }

    /// Reports the outcome of a request to its waiter, in the partition of its name.
    pub(super) fn decide(
        &self,
        member: &Member,
        waiter: &Waiter,
        outcome: Result<Answer, RequestError>,
        now: Duration,
    ) {
        if outcome == Ok(Answer::Granted) {
            member.count_grant();
        }
        let mut waiting = member.waiting.lock();
        let Some(name) = waiting.name.take() else { unreachable!("invariant 2: a member in a queue waits") };
        let queue_time = now.saturating_sub(waiting.requested);
        let excess = waiter.passed().map_or(queue_time, |passed| passed.saturating_sub(waiting.requested));
        let wait = LockWait { queue_time, excess: excess.min(queue_time), preempted: waiting.preempted };
        waiting.decision = Some((name, Decision { outcome, wait }));
        waiting.reprieves.clear();
        // A victim stays a victim, even if its request was granted at the same moment.
        member.shift(|life| (life.state == State::Waiting).then_some(Life { state: State::Running, ..life }));
        drop(waiting);
        member.wake.notify_one();
    }
}
