//! The lock table: heads in partitions, and the transactions that sleep on them.

use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use hashbrown::HashMap;
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
use plimsoll_policy::{LockScheduler, Priority, Requester};

use super::head::{Answer, Head, Slot, Waiter};
use super::mode::Mode;
use crate::clock::Clock;

/// Something that can be locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockName {
    /// Which table or index, and which kind of thing of it.
    space: u32,
    /// Which row; for a gap the row above it.
    item: u64,
}

impl LockName {
    const ROW: u32 = 1 << 30;
    const GAP: u32 = 2 << 30;
    /// No row has this number: the gap above the last entry of an index.
    const END: u64 = u64::MAX;

    /// A whole table.
    pub fn table(table: u32) -> Self {
        LockName { space: table, item: 0 }
    }

    /// One row of a table.
    pub fn row(table: u32, row: u64) -> Self {
        LockName { space: table | Self::ROW, item: row }
    }

    /// The gap of an index below the entry of `row`, or above the last entry.
    pub fn gap(index: u32, row: Option<u64>) -> Self {
        LockName { space: index | Self::GAP, item: row.unwrap_or(Self::END) }
    }
}

/// Multiplicative hashing: names are numbers that the engine made itself, so nobody can aim collisions at it.
#[derive(Default)]
struct NameHasher(u64);

impl Hasher for NameHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("a lock name hashes as integers only");
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }
    fn write_u64(&mut self, value: u64) {
        // The golden ratio multiplier of Fibonacci hashing; the fold brings the well-mixed high bits down to where a
        // hash table takes its bucket from.
        let mixed = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

type Heads = HashMap<LockName, Head, BuildHasherDefault<NameHasher>>;

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Granting it to everybody in a cycle is impossible, and this transaction was chosen to give way.
    #[error("deadlock victim")]
    Deadlock,
}

/// A participant: one transaction at a time, with its place to sleep.
#[derive(Debug)]
pub struct Member {
    pub(super) slot: Slot,
    priority: AtomicU8,
    pub(super) rollbacks: AtomicU32,
    /// How many names it holds, for the choice of a victim.
    pub(super) locks: AtomicU32,
    /// Serial number of its present transaction.
    pub(super) began: AtomicU64,
    pub(super) waiting: Mutex<Waiting>,
    wake: Condvar,
    /// Gaps it came to hold because others merged.
    inherited: Mutex<Vec<LockName>>,
}

/// What a member waits for, and whether it still does.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// The name in whose queue it is, until it is woken.
    pub(super) name: Option<LockName>,
    /// Grows with each wait, so that one wait can be told from the next.
    pub(super) sequence: u64,
    outcome: Option<Result<Answer, RequestError>>,
}

impl Member {
    /// Its present priority.
    pub fn priority(&self) -> Priority {
        Priority::of_level(self.priority.load(Ordering::Relaxed)).unwrap_or(Priority::PROMOTED)
    }

    /// Starts a transaction of that priority, rolled back so many times before.
    pub fn begin(&self, priority: Priority, rollbacks: u32, serial: u64) {
        // Relaxed throughout: these are facts for schedulers, and every reader holds a partition's or the detector's mutex
        // that the wait which made it look was published under.
        self.priority.store(priority.level(), Ordering::Relaxed);
        self.rollbacks.store(rollbacks, Ordering::Relaxed);
        self.began.store(serial, Ordering::Relaxed);
        self.locks.store(0, Ordering::Relaxed);
    }
}

/// Every lock of an engine.
#[derive(Debug)]
pub struct LockTable {
    partitions: Box<[CachePadded<Mutex<Heads>>]>,
    members: RwLock<Members>,
    scheduler: Arc<dyn LockScheduler>,
    clock: Arc<dyn Clock>,
    /// One search for cycles at a time, so that two searches cannot each kill a member of the same cycle.
    pub(super) detector: Mutex<()>,
}

#[derive(Debug, Default)]
struct Members {
    all: Vec<Arc<Member>>,
    free: Vec<Slot>,
}

/// Enough that sixteen cores rarely meet at one; a power of two.
const PARTITIONS: usize = 256;

impl LockTable {
    /// An empty lock table whose queues are ordered by `scheduler`.
    pub fn new(scheduler: Arc<dyn LockScheduler>, clock: Arc<dyn Clock>) -> Self {
        LockTable {
            partitions: (0..PARTITIONS).map(|_| CachePadded::default()).collect(),
            members: RwLock::default(),
            scheduler,
            clock,
            detector: Mutex::new(()),
        }
    }

