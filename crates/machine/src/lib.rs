//! What the host is, and what it can measure.
//!
//! The only crate that reads `/proc`, `/sys` and hardware counters. It knows no database.
//!
//! In reading order: [`MachineFacts`] is what the host is, [`describe()`] puts it in words, [`cpu_time`] is what threads
//! and the process have used, [`counters`] are hardware events, [`device`] is how busy processors and disks are,
//! [`space`] is what memory and disk are free. [`host`] and [`cgroup`] are where the others read from: a [`host::Host`]
//! may be the real one or a folder that looks like one.

pub mod availability;
pub mod cache_miss;
pub mod cgroup;
pub mod control;
pub mod counters;
pub mod cpu_time;
pub mod describe;
pub mod device;
pub mod facts;
pub mod host;
pub mod sensor;
pub mod space;
pub mod top_down;

pub use describe::describe;
pub use facts::MachineFacts;
