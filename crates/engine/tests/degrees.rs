//! Every degree of parallelism of every pipeline gives the same answer.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use plimsoll_engine::columns::{ColumnSnapshot, ColumnTable};
use plimsoll_engine::query::threads::QueryThreads;
use plimsoll_engine::query::{QueryEngine, QueryError, QueryOptions};
use plimsoll_policy::{ParallelismPolicy, parallelism_policy};
use plimsoll_workload::tpch::queries::QUERIES;

#[path = "common/degrees_by_chance.rs"]
mod degrees_by_chance;
#[path = "common/tpch.rs"]
mod tpch;

use degrees_by_chance::{DEGREE_MAX, DegreesByChance};
use tpch::{SCALE, answer, rows};

fn engine(policy: Option<Arc<dyn ParallelismPolicy>>) -> QueryEngine {
    let options = QueryOptions { dop: 1, workers: 2, parallelism: policy, ..QueryOptions::default() };
    QueryEngine::new(options).unwrap()
}

/// One engine for each degree, and some that draw.
fn engines() -> Vec<(String, QueryEngine)> {
    let fixed = (1..=DEGREE_MAX).map(|degree| format!("static({degree})"));
    let fixed = fixed.map(|name| (name.clone(), engine(parallelism_policy(&name))));
    let drawn = (1..=12).map(|seed| (format!("seed {seed}"), engine(Some(DegreesByChance::policy(seed)))));
    fixed.chain(drawn).collect()
}

fn tpch() -> Arc<ColumnSnapshot> {
    Arc::new(ColumnSnapshot::new("as loaded", tpch::tables().map(Arc::new)))
}

#[test]
fn the_queries_of_tpch_have_the_same_answers_at_every_degree() {
    let snapshot = tpch();
    let serial = engine(None);
    let engines = engines();
    for query in &QUERIES {
        let sql = query.validation_sql(SCALE);
        let expect = answer(&serial, &snapshot, &sql, false);
        for (name, engine) in &engines {
            assert_eq!(answer(engine, &snapshot, &sql, false), expect, "{} by {name}", query.name);
        }
    }
    for (name, engine) in &engines {
        let unknown = engine.parallelism().unwrap().unknown;
        assert!(
            unknown.is_empty(),
            "{name}: every plan of TPC-H can be cut into pipelines, but not those with {unknown:?}"
        );
    }
}

/// The number of each of our own operators in a plan.
fn own_operators(plan: &str) -> [usize; 2] {
    ["ArrayAggregateExec", "KeyBitmapExec"].map(|name| plan.matches(name).count())
}

#[test]
fn pipelines_have_the_engines_own_operators_wherever_the_planner_has_them() {
    let snapshot = tpch();
    let mut all = [0, 0];
    for degree in [1, 2, 4] {
        let options = QueryOptions { dop: degree, workers: 2, ..QueryOptions::default() };
        let planner = QueryEngine::new(options.clone()).unwrap();
        let parallelism = parallelism_policy(&format!("static({degree})"));
        let pipelines = QueryEngine::new(QueryOptions { parallelism, ..options }).unwrap();
        for query in &QUERIES {
            let sql = query.validation_sql(SCALE);
            let expect = planner.explain(&snapshot, &sql, None).unwrap();
            let had = pipelines.explain(&snapshot, &sql, None).unwrap();
            assert!(had.contains("MeterExec"), "the plan that runs is shown:\n{had}");
            let [arrays, bitmaps] = own_operators(&expect);
            assert_eq!(own_operators(&had), [arrays, bitmaps], "{} at {degree}:\n{expect}\n{had}", query.name);
            all = [all[0] + arrays, all[1] + bitmaps];
        }
    }
    assert!(all[0] >= 6 && all[1] >= 30, "TPC-H has many of them: {all:?}");
}

