//! What is exported: the tables of one snapshot, in chunks.

use std::any::Any;
use std::fmt::Debug;
use std::sync::{Arc, Weak};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;

use crate::manifest::AsOf;

/// Why a source cannot be read. The text names the fault and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(pub String);

/// A table of a source.
#[derive(Debug, Clone)]
pub struct TableShape {
    /// The name of its schema or benchmark.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: SchemaRef,
    /// The number of its chunks. A chunk may have no rows.
    pub chunks: usize,
}

/// One state of some tables. It does not change while the value lives, whatever transactions do meanwhile.
pub trait Source: Debug + Sync {
    /// A description for people: `data folder /var/lib/shop`.
    fn origin(&self) -> String;

    /// Which state it is.
    fn as_of(&self) -> AsOf;

    /// Its tables.
    fn tables(&self) -> &[TableShape];

    /// A reader for one thread.
    fn reader(&self) -> Result<Box<dyn ChunkReader + '_>, SourceError>;
}

/// Identifies the immutable value that holds a chunk's rows. A chunk of a later source of this process with the same identity
/// has the same rows.
#[derive(Debug, Clone)]
pub struct ChunkIdentity(
    // Weak, so that it does not keep the rows. It keeps their address from being given to others.
    Weak<dyn Any + Send + Sync>,
);

impl ChunkIdentity {
    /// The identity of a chunk whose rows are all in this value.
    pub fn of<T: Any + Send + Sync>(rows: &Arc<T>) -> Self {
        let rows: Weak<T> = Arc::downgrade(rows);
        ChunkIdentity(rows)
    }
}

impl PartialEq for ChunkIdentity {
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

/// Reads chunks, one at a time.
pub trait ChunkReader {
    /// The rows of a chunk of the table at this position of [`Source::tables`], with that table's columns. Equal states
    /// of a chunk should have their rows in equal order, so that an unchanged chunk is recognised.
    fn read(&mut self, table: usize, chunk: usize) -> Result<RecordBatch, SourceError>;

    /// Lets an unchanged chunk be recognised without reading it; `None` if that cannot be.
    fn identity(&mut self, table: usize, chunk: usize) -> Result<Option<ChunkIdentity>, SourceError> {
        let _ = (table, chunk);
        Ok(None)
    }
}
