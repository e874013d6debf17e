//! Versions of the column tables: writers publish, readers take snapshots.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::compute::concat_batches;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use parking_lot::RwLock;

use crate::columns::chunk::Chunk;
use crate::columns::overlay::Overlay;
use crate::columns::table::ColumnTable;

/// One state of all tables of a schema. It never changes.
#[derive(Debug)]
pub struct ColumnSnapshot {
    label: String,
    seq: u64,
    tables: BTreeMap<String, SnapshotTable>,
}

/// One table of a snapshot.
#[derive(Debug, Clone)]
pub struct SnapshotTable {
    columns: Arc<ColumnTable>,
    overlay: Option<Arc<dyn Overlay>>,
}

impl SnapshotTable {
    /// The rows of the columns, except for what the overlay changes.
    pub fn new(columns: Arc<ColumnTable>, overlay: Option<Arc<dyn Overlay>>) -> Self {
        // A scan without an overlay takes a shorter path.
        SnapshotTable { columns, overlay: overlay.filter(|overlay| overlay.entries() > 0) }
    }

    /// The columns.
    pub fn columns(&self) -> &Arc<ColumnTable> {
        &self.columns
    }

    /// The changes since the columns were made; `None` if there are none.
    pub fn overlay(&self) -> Option<&Arc<dyn Overlay>> {
        self.overlay.as_ref()
    }

    /// The number of chunks, including those that only the overlay has.
    pub fn chunk_count(&self) -> usize {
        let changed = self.overlay.as_ref().map_or(0, |overlay| overlay.chunk_count());
        self.columns.chunks().len().max(changed)
    }

    /// The number of rows: exact without an overlay, an estimate with one.
    pub fn rows(&self) -> usize {
        match (self.columns.rows(), &self.overlay) {
            // A few rows may have been changed many times, so the changes say little about the rows if there are any.
            (0, Some(overlay)) => overlay.entries(),
            (rows, _) => rows,
        }
    }

    /// A chunk that has all of the rows at its place; `None` if the overlay changes some, or the table has no such chunk.
    pub fn unchanged_chunk(&self, chunk: usize) -> Result<Option<&Arc<Chunk>>, ArrowError> {
        let is_changed = match &self.overlay {
            Some(overlay) => overlay.chunk(chunk, &self.all_columns())?.is_some(),
            None => false,
        };
        Ok(self.columns.chunks().get(chunk).filter(|_| !is_changed))
    }

    fn all_columns(&self) -> Vec<usize> {
        (0..self.columns.schema().fields().len()).collect()
    }

    /// All columns of the rows of a chunk: those that the chunk has, then those that only the overlay has. Blocks if
    /// the chunk is in a file.
    pub fn chunk_rows(&self, chunk: usize) -> Result<RecordBatch, ArrowError> {
        let schema = self.columns.schema();
        let of_chunk = |overlay: &Arc<dyn Overlay>| overlay.chunk(chunk, &self.all_columns());
        let overlay = self.overlay.as_ref().map(of_chunk).transpose()?.flatten();
        match (self.columns.chunks().get(chunk), overlay) {
            (None, None) => Ok(RecordBatch::new_empty(Arc::clone(schema))),
            (Some(own), None) => own.to_batch(schema),
            (None, Some(overlay)) => overlay.images.to_batch(schema),
            (Some(own), Some(overlay)) => {
                concat_batches(schema, &[overlay.own_rows(own, schema)?, overlay.images.to_batch(schema)?])
            }
        }
    }
}

impl From<Arc<ColumnTable>> for SnapshotTable {
    fn from(columns: Arc<ColumnTable>) -> Self {
        SnapshotTable::new(columns, None)
    }
}

impl ColumnSnapshot {
    /// A snapshot of these tables, as they were loaded.
    pub fn new(label: impl Into<String>, tables: impl IntoIterator<Item = Arc<ColumnTable>>) -> Self {
        ColumnSnapshot::at(label, 0, tables.into_iter().map(SnapshotTable::from))
    }