#[test]
fn the_threads_of_an_aggregation_in_arrays_are_its_scans_pipeline() {
    let snapshot = tpch();
    let engine = engine(parallelism_policy("static(4)"));
    let sql = QUERIES.iter().find(|query| query.name == "q1").unwrap().validation_sql(SCALE);
    let plan = engine.explain(&snapshot, &sql, None).unwrap();
    assert!(plan.contains("ArrayAggregateExec") && !plan.contains("RepartitionExec"), "{plan}");
    let learning = self::engine(parallelism_policy("adaptive"));
    for _ in 0..3 {
        answer(&learning, &snapshot, &sql, false);
    }
    let figures = learning.parallelism().unwrap();
    assert_eq!(figures.templates[0].pipelines, "lineitem, array aggregate, sort");
}

#[test]
fn adaptive_degrees_give_the_same_answers_and_settle() {
    let snapshot = tpch();
    let (serial, adaptive) = (engine(None), {
        let options = QueryOptions { dop: 4, workers: 2, ..QueryOptions::default() };
        let parallelism = parallelism_policy("adaptive");
        QueryEngine::new(QueryOptions { parallelism, query_threads: QueryThreads::Own, ..options }).unwrap()
    });
    let queries: Vec<_> = QUERIES.iter().filter(|query| ["q1", "q6", "q14"].contains(&query.name)).collect();
    let asked: Vec<_> = queries.iter().map(|query| query.validation_sql(SCALE)).collect();
    let expect: Vec<_> = asked.iter().map(|sql| answer(&serial, &snapshot, sql, false)).collect();
    // Three clients at the same time, which also differ in their literals.
    std::thread::scope(|scope| {
        for client in 0..3 {
            let (asked, expect, snapshot, adaptive) = (&asked, &expect, &snapshot, &adaptive);
            scope.spawn(move || {
                for run in 0..60 {
                    let place = (client + run) % asked.len();
                    assert_eq!(answer(adaptive, snapshot, &asked[place], false), expect[place], "run {run}");
                }
            });
        }
    });
    let figures = adaptive.parallelism().unwrap();
    assert_eq!((figures.templates.len(), figures.once), (3, 0), "{figures:?}");
    for template in &figures.templates {
        let runs: u64 = template.searches.iter().map(|search| search.runs).sum();
        assert_eq!(runs, 59, "all but the first of 60 runs are learned from: {template:?}");
    }
    assert_eq!(adaptive.thread_ids().len(), 6, "each of three queries has two threads of its own");
}

/// Three chunks and a bit; every seventh name is missing, and `part` has few values.
fn ships() -> Arc<ColumnSnapshot> {
    let rows = 200_000_i64;
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let parts: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).map(|id| id * 7919 % 1009)));
    let names: ArrayRef =
        Arc::new(StringViewArray::from_iter((0..rows).map(|id| (id % 7 != 0).then(|| format!("ship {}", id % 5003)))));
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("part", DataType::Int64, false),
        Field::new("name", DataType::Utf8View, true),
    ]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![ids, parts, names]).unwrap();
    let table = ColumnTable::build("ship", schema, vec![vec![0]], vec![batch]).unwrap();
    Arc::new(ColumnSnapshot::new("as loaded", [Arc::new(table)]))
}

/// Shapes of plans that TPC-H lacks or hides behind others, and whether the order of rows is said.
const SHAPES: [(&str, bool); 24] = [
    ("select count(*), sum(id), min(name), max(name), avg(part) from ship where part < 500", true),
    ("select part, count(*), sum(id) from ship group by part", false),
    ("select part, name, count(*) from ship group by part, name having count(*) > 1", false),
    ("select count(distinct part), count(distinct name) from ship", true),
    ("select distinct part from ship where id > 100000", false),
    ("select id from ship where part = 17 order by id", true),
    ("select name, id from ship order by name desc nulls last, id limit 23", true),
    ("select part, max(id) as last from ship group by part order by last desc limit 7", true),
    ("select id from ship where part < 3 order by id limit 5 offset 3", true),
    ("select count(*) from (select id from ship where part < 900 limit 1234) few", true),
    ("select count(*), sum(a.id) from ship a join ship b on a.id = b.part", true),
    ("select count(*), count(b.name) from ship a left join ship b on a.part = b.id and b.name is not null", true),
    (
        "select count(*), count(a.id) from (select * from ship where part < 5) a right join ship b on a.part = b.id",
        true,
    ),
    (
        "select count(*), count(a.id), count(b.id) from (select * from ship where id < 90000) a full join (select * from ship where id > 70000) b on a.id = b.id",
        true,
    ),
    ("select count(*) from ship where part in (select id from ship where name = 'ship 12')", true),
    ("select count(*) from ship where name not in (select name from ship where part = 3 and name is not null)", true),
    ("select count(*) from ship where name not in (select name from ship where part = 3)", true),
    ("select count(*) from ship a where not exists (select 1 from ship b where b.part = a.id)", true),
    (
        "select count(*) from ship where id > (select avg(id) from ship) and part < (select max(part) / 2 from ship)",
        true,
    ),
    ("select count(*) from ship a, (select * from ship where id < 40) b where a.id < b.part", true),
    ("select count(*) from (select id from ship where part = 1) a, (select id from ship where part = 2) b", true),
    ("select sum(place * id) from (select id, row_number() over (order by part, id) as place from ship)", true),
    ("select sum(running) from (select sum(id) over (partition by part order by id) as running from ship)", true),
    ("select part from ship group by rollup (part) order by part nulls first limit 3", true),
];

