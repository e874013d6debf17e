//! The embedded engine as a source of exports: the tables of a running engine, or those of a data folder that no
//! process has open ([`Embedded::stored`]).

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use plimsoll_engine::columns::{ColumnSnapshot, SnapshotTable};
use plimsoll_export::{AsOf, ChunkIdentity, ChunkReader, Source, SourceError, TableShape};
use plimsoll_workload::database::DatabaseError;
use plimsoll_workload::schema::Schema;

use crate::embedded::Embedded;

/// One state of the tables of a schema.
#[derive(Debug)]
pub struct EngineSource {
    origin: String,
    as_of: AsOf,
    shapes: Vec<TableShape>,
    versions: Vec<SnapshotTable>,
}

impl Embedded {
    /// The state of a schema's tables at this moment, while transactions go on. All commits that it shows are durable
    /// when this returns. Fails without propagation, because the columns then lack the commits.
    pub fn export_source(&self, schema: &Schema) -> Result<EngineSource, DatabaseError> {
        let set = self.tables(schema)?;
        if set.freshness().is_none() {
            let why = "an export needs columns that follow the commits; set the option propagation=background";
            return Err(DatabaseError::Failed(why.to_owned()));
        }
        let reading = set.read().map_err(|error| DatabaseError::Failed(error.to_string()))?;
        let snapshot = Arc::clone(reading.snapshot());
        reading.settle().map_err(|error| DatabaseError::Failed(error.to_string()))?;
        let (origin, as_of) = match self.stored_at() {
            Some((folder, position)) => (format!("data folder {}", folder.display()), AsOf::LogPosition(position)),
            None => ("embedded:".to_owned(), AsOf::Commit(snapshot.seq())),
        };
        let (shapes, versions) = tables(&schema.name, &snapshot).unzip();
        Ok(EngineSource { origin, as_of, shapes, versions })
    }
}

/// The tables of a snapshot, as described and as they are.
fn tables(schema: &str, snapshot: &ColumnSnapshot) -> impl Iterator<Item = (TableShape, SnapshotTable)> {
    snapshot.versions().map(move |version| {
        let columns = version.columns();
        let shape = TableShape {
            schema: schema.to_owned(),
            name: columns.name().to_owned(),
            columns: Arc::clone(columns.schema()),
            chunks: version.chunk_count(),
        };
        (shape, version.clone())
    })
}

impl EngineSource {
    /// The tables of both, which must be of the same state: of a data folder that no process has open.
    #[must_use]
    pub fn with(mut self, other: EngineSource) -> Self {
        assert_eq!(self.as_of, other.as_of, "an export has one state");
        self.shapes.extend(other.shapes);
        self.versions.extend(other.versions);
        self
    }
}

impl Source for EngineSource {
    fn origin(&self) -> String {
        self.origin.clone()
    }

    fn as_of(&self) -> AsOf {
        self.as_of.clone()
    }

    fn tables(&self) -> &[TableShape] {
        &self.shapes
    }

    fn reader(&self) -> Result<Box<dyn ChunkReader + '_>, SourceError> {
        Ok(Box::new(EngineReader(&self.versions)))
    }
}

struct EngineReader<'a>(&'a [SnapshotTable]);

impl ChunkReader for EngineReader<'_> {
    fn read(&mut self, table: usize, chunk: usize) -> Result<RecordBatch, SourceError> {
        self.0[table].chunk_rows(chunk).map_err(|error| SourceError(error.to_string()))
    }

    fn identity(&mut self, table: usize, chunk: usize) -> Result<Option<ChunkIdentity>, SourceError> {
        let unchanged = self.0[table].unchanged_chunk(chunk).map_err(|error| SourceError(error.to_string()))?;
        Ok(unchanged.map(ChunkIdentity::of))
    }
}

#[cfg(test)]
mod tests;
