//! Versions of the column tables: writers publish, readers take snapshots.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::columns::table::ColumnTable;

/// One state of all tables of a schema. It stays as it is for as long as somebody holds it.
#[derive(Debug)]
pub struct ColumnSnapshot {
    label: String,
    /// Unique in this process, so that what is derived from a snapshot can be kept with it.
    id: u64,
    tables: BTreeMap<String, Arc<ColumnTable>>,
}

static NEXT_SNAPSHOT: AtomicU64 = AtomicU64::new(0);

impl ColumnSnapshot {
    /// A snapshot of just these tables.
    pub fn new(label: impl Into<String>, tables: impl IntoIterator<Item = Arc<ColumnTable>>) -> Self {
        let tables = tables.into_iter().map(|table| (table.name().to_string(), table)).collect();
        // Relaxed: only uniqueness matters, nothing is ordered by the number.
        ColumnSnapshot { label: label.into(), id: NEXT_SNAPSHOT.fetch_add(1, Ordering::Relaxed), tables }
    }

    /// Which state this is, for people: `as loaded`, `refresh 1`.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// A number that no other snapshot of this process has.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// One table by its SQL name.
    pub fn table(&self, name: &str) -> Option<&Arc<ColumnTable>> {
        self.tables.get(name)
    }

    /// All tables in order of name.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<ColumnTable>> {
        self.tables.values()
    }

    /// The bytes that all tables take.
    pub fn memory_bytes(&self) -> usize {
        self.tables.values().map(|table| table.memory_bytes()).sum()
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
        let kept = current.tables.values().cloned();
        // Later entries of the same name win, so the new ones go last.
        *current = Arc::new(ColumnSnapshot::new(label, kept.chain(tables).collect::<Vec<_>>()));
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
        assert_ne!(loaded.id(), refreshed.id());
        assert_eq!(rows(&loaded, "dock"), None);
    }
}
