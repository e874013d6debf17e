//! Joins with bitmaps of their keys give the answers of DataFusion without.

use arrow::array::{ArrayRef, Int32Array, Int64Array};
use datafusion::prelude::SessionContext;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;
use crate::columns::{ColumnSnapshot, ColumnTable};
use crate::query::printed::sorted_rows;
use crate::query::stock::Stock;
use crate::query::{BATCH_ROWS, QueryEngine, QueryOptions};

/// A number of rows with a key that may be null, an integer of half its size, and a plain one.
fn batch(rows: usize, keys: std::ops::Range<i64>, random: &mut Pcg64) -> RecordBatch {
    let key = |random: &mut Pcg64| random.random_bool(0.9).then(|| random.random_range(keys.clone()));
    let keys: Vec<Option<i64>> = (0..rows).map(|_| key(random)).collect();
    let small: ArrayRef = Arc::new(Int32Array::from_iter(keys.iter().map(|key| key.map(|key| key as i32 / 2))));
    let plain: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows as i64).map(|row| row % 100)));
    let keys: ArrayRef = Arc::new(Int64Array::from(keys));
    RecordBatch::try_from_iter_with_nullable([("key", keys, true), ("small", small, true), ("n", plain, false)])
        .unwrap()
}

const JOINS: [(&str, bool); 7] = [
    ("select v.n, s.n, v.key from voyage v, ship s where v.key = s.key and s.n < 30", true),
    ("select v.n, s.n from voyage v, ship s where v.small = s.small and s.n = 7", true),
    ("select n, key from voyage where key in (select key from ship where n < 20)", true),
    ("select v.n, s.n from voyage v right join ship s on v.key = s.key and v.n > 50 where s.n < 3", true),
    (
        "select v.n, s.n, p.n from voyage v, ship s, ship p where v.key = s.key and v.small = p.small and s.n < 9 and p.n < 3",
        true,
    ),
    ("select n, key from voyage where key not in (select key from ship where n < 20 and key is not null)", false),
    ("select v.n, s.n from voyage v, ship s where v.key + 1 = s.key and s.n < 20", false),
];

#[test]
fn answers_are_those_of_hash_tables_alone() {
    for seed in 0..8 {
        let mut random = Pcg64::seed_from_u64(seed);
        let start = random.random_range(-5_000..5_000);
        let voyages = batch(20_000, start..start + 3_000, &mut random);
        let ships = batch(1_000, start - 500..start + 2_000, &mut random);
        let stock = Stock::new(SessionContext::new());
        let mut tables = Vec::new();
        for (name, batch) in [("voyage", voyages), ("ship", ships)] {
            stock.register(name, vec![batch.clone()]);
            tables.push(Arc::new(ColumnTable::build(name, batch.schema(), vec![], vec![batch]).unwrap()));
        }
        let snapshot = Arc::new(ColumnSnapshot::new("as loaded", tables));
        for (sql, has_bits) in JOINS {
            let expect = stock.sorted_rows(sql);
            for dop in [1, 3] {
                let batch_rows = if seed % 2 == 0 { 500 } else { BATCH_ROWS };
                let options = QueryOptions { dop, workers: 2, batch_rows, ..QueryOptions::default() };
                let engine = QueryEngine::new(options).unwrap();
                let plan = engine.explain(&snapshot, sql, None).unwrap();
                assert_eq!(plan.contains("KeyBitmapExec"), has_bits, "{sql}:\n{plan}");
                let output = engine.query(&snapshot, sql, None).unwrap();
                assert_eq!(sorted_rows(&output.batches), expect, "seed {seed}, degree {dop}: {sql}\n{plan}");
            }
        }
    }
}

#[test]
fn bits_are_published_at_the_end_and_only_if_all_keys_came() {
    let bits = |first, count| Arc::new(KeyBits { expression_id: 1, first, count, bits: OnceLock::new() });
    let run = |bits: &Arc<KeyBits>, batches: Vec<Result<RecordBatch>>| {
        let keys: ArrayRef = Arc::new(Int64Array::from(Vec::<i64>::new()));
        let schema = RecordBatch::try_from_iter_with_nullable([("key", keys, true)]).unwrap().schema();
        let input = futures::stream::iter(batches);
        let input = datafusion::physical_plan::stream::RecordBatchStreamAdapter::new(schema, input);
        let mut set = BooleanBufferBuilder::new(bits.count);
        set.append_n(bits.count, false);
        let memory = MemoryConsumer::new("test").register(TaskContext::default().memory_pool());
        let metrics = BaselineMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
        let setting = Some(Setting { set, memory });
        let stream = KeyStream { input: Box::pin(input), key: 0, bits: Arc::clone(bits), setting, metrics };
        futures::executor::block_on(stream.collect::<Vec<_>>()).len()
    };
    let keys = |keys: Vec<Option<i64>>| {
        let keys: ArrayRef = Arc::new(Int64Array::from(keys));
        Ok(RecordBatch::try_from_iter_with_nullable([("key", keys, true)]).unwrap())
    };
    let complete = bits(-2, 5);
    assert_eq!(run(&complete, vec![keys(vec![Some(-2), None, Some(7)]), keys(vec![Some(2), Some(i64::MIN)])]), 2);
    assert_eq!(complete.get().unwrap().iter().collect::<Vec<_>>(), [true, false, false, false, true]);
    let broken = bits(0, 5);
    run(&broken, vec![keys(vec![Some(1)]), internal_err!("a disk broke"), keys(vec![Some(2)])]);
    assert!(broken.get().is_none());
}
