//! The analytical side: SQL over column tables, through DataFusion.
//!
//! DataFusion parses, optimizes and executes; `postgresql` gives a query the meaning that it has in PostgreSQL, or refuses it. This module supplies what it needs to do that well: scans that evaluate
//! conditions on compressed columns ([`scan`]), real statistics (`selectivity`), the order of joins (`join_order`),
//! functional dependencies (`dependencies`), filter pushdown by the positions of columns instead of their names
//! (`push_filters`), and aggregation in arrays straight from the columns (`array_aggregate`). [`QueryEngine`] puts them
//! together and owns the threads that queries run on. A query's `grant` bounds its memory; `usage` counts its disk
//! accesses. A query has one degree of parallelism, or one for each of its [`pipelines`], and runs on shared or private
//! [`threads`]. With cache classes its parts are [`jobs`] on threads of their class. [`remote`] is for queries on other tables, whose
//! plans run in other processes.
//!
//! ```
//! use std::sync::Arc;
//! use arrow::array::{Int64Array, RecordBatch};
//! use plimsoll_engine::columns::{ColumnStore, ColumnTable};
//! use plimsoll_engine::query::{QueryEngine, QueryOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let batch = RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from(vec![1, 2, 3])) as _)])?;
//! let store = ColumnStore::new();
//! store.publish([Arc::new(ColumnTable::build("ship", batch.schema(), vec![vec![0]], vec![batch])?)], "as loaded");
//! let engine = QueryEngine::new(QueryOptions::default())?;
//! let output = engine.query(&store.snapshot(), "select sum(id) as total from ship", None)?;
//! assert_eq!((output.snapshot.as_str(), output.batches[0].num_rows()), ("as loaded", 1));
//! # Ok(())
//! # }
//! ```

mod array_aggregate;
mod dependencies;
mod engine;
mod estimate;
mod grant;
pub mod jobs;
mod join_order;
mod key_bitmap;
mod morsel;
mod own_texts;
mod pass_through;
pub mod pipelines;
mod pool;
mod postgresql;
pub mod predicate;
#[cfg(test)]
pub(crate) mod printed;
mod provider;
mod prune;
mod push_filters;
pub mod remote;
pub mod scan;
mod selectivity;
mod spill;
#[cfg(test)]
pub(crate) mod stock;
pub mod threads;
mod usage;
mod workers;

pub use engine::{BATCH_ROWS, QueryEngine, QueryOptions, QueryOutput};
pub use usage::QueryUsage;

use crate::columns::FolderError;

/// Why a query failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The text is not SQL, or names tables and columns that do not exist.
    #[error("cannot plan the query: {0}")]
    Plan(String),
    /// The query has a part for which it is not proved that it means what it means in PostgreSQL.
    #[error("the embedded engine does not run {construct}: {remedy}")]
    Refused {
        /// The part.
        construct: String,
        /// What to write instead.
        remedy: String,
    },
    /// The query failed while it ran.
    #[error("the query failed: {0}")]
    Execute(String),
    /// The query needs more memory than it is granted, at a place that cannot spill.
    #[error(
        "the query cannot run in its memory grant of {mebibytes} MiB, even with what can be spilled on disk: {reason}; \
         raise memory_grant_mib or lower dop"
    )]
    Grant {
        /// The grant in MiB.
        mebibytes: usize,
        /// The operator and the amount that it requested.
        reason: String,
    },
    /// The folder for spilled data, or for columns, cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// An operator panicked. The query is lost; the engine continues.
    #[error("an operator panicked, which is an error in the engine: {0}")]
    Panicked(String),
    /// The worker threads could not be started.
    #[error("cannot start query workers: {0}")]
    Workers(String),
}
