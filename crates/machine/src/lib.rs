//! What the host is, and what it can measure.
//!
//! The only crate that reads `/proc`, `/sys` and hardware counters. It knows no database.
//!
//! In reading order: [`MachineFacts`] is what the host is, [`cpu_time`] is what threads and the process have used,
//! [`counters`] are hardware events, [`space`] is what memory and disk are free.

pub mod counters;
pub mod cpu_time;
pub mod facts;
pub mod space;

pub use facts::MachineFacts;
