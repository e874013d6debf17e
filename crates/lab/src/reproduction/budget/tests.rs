//! Candidates from runs that were made up, and sittings by a clock that only runs move.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::*;
use crate::analysis::made_up::plan;
use crate::report::fixture;
use crate::reproduction::{ExhibitRun, KeptRuns};
use crate::results::ClaimResult;

const TEXT: &str = "name = \"x\"\n[[workload]]\nname = \"oltp\"\nkind = \"tpcc\"\n[sweep]\ndop = [1, 2]\n\
    [run]\nwarmup = \"10s\"\nmeasure = \"20s\"\nrepeats = 5\n[[claim]]\ntext = \"t\"\n\
    holds = \"throughput(dop=2) > throughput(dop=1)\"\n";

fn claim(verdict: ClaimVerdict, blocks_more: Option<u32>) -> ClaimResult {
    ClaimResult { verdict, blocks_more, ..ClaimResult::default() }
}

/// A run of 15 runs in the full form, which took 20 minutes, of them 7.5 minutes in windows.
fn last(claims: Vec<ClaimResult>) -> KeptRun {
    let measured = ExhibitRun {
        quick: false,
        runs: (15, 0),
        runs_left: 0,
        length_s: Some(1200.0),
        windows_s: Some(450.0),
        ..ExhibitRun::of(&fixture::study())
    };
    KeptRun { name: "x".to_owned(), measured: Some(measured), why_not_run: None, claims }
}

fn quick(run: KeptRun) -> KeptRun {
    let measured = run.measured.map(|measured| ExhibitRun { quick: true, ..measured });
    KeptRun { measured, ..run }
}

const ALL: Wanted = Wanted { stale: false, undecided: false };
const STALE: Wanted = Wanted { stale: true, undecided: false };
const UNDECIDED: Wanted = Wanted { stale: false, undecided: true };
const BOTH: Wanted = Wanted { stale: true, undecided: true };

fn candidate(last: Option<&KeptRun>, stale: Option<&str>, wanted: Wanted) -> Option<Candidate> {
    let plan = plan(TEXT);
    let left_out = ["left out".to_owned()];
    let stale = stale.map(str::to_owned);
    Candidate::of(&Known { plan: &plan, quick: false, left_out: &left_out, last, stale, growth: 10.0, done: 0 }, wanted)
}

/// The number of claims and the reasons, for each kind of request.
fn by_request(last: Option<&KeptRun>, stale: Option<&str>) -> [Option<(usize, String)>; 4] {
    [ALL, STALE, UNDECIDED, BOTH]
        .map(|wanted| candidate(last, stale, wanted).map(|candidate| (candidate.claims, candidate.why.join("; "))))
}

#[test]
fn an_exhibit_is_a_candidate_while_it_is_not_settled() {
    let one = |claims: usize, why: &str| Some((claims, why.to_owned()));
    let never = one(1, "never run");
    assert_eq!(by_request(None, None), [never.clone(), None, never.clone(), never]);

    let settled = last(vec![claim(ClaimVerdict::Holds, Some(0)), claim(ClaimVerdict::NotJudged, None)]);
    assert_eq!(by_request(Some(&settled), None), [None, None, None, None]);
    let stale = one(1, "stale: code has changed");
    assert_eq!(by_request(Some(&settled), Some("code has changed")), [stale.clone(), stale.clone(), None, stale]);

    let hopeless = last(vec![claim(ClaimVerdict::Undecided, None)]);
    assert_eq!(by_request(Some(&hopeless), None), [None, None, None, None], "more blocks do not help");
    let undecided = last(vec![claim(ClaimVerdict::Undecided, Some(3)), claim(ClaimVerdict::Fails, Some(0))]);
    let more = one(1, "1 claim undecided");
    assert_eq!(by_request(Some(&undecided), None), [more.clone(), None, more.clone(), more]);

    let short = quick(undecided);
    let all = one(3, "1 claim undecided; 3 claims judged by the short form, or not at all");
    let few = one(1, "1 claim undecided");
    assert_eq!(by_request(Some(&short), None), [all, None, few.clone(), few]);
    let mut unfinished = settled;
    unfinished.measured.as_mut().expect("it was run").runs_left = 2;
    let not_finished = one(1, "not finished");
    assert_eq!(by_request(Some(&unfinished), None), [not_finished.clone(), None, not_finished.clone(), not_finished]);
}

