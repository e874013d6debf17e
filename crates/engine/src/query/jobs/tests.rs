//! Plans and their jobs, the threads they run on, and answers that do not depend on them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use parking_lot::Mutex;
use plimsoll_policy::parallelism_policy;

use super::*;
use crate::columns::{ColumnSnapshot, ColumnTable};
use crate::query::threads::QueryThreads;
use crate::query::{QueryEngine, QueryOptions};

/// Records which thread was bound to which class, in order, with a given cache size in bytes.
#[derive(Debug)]
struct Notes {
    bound: Mutex<Vec<(i32, CacheClass)>>,
    cache_bytes: Option<u64>,
}

impl CacheBinder for Notes {
    fn bind(&self, thread: i32, class: CacheClass) {
        self.bound.lock().push((thread, class));
    }

    fn cache_bytes(&self) -> Option<u64> {
        self.cache_bytes
    }
}

const MIB: u64 = 1 << 20;

fn notes(cache_bytes: Option<u64>) -> Arc<Notes> {
    Arc::new(Notes { bound: Mutex::default(), cache_bytes })
}

fn engine(notes: &Arc<Notes>, switch: CacheSwitch, change: impl FnOnce(&mut QueryOptions)) -> QueryEngine {
    let binder = Arc::clone(notes) as Arc<dyn CacheBinder>;
    let cache = Some(CacheJobs { binder, switch });
    let mut options = QueryOptions { dop: 2, workers: 2, cache, ..QueryOptions::default() };
    change(&mut options);
    QueryEngine::new(options).unwrap()
}

/// `big` has 300 000 rows, `small` 40 000, each with a key, a group and a text.
fn snapshot() -> Arc<ColumnSnapshot> {
    let table = |name: &str, rows: i64| {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
        let kinds: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).map(|id| id * 7919 % 50_021)));
        let names: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..rows).map(|id| format!("ship {id}"))));
        let batch = RecordBatch::try_from_iter([("id", ids), ("kind", kinds), ("name", names)]).unwrap();
        Arc::new(ColumnTable::build(name, batch.schema(), vec![vec![0]], vec![batch]).unwrap())
    };
    Arc::new(ColumnSnapshot::new("as loaded", [table("big", 300_000), table("small", 40_000)]))
}

const SCAN: &str = "select count(*) from big where kind > 17";
const GROUPS: &str = "select kind, max(id) from big group by kind order by kind";
const NAMES: &str = "select name, count(*) from big group by name order by name limit 5";
const JOIN: &str = "select count(*) from big, small where big.kind = small.id";
const WIDE_JOIN: &str =
    "select big.name, small.name from big, small where big.kind = small.id and small.kind < 900 order by 1, 2";
const DISTINCT: &str = "select count(distinct kind) from big";
const LIMIT: &str = "select id from big where kind = 3 limit 2";

/// Jobs that were begun by one query on a fresh engine, by class: polluting, depends, sensitive.
fn started(cache_bytes: Option<u64>, sql: &str) -> [u64; 3] {
    let engine = engine(&notes(cache_bytes), CacheSwitch::PerPool, |_| ());
    engine.query(&snapshot(), sql, None).unwrap();
    engine.jobs().unwrap().started
}

#[test]
fn jobs_have_the_class_of_what_they_do() {
    let [polluting, depends, sensitive] = started(Some(32 * MIB), SCAN);
    assert!(polluting > 0 && depends == 0 && sensitive == 0, "a scan with a count is polluting");
    // The aggregation begins where the query does, among the sensitive, and its scan belongs to it.
    for sql in [GROUPS, NAMES, DISTINCT] {
        assert_eq!(started(Some(32 * MIB), sql)[1], 0, "{sql}");
    }
    let [polluting, depends, _] = started(Some(2 * MIB), JOIN);
    assert!(depends > 0, "the table of 40 000 keys is comparable with 2 MiB: {polluting} {depends}");
    assert_eq!(started(Some(1 << 40), JOIN)[1], 0, "and far smaller than a terabyte");
    assert_eq!(started(None, JOIN)[1], 0, "and sensitive where the size of the cache is not known");
}

#[test]
fn threads_are_bound_once_and_each_class_has_its_own() {
    let notes = notes(Some(2 * MIB));
    let engine = engine(&notes, CacheSwitch::PerPool, |_| ());
    for sql in [SCAN, GROUPS, JOIN, SCAN] {
        engine.query(&snapshot(), sql, None).unwrap();
    }
    let bound: BTreeMap<i32, CacheClass> = notes.bound.lock().iter().copied().collect();
    assert_eq!(notes.bound.lock().len(), 6, "two threads for each class, each bound once");
    assert_eq!(bound.keys().copied().collect::<Vec<_>>(), {
        let mut ids = engine.thread_ids();
        ids.sort_unstable();
        ids
    });
    for class in CacheClass::ALL {
        assert_eq!(bound.values().filter(|of| **of == class).count(), 2, "{class}");
    }
}