#[test]
fn other_shapes_have_the_same_answers_at_every_degree() {
    let snapshot = ships();
    let serial = engine(None);
    let engines = engines();
    for (sql, is_ordered) in SHAPES {
        let expect = answer(&serial, &snapshot, sql, is_ordered);
        assert!(!expect.is_empty(), "{sql}");
        for (name, engine) in &engines {
            assert_eq!(answer(engine, &snapshot, sql, is_ordered), expect, "{sql} by {name}");
        }
    }
    let unknown = engines[3].1.parallelism().unwrap().unknown;
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn a_plan_that_cannot_be_cut_runs_at_one_degree_and_is_counted() {
    let (snapshot, engine) = (ships(), engine(parallelism_policy("static(4)")));
    let sql = "select count(*) from (select id from ship where part = 1 union all select part from ship where id < 10)";
    for run in 1..=3 {
        assert_eq!(answer(&engine, &snapshot, sql, true), answer(&self::engine(None), &snapshot, sql, true));
        let unknown = engine.parallelism().unwrap().unknown;
        assert_eq!(unknown.values().sum::<u64>(), run, "{unknown:?}");
        assert!(unknown.contains_key("UnionExec"), "{unknown:?}");
    }
}

#[test]
fn errors_of_queries_are_the_same_and_nothing_is_learned_from_them() {
    let (snapshot, engine) = (ships(), engine(parallelism_policy("adaptive")));
    for sql in ["selec 1", "select id from boat", "select 'open"] {
        assert!(matches!(engine.query(&snapshot, sql, None), Err(QueryError::Plan(_))), "{sql}");
    }
    for _ in 0..3 {
        let error = engine.query(&snapshot, "select sum(1 / (id - 150000)) from ship", None).unwrap_err();
        assert!(matches!(&error, QueryError::Execute(message) if message.contains("division by zero")), "{error}");
    }
    let figures = engine.parallelism().unwrap();
    assert!(figures.templates.iter().all(|template| template.searches.iter().all(|search| search.runs == 0)));
    assert_eq!(answer(&engine, &snapshot, "select count(*) from ship", true), ["200000"]);
}

#[test]
fn a_memory_grant_holds_at_every_degree() {
    let snapshot = ships();
    let sql =
        "select count(*), sum(total) from (select name, id % 100003 as rest, sum(id) as total from ship group by 1, 2)";
    let expect = answer(&engine(None), &snapshot, sql, true);
    for degree in [1, 2, 5, 8, 16] {
        let parallelism = parallelism_policy(&format!("static({degree})"));
        let options =
            QueryOptions { dop: 16, workers: 2, memory_grant_mib: Some(4), parallelism, ..QueryOptions::default() };
        match QueryEngine::new(options).unwrap().query(&snapshot, sql, None) {
            Ok(output) => {
                assert_eq!(rows(&output.batches), expect, "at {degree}");
                assert!(output.usage.spilled_bytes > 0, "so many groups do not fit 4 MiB, at {degree}");
            }
            Err(error) => assert!(matches!(error, QueryError::Grant { .. }), "at {degree}: {error}"),
        }
    }
}
