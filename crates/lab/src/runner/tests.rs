//! Plans that are run, on databases in memory and with windows of some milliseconds.

mod growth;
mod inputs;
mod limits;
mod lost;
mod others;
mod pilot;
mod selection;
mod sensed;
mod server;
mod until_decided;
pub(super) mod watched;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use super::order::order;
use super::*;
use crate::experiment::{Terms, parse, resolve};
use crate::limits::NoLimits;
use watched::{Operations, Watched};

/// Two workloads with tables of their own, over two degrees of parallelism: (2 settings + A/A) x 3 arms x 2 repeats.
const TWO: &str = r#"
name = "two"
[target]
url = "memory:"
[[workload]]
name = "ints"
kind = "rows"
scale = 0.001
[[workload]]
name = "texts"
kind = "rows"
scale = 0.001
parameters = { columns = "text", updates = 1.0 }
[sweep]
dop = [1, 2]
[run]
others_max = 1000
warmup = "0s"
measure = "10ms"
repeats = 2
"#;

fn plan(text: &str, targets: &Watched) -> Plan {
    let resolved = parse(text, "x.toml").and_then(|experiment| resolve(&experiment, &Terms::here(targets, false)));
    resolved.unwrap_or_else(|error| panic!("{error}"))
}

/// Runs the rest of a plan; stops it after `most` further runs.
fn go_on(plan: &Plan, targets: &Watched, only: &str, done: Vec<RunRecord>, most: usize) -> Result<Outcome, RunError> {
    let selection = Selection::parse(only, plan).expect("it selects something");
    let (stop, kept) = (AtomicBool::new(most == 0), Cell::new(0));
    let mut keep = |_: &RunRecord| {
        kept.set(kept.get() + 1);
        stop.store(kept.get() >= most, Ordering::Relaxed);
        Ok(())
    };
    let mut watch = Watch { progress: &mut |_| {}, keep: &mut keep, stop: &stop, elapsed_s: &|| 0.0 };
    let outcome = Runner::new(plan, targets, &mut NoLimits).run(&selection, done, &mut watch)?;
    assert!(outcome.records.len() >= kept.get());
    Ok(outcome)
}

/// Runs all of a plan.
fn run(text: &str) -> (Plan, Vec<RunRecord>, Operations) {
    let targets = Watched::default();
    let plan = plan(text, &targets);
    let outcome = go_on(&plan, &targets, "", Vec::new(), usize::MAX).unwrap_or_else(|error| panic!("{error}"));
    assert!(!outcome.stopped && outcome.left == 0);
    (plan, outcome.records, targets.seen())
}

fn ids(records: &[RunRecord]) -> Vec<RunId> {
    records.iter().map(|record| record.id).collect()
}

/// How often neighbours differ in the value of `of`.
fn changes<T: PartialEq>(records: &[RunRecord], of: impl Fn(&RunRecord) -> T) -> usize {
    records.windows(2).filter(|pair| of(&pair[0]) != of(&pair[1])).count()
}

#[test]
fn every_arm_of_every_setting_leaves_a_record_for_each_repeat() {
    let (plan, records, seen) = run(TWO);
    let found: BTreeSet<RunId> = ids(&records).into_iter().collect();
    let mut expect = BTreeSet::new();
    for repeat in [1, 2] {
        for arm in 0..3 {
            expect.extend([0, 1].map(|setting| RunId { setting, arm, repeat, is_again: false }));
            expect.insert(RunId { setting: 0, arm, repeat, is_again: true });
        }
    }
    assert_eq!((records.len(), &found), (18, &expect));
    assert_eq!(plan.run_count(), 18);
    assert!(ids(&records).is_sorted_by_key(|id| id.repeat), "block after block");
    for record in &records {
        let (id, point) = (record.id, &record.point);
        assert_eq!(point.setting, plan.setting(id.setting).swept);
        assert_eq!((&point.arm, point.repeat, point.is_again), (&plan.arms[id.arm].name, id.repeat, id.is_again));
        let names: Vec<&str> = point.workloads.iter().map(|result| result.name.as_str()).collect();
        let members = plan.arms[id.arm].members.iter().map(|member| plan.base.workloads[*member].name.as_str());
        assert_eq!(names, members.collect::<Vec<_>>());
        assert_eq!(point.window_s, 0.01);
        assert_eq!(record.histograms.len(), names.len());
        for (result, histograms) in point.workloads.iter().zip(&record.histograms) {
            assert_eq!(result.all.completed, histograms.all().map_or(0, |all| all.len()));
        }
    }
    // Options that are changed in place leave the database open, and runs without growing data need no reload.
    assert_eq!((seen.opened, seen.loaded), (1, [("rows_bigint".to_owned(), 1), ("rows_text".to_owned(), 1)].into()));
}

