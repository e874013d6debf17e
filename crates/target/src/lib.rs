//! Databases to test: what implements [`Database`](plimsoll_workload::database::Database).
//!
//! [`embedded`] is the engine in this process, [`open`] understands URLs and options.

pub mod embedded;
pub mod open;

pub use embedded::{Embedded, EmbeddedOptions, OpenError};
pub use open::{DEFAULT_URL, Target, TargetError};
