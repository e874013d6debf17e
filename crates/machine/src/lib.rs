//! What the host is, what it can measure, and what it can limit.
//!
//! The only crate that reads `/proc`, `/sys` and hardware counters. It knows no database.
//!
//! In reading order: [`MachineFacts`] is what the host is, [`describe()`] puts it in words, [`cpu_time`] is what threads
//! and the process have used, [`counters`] are hardware events, [`device`] is how busy processors and disks are,
//! [`space`] is what memory and disk are free. [`control`] is what limits a database's share, and a [`limiter::Limiter`] puts
//! limits in force, sees whether they bite, and puts the machine back. [`change`] is all that is done to a machine. [`host`] and [`cgroup`] are where the others read from: a [`host::Host`]
//! may be the real one or a folder that looks like one.

pub mod availability;
pub mod cgroup;
pub mod change;
pub mod control;
pub mod counters;
pub mod cpu_time;
pub mod describe;
pub mod device;
pub mod facts;
pub mod host;
pub mod limiter;
pub mod sensor;
pub mod space;

pub use describe::describe;
pub use facts::MachineFacts;
