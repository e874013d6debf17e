//! Databases to test: what implements [`Database`](plimsoll_workload::database::Database).
//!
//! [`embedded`] is the engine in this process.

pub mod embedded;

pub use embedded::{Embedded, EmbeddedOptions};
