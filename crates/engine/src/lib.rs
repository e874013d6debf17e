//! An embedded database for transactions and queries at once, of which every mechanism can be exchanged.
//!
//! A test-bed and an embedded engine, not a server: no users, no network. Its log ([`log`]) is written
//! ahead of acknowledgements, but there are no checkpoints yet: what a new process can recover is what was logged, not what was loaded.
//! It knows no benchmark and no experiment.
//!
//! In reading order: [`engine`] is the whole, [`transaction`] what users call, [`lock`] the lock manager, [`table`] rows and
//! indexes, [`log`] what makes commits durable; [`columns`] is the copy of the data that queries read, [`query`] what runs
//! them, [`table_set`] keeps both copies of the tables of one schema.

pub mod clock;
pub mod columns;
pub mod cpu_priority;
pub mod engine;
pub mod lock;
pub mod log;
pub mod query;
pub mod table;
pub mod table_set;
pub mod transaction;
pub mod value;

pub use engine::{Engine, EngineOptions};
pub use lock::{LockStatistics, LockWait};
pub use log::{Durability, Log, LogError, LogOptions, LogStatistics};
pub use transaction::{Connection, TransactionError};
