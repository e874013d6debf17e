//! A lock table with its participants and a clock that moves only when it is set.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_engine::clock::Clock;
use plimsoll_engine::cpu_priority::{CpuPriority, Threads};
use plimsoll_engine::lock::head::Answer;
use plimsoll_engine::lock::{LockName, LockOptions, LockTable, Member, Mode, RequestError, State};
use plimsoll_policy::{CpuScheduler, LockScheduler, Priority, StarvationBound};

pub type Who = usize;

/// A thing to lock: the number of a row, or from [`FIRST_GAP`] on the number of a gap.
pub type Thing = usize;

/// Things from this number on are gaps of an index.
pub const FIRST_GAP: Thing = 100;

fn name(thing: Thing) -> LockName {
    match thing.checked_sub(FIRST_GAP) {
        None => LockName::row(0, thing as u64),
        Some(gap) => LockName::gap(0, Some(gap as u64)),
    }
}

pub type Outcome = Result<Answer, RequestError>;

/// A host of verdicts, as seen by the clients of a schedule. For methods without a comment, see [`LockTable`].
pub trait Host {
    fn begin(&self, who: Who, own: Priority, rollbacks: u32);
    fn ask(&self, who: Who, thing: Thing, mode: Mode) -> Outcome;
    fn outcome(&self, who: Who) -> Option<Outcome>;
    fn deadline(&self, who: Who) -> Option<Duration>;
    fn expire(&self, who: Who);
    fn commit_point(&self, who: Who) -> Result<(), RequestError>;
    fn roll_back(&self, who: Who);
    fn release(&self, who: Who, thing: Thing);
    /// Releases the right to insert into a gap; returns whether a read lock on it is left.
    fn give_up_intention(&self, who: Who, gap: Thing) -> bool;
    /// A gap is merged into another.
    fn merge(&self, gap: Thing, into: Thing);
    /// Releases the locks that it has from merges, and ends its transaction.
    fn end(&self, who: Who);
    fn state(&self, who: Who) -> State;
    fn priority(&self, who: Who) -> Priority;
    /// The nice value of its thread.
    fn nice(&self, who: Who) -> i32;
    fn set_time(&self, now: Duration);
    /// The number of things that are locked or waited for.
    fn thing_count(&self) -> usize;
}

/// A clock that shows the time to which it was set.
#[derive(Debug, Default)]
struct VirtualClock(Mutex<Duration>);

impl Clock for VirtualClock {
    fn now(&self) -> Duration {
        *self.0.lock()
    }
}

/// A thread for each participant; one of them calls at a time. All nice values are allowed.
#[derive(Debug)]
struct VirtualThreads {
    calling: Mutex<Who>,
    nice: Mutex<Vec<i32>>,
}

impl VirtualThreads {
    /// Participants count from 0, threads of a system from 1.
    fn position(thread: i32) -> usize {
        thread as usize - 1
    }
}

impl Threads for VirtualThreads {
    fn current(&self) -> i32 {
        *self.calling.lock() as i32 + 1
    }

    fn nice(&self, thread: i32) -> io::Result<i32> {
        Ok(self.nice.lock()[Self::position(thread)])
    }

    fn set_nice(&self, thread: i32, nice: i32) -> io::Result<()> {
        self.nice.lock()[Self::position(thread)] = nice;
        Ok(())
    }
}

/// The lock table itself as a host.
pub struct Table {
    clock: Arc<VirtualClock>,
    threads: Arc<VirtualThreads>,
    locks: LockTable,
    members: Vec<Arc<Member>>,
}

impl Table {
    pub fn new(
        scheduler: Arc<dyn LockScheduler>,
        cpu_scheduler: &'static dyn CpuScheduler,
        starvation_bound: StarvationBound,
        members: usize,
    ) -> Self {
        let clock = Arc::new(VirtualClock::default());
        let threads = Arc::new(VirtualThreads { calling: Mutex::new(0), nice: Mutex::new(vec![0; members]) });
        let cpu = CpuPriority::on(cpu_scheduler, Arc::clone(&threads) as _);
        let options = LockOptions { starvation_bound, cpu, ..LockOptions::new(scheduler, Arc::clone(&clock) as _) };
        let locks = LockTable::new(options);
        let members = (0..members).map(|_| locks.join()).collect();
        Table { clock, threads, locks, members }
    }
}

impl Host for Table {
    fn begin(&self, who: Who, own: Priority, rollbacks: u32) {
        *self.threads.calling.lock() = who;
        self.locks.begin(&self.members[who], own, rollbacks);
    }

    fn ask(&self, who: Who, thing: Thing, mode: Mode) -> Outcome {
        self.locks.ask(&self.members[who], name(thing), mode)
    }

    fn outcome(&self, who: Who) -> Option<Outcome> {
        self.locks.outcome(&self.members[who]).map(|decision| decision.outcome)
    }

    fn deadline(&self, who: Who) -> Option<Duration> {
        self.locks.deadline(&self.members[who])
    }

    fn expire(&self, who: Who) {
        self.locks.expire(&self.members[who]);
    }

    fn commit_point(&self, who: Who) -> Result<(), RequestError> {
        self.locks.commit_point(&self.members[who])
    }

    fn roll_back(&self, who: Who) {
        self.locks.roll_back(&self.members[who]);
    }

    fn release(&self, who: Who, thing: Thing) {
        self.locks.release(&self.members[who], name(thing));
    }

    fn give_up_intention(&self, who: Who, gap: Thing) -> bool {
        self.locks.give_up_intention(&self.members[who], name(gap))
    }

    fn merge(&self, gap: Thing, into: Thing) {
        let todo = self.locks.inherit(name(gap), name(into));
        self.locks.carry_out(todo);
    }

    fn end(&self, who: Who) {
        self.locks.release_inherited(&self.members[who]);
        self.locks.end(&self.members[who]);
    }

    fn state(&self, who: Who) -> State {
        self.members[who].state()
    }

    fn priority(&self, who: Who) -> Priority {
        self.members[who].priority()
    }

    fn nice(&self, who: Who) -> i32 {
        self.threads.nice.lock()[who]
    }

    fn set_time(&self, now: Duration) {
        *self.clock.0.lock() = now;
    }

    fn thing_count(&self) -> usize {
        self.locks.name_count()
    }
}