#[test]
fn of_one_setting_the_fullest_arm_runs_twice() {
    let (plan, records, _) = run(&TWO.replace("dop = [1, 2]", "dop = [1]"));
    assert_eq!((records.len(), plan.run_count()), (8, 8));
    let again = records.iter().filter(|record| record.id.is_again).map(|record| record.point.arm.as_str());
    assert_eq!(again.collect::<Vec<_>>(), ["together", "together"], "once more in each block");
    let only = TWO.replace("dop = [1, 2]", "dop = [1]").replace("[target]", "arms = [\"together\"]\n[target]");
    let (plan, records, _) = run(&only);
    assert_eq!((records.len(), plan.run_count()), (2, 2), "there is nothing to compare it with");
}

#[test]
fn a_runner_goes_on_with_what_another_has_opened() {
    let targets = Watched::default();
    let plan = plan(&TWO.replace("dop = [1, 2]", "dop = [1]"), &targets);
    let stop = AtomicBool::new(false);
    let mut opened = OpenedDatabase::default();
    for _ in 0..2 {
        let mut watch = Watch { progress: &mut |_| {}, keep: &mut |_| Ok(()), stop: &stop, elapsed_s: &|| 0.0 };
        let mut limits = NoLimits;
        let mut runner = Runner::new(&plan, &targets, &mut limits).with_opened(opened);
        runner.run(&Selection::default(), Vec::new(), &mut watch).unwrap_or_else(|error| panic!("{error}"));
        opened = runner.into_opened();
    }
    let seen = targets.seen();
    assert_eq!((seen.opened, seen.loaded), (1, [("rows_bigint".to_owned(), 1), ("rows_text".to_owned(), 1)].into()));
}

#[test]
fn blocks_interleave_and_equal_seeds_give_equal_orders() {
    let ordered = |seed: u64, only: &str| {
        let text =
            TWO.replace("[1, 2]", "[1, 2, 3, 4, 5]").replace("repeats = 2", &format!("repeats = 4\nseed = {seed}"));
        let plan = plan(&text, &Watched::default());
        let settings: Vec<usize> = (0..5).collect();
        let selection = Selection::parse(only, &plan).expect("it selects something");
        order(&plan, &selection, &settings, |_| String::new())
    };
    let runs = ordered(7, "");
    assert_eq!(runs, ordered(7, ""));
    assert_ne!(runs, ordered(8, ""));
    let blocks: Vec<Vec<RunId>> = runs.chunk_by(|a, b| a.repeat == b.repeat).map(<[_]>::to_vec).collect();
    assert_eq!(blocks.len(), 4);
    let cells = |block: &[RunId]| block.iter().map(|id| (id.setting, id.arm, id.is_again)).collect::<Vec<_>>();
    for block in &blocks[1..] {
        assert_ne!(cells(block), cells(&blocks[0]), "each block has an order of its own");
        let [mut one, mut other] = [cells(block), cells(&blocks[0])];
        one.sort_unstable();
        other.sort_unstable();
        assert_eq!(one, other, "and the same runs");
        assert_eq!(one.len(), 18);
    }
    let selected = ordered(7, "dop=1,dop=3,together");
    assert_eq!(selected.len(), 4 * 3);
    assert!(selected.iter().all(|id| id.arm == 2 && [0, 2].contains(&id.setting)));
}