#[test]
fn the_short_form_does_not_take_the_place_of_the_full_one() {
    let (plan, full) = (plan(TEXT), last(vec![claim(ClaimVerdict::Undecided, Some(3))]));
    let known = |last, stale| Known { plan: &plan, quick: true, left_out: &[], last, stale, growth: 1.0, done: 0 };
    assert_eq!(Candidate::of(&known(Some(&full), Some("old".to_owned())), BOTH), None);
    let short = quick(full.clone());
    assert!(Candidate::of(&known(Some(&short), None), BOTH).is_some());
}

#[test]
fn minutes_follow_from_the_length_of_the_last_run() {
    // 15 runs of 30 s have 7.5 minutes of windows, and each had 50 s of loading.
    let minutes = |last: Option<&KeptRun>, stale| candidate(last, stale, ALL).map(|candidate| candidate.minutes);
    assert_eq!(minutes(None, None), Some(7.5 * 1.5), "by the file alone");
    let again = last(vec![claim(ClaimVerdict::Holds, Some(0))]);
    assert_eq!(minutes(Some(&again), Some("old")), Some(20.0));
    let undecided = last(vec![claim(ClaimVerdict::Undecided, Some(5))]);
    let candidate = candidate(Some(&undecided), None, ALL).expect("it is undecided");
    assert_eq!((candidate.minutes, candidate.blocks_max), (40.0, Some(20)), "ten blocks in place of five");
    assert!(candidate.told().starts_with("x: 1 claim in about 40.0 min (1 claim undecided)"), "{}", candidate.told());
    // Of the short form, 50 s of loading become 500 s in the full one.
    assert_eq!(minutes(Some(&quick(again)), None), Some(7.5 + 15.0 * 500.0 / 60.0));
}

#[test]
fn what_is_done_of_an_interrupted_run_does_not_count() {
    let (plan, run) = (plan(TEXT), last(vec![claim(ClaimVerdict::Holds, Some(0))]));
    let known = |done| Known {
        plan: &plan,
        quick: false,
        left_out: &[],
        last: Some(&run),
        stale: Some("old".to_owned()),
        growth: 1.0,
        done,
    };
    let minutes = |done| Candidate::of(&known(done), STALE).map(|candidate| candidate.minutes);
    assert_eq!([minutes(0), minutes(12), minutes(99)], [Some(20.0), Some(4.0), Some(0.0)]);
}

fn made_up(name: &str, claims: usize, minutes: f64) -> Candidate {
    let (why, from_last_run) = (vec!["never run".to_owned()], true);
    Candidate { name: name.to_owned(), why, claims, minutes, from_last_run, blocks_max: None }
}

fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

#[test]
fn most_claims_per_minute_come_first_and_what_fits_is_taken() {
    let all = ordered(vec![
        made_up("slow", 4, 40.0),
        made_up("fast", 2, 4.0),
        made_up("long", 30, 100.0),
        made_up("b", 1, 10.0),
    ]);
    let names = |part: &[&Candidate]| part.iter().map(|candidate| candidate.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&all.iter().collect::<Vec<_>>()), ["fast", "long", "b", "slow"]);
    let (takes, leaves) = schedule(&all, Some(minutes(60)));
    assert_eq!((names(&takes), names(&leaves)), (vec!["fast".into(), "b".into(), "slow".into()], vec!["long".into()]));
    assert_eq!(schedule(&all, None).1.len(), 0);
    assert_eq!(schedule(&all, Some(Duration::ZERO)).0.len(), 0);
}

/// Runs that take as long as a table says, by a clock that nothing else moves.
struct FakeRunner {
    now: Cell<Duration>,
    lengths: BTreeMap<&'static str, u64>,
}

