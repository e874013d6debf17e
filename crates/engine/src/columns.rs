//! The column side: immutable tables of compressed chunks with statistics, and the store that publishes them.
//!
//! A [`ColumnTable`] is built from Arrow batches and never changes; its next version shares the chunks that are the
//! same. A [`ColumnStore`] holds the current version of each table of one schema and hands out [`ColumnSnapshot`]s. A
//! snapshot is one state of all tables, even if newer ones are published while it is read. The snapshot's [`Overlay`]
//! adds the changes that are not in a chunk yet.
//!
//! In reading order: [`table`] and [`chunk`], [`encode`] and [`narrow`] (how a column is stored), [`statistics`] and
//! [`distinct`] (facts for the optimizer), [`mod@file`] and [`folder`] (chunks on disk instead of in memory),
//! [`cache`] (which of those stay in memory), [`overlay`] (changes), [`store`] (versions).

pub mod cache;
pub mod chunk;
pub mod distinct;
pub mod encode;
pub mod file;
pub mod folder;
pub mod narrow;
pub mod overlay;
pub mod statistics;
pub mod store;
pub mod table;

pub use cache::{ColumnCache, ColumnReads};
pub use chunk::Chunk;
pub use file::{ColumnFileError, ColumnFiles};
pub use folder::{DiskFolder, FileSource, FolderError};
pub use overlay::{ChunkOverlay, Images, Overlay, Patch};
pub use statistics::{ColumnSummary, TableStatistics};
pub use store::{ColumnSnapshot, ColumnStore, SnapshotTable};
pub use table::ColumnTable;

/// Why a column table could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnError {
    /// A batch does not have the columns of the table.
    #[error("table {table}: a batch has the columns {found}, expected {expected}: load batches of the declared schema")]
    SchemaMismatch {
        /// The table.
        table: String,
        /// The columns that the batch has.
        found: String,
        /// The columns that the table has.
        expected: String,
    },
    /// A key names a column that the table does not have.
    #[error("table {table}: a unique key names column {column}, but there are only {columns}")]
    NoSuchColumn {
        /// The table.
        table: String,
        /// The column's position.
        column: usize,
        /// How many columns there are.
        columns: usize,
    },
    /// Arrow could not convert or combine values.
    #[error("table {table}: {source}")]
    Arrow {
        /// The table.
        table: String,
        /// What Arrow said.
        source: arrow::error::ArrowError,
    },
    /// The columns could not be moved into a file.
    #[error("table {table}: cannot write its columns to {folder}: {reason}; make room there or name another folder")]
    File {
        /// The table.
        table: String,
        /// The folder.
        folder: String,
        /// What the system said.
        reason: String,
    },
    /// DataFusion could not evaluate a statistic.
    #[error("table {table}: {message}")]
    Statistics {
        /// The table.
        table: String,
        /// What DataFusion said.
        message: String,
    },
}