    /// Enters a participant.
    pub fn join(&self) -> Arc<Member> {
        let mut members = self.members.write();
        if let Some(slot) = members.free.pop() {
            return Arc::clone(&members.all[slot as usize]);
        }
        let member = Arc::new(Member {
            slot: Slot::try_from(members.all.len()).expect("fewer than 2^32 sessions"),
            priority: AtomicU8::new(0),
            rollbacks: AtomicU32::new(0),
            locks: AtomicU32::new(0),
            began: AtomicU64::new(0),
            waiting: Mutex::default(),
            wake: Condvar::new(),
            inherited: Mutex::default(),
        });
        members.all.push(Arc::clone(&member));
        member
    }

    /// Takes a participant that holds nothing out again.
    pub fn leave(&self, member: &Member) {
        self.members.write().free.push(member.slot);
    }

    /// Asks for a lock and sleeps until it is granted or refused; says how long, if it slept. The answer is never
    /// [`Answer::Wait`].
    pub fn request(
        &self,
        member: &Member,
        name: LockName,
        mode: Mode,
    ) -> Result<(Answer, Option<Duration>), (RequestError, Duration)> {
        match self.ask(member, name, mode) {
            Answer::Wait => {
                let began = self.clock.now();
                let outcome = self.wait(member);
                let waited = self.clock.now().saturating_sub(began);
                outcome.map(|answer| (answer, Some(waited))).map_err(|error| (error, waited))
            }
            answer => Ok((answer, None)),
        }
    }

    /// Asks for a lock without sleeping. After [`Answer::Wait`] the member must be waited for by [`wait`](Self::wait) or
    /// polled by [`outcome`](Self::outcome), and must ask for nothing else meanwhile.
    pub fn ask(&self, member: &Member, name: LockName, mode: Mode) -> Answer {
        let mut heads = self.partition(name).lock();
        let head = heads.entry(name).or_default();
        let answer = head.request(member.slot, mode, || {
            let rollbacks = member.rollbacks.load(Ordering::Relaxed);
            self.scheduler.rank(&Requester { priority: member.priority(), rollbacks })
        });
        if answer == Answer::Wait {
            // Published before the partition is unlocked, hence before anybody can wake it.
            let mut waiting = member.waiting.lock();
            waiting.name = Some(name);
            waiting.sequence += 1;
            waiting.outcome = None;
        }
        drop(heads);
        match answer {
            Answer::Wait => self.break_cycles(member.slot),
            Answer::Granted => {
                member.locks.fetch_add(1, Ordering::Relaxed);
            }
            Answer::Held | Answer::Converted => {}
        }
        answer
    }

    /// Sleeps until the request that [`ask`](Self::ask) left waiting is decided.
    pub fn wait(&self, member: &Member) -> Result<Answer, RequestError> {
        let mut waiting = member.waiting.lock();
        loop {
            if let Some(outcome) = waiting.outcome.take() {
                return outcome;
            }
            member.wake.wait(&mut waiting);
        }
    }

    /// The decision about a waiting request, once there is one.
    pub fn outcome(&self, member: &Member) -> Option<Result<Answer, RequestError>> {
        member.waiting.lock().outcome.take()
    }

    /// Gives up one lock.
    pub fn release(&self, member: &Member, name: LockName) {
        self.change(name, |head, wake| head.release(member.slot, wake));
        member.locks.fetch_sub(1, Ordering::Relaxed);
    }

    /// Gives up the intention to insert into a gap, but not the right of having read it. Says whether that right is held.
    pub fn give_up_intention(&self, member: &Member, gap: LockName) -> bool {
        let still_held = self.change(gap, |head, wake| head.give_up_intention(member.slot, wake));
        if !still_held {
            member.locks.fetch_sub(1, Ordering::Relaxed);
        }
        still_held
    }

    /// Who besides `member` keeps an insertion out of this gap, and whether `member` has itself read it.
    pub fn gap_state(&self, member: &Member, gap: LockName) -> GapState {
        let heads = self.partition(gap).lock();
        let Some(head) = heads.get(&gap) else { return GapState { read_by_others: false, read_by_me: false } };
        let is_reader = |mode: Mode| !mode.is_compatible(Mode::IX);
        let (mut others, mut me) = (false, false);
        for grant in head.grants().iter().filter(|grant| is_reader(grant.mode)) {
            if grant.slot == member.slot { me = true } else { others = true }
        }
        GapState { read_by_others: others, read_by_me: me }
    }

