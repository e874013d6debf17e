//! Names that a plan has twice: answers are those of DataFusion when it pushes no condition down a plan of operators.

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::SessionContext;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;
use crate::columns::{ColumnSnapshot, ColumnTable};
use crate::query::printed::sorted_rows;
use crate::query::stock::Stock;
use crate::query::{QueryEngine, QueryOptions};

fn batch(rows: usize, random: &mut Pcg64) -> RecordBatch {
    let mut numbers = |end: i64| -> Vec<Option<i64>> {
        (0..rows).map(|_| random.random_bool(0.9).then(|| random.random_range(0..end))).collect()
    };
    let (k, m, n) = (numbers(60), numbers(40), numbers(100));
    let small: ArrayRef = Arc::new(Int32Array::from_iter(m.into_iter().map(|m| m.map(|m| m as i32))));
    let columns =
        [("k", Arc::new(Int64Array::from(k)) as ArrayRef), ("m", small), ("n", Arc::new(Int64Array::from(n)))];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

const QUERIES: [&str; 8] = [
    // A join on an expression, which the planner computes below it and drops above it, where both inputs have a `k`.
    "select r.n, r.k from ship l right join (select m as k, n from port) r on l.k = r.k where l.k is null",
    "select l.n, r.n from ship l full join (select m as k, n from port) r on l.k = r.k where l.k is null or r.k = 3",
    // The key of a semi join has the name of another column on the other side.
    "select l.n from ship l join crew c on l.k = c.k where c.n < 60 and exists (select 1 from port p where p.n = l.k and p.k = l.m)",
    "select l.n from ship l join crew c on l.n = c.n where c.k < 30 and l.n in (select k from port where n > 20)",
    // A union whose branches use the names otherwise.
    "select u.k, u.n, c.m from (select k, n from ship union all select n, k from port) u join crew c on u.k = c.k where c.n < 40",
    "select k, n from (select k, n from ship union all select n as k, k as n from port) u order by k desc nulls last, n limit 9",
    // An order by one of two columns of a name, and groups by the other one.
    "select l.k, r.k, l.n from ship l join port r on l.n = r.n order by r.k, l.k, l.n limit 7",
    "select r.k, count(*) from ship l join port r on l.n = r.n group by r.k, l.k having r.k < 5",
];

#[test]
fn conditions_reach_no_other_column_of_the_name() {
    for seed in 0..8 {
        let mut random = Pcg64::seed_from_u64(seed);
        let mut rules = PhysicalOptimizer::new().rules;
        rules.retain(|rule| !rule.name().starts_with("FilterPushdown"));
        let state = SessionStateBuilder::new().with_default_features().with_physical_optimizer_rules(rules).build();
        let (stock, mut tables) = (Stock::new(SessionContext::new_with_state(state)), Vec::new());
        for (name, rows) in [("ship", 900), ("port", 400), ("crew", 50)] {
            let batch = batch(rows, &mut random);
            stock.register(name, vec![batch.clone()]);
            tables.push(Arc::new(ColumnTable::build(name, batch.schema(), vec![], vec![batch]).unwrap()));
        }
        let snapshot = Arc::new(ColumnSnapshot::new("as loaded", tables));
        for sql in QUERIES {
            let expect = stock.sorted_rows(sql);
            assert!(!expect.is_empty(), "{sql}");
            for dop in [1, 3] {
                let engine = QueryEngine::new(QueryOptions { dop, workers: 2, ..QueryOptions::default() }).unwrap();
                let had = engine.query(&snapshot, sql, None).unwrap();
                assert_eq!(sorted_rows(&had.batches), expect, "seed {seed}, dop {dop}: {sql}");
            }
        }
    }
}
