//! Searches for the knee of a target whose response is known, without running anything.

use super::*;
use crate::analysis::made_up::{Noise, plan, record, results};
use crate::results::Results;

const KNEE: &str = r#"
name = "knee"
[[workload]]
name = "oltp"
kind = "tpcc"
[sweep]
dop = "1..20"
[run]
others_max = 1000
repeats = 3
search = "knee"
"#;

/// Two workloads, alone and together, under two policies.
const SEVERAL: &str = r#"
name = "knees"
[[workload]]
name = "a"
kind = "tpcc"
[[workload]]
name = "b"
kind = "rows"
[sweep]
policy = ["slow", "fast"]
dop = "1..10"
[run]
others_max = 1000
repeats = 2
search = "knee"
"#;

/// Throughput of a workload in a run: it rises up to a knee that depends on workload and policy, with 0.5 % of noise that
/// is the same whenever that run runs.
fn respond(plan: &Plan, id: RunId, workload: &str, seed: u64) -> f64 {
    let setting = plan.setting(id.setting);
    let dop = setting.swept["dop"].as_f64().expect("a number");
    let policy = setting.swept.get("policy").and_then(|policy| policy.as_str()).unwrap_or("slow");
    let knee = match (workload, policy) {
        ("oltp", _) => 8.0,
        ("a", "slow") => 3.0,
        ("a", _) => 7.0,
        (_, "slow") => 5.0,
        _ => 9.0,
    };
    let number = (id.setting as u64) << 32 | (id.arm as u64) << 16 | u64::from(id.repeat) << 8 | workload.len() as u64;
    1_000.0 * (dop / knee).min(1.0) * Noise::new(seed << 48 ^ number, 0.005).factor()
}

/// Continues from the finished runs until the search ends.
fn search(plan: &Plan, selection: &Selection, done: &[RunRecord], run: impl Fn(RunId) -> RunRecord) -> Vec<RunRecord> {
    let mut records = done.to_vec();
    let mut rounds = Rounds::default();
    while let Some(round) = rounds.next(plan, selection, &records) {
        assert!(!round.is_empty());
        for id in round {
            if records.iter().all(|record| record.id != id) {
                records.push(run(id));
            }
        }
        assert!(records.len() < 10_000, "it goes on forever");
    }
    records
}

fn all(plan: &Plan, seed: u64) -> Vec<RunRecord> {
    search(plan, &Selection::default(), &[], |id| record(plan, id, |workload| respond(plan, id, workload, seed)))
}

fn ids(records: &[RunRecord]) -> Vec<RunId> {
    records.iter().map(|record| record.id).collect()
}

#[test]
fn the_knee_is_found_with_two_fifths_of_the_runs() {
    // 8 * 0.9 = 7.2 and 8 * 0.95 = 7.6: from 8 on either share is reached.
    let plan = plan(KNEE);
    let mut near = [0, 0];
    for seed in 0..100 {
        let records = all(&plan, seed);
        assert!(records.len() <= 24, "{} of 60 runs", records.len());
        let results: Results = results(&plan, &records);
        let [knee] = &results.knees[..] else { panic!("{} knees", results.knees.len()) };
        for (near, level) in near.iter_mut().zip(&knee.levels) {
            let found = level.allocation.as_ref().and_then(|at| at.as_f64()).unwrap_or_else(|| panic!("{level:?}"));
            *near += usize::from((found - 8.0).abs() <= 1.0);
        }
    }
    assert!(near.iter().all(|near| *near >= 95), "{near:?} of 100");
}

#[test]
fn every_curve_has_a_search_of_its_own() {
    let plan = plan(SEVERAL);
    let records = all(&plan, 1);
    assert!(records.len() <= plan.run_count(), "{} runs, {} announced", records.len(), plan.run_count());
    let results = results(&plan, &records);
    // Two policies, each with a alone, b alone, and both together.
    assert_eq!(results.knees.len(), 8);
    for knee in &results.knees {
        let policy = knee.setting["policy"].as_str().expect("text");
        let expect = match (knee.workload.as_str(), policy) {
            ("a", "slow") => 3.0,
            ("a", _) => 7.0,
            (_, "slow") => 5.0,
            _ => 9.0,
        };
        let found = knee.levels[1].allocation.as_ref().and_then(|at| at.as_f64()).unwrap_or_else(|| panic!("{knee:?}"));
        assert!((found - expect).abs() <= 1.0, "{expect} {knee:?}");
    }
}

/// A search that is killed at any point, also in the middle of a round, continues with the same rounds.
#[test]
fn a_resumed_search_runs_what_it_would_have_run() {
    let plan = plan(SEVERAL);
    let whole = all(&plan, 2);
    for count in (0..=whole.len()).filter(|count| count % 5 == 0 || *count == whole.len()) {
        let run = |id| record(&plan, id, |workload| respond(&plan, id, workload, 2));
        let resumed = search(&plan, &Selection::default(), &whole[..count], run);
        assert_eq!(ids(&resumed), ids(&whole), "after {count}");
    }
}

#[test]
fn equal_seeds_search_alike() {
    let plan = plan(KNEE);
    assert_eq!(ids(&all(&plan, 3)), ids(&all(&plan, 3)));
}

#[test]
fn a_search_along_runs_that_are_invalid_ends() {
    let plan = plan(KNEE);
    let ends = |is_valid: &dyn Fn(RunId) -> bool| {
        let run = |id: RunId| {
            let mut record = record(&plan, id, |workload| respond(&plan, id, workload, 4));
            record.point.valid = is_valid(id);
            record
        };
        let records = search(&plan, &Selection::default(), &[], run);
        assert!(records.iter().all(|record| record.id.repeat <= 9), "three times the repeats, and no more");
        records.len()
    };
    // Runs at the two ends are requested until the limit of tries.
    assert_eq!(ends(&|_| false), 18);
    let only_full = ends(&|id| id.setting != 19);
    assert!(only_full <= 24, "{only_full} runs without a valid one at the full allocation");
    let every_other = ends(&|id| id.repeat % 2 == 0);
    assert!(every_other <= 60, "{every_other} runs where every other is invalid");
}

#[test]
fn only_what_is_selected_is_asked_for() {
    let plan = plan(SEVERAL);
    let selection = Selection::parse("policy=fast,alone:b", &plan).expect("it selects something");
    let records = search(&plan, &selection, &[], |id| record(&plan, id, |workload| respond(&plan, id, workload, 5)));
    assert!(!records.is_empty());
    assert!(records.iter().all(|record| record.id.arm == 1 && record.id.setting >= 10));
    // One end of the curve alone does not let the search continue.
    let selection = Selection::parse("policy=fast,alone:b,dop=10", &plan).expect("it selects something");
    let records = search(&plan, &selection, &[], |id| record(&plan, id, |workload| respond(&plan, id, workload, 5)));
    assert_eq!(ids(&records).iter().map(|id| id.setting).collect::<BTreeSet<_>>(), [19].into());
}
