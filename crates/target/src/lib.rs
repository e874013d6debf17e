//! Databases to test: what implements [`Database`](plimsoll_workload::database::Database).
//!
//! `embedded` is the engine in this process; PostgreSQL has a crate of its own. `open` understands URLs and options.

mod embedded;
mod open;

pub use embedded::{Embedded, EmbeddedOptions};
/// Removes the servers of our own that a killed process has left, and says what it did.
pub use plimsoll_postgres::server::clean_up_leftovers;

pub use open::{DEFAULT_URL, OpenError, PRIVATE_URL, Target, TargetError};
