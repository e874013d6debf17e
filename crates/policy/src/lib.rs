//! Policies: decisions without side effects.
//!
//! A policy receives facts and returns a verdict. It reads no clock, takes no lock, does no input or output and wakes
//! no thread. The same object can therefore decide inside the embedded engine, which sees every lock request, and inside a
//! governor, which sees only the reports of its server.
//!
//! Locks and cores, in reading order:
//! - [`Priority`] and [`Class`] describe a requester.
//! - [`LockScheduler`] orders the queues of locks; [`LOCK_SCHEDULERS`] lists the schedulers. A new one is a file
//!   beside `lock_scheduler/standard.rs` and a line in that list.
//! - [`deadlock_victim`] breaks cycles, and [`StarvationBound`] limits how often a transaction is rolled back.
//! - [`CpuScheduler`] sets the CPU shares of threads; [`CPU_SCHEDULERS`] lists the schedulers.
//!
//! For a governor:
//! - [`ClassRules`] assign work to classes, [`Admission`] limits which transactions run at the same time,
//!   [`ConnectionQueue`] says who gets the next free connection of a pool.
//! - [`decide`] chooses which transactions are rolled back for others, [`StayTimes`] whether that is worth its price, and [`cycles`]
//!   which are rolled back to break a cycle. [`may_replay`] decides whether a rolled back transaction may run again,
//!   [`pause_before_replay`] how long it pauses before.
//! - [`TargetController`] keeps promised response times, [`MplSearch`] finds how few transactions of the lowest class are enough.
//! - [`next_try`], [`held_up_by`] and [`RunawayLimits`] are the guards: against work that holds up others by accident.
//! - [`DiskShare`] limits how much of a disk less important work may read.
//! - [`cache_use`] decides which ways of the last-level cache a class may fill.
//! - [`class_proposal`] proposes classes from samples of a server.
//!
//! For an engine:
//! - [`Doing`] is what samples of a server's processes say, for the lab and for a look at a live server.
//! - [`WaitCounts`] counts waits by their length, in the engine and in reports.
//! - [`ParallelismPolicy`] chooses the number of partitions for each pipeline of a query; [`PARALLELISM_POLICIES`] lists the policies.
//! - [`cache_class`] decides which ways of the last-level cache an operator may fill.
//! - [`SecondChance`] chooses which column pieces leave memory when others need room.

mod admission;
pub mod cache_class;
pub mod cache_use;
mod class;
pub mod class_proposal;
mod class_rules;
mod connection_queue;
mod cpu_floor;
mod cpu_scheduler;
mod deadlock_victim;
mod disk_share;
mod doing;
mod ended_work;
mod guards;
mod length;
mod lock_scheduler;
mod mpl_search;
mod parallelism;
mod preemption;
mod replay;
mod retry_pause;
mod second_chance;
mod sole_governor;
mod starvation_bound;
mod target;
mod turns;
mod wait_counts;

pub use admission::{
    Abandoned, Admission, Asked, ClassIndex, ClassLimits, Obstacle, Pace, Paced, ParseRateError, Rate, RefusalReason,
    Ticket, Waiting,
};
pub use class::{Class, ParsePriorityError, Priority};
pub use class_rules::{ClassRule, ClassRules, ClassTerms, Login, Matched};
pub use connection_queue::{ConnectionQueue, PoolShare};
pub use cpu_floor::{CpuFloor, CpuSeen};
pub use cpu_scheduler::{CPU_SCHEDULERS, CpuScheduler, CpuVerdict, cpu_scheduler};
pub use deadlock_victim::{CycleMember, deadlock_victim};
pub use disk_share::{DiskBounds, DiskShare, DiskSight, DiskWord};
pub use doing::Doing;
pub use ended_work::EndedWork;
pub use guards::{
    GaveUp, GuardMode, HeldUp, LockWaiter, NextTry, Runaway, RunawayLimits, StrongLockWait, Taken, held_up_by,
    next_try, pause_between_tries,
};
pub use length::{parse_length, write_length};
pub use lock_scheduler::{
    Batch, Blockers, Contender, Facts, LOCK_SCHEDULERS, LockScheduler, LockSchedulerKind, Rank, Requester, Stance,
    Verdict, lock_scheduler,
};
pub use mpl_search::{MplBounds, MplMove, MplSearch, MplSeen, MplWhy};
pub use parallelism::{
    Assigned, Convergence, DEGREE_MAX, Decision, DegreeHistory, DegreeLearner, LoadBucket, PARALLELISM_POLICIES,
    ParallelismFacts, ParallelismFigures, ParallelismKind, ParallelismLimits, ParallelismPolicy, PipelineCost,
    PipelineFacts, QueryRun, TemplateFigures, parallelism_policy, query_template,
};
pub use preemption::{
    Action, Activity, Cycle, CycleLoss, Edge, Outlook, PreemptionKind, PreemptionPolicy, Price, Rules, Standing,
    StayTimes, WaitGraph, cycles, decide, preemption_policies, waiters_behind,
};
pub use replay::{Foreseen, NoReplay, ReplayFacts, Unsafe, may_replay};
pub use retry_pause::pause_before_replay;
pub use second_chance::SecondChance;
pub use sole_governor::{GovernorAtServer, GovernorPlace, stands_by_for};
pub use starvation_bound::StarvationBound;
pub use target::{
    ClassSeen, Contradiction, LeverBounds, LeverKind, Move, ParseTargetError, Percentile, Promise, Target,
    TargetController, TargetLimit, TargetPhase, TargetView, Times, Why, wilson,
};
pub use turns::Claim;
pub use wait_counts::WaitCounts;
