//! Databases to test: what implements [`Database`](plimsoll_workload::database::Database).
//!
//! [`embedded`] is the engine in this process; PostgreSQL has a crate of its own. [`open`] understands URLs and options.

pub mod embedded;
pub mod open;

pub use embedded::{Embedded, EmbeddedOptions};
pub use open::{DEFAULT_URL, OpenError, PRIVATE_URL, Target, TargetError};
