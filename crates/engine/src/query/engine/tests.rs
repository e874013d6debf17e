//! Queries over snapshots: answers, errors, and the threads they run on.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;

use super::*;
use crate::columns::table::CHUNK_ROWS;
use crate::columns::{ColumnCache, ColumnFiles, ColumnStore, ColumnTable};

mod cancelled;
mod changes;

fn table(rows: i64) -> Arc<ColumnTable> {
    let ids = Arc::new(Int64Array::from_iter_values(0..rows));
    let batch = RecordBatch::try_from_iter([("id", ids as _)]).unwrap();
    Arc::new(ColumnTable::build("ship", batch.schema(), vec![vec![0]], vec![batch]).unwrap())
}

/// A count, or a sum, which is a numeric.
fn number(output: &QueryOutput) -> i64 {
    let number = cast(output.batches[0].column(0), &DataType::Int64).unwrap();
    number.as_any().downcast_ref::<Int64Array>().unwrap().value(0)
}

#[test]
fn an_answer_says_which_snapshot_it_was_read_from() {
    let store = ColumnStore::new();
    store.publish([table(10)], "as loaded");
    let before = store.snapshot();
    store.publish([table(20)], "refresh 1");
    let engine = QueryEngine::new(QueryOptions { dop: 2, workers: 2, ..QueryOptions::default() }).unwrap();
    let ask = |snapshot| engine.query(snapshot, "select count(*) from ship", None).unwrap();
    assert_eq!((number(&ask(&before)), ask(&before).snapshot.as_str()), (10, "as loaded"));
    assert_eq!((number(&ask(&store.snapshot())), ask(&store.snapshot()).snapshot.as_str()), (20, "refresh 1"));
}

#[test]
fn every_degree_of_parallelism_and_client_gets_the_same_answer() {
    let snapshot = Arc::new(ColumnSnapshot::new("as loaded", [table(500_000)]));
    let engine = QueryEngine::new(QueryOptions { dop: 1, workers: 2, ..QueryOptions::default() }).unwrap();
    let sql = "select sum(a.id) from ship a, ship b where a.id = b.id and b.id >= 250000 and b.id < 250010";
    std::thread::scope(|scope| {
        for dop in [None, Some(0), Some(1), Some(2), Some(7)] {
            let (engine, snapshot) = (&engine, &snapshot);
            scope.spawn(move || assert_eq!(number(&engine.query(snapshot, sql, dop).unwrap()), 2_500_045, "{dop:?}"));
        }
    });
}

#[test]
fn a_limit_is_kept() {
    let snapshot = Arc::new(ColumnSnapshot::new("as loaded", [table(200_000)]));
    let engine = QueryEngine::new(QueryOptions::default()).unwrap();
    let ask =
        |sql| engine.query(&snapshot, sql, Some(2)).unwrap().batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    assert_eq!(ask("select id from ship limit 17"), 17);
    assert_eq!(ask("select id from ship where id % 1000 = 3 limit 17"), 17);
    assert_eq!(ask("select id from ship where id < 5 limit 17"), 5);
}

#[test]
fn errors_are_values_that_say_what_is_wrong() {
    let snapshot = Arc::new(ColumnSnapshot::new("as loaded", [table(10)]));
    let engine = QueryEngine::new(QueryOptions::default()).unwrap();
    let ask = |sql| engine.query(&snapshot, sql, None).unwrap_err();
    for sql in ["selec 1", "select id from boat", "select name from ship"] {
        assert!(matches!(ask(sql), QueryError::Plan(_)), "{sql}: {}", ask(sql));
    }
    let error = ask("select 1 / (id - 5) from ship");
    assert!(matches!(&error, QueryError::Execute(message) if message.contains("division by zero")), "{error}");
    assert_eq!(number(&engine.query(&snapshot, "select count(*) from ship", None).unwrap()), 10);
}

/// Three chunks of numbers with a text each, in a file.
fn table_in_file(files: &ColumnFiles) -> Arc<ColumnTable> {
    let rows = 3 * CHUNK_ROWS as i64;
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let names: ArrayRef =
        Arc::new(StringViewArray::from_iter_values((0..rows).map(|id| format!("a ship called {id}"))));
    let batch = RecordBatch::try_from_iter([("id", ids), ("name", names)]).unwrap();
    let table = ColumnTable::build("ship", batch.schema(), vec![vec![0]], vec![batch]).unwrap();
    Arc::new(table.into_file(files).unwrap())
}

/// Files of which nothing stays in memory.
fn uncached() -> ColumnFiles {
    DiskFolder::open(DEFAULT_FOLDER.as_ref()).unwrap().into()
}

