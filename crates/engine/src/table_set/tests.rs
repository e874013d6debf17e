//! Both copies have the same contents, as loaded and after changes.

use std::fs::File;

use arrow::array::{ArrayRef, Date32Array, Decimal128Array, Int32Array, StringViewArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};

use super::*;
use crate::columns::{ColumnCache, DiskFolder, FileSource, FolderError};
use crate::engine::EngineOptions;
use crate::log::{Durability, LogOptions};
use crate::transaction::Purpose;
use crate::value::{ColumnSpec, ColumnType, Value};

fn declaration() -> TableDeclaration {
    let columns = [
        ("id", ColumnType::Int32, DataType::Int32, false),
        ("day", ColumnType::Int32, DataType::Date32, true),
        ("price", ColumnType::Int64, DataType::Decimal128(12, 2), true),
        ("at", ColumnType::Int64, DataType::Timestamp(TimeUnit::Microsecond, None), true),
        ("note", ColumnType::Text(40), DataType::Utf8View, true),
    ];
    let spec = TableSpec {
        name: "ship".to_owned(),
        columns: columns
            .iter()
            .map(|(name, kind, _, nullable)| ColumnSpec { name: (*name).to_owned(), kind: *kind, nullable: *nullable })
            .collect(),
        primary_key: vec![0],
        secondary: vec![],
    };
    let fields: Vec<_> =
        columns.into_iter().map(|(name, _, kind, nullable)| Field::new(name, kind, nullable)).collect();
    TableDeclaration { spec, primary: IndexKind::Tree, arrow: Arc::new(Schema::new(fields)), keeps_rows: true }
}

fn batch(schema: &SchemaRef) -> RecordBatch {
    let prices = Decimal128Array::from(vec![Some(1_999), None, Some(-5)]).with_precision_and_scale(12, 2).unwrap();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![3, 1, 2])),
        Arc::new(Date32Array::from(vec![Some(19_000), None, Some(0)])),
        Arc::new(prices),
        Arc::new(TimestampMicrosecondArray::from(vec![None, Some(1_700_000_000_000_000), Some(0)])),
        Arc::new(StringViewArray::from(vec![Some("short"), None, Some("a text that is longer than a view holds")])),
    ];
    RecordBatch::try_new(Arc::clone(schema), columns).unwrap()
}

fn rows(set: &TableSet) -> String {
    let batches = set.snapshot().table("ship").unwrap().to_batches().unwrap();
    arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string()
}

#[test]
fn rows_and_columns_agree_as_loaded_and_after_changes() {
    let folder = DiskFolder::open(crate::columns::folder::DEFAULT_FOLDER.as_ref()).unwrap();
    for folder in [None, Some(folder)] {
        rows_and_columns_agree(folder);
    }
}

fn rows_and_columns_agree(folder: Option<DiskFolder>) {
    let engine = Engine::new(EngineOptions::default());
    let set = TableSet::create(&engine, vec![declaration()]).unwrap();
    let in_file = folder.is_some();
    let set = match folder {
        Some(folder) => set.with_columns_in(folder.into()),
        None => set,
    };
    set.load(0, batch(&declaration().arrow)).unwrap();
    set.finish_load().unwrap();
    assert_eq!(set.snapshot().label(), "as loaded");
    assert_eq!(set.snapshot().table("ship").unwrap().file().is_some(), in_file);
    let loaded = rows(&set);
    set.refresh().unwrap();
    assert_eq!((set.snapshot().label(), rows(&set)), ("refresh 1", loaded.clone()));

    let table = set.rows(0).unwrap().number;
    let mut connection = engine.connect();
    let changed = connection.transact(Priority::LOW, |connection| {
        let row = connection.find(table, &[Value::Int(1)], Purpose::Write)?.expect("loaded");
        connection.set(table, row, 4, Value::Text("changed"))?;
        let row = connection.find(table, &[Value::Int(3)], Purpose::Write)?.expect("loaded");
        connection.delete(table, row)
    });
    changed.unwrap();
    assert_eq!(rows(&set), loaded, "queries read the state as refreshed last");
    set.refresh().unwrap();
    let refreshed = rows(&set);
    assert_eq!(set.snapshot().label(), "refresh 2");
    assert_eq!(set.snapshot().table("ship").unwrap().file().is_some(), in_file);
    assert!(refreshed.contains("changed") && !refreshed.contains("short"), "{refreshed}");
}

/// A folder whose disk can be full: every write then fails.
#[derive(Debug)]
struct FullFolder(DiskFolder, Arc<AtomicBool>);

impl std::fmt::Display for FullFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl FileSource for FullFolder {
    fn make_file(&self) -> Result<File, FolderError> {
        match self.1.load(Ordering::Relaxed) {
            true => Ok(File::options().read(true).write(true).open("/dev/full").unwrap()),
            false => self.0.make_file(),
        }
    }
}