#[test]
fn a_stopped_experiment_goes_on_where_it_was_and_runs_nothing_twice() {
    let targets = Watched::default();
    let plan = plan(TWO, &targets);
    let whole = go_on(&plan, &targets, "", Vec::new(), usize::MAX).expect("it runs").records;
    for count in [0, 1, 5, 9, 10, 17, 18] {
        let stopped = go_on(&plan, &targets, "", Vec::new(), count).expect("it stops");
        assert_eq!((stopped.records.len(), stopped.left, stopped.stopped), (count, 18 - count, count < 18));
        assert_eq!(ids(&stopped.records), ids(&whole)[..count], "the run at hand was finished");
        let resumed = go_on(&plan, &targets, "", stopped.records, usize::MAX).expect("it goes on");
        assert_eq!(ids(&resumed.records), ids(&whole), "after {count}");
    }
}

#[test]
fn a_run_that_cannot_be_kept_ends_the_experiment() {
    let targets = Watched::default();
    let (plan, stop) = (plan(TWO, &targets), AtomicBool::new(false));
    let mut keep = |_: &RunRecord| Err("No space left on device".to_owned());
    let mut watch = Watch { progress: &mut |_| {}, keep: &mut keep, stop: &stop, elapsed_s: &|| 0.0 };
    let error = Runner::new(&plan, &targets, &mut NoLimits)
        .run(&Selection::default(), Vec::new(), &mut watch)
        .expect_err("kept");
    assert_eq!(error.to_string(), "a finished run could not be kept: No space left on device");
}

/// Story: at one value of a sweep no client could connect, or every request failed. The experiment stopped there, and
/// `--resume` drew the same inputs and stopped again. Such a run is invalid with its reason, and the others run.
#[test]
fn a_run_of_which_nothing_works_is_invalid_and_the_experiment_goes_on() {
    let targets = Watched::default();
    let text = TWO.replace("dop = [1, 2]", "policy = [\"sound\", \"broken\", \"refusing\"]");
    let plan = plan(&text, &targets);
    let begun = go_on(&plan, &targets, "alone:texts", Vec::new(), 3).expect("it runs").records;
    let records = go_on(&plan, &targets, "alone:texts", begun, usize::MAX).expect("it goes on").records;
    assert_eq!(records.len(), 8, "three policies, one of them twice (A/A), in two blocks");
    for record in &records {
        let policy = &plan.setting(record.id.setting).options["policy"];
        let expect = match policy.as_str() {
            "broken" => Some("workload texts: client 0 could not connect: no such table"),
            "refusing" => Some(
                "workload texts: the first 100 requests of every client failed, the last one with: \
                 statement rows_update_text: division by zero",
            ),
            _ => None,
        };
        assert_eq!((record.point.valid, record.point.why_invalid.as_deref()), (expect.is_none(), expect), "{policy}");
    }
}

#[test]
fn a_target_that_does_not_open_is_named() {
    let targets = Watched { closed: true, ..Watched::default() };
    let plan = plan(TWO, &targets);
    let error = go_on(&plan, &targets, "", Vec::new(), usize::MAX).expect_err("closed");
    assert_eq!(error.to_string(), "cannot open `memory:`: the door is locked");
}

#[test]
fn progress_tells_what_is_done_and_how_much_is_left() {
    let targets = Watched::default();
    let (plan, stop) = (plan(TWO, &targets), AtomicBool::new(false));
    let (mut loading, mut running) = (BTreeSet::new(), BTreeSet::new());
    let mut progress = |progress: RunProgress<'_>| match progress {
        RunProgress::Loading { workload, done, all } => {
            assert!(done <= all, "{done} of {all}");
            loading.insert(workload.to_owned());
        }
        RunProgress::Running { arm, done, all, .. } => {
            running.insert((done, all, arm.to_owned()));
        }
        RunProgress::Disturbed { .. } => {}
        RunProgress::Counting { .. } | RunProgress::Simulating { .. } => panic!("nothing is simulated"),
    };
    let mut watch = Watch { progress: &mut progress, keep: &mut |_| Ok(()), stop: &stop, elapsed_s: &|| 0.0 };
    let outcome = Runner::new(&plan, &targets, &mut NoLimits)
        .run(&Selection::default(), Vec::new(), &mut watch)
        .expect("it runs");
    assert_eq!(loading, ["ints", "texts"].map(str::to_owned).into());
    for (number, record) in outcome.records.iter().enumerate() {
        assert!(running.contains(&(number, 18, record.point.arm.clone())), "run {number} of {running:?}");
    }
}

