//! Decisions, and nothing but decisions.
//!
//! A policy is given facts and returns a verdict. It reads no clock, takes no lock, does no input or output and wakes
//! nobody, so the same object can decide inside the embedded engine, which sees every lock request, and inside a
//! governor, which sees what a server tells it.
//!
//! In reading order: [`Priority`] and [`Class`] are who is asking, [`LockScheduler`] orders queues, [`deadlock_victim`]
//! breaks cycles, [`StarvationBound`] ends losing, [`LOCK_SCHEDULERS`] is the list of those that exist. Adding one is a
//! file beside `lock_scheduler/standard.rs` and a line in that list. [`CpuScheduler`] says what threads get of the
//! cores, [`CPU_SCHEDULERS`] is its list.
//!
//! What only a governor asks: [`ClassRules`] say which class work belongs to, [`Admission`] which transactions may run at
//! the same time, [`decide`] which are rolled back for others, [`StayTimes`] whether that is worth its price, [`cycles`] which are rolled back to break a cycle, and
//! [`may_replay`] whether one that was may be run again. [`TargetController`] keeps response times that were promised, [`MplSearch`] finds how few
//! transactions of the lowest class are enough.
//! [`DiskShare`] says how much of a disk less important work may read, and [`Spin`] how long a relay polls before it sleeps. [`class_proposal`] proposes classes from what was seen at a server.
//!
//! [`WaitCounts`] are lengths of waits as the engine counts them and as they are reported.
//! [`ParallelismPolicy`] says how many partitions each pipeline of a query is given, [`PARALLELISM_POLICIES`] is the list of those that exist.
//!
//! [`cache_class`] says which ways of the last-level cache an operator may fill.

mod admission;
pub mod cache_class;
mod class;
pub mod class_proposal;
mod class_rules;
mod cpu_scheduler;
mod deadlock_victim;
mod disk_share;
mod length;
mod lock_scheduler;
mod mpl_search;
mod parallelism;
mod preemption;
mod replay;
mod sole_governor;
mod spin;
mod starvation_bound;
mod target;
mod wait_counts;

pub use admission::{Abandoned, Admission, Asked, ClassIndex, ClassLimits, Obstacle, RefusalReason, Ticket, Waiting};
pub use class::{Class, ParsePriorityError, Priority};
pub use class_rules::{ClassRule, ClassRules, ClassTerms, Login, Matched};
pub use cpu_scheduler::{CPU_SCHEDULERS, CpuScheduler, CpuVerdict, cpu_scheduler};
pub use deadlock_victim::{CycleMember, deadlock_victim};
pub use disk_share::{DiskBounds, DiskShare, DiskSight, DiskWord};
pub use length::{parse_length, write_length};
pub use lock_scheduler::{
    LOCK_SCHEDULERS, LockScheduler, LockSchedulerKind, Rank, Requester, Stance, Verdict, lock_scheduler,
};
pub use mpl_search::{EndedWork, MplBounds, MplMove, MplSearch, MplSeen, MplWhy};
pub use parallelism::{
    Assigned, Convergence, DEGREE_MAX, Decision, DegreeHistory, DegreeLearner, LoadBucket, PARALLELISM_POLICIES,
    ParallelismFacts, ParallelismFigures, ParallelismKind, ParallelismLimits, ParallelismPolicy, PipelineCost,
    PipelineFacts, QueryRun, TemplateFigures, parallelism_policy, query_template,
};
pub use preemption::{
    Action, Activity, Cycle, CycleLoss, Edge, Outlook, PREEMPTION_POLICIES, PreemptionKind, PreemptionPolicy, Price,
    Rules, Standing, StayTimes, WaitGraph, cycles, decide, waiters_behind,
};
pub use replay::{NoReplay, ReplayFacts, Unsafe, may_replay};
pub use sole_governor::{GovernorAtServer, Place, stands_by_for};
pub use spin::{Awaited, Spin, SpinRule};
pub use starvation_bound::StarvationBound;
pub use target::{
    ClassSeen, Contradiction, LeverBounds, LeverKind, Move, ParseTargetError, Percentile, Promise, Target,
    TargetController, TargetLimit, TargetPhase, TargetView, Times, Why,
};
pub use wait_counts::WaitCounts;
