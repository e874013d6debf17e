//! Which runs load data, depending on the changes by earlier runs.

use std::borrow::Cow;
use std::sync::atomic::AtomicBool;

use plimsoll_workload::benchmark::{CheckLine, Client};

use super::*;
use crate::plan::PlannedWorkload;
use crate::runner::tests::watched::Watched;

static SHOP: Schema = Schema { name: Cow::Borrowed("shop"), tables: &[] };
static HALL: Schema = Schema { name: Cow::Borrowed("hall"), tables: &[] };

/// A benchmark that is loaded, and whose runs are only recorded.
struct RecordedBenchmark {
    schema: &'static Schema,
    writes: Writes,
    refuses: bool,
}

impl Benchmark for RecordedBenchmark {
    fn name(&self) -> &'static str {
        "made"
    }

    fn schema(&self) -> &'static Schema {
        self.schema
    }

    fn data(&self) -> String {
        self.schema.name.to_string()
    }

    fn writes(&self) -> Writes {
        self.writes
    }

    fn transactions(&self) -> Vec<&str> {
        Vec::new()
    }

    fn is_analytical(&self) -> bool {
        false
    }

    fn estimated_bytes(&self) -> u64 {
        0
    }

    fn load(&self, database: &dyn Database, progress: &LoadProgress<'_>) -> Result<(), LoadError> {
        if self.refuses {
            return Err(DatabaseError::Failed("disk full".to_owned()).into());
        }
        database.create(self.schema)?;
        progress.step(1, 1, "table")
    }

    fn client(&self, _: usize, _: u64) -> Box<dyn Client> {
        unreachable!("nothing is driven here")
    }

    fn check(&self, _: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
        Ok(Vec::new())
    }
}

/// Workloads named after the positions of their benchmarks.
fn setting(count: usize) -> Setting {
    let workload = |number: usize| PlannedWorkload {
        name: number.to_string(),
        kind: "made".to_owned(),
        scale: 1.0,
        parameters: BTreeMap::new(),
        clients: Default::default(),
    };
    Setting { url: "memory:".to_owned(), workloads: (0..count).map(workload).collect(), ..Setting::default() }
}

/// Runs arms one after the other; returns the workloads that were loaded before each.
fn loads(benchmarks: Vec<RecordedBenchmark>, reload: Reload, arms: &[&[usize]]) -> Vec<String> {
    let benchmarks: Vec<Arc<dyn Benchmark>> = benchmarks.into_iter().map(|made| Arc::new(made) as _).collect();
    let targets = Watched::default();
    let mut store = Store::new(&targets);
    let stop = AtomicBool::new(false);
    let run = |arm: &&[usize]| {
        let mut loaded = String::new();
        let mut progress = |progress: RunProgress<'_>| {
            if let RunProgress::Loading { workload, .. } = progress {
                loaded.push_str(workload);
            }
        };
        let mut watch = Watch { progress: &mut progress, keep: &mut |_| Ok(()), stop: &stop, elapsed_s: &|| 0.0 };
        let prepared = store.prepare(&setting(benchmarks.len()), &benchmarks, arm, reload, &mut watch);
        prepared.unwrap_or_else(|error| panic!("{error}"));
        arm.iter().for_each(|member| store.has_run(benchmarks[*member].as_ref()));
        loaded
    };
    arms.iter().map(run).collect()
}

fn made(schema: &'static Schema, writes: Writes) -> RecordedBenchmark {
    RecordedBenchmark { schema, writes, refuses: false }
}

#[test]
fn data_is_loaded_anew_by_what_was_written_and_what_was_asked() {
    let check = |reload, writes, expect: [&str; 3]| {
        assert_eq!(loads(vec![made(&SHOP, writes)], reload, &[&[0][..]; 3]), expect, "{reload:?} {writes:?}");
    };
    let (once, always) = (["0", "", ""], ["0"; 3]);
    check(Reload::WhenGrown, Writes::Nothing, once);
    check(Reload::WhenGrown, Writes::InPlace, once);
    check(Reload::WhenGrown, Writes::Grows, always);
    check(Reload::WhenWritten, Writes::Nothing, once);
    check(Reload::WhenWritten, Writes::InPlace, always);
    check(Reload::WhenWritten, Writes::Grows, always);
    check(Reload::Never, Writes::Nothing, once);
    check(Reload::Never, Writes::Grows, once);
}

#[test]
fn only_a_run_that_uses_grown_data_loads_it() {
    let benchmarks = || vec![made(&SHOP, Writes::Grows), made(&HALL, Writes::Nothing)];
    let arms: [&[usize]; 7] = [&[1], &[0], &[1], &[1], &[0, 1], &[1], &[0]];
    assert_eq!(loads(benchmarks(), Reload::WhenGrown, &arms), ["1", "0", "", "", "0", "", "0"]);
}

#[test]
fn a_reader_of_data_that_another_workload_made_grow_finds_it_as_loaded() {
    let benchmarks = || vec![made(&SHOP, Writes::Grows), made(&SHOP, Writes::Nothing)];
    let arms: [&[usize]; 5] = [&[0], &[1], &[1], &[0, 1], &[1]];
    assert_eq!(loads(benchmarks(), Reload::WhenGrown, &arms), ["0", "1", "", "", "1"]);
}

#[test]
fn what_stops_or_refuses_is_told() {
    let check = |refuses: bool, expect: &str| {
        let benchmarks: Vec<Arc<dyn Benchmark>> =
            vec![Arc::new(RecordedBenchmark { refuses, ..made(&SHOP, Writes::Nothing) })];
        // After Ctrl-C an error is most likely that of a statement that was cancelled.
        let stop = AtomicBool::new(!refuses);
        let mut watch = Watch { progress: &mut |_| {}, keep: &mut |_| Ok(()), stop: &stop, elapsed_s: &|| 0.0 };
        let targets = Watched::default();
        let mut store = Store::new(&targets);
        let error = store.prepare(&setting(1), &benchmarks, &[0], Reload::Never, &mut watch).expect_err(expect);
        assert_eq!(error.to_string(), expect);
    };
    check(false, "stopped while loading");
    check(true, "loading 0: disk full");
}
