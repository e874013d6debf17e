//! Databases to test: implementations of [`Database`](plimsoll_workload::database::Database).
//!
//! `embedded` is the engine in this process; PostgreSQL has a crate of its own. `open` understands URLs and options.

mod embedded;
mod open;

pub use embedded::{Embedded, EmbeddedOptions};
/// Removes the servers of our own that a killed process has left, and reports this.
pub use plimsoll_postgres::server::clean_up_leftovers;

pub use open::{DEFAULT_URL, OpenError, PRIVATE_URL, Target, TargetError};
