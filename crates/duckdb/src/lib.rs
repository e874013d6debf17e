//! DuckDB in a process of its own as a database under test: `duckdb:`. It answers queries and nothing else.
//!
//! DuckDB is a library for C++, which would take longer to compile than all of Plimsoll. It therefore runs as its package
//! for Python, in the small program `server.py`. Rows and answers are Arrow batches on both sides.
//!
//! In reading order: [`options`] is what a user can say, `database` is the target, `connection` asks, and `process` is the
//! program and how it begins and ends.

mod connection;
mod database;
mod error;
pub mod options;
mod process;

pub use database::DuckDb;
pub use error::DuckDbError;
