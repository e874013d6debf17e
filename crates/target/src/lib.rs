//! Databases to test: implementations of [`Database`](plimsoll_workload::database::Database).
//!
//! `embedded` is the engine in this process; PostgreSQL and DuckDB have crates of their own. `open` understands URLs and options. `export` has
//! the tables of the engine as a source of exports, which a `cluster` reads, and `export_database` makes exports without an engine.

#[cfg(feature = "cluster")]
mod cluster;
mod embedded;
mod export;
mod export_database;
mod open;

#[cfg(feature = "cluster")]
pub use cluster::loader as cluster_loader;
pub use embedded::{Embedded, EmbeddedOptions};
pub use export::EngineSource;
pub use export_database::ExportDatabase;
/// The URL of DuckDB in a process of its own.
pub use plimsoll_duckdb::options::URL as DUCKDB_URL;
/// Removes the servers of our own that a killed process has left, and reports this.
pub use plimsoll_postgres::server::clean_up_leftovers;

pub use open::{CLUSTER_URL, DEFAULT_URL, OpenError, PRIVATE_URL, Target, TargetError};