    /// Gives a lock without asking anybody: for a gap that an insertion has just created, which nobody else can know.
    pub fn grant_new_gap(&self, member: &Member, gap: LockName) -> Answer {
        let answer =
            self.partition(gap).lock().entry(gap).or_default().grant_unconditionally(member.slot, Mode::S, |_| {
                unreachable!("nobody waits for a gap that nobody knows")
            });
        if answer == Answer::Granted {
            member.locks.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }

    /// A gap disappears into the next one: those who have read it have read the next one from now on.
    pub fn inherit(&self, gap: LockName, next: LockName) {
        let waiters = {
            let (mut heads, next_heads) = self.partition_pair(gap, next);
            let Some(head) = heads.get(&gap) else { return };
            let readers: Vec<Slot> =
                head.grants().iter().filter(|grant| grant.mode.covers(Mode::S)).map(|grant| grant.slot).collect();
            if readers.is_empty() {
                return;
            }
            let mut next_heads = next_heads;
            let head = next_heads.as_deref_mut().unwrap_or(&mut heads).entry(next).or_default();
            for slot in readers {
                if head.grant_unconditionally(slot, Mode::S, |waiter| self.grant_to(&waiter)) == Answer::Granted {
                    // A reader that is ending right now has not given up `gap` yet, for its partition is locked here; so it
                    // has not yet looked for what it inherited.
                    self.member(slot).inherited.lock().push(next);
                }
            }
            head.queue().iter().map(|waiter| waiter.slot).collect::<Vec<_>>()
        };
        // Waiters of `next` now wait for the heirs too: new edges that no request of theirs announces (invariant 4).
        waiters.into_iter().for_each(|waiter| self.break_cycles(waiter));
    }

    /// Gives up what the member was made to hold by [`inherit`](Self::inherit). To be called last, when it has given up
    /// all that it asked for, since only holders inherit.
    pub fn release_inherited(&self, member: &Member) {
        loop {
            let Some(name) = member.inherited.lock().pop() else { return };
            self.change(name, |head, wake| head.release(member.slot, wake));
        }
    }

    /// Takes a waiter out of its queue and lets it fail. False if it was granted meanwhile.
    pub(super) fn refuse(&self, member: &Member, name: LockName, error: RequestError) -> bool {
        let refused = self.change(name, |head, wake| head.cancel(member.slot, wake));
        if refused {
            self.decide(member, Err(error));
        }
        refused
    }

    /// What blocks a waiter now.
    pub(super) fn blockers(&self, slot: Slot, name: LockName, each: impl FnMut(Slot)) {
        if let Some(head) = self.partition(name).lock().get(&name) {
            head.blockers(slot, each);
        }
    }

    pub(super) fn member(&self, slot: Slot) -> Arc<Member> {
        Arc::clone(&self.members.read().all[slot as usize])
    }

    /// How many names have a grant or a waiter. For tests and statistics.
    pub fn name_count(&self) -> usize {
        self.partitions.iter().map(|partition| partition.lock().len()).sum()
    }

    fn partition(&self, name: LockName) -> &Mutex<Heads> {
        &self.partitions[Self::partition_number(name)]
    }

    fn partition_number(name: LockName) -> usize {
        let hash = BuildHasherDefault::<NameHasher>::default().hash_one(name);
        // Bits that the hash table inside the partition uses neither for its bucket (low) nor for its tag (top 7).
        (hash >> 40) as usize % PARTITIONS
    }

    /// The partitions of two names, locked in order of number; no second one if both names share theirs.
    fn partition_pair(
        &self,
        first: LockName,
        second: LockName,
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

    fn change<R>(&self, name: LockName, change: impl FnOnce(&mut Head, &mut dyn FnMut(Waiter)) -> R) -> R
    where
        R: Default,
    {
        let mut heads = self.partition(name).lock();
        let Some(head) = heads.get_mut(&name) else { return R::default() };
        let result = change(head, &mut |waiter| self.grant_to(&waiter));
        if head.is_idle() {
            heads.remove(&name);
        }
        result
    }

    /// Wakes a waiter whose request has been granted.
    fn grant_to(&self, waiter: &Waiter) {
        let member = self.member(waiter.slot);
        let answer = if waiter.conversion { Answer::Converted } else { Answer::Granted };
        if answer == Answer::Granted {
            member.locks.fetch_add(1, Ordering::Relaxed);
        }
        self.decide(&member, Ok(answer));
    }

    fn decide(&self, member: &Member, outcome: Result<Answer, RequestError>) {
        let mut waiting = member.waiting.lock();
        waiting.name = None;
        waiting.outcome = Some(outcome);
        drop(waiting);
        member.wake.notify_one();
    }
}

/// Who has read a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GapState {
    /// Another transaction: an insertion must wait for it.
    pub read_by_others: bool,
    /// The inserter itself: it must go on holding both halves.
    pub read_by_me: bool,
}