#[test]
fn a_full_disk_fails_the_refresh_and_queries_keep_the_state_before() {
    let is_full = Arc::new(AtomicBool::new(false));
    let folder = DiskFolder::open(crate::columns::folder::DEFAULT_FOLDER.as_ref()).unwrap();
    let files = ColumnFiles::new(FullFolder(folder, Arc::clone(&is_full)), ColumnCache::new(1 << 20));
    let engine = Engine::new(EngineOptions::default());
    let set = TableSet::create(&engine, vec![declaration()]).unwrap().with_columns_in(files);
    set.load(0, batch(&declaration().arrow)).unwrap();
    set.finish_load().unwrap();
    let loaded = rows(&set);
    let table = set.rows(0).unwrap().number;
    let change = |id, note| {
        let changed = engine.connect().transact(Priority::LOW, |connection| {
            let row = connection.find(table, &[Value::Int(id)], Purpose::Write)?.expect("loaded");
            connection.set(table, row, 4, Value::Text(note))
        });
        changed.unwrap();
    };
    change(1, "before the disk was full");
    is_full.store(true, Ordering::Relaxed);
    for _ in 0..2 {
        let error = set.refresh().unwrap_err().to_string();
        let expect = "table ship: cannot write its columns to /var/tmp: ";
        assert!(error.starts_with(expect) && error.contains("No space left on device"), "{error}");
        assert_eq!((set.snapshot().label(), rows(&set)), ("as loaded", loaded.clone()));
    }
    change(2, "while it was full");
    is_full.store(false, Ordering::Relaxed);
    set.refresh().unwrap();
    let refreshed = rows(&set);
    assert!(refreshed.contains("before the disk was full") && refreshed.contains("while it was full"), "{refreshed}");

    is_full.store(true, Ordering::Relaxed);
    let files =
        ColumnFiles::new(FullFolder(DiskFolder::open("/var/tmp".as_ref()).unwrap(), is_full), ColumnCache::new(0));
    let other = TableSet::create(&engine, vec![declaration()]).unwrap().with_columns_in(files);
    other.load(0, batch(&declaration().arrow)).unwrap();
    assert!(other.finish_load().unwrap_err().to_string().contains("No space left on device"));
    drop(other);
    assert_eq!(rows(&set), refreshed, "tables that could not be loaded leave others alone");
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let engine = Engine::new(EngineOptions::default());
    let set = TableSet::create(&engine, vec![declaration()]).unwrap();
    let other = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
    let error = set.load(0, RecordBatch::new_empty(other)).unwrap_err();
    assert_eq!(error.to_string(), "table ship: a batch has other columns than declared: id Int64");

    let batch = batch(&declaration().arrow);
    set.load(0, batch.clone()).unwrap();
    let error = set.load(0, batch).unwrap_err();
    assert_eq!(error.to_string(), "table ship is loaded with two rows of the same primary key");
}

#[test]
fn a_set_is_found_again_when_the_database_is_opened_anew() {
    // Beside the build, which is on a disk; the system's temporary folder need not be.
    let parent = tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
    let log = LogOptions {
        durability: Durability::Sync,
        data_folder: Some(parent.path().join("data")),
        ..LogOptions::default()
    };
    let open = || Engine::open(EngineOptions::default(), &log).unwrap();
    let engine = open();
    let set = TableSet::create(&engine, vec![declaration()]).unwrap().named("fleet");
    set.load(0, batch(&declaration().arrow)).unwrap();
    set.finish_load().unwrap();
    let mut connection = engine.connect();
    connection.begin(Priority::LOW, 0);
    let number = set.rows(0).unwrap().number;
    let row = connection.find(number, &[Value::Int(2)], Purpose::Write).unwrap().unwrap();
    connection.delete(number, row).unwrap();
    connection.commit().unwrap();
    drop(connection);
    set.refresh().unwrap();
    let expect = rows(&set);
    drop((set, engine));

    let engine = open();
    assert!(TableSet::adopt(&engine, "navy", vec![declaration()]).unwrap().is_none());
    let mut other = declaration();
    other.spec.secondary = vec![vec![0]];
    let error = TableSet::adopt(&engine, "fleet", vec![other]).unwrap_err().to_string();
    assert!(error.contains("are not those that are declared now (ship differs)"), "{error}");
    let set = TableSet::adopt(&engine, "fleet", vec![declaration()]).unwrap().unwrap();
    set.fill_columns().unwrap();
    assert_eq!((rows(&set), set.snapshot().label()), (expect, "as recovered"));
    set.discard();
    drop((set, engine));
    assert!(open().row_tables().is_empty());
}
