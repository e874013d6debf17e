//! What to run first in a limited time: the exhibits that decide most claims per minute.
//!
//! A [`Candidate`] is an exhibit whose claims are not settled: it was never run, its run is stale or of the short form,
//! or more blocks may decide a claim. Minutes follow from the length of its last run. [`schedule`] puts candidates into
//! order, and [`sit`] runs them until the next would not fit. Both know nothing of databases and clocks, so that tests
//! have their own.

use std::time::Duration;

use serde::Serialize;

use super::kept_runs::KeptRun;
use crate::plan::Plan;
use crate::results::ClaimVerdict;
use crate::until_decided::{self, BLOCKS_MAX};

/// The most blocks of a run, however many its claims need.
const BLOCKS_MOST: u32 = 60;
/// The length of an exhibit that was never run, relative to its windows: data is loaded and clients are started.
const LENGTH_UNKNOWN: f64 = 1.5;

/// Which exhibits are wanted; all that are not settled if neither is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Those whose run is stale.
    pub stale: bool,
    /// Those with claims that are undecided, or were never judged because the exhibit was never run.
    pub undecided: bool,
}

impl Wanted {
    /// Whether all that is not settled is wanted.
    fn is_all(self) -> bool {
        !self.stale && !self.undecided
    }
}

/// What is known of an exhibit.
#[derive(Debug)]
pub struct Known<'a> {
    /// What would run.
    pub plan: &'a Plan,
    /// Whether that is the short form.
    pub quick: bool,
    /// Texts of claims that the short form leaves out.
    pub left_out: &'a [String],
    /// The last run.
    pub last: Option<&'a KeptRun>,
    /// Why the last run is stale.
    pub stale: Option<String>,
    /// How much larger the data of the full form is than that of the short one.
    pub growth: f64,
    /// The runs that are done of an interrupted one that would be continued; 0 if there is none.
    pub done: usize,
}

/// An exhibit that is worth running.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// Why it is not settled: `never run`, `3 claims undecided`.
    pub why: Vec<String>,
    /// The number of claims that a run is likely to decide, at least 1.
    pub claims: usize,
    /// How long it is likely to take.
    pub minutes: f64,
    /// Whether minutes follow from an earlier run of the exhibit; if not, from its file alone.
    pub from_last_run: bool,
    /// The most blocks to run until its claims are decided; `None` if it runs as many as its file says.
    pub blocks_max: Option<u32>,
}

impl Candidate {
    /// The exhibit as a candidate; `None` if it is settled, or not wanted.
    pub fn of(known: &Known<'_>, wanted: Wanted) -> Option<Self> {
        let Known { plan, quick, last, stale, .. } = known;
        let last = last.filter(|last| last.measured.is_some());
        let (mut why, mut claims) = (Vec::new(), 0);
        let is_only_stale = wanted.stale && !wanted.undecided;
        if last.is_none() && !is_only_stale {
            why.push("never run".to_owned());
            claims = plan.claims.len().max(1);
        }
        let measured = last.and_then(|last| last.measured.as_ref());
        let is_unfinished = measured.is_some_and(|measured| measured.runs_left > 0);
        if is_unfinished && !is_only_stale {
            why.push("not finished".to_owned());
            claims = plan.claims.len().max(1);
        }
        // A short form does not take the place of a full one.
        let is_shorter = *quick && measured.is_some_and(|measured| !measured.quick);
        let Some(last) = last.filter(|_| !is_shorter) else {
            return (!why.is_empty()).then(|| Candidate::with(known, why, claims));
        };
        let judged = last.claims.iter().filter(|claim| claim.verdict != ClaimVerdict::NotJudged).count();
        let is_short = !quick && measured.is_some_and(|measured| measured.quick);
        let may_decide = |more: Option<u32>| is_short || stale.is_some() || more.is_some();
        let undecided = last.claims.iter().filter(|claim| claim.verdict == ClaimVerdict::Undecided);
        let undecided = undecided.filter(|claim| may_decide(claim.blocks_more)).count();
        if undecided > 0 && (wanted.undecided || wanted.is_all()) {
            why.push(counted(undecided, "undecided"));
            claims = claims.max(undecided);
        }
        if is_short && wanted.is_all() {
            let short = judged + known.left_out.len();
            if short > 0 {
                why.push(counted(short, "judged by the short form, or not at all"));
                claims = claims.max(short);
            }
        }
        if let Some(stale) = stale.as_ref().filter(|_| wanted.stale || wanted.is_all()) {
            why.push(format!("stale: {stale}"));
            claims = claims.max(judged).max(1);
        }
        (!why.is_empty()).then(|| Candidate::with(known, why, claims))
    }