#[test]
fn columns_are_read_from_the_disk_if_they_are_wanted_and_every_time() {
    let table = table_in_file(&uncached());
    let bytes = |chunks: &[usize], columns: &[usize]| {
        chunks.iter().map(|&chunk| table.disk_bytes(chunk, columns)).sum::<usize>() as u64
    };
    let snapshot = Arc::new(ColumnSnapshot::new("as loaded", [Arc::clone(&table)]));
    let engine = QueryEngine::new(QueryOptions { dop: 2, workers: 2, ..QueryOptions::default() }).unwrap();
    let second = CHUNK_ROWS as i64 + 10;
    for (sql, expect, read) in [
        ("select sum(id) from ship".to_string(), (0..3 * CHUNK_ROWS as i64).sum(), bytes(&[0, 1, 2], &[0])),
        (format!("select sum(id) from ship where id = {second}"), second, bytes(&[1], &[0])),
        (format!("select max(id) from ship where name = 'a ship called {second}'"), second, bytes(&[0, 1], &[0, 1])),
        (
            format!("select count(name) from ship where id > {second}"),
            2 * CHUNK_ROWS as i64 - 11,
            bytes(&[1, 2], &[0, 1]),
        ),
    ] {
        for _ in 0..2 {
            let before = engine.usage().column_bytes_read;
            let output = engine.query(&snapshot, &sql, None).unwrap();
            assert_eq!((number(&output), output.usage.column_bytes_read), (expect, read), "{sql}");
            assert_eq!(engine.usage().column_bytes_read - before, read, "{sql}");
        }
    }
}

#[test]
fn columns_that_stay_in_memory_are_not_read_again() {
    let cache = ColumnCache::new(64 << 20);
    let folder = DiskFolder::open(DEFAULT_FOLDER.as_ref()).unwrap();
    let table = table_in_file(&ColumnFiles::new(folder, Arc::clone(&cache)));
    let snapshot = Arc::new(ColumnSnapshot::new("as loaded", [Arc::clone(&table)]));
    let engine = QueryEngine::new(QueryOptions { dop: 2, workers: 2, ..QueryOptions::default() }).unwrap();
    let bytes = |columns: &[usize]| (0..3).map(|chunk| table.disk_bytes(chunk, columns)).sum::<usize>() as u64;
    for (sql, read) in [
        ("select sum(id) from ship", bytes(&[0])),
        ("select sum(id) from ship", 0),
        ("select max(id) from ship where name > 'a'", bytes(&[1])),
        ("select count(name), sum(id) from ship where id > 5", 0),
    ] {
        assert_eq!(engine.query(&snapshot, sql, None).unwrap().usage.column_bytes_read, read, "{sql}");
    }
    let reads = cache.reads();
    assert_eq!((reads.read_bytes, reads.found_bytes), (bytes(&[0, 1]), Some(3 * bytes(&[0]) + bytes(&[1]))));
}

#[test]
fn a_damaged_column_ends_the_queries_that_need_it_with_an_error() {
    for bytes_max in [0, 64 << 20] {
        let folder = DiskFolder::open(DEFAULT_FOLDER.as_ref()).unwrap();
        let table = table_in_file(&ColumnFiles::new(folder, ColumnCache::new(bytes_max)));
        // In the names of the first chunk.
        table.file().unwrap().damage(table.disk_bytes(0, &[0]) as u64 + 5000);
        let snapshot = Arc::new(ColumnSnapshot::new("as loaded", [table]));
        let engine = QueryEngine::new(QueryOptions { dop: 2, workers: 2, ..QueryOptions::default() }).unwrap();
        for _ in 0..2 {
            let error = engine.query(&snapshot, "select count(*) from ship where name > 'a'", None).unwrap_err();
            let expect = "of the column file of table ship in /var/tmp are not those that were written";
            assert!(matches!(&error, QueryError::Execute(message) if message.contains(expect)), "{error}");
        }
        assert_eq!(number(&engine.query(&snapshot, "select count(*) from ship where id > 7", None).unwrap()), 196_600);
    }
}

/// Sorted on a key that has nothing to do with the order of the rows; the sum depends on every row's place.
const SORT: &str =
    "select sum(cast(place as bigint) * id) from (select id, row_number() over (order by name) as place from ship)";

/// As many groups as rows.
const GROUPS: &str = "select count(*) from (select name, id % 1000003 as part, sum(id) as total from ship group by 1, 2) where total > -1";

