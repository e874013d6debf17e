//! Snapshots reuse the overlays of earlier ones: extended by the changes since, an overlay equals one made anew.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;
use crate::clock::MonotonicClock;
use crate::columns::Overlay;
use crate::delta::batch::Image;
use crate::delta::overlay::{LazyOverlay, Reading};
use crate::delta::segment::Segment;
use crate::table::heap::Heap;

const BRANCH: usize = 1;

/// Sets of columns that queries read: more than are kept, so that some overlays lag behind.
const READ: [&[usize]; 5] = [&[BALANCE], &[BRANCH, BALANCE], &[NOTE], &[0, BRANCH, BALANCE, NOTE], &[]];

/// Changes of a chunk at random.
struct Writer {
    random: Pcg64,
    heap: Heap,
    there: BTreeSet<u32>,
    gauge: Arc<AtomicU64>,
}

impl Writer {
    fn new(seed: u64) -> Self {
        let (random, heap) = (Pcg64::seed_from_u64(seed), Heap::new(layouts().remove(ACCOUNT).0));
        Writer { random, heap, there: (0..ACCOUNTS as u32).collect(), gauge: Arc::default() }
    }

    /// Pushes a row with other values, of which these columns are written; `None` deletes the row.
    fn push(&mut self, segment: &mut Segment, position: u32, columns: Option<ColumnSet>) {
        let mut words = Vec::new();
        if let Some(columns) = columns {
            let row = self.heap.allocate();
            let note = format!("note {}", self.random.random_range(0..1000));
            let (branch, balance) = (self.random.random_range(0..100), self.random.random_range(-500..500));
            let values = [Value::Int(position.into()), Value::Int(branch), Value::Int(balance), Value::Text(&note)];
            self.heap.write(row, &values);
            self.heap.image(row, columns, &mut words);
        }
        segment.push(position, Image::new(columns.unwrap_or_default(), &words));
    }

    /// Pushes this number of changes, most of them new numbers.
    fn segment(&mut self, count: usize) -> Segment {
        let mut segment = Segment::new(Duration::ZERO, &self.gauge);
        for _ in 0..count {
            let position = self.random.random_range(0..ACCOUNTS as u32 + 1);
            let is_there = self.there.contains(&position);
            let columns = match self.random.random_range(0..100) {
                _ if !is_there => Some(ColumnSet::ALL),
                0..3 => None,
                3..8 => Some(ColumnSet::one(NOTE)),
                8..30 => Some([BRANCH, BALANCE].into_iter().collect()),
                30..40 => Some(ColumnSet::one(BRANCH)),
                _ => Some(ColumnSet::one(BALANCE)),
            };
            self.push(&mut segment, position, columns);
            match columns {
                Some(_) => self.there.insert(position),
                None => self.there.remove(&position),
            };
        }
        segment
    }
}

fn reading() -> Arc<Reading> {
    let (layout, schema) = layouts().remove(ACCOUNT);
    Arc::new(Reading { layout, schema, meter: Arc::default(), clock: Arc::new(MonotonicClock::default()) })
}

fn entries(overlay: &LazyOverlay, columns: &[usize]) -> Option<usize> {
    overlay.chunk(0, columns).unwrap().map(|overlay| overlay.entries)
}

/// Takes snapshots of a growing delta, each with the overlays of the one before. Returns the number of rows looked at,
/// and the number if everything is made anew.
fn take_snapshots(seed: u64) -> [u64; 2] {
    let mut writer = Writer::new(seed);
    let schema = layouts().remove(ACCOUNT).1;
    let table = Arc::new(ColumnTable::build("account", schema, vec![], vec![accounts(0..ACCOUNTS)]).unwrap());
    let [kept, anew] = [reading(), reading()];
    let mut changes = BTreeMap::from([(0, ChunkDelta::default())]);
    let mut before: Option<Arc<LazyOverlay>> = None;
    let mut count = 60;
    for step in 0..60 {
        let segment = writer.segment(count);
        changes.get_mut(&0).unwrap().push(segment);
        let next = Arc::new(LazyOverlay::new(&kept, &table, &changes, before.as_deref()));
        let fresh = Arc::new(LazyOverlay::new(&anew, &table, &changes, None));
        let shown = |overlay: &Arc<LazyOverlay>, columns: &[usize]| {
            let overlay = Arc::clone(overlay) as Arc<dyn Overlay>;
            let batches = super::read(&SnapshotTable::new(Arc::clone(&table), Some(overlay)), columns);
            (batches.iter().map(RecordBatch::num_rows).sum::<usize>(), sorted_rows(&batches))
        };
        for _ in 0..3 {
            // The first sets more often, so that they are kept.
            let [one, other] = [(); 2].map(|()| writer.random.random_range(0..READ.len()));
            let columns = READ[one.min(other)];
            assert!(shown(&next, columns) == shown(&fresh, columns), "seed {seed}, step {step}, {columns:?}");
            assert_eq!(entries(&next, columns), entries(&fresh, columns), "seed {seed}, step {step}, {columns:?}");
        }
        (before, count) = (Some(next), writer.random.random_range(0..4));
    }
    [kept, anew].map(|reading| reading.meter.tuples.load(Ordering::Relaxed))
}

#[test]
fn an_extended_overlay_is_the_one_that_would_be_made_anew() {
    let [mut kept, mut anew] = [0, 0];
    for seed in 0..50 {
        let rows = take_snapshots(seed);
        (kept, anew) = (kept + rows[0], anew + rows[1]);
    }
    assert!(kept < anew * 3 / 4, "{kept} rows of {anew}: too little is extended");
}

/// Reads these columns of a snapshot's accounts; returns the number of rows merged for that.
fn merge(set: &TableSet, snapshot: &ColumnSnapshot, columns: &[usize]) -> u64 {
    let before = set.freshness().unwrap().merged;
    drop(super::read(snapshot.version("account").unwrap(), columns));
    set.freshness().unwrap().merged - before
}

#[test]
fn a_snapshot_merges_what_the_one_before_has_not() {
    let engine = Engine::new(EngineOptions::default());
    let set = loaded(&engine, &DeltaOptions { propagation: Propagation::Paused, ..DeltaOptions::default() });
    let account = number(&set, ACCOUNT);
    let pay = |from, to| commit(&engine, |connection| transfer(connection, account, from, to, 1));
    (0..ACCOUNTS / 2).for_each(|id| pay(id, ACCOUNTS - 1 - id));
    let first = set.snapshot();
    assert_eq!(merge(&set, &first, &[BALANCE]), ACCOUNTS as u64);
    assert_eq!(merge(&set, &first, &[BALANCE]), 0, "it is made once");
    pay(1, 2);
    let second = set.snapshot();
    assert_eq!(merge(&set, &second, &[BALANCE]), 2);
    assert_eq!([BRANCH, NOTE].map(|column| merge(&set, &second, &[column])), [0, 0], "only balances have changed");
    assert_eq!(merge(&set, &second, &[]), 0, "no row came or went");
    drop((first, second));
    // After a fold no overlay can be extended.
    pay(1, 2);
    set.refresh().unwrap();
    pay(3, 4);
    assert_eq!(merge(&set, &set.snapshot(), &[BALANCE]), 2);
}
