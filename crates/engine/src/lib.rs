//! An embedded database for transactions and queries at once, of which every mechanism can be exchanged.
//!
//! A test-bed and an embedded engine, not a server: no users, no network. Its log ([`log`]) is written ahead of
//! acknowledgements; a database with a data folder outlives its process (`checkpoint`, `recovery`), any other does not.
//! It knows no benchmark and no experiment.
//!
//! In reading order: `engine` is the whole, [`transaction`] what users call, [`lock`] the lock manager, [`table`] rows and
//! indexes, [`log`] what makes commits durable, `checkpoint` and `recovery` what brings them back; [`columns`] is the copy
//! of the data that queries read, [`query`] what runs them, [`table_set`] keeps both copies of the tables of one schema, and [`delta`] brings changes from
//! one to the other.

mod catalog;
mod checkpoint;
pub mod clock;
pub mod columns;
pub mod cpu_priority;
pub mod delta;
mod engine;
pub mod lock;
pub mod log;
pub mod query;
mod recovery;
pub mod table;
pub mod table_set;
pub mod transaction;
pub mod value;

pub use checkpoint::{CheckpointError, CheckpointReport};
pub use engine::{Engine, EngineOptions};
pub use lock::{LockStatistics, LockWait};
pub use log::{Durability, Log, LogError, LogOptions, LogStatistics};
pub use recovery::{OpenError, RecoveryReport};
pub use transaction::{Connection, TransactionError};
