//! Limits of the machine around runs: when they are put in force, and the result of one that has no effect.

use std::collections::BTreeMap;

use plimsoll_machine::control::{Amount, Limits, Verdict};
use plimsoll_workload::database::Footprint;

use super::*;
use crate::limits::LimitsError;

/// Records every call, and reports that every limit has an effect except a hog.
#[derive(Default)]
struct RecordedLimits {
    told: Vec<String>,
    in_force: Limits,
    refused: Option<&'static str>,
}

impl MachineLimits for RecordedLimits {
    fn set(&mut self, footprint: &Footprint, limits: &Limits) -> Result<(), LimitsError> {
        assert_eq!(footprint.processes, [std::process::id().cast_signed()]);
        if let Some(name) = self.refused.filter(|name| limits.contains_key(*name)) {
            return Err(LimitsError(format!("{name} cannot be limited here: no such thing")));
        }
        let limits_told: Vec<String> = limits.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        self.told.push(limits_told.join(" "));
        self.in_force.clone_from(limits);
        Ok(())
    }

    fn open_window(&mut self) {
        self.told.push("open".to_owned());
    }

    fn close_window(&mut self) -> BTreeMap<String, Verdict> {
        self.told.push("close".to_owned());
        let verdict = |(name, amount): (&String, &Amount)| {
            let why_not = (name == "hog").then(|| "it slept".to_owned());
            (name.clone(), Verdict { achieved: Some(amount.clone()), why_not })
        };
        self.in_force.iter().map(verdict).collect()
    }
}

fn run(sweep: &str, limits: &mut RecordedLimits) -> (Result<Outcome, RunError>, Operations) {
    let text = TWO.replace("dop = [1, 2]", sweep).replace("repeats = 2", "repeats = 1");
    let text = format!("arms = [\"alone:ints\"]\n{text}");
    let (targets, stop) = (Watched::default(), AtomicBool::new(false));
    let plan = plan(&text, &targets);
    let mut watch = Watch { progress: &mut |_| {}, keep: &mut |_| Ok(()), stop: &stop, elapsed_s: &|| 0.0 };
    let outcome = Runner::new(&plan, &targets, limits).run(&Selection::default(), Vec::new(), &mut watch);
    (outcome, targets.seen())
}

#[test]
fn a_limit_is_in_force_in_the_window_and_not_while_loading() {
    let mut limits = RecordedLimits::default();
    let (outcome, _) = run("llc_mib = [2]", &mut limits);
    assert_eq!(limits.told, ["", "llc_mib=2", "open", "close"]);
    let point = &outcome.expect("it runs").records[0].point;
    assert_eq!((point.valid, &point.achieved), (true, &[("llc_mib".to_owned(), 2.0.into())].into()));
}

#[test]
fn the_amount_unlimited_limits_nothing() {
    let mut limits = RecordedLimits::default();
    let (outcome, _) = run("llc_mib = [\"unlimited\"]", &mut limits);
    assert_eq!(limits.told, ["", "", "open", "close"]);
    assert!(outcome.expect("it runs").records[0].point.achieved.is_empty());
}

#[test]
fn data_is_loaded_anew_under_each_limit_of_memory() {
    let mut limits = RecordedLimits::default();
    let (outcome, seen) = run("memory_mib = [900, 1000]", &mut limits);
    outcome.expect("it runs");
    let changes = limits.told.chunks(4).collect::<Vec<_>>().len();
    assert!(changes >= 2 && seen.opened >= 2, "{:?} {seen:?}", limits.told);
    for told in limits.told.split(|told| told == "close").filter(|told| told.len() == 3) {
        assert_eq!(told[0], told[1], "loading is under the limit of the run");
        assert!(told[0].starts_with("memory_mib="));
    }
}

#[test]
fn what_runs_beside_begins_before_memory_is_limited() {
    let mut limits = RecordedLimits::default();
    let (outcome, seen) = run("memory_mib = [900]\nwrite_mb_s = [5]\nhog = [\"cpu:1\", \"cpu:2\"]", &mut limits);
    outcome.expect("it runs");
    assert!(seen.opened >= 2, "a hog that changes lifts the limit of memory: {seen:?}");
    for told in limits.told.split(|told| told == "close").filter(|told| told.len() == 3) {
        assert!(told[0].starts_with("hog=cpu:") && told[0].ends_with(" memory_mib=900"), "{told:?}");
        assert_eq!(told[1], format!("{} write_mb_s=5", told[0]));
    }
}

#[test]
fn a_run_in_which_a_limit_does_not_bite_is_invalid_and_says_why() {
    let (outcome, _) = run("hog = [\"cpu:1\"]", &mut RecordedLimits::default());
    let point = outcome.expect("it runs").records.remove(0).point;
    assert!(!point.valid);
    assert_eq!(point.why_invalid.as_deref(), Some("the limit of hog did not take effect: it slept"));
}

#[test]
fn a_limit_that_cannot_be_had_ends_the_experiment_with_its_reason() {
    let mut limits = RecordedLimits { refused: Some("llc_mib"), ..RecordedLimits::default() };
    let (outcome, _) = run("llc_mib = [2]", &mut limits);
    let error = outcome.expect_err("refused").to_string();
    assert_eq!(error, "before llc_mib=2, alone:ints, repeat 1: llc_mib cannot be limited here: no such thing");
}