#[test]
fn the_data_that_ran_last_can_be_checked() {
    let targets = Watched::default();
    let (plan, stop) = (plan(TWO, &targets), AtomicBool::new(false));
    let mut watch = Watch { progress: &mut |_| {}, keep: &mut |_| Ok(()), stop: &stop, elapsed_s: &|| 0.0 };
    let mut limits = NoLimits;
    let mut runner = Runner::new(&plan, &targets, &mut limits);
    assert_eq!(runner.check(), Ok(Vec::new()), "nothing ran");
    runner.run(&Selection::default(), Vec::new(), &mut watch).expect("it runs");
    let lines = runner.check().expect("it can be read");
    assert!(!lines.is_empty());
}

#[test]
fn an_option_that_needs_reopening_brings_the_data_along() {
    let text = TWO.replace("dop = [1, 2]", "policy = [\"a\", \"b\"]\ndop = [1, 2]");
    let (plan, records, seen) = run(&format!("arms = [\"together\"]\n{text}"));
    let policy = |record: &RunRecord| plan.setting(record.id.setting).options["policy"].clone();
    let stretches = changes(&records, policy) + 1;
    assert!(stretches > 1);
    assert_eq!((seen.opened, seen.loaded["rows_bigint"], seen.loaded["rows_text"]), (stretches, stretches, stretches));
    // The options with which a database was opened, and their later changes, are those of the setting.
    let expect: Vec<_> = records.iter().map(|record| plan.setting(record.id.setting).options).collect();
    let found: Vec<_> = seen.sessions.iter().step_by(2).map(|session| session.options.clone()).collect();
    assert_eq!(found, expect);
}

#[test]
fn a_sweep_of_the_scale_loads_each_scale_once_a_block_and_drops_the_other() {
    let text = TWO.replace("dop = [1, 2]", "\"ints.scale\" = [0.001, 0.002]\ndop = [1, 2]");
    let (plan, records, seen) = run(&format!("arms = [\"alone:ints\"]\n{text}"));
    let scale = |record: &RunRecord| plan.setting(record.id.setting).workloads[0].scale;
    for block in records.chunk_by(|a, b| a.id.repeat == b.id.repeat) {
        assert_eq!((block.len(), changes(block, scale)), (5, 1), "settings with the same data follow each other");
    }
    assert_eq!(seen.loaded, [("rows_bigint".to_owned(), changes(&records, scale) + 1)].into());
    let rows: Vec<u64> = seen.sessions.iter().map(|session| session.rows).collect();
    let expect: Vec<u64> = records.iter().map(|record| (scale(record) * 1e6) as u64).collect();
    assert_eq!(rows, expect);
}

#[test]
fn data_that_no_workload_of_a_setting_reads_is_dropped() {
    let text = TWO.replace("dop = [1, 2]", "\"ints.columns\" = [\"bigint\", \"text\"]");
    let (plan, records, seen) = run(&format!("arms = [\"alone:ints\"]\n{text}"));
    for (record, session) in records.iter().zip(&seen.sessions) {
        // The workload `texts` reads text at every setting, but does not run; the data that was loaded for `ints` is
        // kept for it.
        let own =
            if plan.setting(record.id.setting).swept["ints.columns"] == "text" { "rows_text" } else { "rows_bigint" };
        assert_eq!(session.schema, own);
        assert!(session.present.contains(own));
        assert!(own == "rows_bigint" || !session.present.contains("rows_bigint"), "{:?}", session.present);
    }
}
