//! The lock manager: strict two-phase locking with intention modes, key-range locks and scheduled queues.
//!
//! In reading order: `mode` is the compatibility matrix, [`head`] one name's grants and queue (no threads, no clock:
//! its schedules are tested as text tables), `table` the partitioned table, `member` the holders and waiters, `wait`
//! how they wait, `intents` intention locks that need no head, `verdicts` the decisions of schedulers about blocking
//! holders, `choice` those about the waiters of a name that becomes free, `deadlock` the search for cycles, `gaps` the
//! effect of insertions and deletions on locks on gaps.
//!
#![doc = include_str!("lock/README.md")]

mod choice;
mod deadlock;
mod gaps;
pub mod head;
mod heads;
mod intents;
mod member;
mod mode;
mod name;
mod statistics;
mod table;
#[cfg(test)]
mod tests;
mod verdicts;
mod wait;

pub use gaps::GapState;
pub use member::{Decision, LockWait, Member, RequestError, State};
pub use mode::Mode;
pub use name::LockName;
pub use statistics::LockStatistics;
pub use table::{LockOptions, LockTable};
pub use verdicts::Todo;
