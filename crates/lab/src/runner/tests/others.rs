//! Runs that other processes on the machine disturb.

use super::inputs::begin_alike;
use super::*;

/// Runs one arm of one setting once; its first `disturbed` tries are disturbed. Stops it after `stop_at` tries.
fn tried(disturbed: usize, tries: u32, stop_at: usize) -> (Outcome, Operations) {
    let text =
        TWO.replace("dop = [1, 2]", "dop = [1]").replace("repeats = 2", &format!("repeats = 1\ntries = {tries}"));
    let targets = Watched::default();
    let (plan, stop) = (plan(&format!("arms = [\"alone:ints\"]\n{text}"), &targets), AtomicBool::new(false));
    let mut watch = Watch { progress: &mut |_| {}, keep: &mut |_| Ok(()), stop: &stop, elapsed_s: &|| 0.0 };
    let count = Cell::new(0);
    let disturbance = |_: &Point, others_max: f64| {
        assert_eq!(others_max, 1000.0);
        count.set(count.get() + 1);
        stop.store(count.get() >= stop_at, Ordering::Relaxed);
        (count.get() <= disturbed).then(|| format!("busy {}", count.get()))
    };
    let mut limits = NoLimits;
    let mut runner = Runner::new(&plan, &targets, &mut limits);
    runner.disturbance = &disturbance;
    let outcome = runner.run(&Selection::default(), Vec::new(), &mut watch).expect("it runs");
    (outcome, targets.seen())
}

#[test]
fn a_disturbed_run_is_thrown_away_and_run_again_with_the_same_input() {
    let (outcome, seen) = tried(2, 3, usize::MAX);
    let [record] = &outcome.records[..] else { panic!("{:?}", outcome.records) };
    assert!(record.point.valid, "{:?}", record.point.why_invalid);
    assert_eq!(record.point.thrown_away, ["busy 1", "busy 2"]);
    assert_eq!(seen.sessions.len(), 3);
    let first = &seen.sessions[0].inputs;
    assert!(seen.sessions.iter().all(|session| begin_alike(&session.inputs, first)), "{:?}", seen.sessions);
}

#[test]
fn a_run_that_is_disturbed_at_every_try_is_invalid() {
    let (outcome, _) = tried(9, 3, usize::MAX);
    let point = &outcome.records[0].point;
    assert_eq!((point.valid, point.why_invalid.as_deref()), (false, Some("busy 3")));
    assert_eq!(point.thrown_away, ["busy 1", "busy 2"]);
    let (outcome, _) = tried(9, 1, usize::MAX);
    assert_eq!((outcome.records[0].point.valid, outcome.records[0].point.thrown_away.len()), (false, 0));
}

/// Others that stay: the first run is tried three times, those that follow once, and after a round the experiment ends. The person who
/// watches is told once.
#[test]
fn an_experiment_beside_others_that_stay_ends_early_and_says_why() {
    let targets = Watched::default();
    let (plan, stop) = (plan(TWO, &targets), AtomicBool::new(false));
    let mut told = 0;
    let mut progress = |progress: RunProgress<'_>| {
        if let RunProgress::Disturbed { why, remedy } = progress {
            assert!(why == "busy" && remedy.contains("stop them"), "{why}; {remedy}");
            told += 1;
        }
    };
    let mut watch = Watch { progress: &mut progress, keep: &mut |_| Ok(()), stop: &stop, elapsed_s: &|| 0.0 };
    let mut limits = NoLimits;
    let mut runner = Runner::new(&plan, &targets, &mut limits);
    runner.disturbance = &|_, _| Some("busy".to_owned());
    let outcome = runner.run(&Selection::default(), Vec::new(), &mut watch).expect("it runs");
    let block = plan.run_count() / plan.run.repeats as usize;
    assert_eq!((outcome.records.len(), outcome.left), (block, plan.run_count() - block));
    assert_eq!((outcome.given_up.as_deref(), outcome.stopped, told), (Some("busy"), false, 1));
    let tries: Vec<usize> = outcome.records.iter().map(|record| record.point.thrown_away.len() + 1).collect();
    assert_eq!((tries[0], tries.iter().sum::<usize>()), (3, block + 2), "{tries:?}");
    assert!(outcome.records.iter().all(|record| record.point.disturbed && !record.point.valid));
}

#[test]
fn a_stopped_experiment_does_not_keep_a_disturbed_run() {
    let (outcome, _) = tried(9, 3, 1);
    assert_eq!((outcome.records.len(), outcome.stopped, outcome.left), (0, true, 1));
}

/// Where disturbed runs count, as in a study, others that stay end nothing: every run is there, and says that it was disturbed. The
/// first one is tried three times, the others once, so that the time is bounded.
#[test]
fn an_experiment_that_keeps_disturbed_runs_ends_with_all_of_them() {
    let targets = Watched::default();
    let text = TWO.replace("repeats = 2", "repeats = 2\ndisturbed = \"keep\"");
    let (plan, stop) = (plan(&text, &targets), AtomicBool::new(false));
    let mut watch = Watch { progress: &mut |_| {}, keep: &mut |_| Ok(()), stop: &stop, elapsed_s: &|| 0.0 };
    let mut limits = NoLimits;
    let mut runner = Runner::new(&plan, &targets, &mut limits);
    runner.disturbance = &|_, _| Some("busy".to_owned());
    let outcome = runner.run(&Selection::default(), Vec::new(), &mut watch).expect("it runs");
    assert_eq!((outcome.records.len(), outcome.left, &outcome.given_up), (plan.run_count(), 0, &None));
    assert!(outcome.records.iter().all(|record| record.point.disturbed && record.point.valid));
    let discarded: usize = outcome.records.iter().map(|record| record.point.thrown_away.len()).sum();
    assert_eq!(discarded, 2);
}