    /// A snapshot of these tables that shows exactly the first `seq` commits since they were loaded.
    pub fn at(label: impl Into<String>, seq: u64, tables: impl IntoIterator<Item = SnapshotTable>) -> Self {
        let tables = tables.into_iter().map(|table| (table.columns.name().to_string(), table)).collect();
        ColumnSnapshot { label: label.into(), seq, tables }
    }

    /// The name of the state, for people: `as loaded`, `refresh 1`.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The number of commits since loading that it shows: the first ones in commit order. 0 as loaded.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The columns of one table by its SQL name.
    pub fn table(&self, name: &str) -> Option<&Arc<ColumnTable>> {
        self.tables.get(name).map(SnapshotTable::columns)
    }

    /// The columns of all tables in order of name.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<ColumnTable>> {
        self.tables.values().map(SnapshotTable::columns)
    }

    /// One table by its SQL name, with its changes.
    pub fn version(&self, name: &str) -> Option<&SnapshotTable> {
        self.tables.get(name)
    }

    /// All tables in order of name, with their changes.
    pub fn versions(&self) -> impl Iterator<Item = &SnapshotTable> {
        self.tables.values()
    }

    /// The bytes that the columns of all tables take.
    pub fn memory_bytes(&self) -> usize {
        self.tables().map(|table| table.memory_bytes()).sum()
    }
}

/// The current version of each table of one schema.
#[derive(Debug)]
pub struct ColumnStore {
    current: RwLock<Arc<ColumnSnapshot>>,
}

impl Default for ColumnStore {
    fn default() -> Self {
        ColumnStore { current: RwLock::new(Arc::new(ColumnSnapshot::new("empty", []))) }
    }
}

impl ColumnStore {
    /// A store without tables.
    pub fn new() -> Self {
        ColumnStore::default()
    }

    /// Replaces the given tables, keeps the others, and names the new state. Readers see all of it or nothing.
    pub fn publish(&self, tables: impl IntoIterator<Item = Arc<ColumnTable>>, label: impl Into<String>) {
        let mut current = self.current.write();
        let kept = current.versions().cloned();
        // Later entries of the same name win, so the new ones go last.
        let all: Vec<SnapshotTable> = kept.chain(tables.into_iter().map(SnapshotTable::from)).collect();
        *current = Arc::new(ColumnSnapshot::at(label, 0, all));
    }

    /// The state as of now.
    pub fn snapshot(&self) -> Arc<ColumnSnapshot> {
        Arc::clone(&self.current.read())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, RecordBatch};
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    fn table(name: &str, rows: i32) -> Arc<ColumnTable> {
        let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int32, false)]));
        let column = Arc::new(Int32Array::from_iter_values(0..rows));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column]).unwrap();
        Arc::new(ColumnTable::build(name, schema, vec![vec![0]], vec![batch]).unwrap())
    }

    #[test]
    fn a_snapshot_keeps_its_state_while_newer_ones_are_published() {
        let store = ColumnStore::new();
        assert_eq!(store.snapshot().label(), "empty");
        store.publish([table("ship", 3), table("port", 2)], "as loaded");
        let loaded = store.snapshot();
        store.publish([table("ship", 5)], "refresh 1");
        let refreshed = store.snapshot();
        let rows = |snapshot: &ColumnSnapshot, name: &str| snapshot.table(name).map(|table| table.rows());
        assert_eq!((loaded.label(), rows(&loaded, "ship"), rows(&loaded, "port")), ("as loaded", Some(3), Some(2)));
        assert_eq!(
            (refreshed.label(), rows(&refreshed, "ship"), rows(&refreshed, "port")),
            ("refresh 1", Some(5), Some(2))
        );
        assert_eq!(rows(&loaded, "dock"), None);
    }
}