#[test]
fn a_switch_binds_only_when_the_class_changes() {
    let notes = notes(Some(2 * MIB));
    let engine = engine(&notes, CacheSwitch::PerTask, |options| options.workers = 1);
    assert_eq!(engine.thread_ids().len(), 1, "one pool for all classes");
    for sql in [SCAN, GROUPS, JOIN, WIDE_JOIN, SCAN] {
        engine.query(&snapshot(), sql, None).unwrap();
    }
    let bound = notes.bound.lock();
    assert!(bound.iter().any(|(_, class)| *class == CacheClass::Polluting));
    assert!(bound.windows(2).all(|pair| pair[0].1 != pair[1].1), "{bound:?}");
    assert_eq!(engine.jobs().unwrap().switches, bound.len() as u64);
}

#[test]
fn answers_do_not_depend_on_jobs() {
    let snapshot = snapshot();
    let plain = QueryEngine::new(QueryOptions { dop: 2, workers: 2, ..QueryOptions::default() }).unwrap();
    let text = |engine: &QueryEngine, sql: &str| {
        let output = engine.query(&snapshot, sql, None).unwrap_or_else(|error| panic!("{error} in {sql}"));
        arrow::util::pretty::pretty_format_batches(&output.batches).unwrap().to_string()
    };
    let rows = |engine: &QueryEngine| engine.query(&snapshot, LIMIT, None).unwrap().batches;
    let count = |engine: &QueryEngine| rows(engine).iter().map(RecordBatch::num_rows).sum::<usize>();
    for cache_bytes in [None, Some(MIB), Some(1 << 40)] {
        for switch in CacheSwitch::ALL {
            for threads in QueryThreads::ALL {
                for parallelism in [None, Some("static(3)"), Some("adaptive")] {
                    let engine = engine(&notes(cache_bytes), switch, |options| {
                        options.query_threads = threads;
                        options.parallelism = parallelism.map(|name| parallelism_policy(name).unwrap());
                    });
                    for sql in [SCAN, GROUPS, NAMES, JOIN, WIDE_JOIN, DISTINCT].iter().cycle().take(9) {
                        assert_eq!(
                            text(&engine, sql),
                            text(&plain, sql),
                            "{switch:?} {threads:?} {parallelism:?} {sql}"
                        );
                    }
                    assert_eq!(count(&engine), count(&plain));
                }
            }
        }
    }
}

#[test]
fn errors_and_panics_come_back_and_the_engine_goes_on() {
    for switch in CacheSwitch::ALL {
        let engine = engine(&notes(Some(32 * MIB)), switch, |_| ());
        let error =
            engine.query(&snapshot(), "select count(*) from big where 1 / (id - 200000) > 0", None).unwrap_err();
        assert!(error.to_string().contains("division by zero"), "{error}");
        assert_eq!(engine.query(&snapshot(), SCAN, None).unwrap().batches[0].num_rows(), 1);
        let jobs = engine.jobs().unwrap();
        assert!(jobs.started[0] > 0, "the failing scan was a job: {jobs:?}");
    }
}

#[test]
fn the_size_of_a_join_is_corrected_by_the_last_run_of_its_template() {
    let planner = JobPlanner::new(CacheJobs { binder: notes(Some(MIB)), switch: CacheSwitch::PerPool });
    let engine = QueryEngine::new(QueryOptions { dop: 2, workers: 2, ..QueryOptions::default() }).unwrap();
    let plan = engine.plan_for_test(&snapshot(), JOIN);
    let estimated = planner.sizes.of("t");
    assert!(estimated.is_empty(), "nothing has run");
    planner.ran("t", &plan);
    assert!(planner.sizes.of("t").is_empty(), "a join that was never begun says nothing");
    engine.collect_for_test(&plan);
    planner.ran("t", &plan);
    let known = planner.sizes.of("t");
    // 40 000 keys of eight bytes at least, and a place for each.
    assert!(known.len() == 1 && *known.values().next().unwrap() > 40_000 * 8, "{known:?}");
    assert!(planner.sizes.of("another").is_empty());
    for number in 0..2000 {
        planner.ran(&format!("other {number}"), &plan);
    }
    assert!(planner.sizes.of("other 1999") == known && planner.sizes.of("t").is_empty(), "memory is bounded");
}