    fn with(known: &Known<'_>, why: Vec<String>, claims: usize) -> Self {
        let repeats = known.plan.run.repeats.max(1);
        let more = known.last.into_iter().flat_map(|last| &last.claims).filter_map(|claim| claim.blocks_more).max();
        let needed = repeats.saturating_add(more.unwrap_or(0)).min(BLOCKS_MOST);
        // The estimate of what is needed is itself uncertain.
        let blocks_max = (needed + needed / 4).clamp(BLOCKS_MAX, BLOCKS_MOST).max(repeats);
        let blocks_max = until_decided::plans(known.plan, blocks_max).is_ok().then_some(blocks_max);
        let blocks = if blocks_max.is_some() { needed.max(repeats) } else { repeats };
        let (seconds, from_last_run) = length_s(known, blocks);
        Candidate { name: known.plan.name.clone(), why, claims, minutes: seconds / 60.0, from_last_run, blocks_max }
    }

    /// Claims decided per minute.
    fn worth(&self) -> f64 {
        self.claims as f64 / self.minutes.max(1e-3)
    }

    fn time(&self) -> Duration {
        Duration::try_from_secs_f64(self.minutes * 60.0).unwrap_or(Duration::MAX)
    }

    /// `SR-fig6-dop: 2 claims in about 3.0 min (2 claims undecided)`.
    pub fn told(&self) -> String {
        let claims = if self.claims == 1 { "1 claim".to_owned() } else { format!("{} claims", self.claims) };
        let basis = if self.from_last_run { "" } else { ", by its file" };
        format!("{}: {claims} in about {:.1} min{basis} ({})", self.name, self.minutes, self.why.join("; "))
    }
}

fn counted(claims: usize, what: &str) -> String {
    if claims == 1 { format!("1 claim {what}") } else { format!("{claims} claims {what}") }
}

/// How long a run of so many blocks is likely to take, less what is done, and whether that is known from the last one.
///
/// Windows are known beforehand. Loading and starting is what the last run took for each of its runs; of a short form, it
/// grows with the data.
fn length_s(known: &Known<'_>, blocks: u32) -> (f64, bool) {
    let Known { plan, quick, last, growth, done, .. } = known;
    let repeats = plan.run.repeats.max(1) as usize;
    let runs = plan.run_count() / repeats * blocks as usize;
    let left = runs.saturating_sub(*done);
    let windows = plan.estimated_time(left).as_secs_f64();
    let measured = last.and_then(|last| last.measured.as_ref()).filter(|measured| measured.runs.0 > 0);
    let lengths = measured.and_then(|measured| Some((measured, measured.length_s?, measured.windows_s?)));
    let Some((measured, length, of_windows)) = lengths else { return (windows * LENGTH_UNKNOWN, false) };
    let each = (length - of_windows).max(0.0) / measured.runs.0 as f64;
    let is_same_form = measured.quick == *quick;
    if plan.is_simulated() {
        let each = length / measured.runs.0 as f64;
        return (if is_same_form { each * left as f64 } else { windows }, is_same_form);
    }
    let growth = if is_same_form { 1.0 } else { growth.max(1.0) };
    (windows + each * growth * left as f64, true)
}

/// Candidates in the order in which they are run, most claims per minute first.
pub fn ordered(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    candidates.sort_by(|one, other| other.worth().total_cmp(&one.worth()).then_with(|| one.name.cmp(&other.name)));
    candidates
}

/// The candidates that fit into a time if each takes as long as estimated, and the others. `None` is all the time there is.
pub fn schedule(candidates: &[Candidate], time: Option<Duration>) -> (Vec<&Candidate>, Vec<&Candidate>) {
    let mut left = time;
    candidates.iter().partition(|candidate| {
        let fits = left.is_none_or(|left| candidate.time() <= left);
        if fits {
            left = left.map(|left| left - candidate.time());
        }
        fits
    })
}

/// A sitting that has ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Sitting {
    /// The exhibits that were run, in order.
    pub ran: Vec<Ran>,
    /// Those that did not fit into the time that was left.
    pub left: Vec<Candidate>,
    /// Whether Ctrl-C ended it.
    pub stopped: bool,
}

/// An exhibit that was run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ran {
    /// Its name.
    pub name: String,
    /// How long it was estimated to take.
    pub minutes_estimated: f64,
    /// How long it took.
    pub minutes: f64,
}

/// Runs a candidate in the time that is left, and returns whether Ctrl-C ended it.
pub type RunCandidate<'a, E> = dyn FnMut(&Candidate, Option<Duration>) -> Result<bool, E> + 'a;

/// Runs candidates in their order. One that does not fit into the time that is left is passed over, and once none fits,
/// the sitting ends. `elapsed` is the time since its beginning.
pub fn sit<E>(
    candidates: Vec<Candidate>,
    time: Option<Duration>,
    elapsed: &dyn Fn() -> Duration,
    run: &mut RunCandidate<'_, E>,
) -> Result<Sitting, E> {
    let mut sitting = Sitting::default();
    for candidate in candidates {
        let began = elapsed();
        let left = time.map(|time| time.saturating_sub(began));
        if sitting.stopped || left.is_some_and(|left| candidate.time() > left) {
            sitting.left.push(candidate);
            continue;
        }
        sitting.stopped = run(&candidate, left)?;
        let minutes = (elapsed() - began).as_secs_f64() / 60.0;
        sitting.ran.push(Ran { name: candidate.name, minutes_estimated: candidate.minutes, minutes });
    }
    Ok(sitting)
}

#[cfg(test)]
mod tests;
