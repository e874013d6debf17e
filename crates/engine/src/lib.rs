//! An embedded database for concurrent transactions and queries, with exchangeable mechanisms.
//!
//! A test-bed and an embedded engine, not a server: no users, no network. It logs ([`log`]) before it acknowledges.
//! Only a database with a data folder outlives its process (`checkpoint`, `recovery`). It knows no benchmark and no
//! experiment.
//!
//! In reading order: `engine` is the engine as a whole, [`transaction`] its interface for transactions, [`lock`] the
//! lock manager, [`table`] rows and indexes. [`log`] makes commits durable; `checkpoint` and `recovery` restore them.
//! [`columns`] is the copy of the data that queries read, [`query`] runs queries, [`table_set`] keeps both copies of
//! the tables of one schema, and [`delta`] propagates changes from rows to columns.

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