fn granted(mebibytes: Option<usize>) -> QueryEngine {
    let options = QueryOptions { dop: 2, workers: 2, memory_grant_mib: mebibytes, ..QueryOptions::default() };
    QueryEngine::new(options).unwrap()
}

#[test]
fn what_does_not_fit_the_grant_is_spilled_and_the_answer_is_the_same() {
    let snapshot = Arc::new(ColumnSnapshot::new("as loaded", [table_in_file(&uncached())]));
    for sql in [SORT, GROUPS] {
        let free = granted(None).query(&snapshot, sql, None).unwrap();
        assert_eq!((free.usage.spilled_bytes, free.usage.spill_files), (0, 0));
        let tight = granted(Some(16)).query(&snapshot, sql, None).unwrap();
        assert_eq!(number(&tight), number(&free), "{sql}");
        assert!(free.usage.peak_memory_bytes > 16 << 20, "{sql}: {:?}", free.usage);
        assert!((1..=16 << 20).contains(&tight.usage.peak_memory_bytes), "{sql}: {:?}", tight.usage);
        assert!(tight.usage.spilled_bytes > 1 << 20 && tight.usage.spill_files > 0, "{sql}: {:?}", tight.usage);
        let ample = granted(Some(4096)).query(&snapshot, sql, None).unwrap();
        assert_eq!((number(&ample), ample.usage.spill_files), (number(&free), 0), "{sql}");
    }
}

#[test]
fn the_memory_of_a_query_is_that_of_its_operators() {
    let snapshot = Arc::new(ColumnSnapshot::new("as loaded", [table_in_file(&uncached())]));
    let engine = granted(None);
    let peak = |sql| engine.query(&snapshot, sql, None).unwrap().usage.peak_memory_bytes;
    let scan = peak("select count(*) from ship where id % 7 = 3");
    let join = peak("select count(*) from ship a, ship b where a.id = b.id");
    assert!(scan < 1 << 20 && join > (3 * CHUNK_ROWS * size_of::<i64>()) as u64, "{scan} {join}");
    assert_eq!(engine.usage().peak_memory_bytes, join, "of several queries that of the largest");
}

#[test]
fn a_join_that_cannot_run_in_its_grant_says_so_and_the_engine_goes_on() {
    let snapshot = Arc::new(ColumnSnapshot::new("as loaded", [table_in_file(&uncached())]));
    let engine = granted(Some(1));
    let join = "select count(*) from ship a, ship b where a.name = b.name";
    let error = engine.query(&snapshot, join, None).unwrap_err();
    assert!(matches!(error, QueryError::Grant { mebibytes: 1, .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("grant of 1 MiB") && text.contains("HashJoinInput") && text.contains("raise memory_grant_mib")
    );
    assert_eq!(number(&engine.query(&snapshot, "select count(*) from ship", None).unwrap()), 3 * CHUNK_ROWS as i64);
}

#[test]
fn plans_differ_by_a_grant_in_nothing() {
    let snapshot = Arc::new(ColumnSnapshot::new("as loaded", [table(100_000)]));
    let sql = "select a.id % 7, count(*) from ship a, ship b where a.id = b.id group by 1 order by 2";
    let plan = |grant| granted(grant).explain(&snapshot, sql, None).unwrap();
    assert_eq!(plan(None), plan(Some(1)));
}

#[test]
fn a_grant_needs_a_folder_on_a_disk() {
    let options = |grant| QueryOptions {
        memory_grant_mib: grant,
        spill_folder: "/no/such/folder".into(),
        ..QueryOptions::default()
    };
    assert!(QueryEngine::new(options(None)).is_ok(), "nothing is ever spilled");
    let error = QueryEngine::new(options(Some(1))).unwrap_err().to_string();
    assert!(error.contains("/no/such/folder"), "{error}");
}

impl QueryEngine {
    /// The plan of a query, to be looked at.
    pub(crate) fn plan_for_test(&self, snapshot: &Arc<ColumnSnapshot>, sql: &str) -> Arc<dyn ExecutionPlan> {
        let planner = self.planner(snapshot, Degrees::Same(self.options.dop)).unwrap();
        let sql = sql.to_owned();
        self.threads.lease().unwrap().run(async move { planner.plan(&sql).await }).unwrap().unwrap()
    }

    /// Runs it.
    pub(crate) fn collect_for_test(&self, plan: &Arc<dyn ExecutionPlan>) {
        let plan = Arc::clone(plan);
        let task = async move { collect(plan, Arc::new(TaskContext::default())).await };
        self.threads.lease().unwrap().run(task).unwrap().unwrap();
    }
}