impl FakeRunner {
    fn new(lengths: &[(&'static str, u64)]) -> Self {
        FakeRunner { now: Cell::new(minutes(1000)), lengths: lengths.iter().copied().collect() }
    }

    /// A sitting of such a length; Ctrl-C ends the run of that name.
    fn sit(&self, candidates: Vec<Candidate>, time: u64, stop_in: &str) -> Result<Sitting, String> {
        let began = self.now.get();
        let mut run = |candidate: &Candidate, left: Option<Duration>| {
            let name = candidate.name.as_str();
            assert!(left.is_some_and(|left| left <= minutes(time)));
            let length = self.lengths.get(name).ok_or_else(|| format!("{name}: no such exhibit"))?;
            self.now.set(self.now.get() + minutes(*length));
            Ok(name == stop_in)
        };
        sit(candidates, Some(minutes(time)), &|| self.now.get() - began, &mut run)
    }
}

fn names_of(sitting: &Sitting) -> (Vec<&str>, Vec<&str>) {
    let ran = sitting.ran.iter().map(|ran| ran.name.as_str()).collect();
    (ran, sitting.left.iter().map(|candidate| candidate.name.as_str()).collect())
}

#[test]
fn a_sitting_ends_when_the_next_would_not_fit() {
    let all = || vec![made_up("a", 9, 10.0), made_up("b", 4, 10.0), made_up("c", 2, 10.0), made_up("d", 1, 5.0)];
    let exact = FakeRunner::new(&[("a", 10), ("b", 10), ("c", 10), ("d", 5)]);
    let sitting = exact.sit(all(), 25, "").expect("it runs");
    assert_eq!(names_of(&sitting), (vec!["a", "b", "d"], vec!["c"]), "d fits where c does not");
    assert_eq!((sitting.ran[0].minutes, sitting.ran[0].minutes_estimated), (10.0, 10.0));
    // The first takes longer than estimated, so that less fits behind it.
    let late = FakeRunner::new(&[("a", 18), ("b", 10), ("c", 10), ("d", 5)]);
    assert_eq!(names_of(&late.sit(all(), 25, "").expect("it runs")), (vec!["a", "d"], vec!["b", "c"]));
    let stopped = exact.sit(all(), 60, "b").expect("it runs");
    assert_eq!((stopped.stopped, names_of(&stopped)), (true, (vec!["a", "b"], vec!["c", "d"])));
    let failed = FakeRunner::new(&[("a", 1)]).sit(all(), 60, "");
    assert_eq!(failed.map(drop), Err("b: no such exhibit".to_owned()));
}

/// Two days: the second takes up what the first has left, and nothing that is finished.
#[test]
fn sittings_continue_until_everything_is_settled() {
    let plan = plan(TEXT);
    let mut kept = KeptRuns::default();
    let names = ["x1", "x2", "x3"];
    let left = |kept: &KeptRuns| {
        let of = |name: &&str| {
            let last = kept.of(name);
            let known = Known { plan: &plan, quick: false, left_out: &[], last, stale: None, growth: 1.0, done: 0 };
            Candidate::of(&known, ALL).map(|candidate| Candidate { name: (*name).to_owned(), ..candidate })
        };
        ordered(names.iter().filter_map(of).collect())
    };
    let mut days = Vec::new();
    while !left(&kept).is_empty() {
        let fake = FakeRunner::new(&[("x1", 10), ("x2", 10), ("x3", 10)]);
        let sitting = fake.sit(left(&kept), 25, "").expect("it runs");
        for ran in &sitting.ran {
            let run = KeptRun { name: ran.name.clone(), ..last(vec![claim(ClaimVerdict::Holds, Some(0))]) };
            kept.add(run);
        }
        days.push(sitting.ran.iter().map(|ran| ran.name.clone()).collect::<Vec<_>>());
    }
    assert_eq!(days, [vec!["x1", "x2"], vec!["x3"]]);
}
