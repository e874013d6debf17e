//! What a rehearsal has found, as `--json` prints it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::check::Check;
use crate::latency::{Estimate, Latencies, Pair, WINDOWS, compare, quantile};
use crate::plan::{Answered, Facts, NotCompared, Plan, Planned};
use crate::replay::{Done, Outcome, Pace, Ran, Run, Speed};

/// Everything.
#[derive(Debug, Clone, Serialize)]
pub struct Rehearsal {
    /// The version of Plimsoll.
    pub plimsoll: &'static str,
    /// What was replayed.
    pub capture: CaptureShown,
    /// The speed; `None` is as fast as possible.
    pub speed: Option<f64>,
    /// How often each session ran at once.
    pub copies: usize,
    /// The target, and the server that it is compared with.
    pub servers: Vec<ServerResult>,
    /// The target against the other server.
    pub comparison: Option<Comparison>,
    /// What the result does not show.
    pub notes: Vec<String>,
    /// Why the result must not be used; empty if it is valid.
    pub invalid: Vec<String>,
}

/// What was replayed.
#[derive(Debug, Clone, Serialize)]
pub struct CaptureShown {
    /// Where it is.
    pub folder: String,
    /// When it began.
    pub began: String,
    /// The version of its server, such as 170002.
    pub server_version: Option<u32>,
    /// Whether its values are hashes.
    pub redacted: bool,
    /// Places where it is damaged.
    pub faults: Vec<String>,
    /// What the selected part has.
    pub facts: Facts,
}

/// What one server did, over all of its turns.
#[derive(Debug, Clone, Serialize)]
pub struct ServerResult {
    /// Its URL, without a password.
    pub url: String,
    /// What was found before the run.
    pub check: Check,
    /// Seconds of each turn.
    pub seconds: Vec<f64>,
    /// Units that were sent.
    pub sent: u64,
    /// Units that were not sent, by reason.
    pub skipped: BTreeMap<&'static str, u64>,
    /// The same in words.
    #[serde(skip)]
    pub skipped_words: Vec<(u64, &'static str)>,
    /// Units that failed and had not failed in the recording.
    pub failed: u64,
    /// Units that had failed in the recording, and did not now or failed otherwise.
    pub failed_otherwise: u64,
    /// Units with another number of rows.
    pub rows_differ: u64,
    /// Units whose answers were compared in full.
    pub compared: u64,
    /// Of these, units with another answer.
    pub answers_differ: u64,
    /// Latencies of all units that were answered alike.
    pub latency: Option<Latencies>,
    /// How far behind their times units began.
    pub lag: Lag,
    /// By kind of unit, those with most recorded time first.
    pub statements: Vec<StatementResult>,
    /// Why sessions were lost.
    pub lost: Vec<String>,
}

/// How far behind their times units began, microseconds; `None` where there are no times (`--speed max`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Lag {
    /// Median.
    pub p50_us: Option<u64>,
    /// 95th percentile.
    pub p95_us: Option<u64>,
    /// Maximum.
    pub max_us: Option<u64>,
    /// 95th percentile of the part for which the machine of the replay is to blame.
    pub late_us_p95: Option<u64>,
}

/// A kind of unit.
#[derive(Debug, Clone, Serialize)]
pub struct StatementResult {
    /// Its fingerprint.
    pub fingerprint: String,
    /// Its text without values.
    pub text: String,
    /// Units that were sent.
    pub calls: u64,
    /// Errors in the recording, of the same units.
    pub recorded_errors: u64,
    /// Errors now.
    pub errors: u64,
    /// Units whose errors differ, as `recorded → now`.
    pub errors_differ: BTreeMap<String, u64>,
    /// Units with another number of rows.
    pub rows_differ: u64,
    /// Units whose answers were compared.
    pub compared: u64,
    /// Of these, units with another answer.
    pub answers_differ: u64,
    /// Why answers are not compared.
    pub not_compared: Option<&'static str>,
    /// Latencies of units that were answered alike.
    pub latency: Option<Latencies>,
    /// Mean latency of each turn.
    #[serde(skip)]
    pub turn_means: Vec<Option<f64>>,
    #[serde(skip)]
    pub(crate) shape: usize,
}

/// The target against another server.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// How many times as fast the target is: the other's mean latency over its own.
    pub times_as_fast: Option<Estimate>,
    /// Turns that were compared.
    pub turns: usize,
    /// Kinds of units that are slower on the target, beyond noise.
    pub slower: Vec<StatementComparison>,
    /// How many are faster.
    pub faster: usize,
    /// How many show no difference, or were too few to tell.
    pub alike: usize,
}

/// A kind of unit on two servers.
#[derive(Debug, Clone, Serialize)]
pub struct StatementComparison {
    /// Its text without values.
    pub text: String,
    /// How many times as fast it is on the target.
    pub times_as_fast: Estimate,
    /// Its plan on the other server.
    pub plan_before: PlanShown,
    /// Its plan on the target.
    pub plan_now: PlanShown,
}

/// The plan of a statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlanShown {
    /// The plan, as EXPLAIN writes it without costs.
    pub plan: Option<String>,
    /// Why there is none.
    pub why_not: Option<String>,
}

/// Sums over the units of one kind.
#[derive(Default)]
struct Sums {
    calls: u64,
    recorded_errors: u64,
    errors: u64,
    errors_differ: BTreeMap<String, u64>,
    rows_differ: u64,
    compared: u64,
    answers_differ: u64,
    failed: u64,
    failed_otherwise: u64,
    /// Of each turn.
    pairs: Vec<Vec<Pair>>,
}

/// The result of a server's turns.
pub(crate) fn server_result(url: String, check: Check, plan: &Plan, runs: &[Run], pace: Pace) -> ServerResult {
    let mut sums: Vec<Sums> = plan.shapes.iter().map(|_| Sums::default()).collect();
    let mut skipped = BTreeMap::new();
    let (mut lags, mut lates) = (Vec::new(), Vec::new());
    for (turn, run) in runs.iter().enumerate() {
        for done in &run.done {
            let planned = &plan.sessions[done.session].units[done.unit];
            match &done.outcome {
                Outcome::Skipped(reason) => *skipped.entry(*reason).or_insert(0) += 1,
                Outcome::Ran(ran) => {
                    lags.push(ran.lag_us);
                    lates.push(ran.late_us);
                    let not_compared = plan.shapes[planned.shape].not_compared;
                    sums[planned.shape].add(planned, ran, turn, window(plan, done), not_compared);
                }
            }
        }
    }
    let all: Vec<Pair> = sums.iter().flat_map(|sums| sums.pairs.iter().flatten()).copied().collect();
    let mut statements: Vec<StatementResult> = sums
        .iter()
        .enumerate()
        .filter(|(_, sums)| sums.calls > 0)
        .map(|(shape, sums)| sums.statement(plan, shape, runs.len()))
        .collect();
    let weight =
        |one: &StatementResult| one.latency.as_ref().map_or(0.0, |it| it.recorded.mean_us.value * it.calls as f64);
    statements.sort_by(|one, other| weight(other).total_cmp(&weight(one)).then(one.text.cmp(&other.text)));
    let total = |count: fn(&Sums) -> u64| sums.iter().map(count).sum();
    let mut words: Vec<(u64, &'static str)> = skipped.iter().map(|(reason, count)| (*count, reason.words())).collect();
    words.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let mut lost: BTreeSet<String> = BTreeSet::new();
    runs.iter().for_each(|run| lost.extend(run.lost.iter().cloned()));
    ServerResult {
        url,
        check,
        seconds: runs.iter().map(|run| run.elapsed.as_secs_f64()).collect(),
        sent: total(|sums| sums.calls),
        skipped: skipped.iter().map(|(reason, count)| (reason.key(), *count)).collect(),
        skipped_words: words,
        failed: total(|sums| sums.failed),
        failed_otherwise: total(|sums| sums.failed_otherwise),
        rows_differ: total(|sums| sums.rows_differ),
        compared: total(|sums| sums.compared),
        answers_differ: total(|sums| sums.answers_differ),
        latency: compare(&all),
        lag: lag(lags, lates, pace),
        statements,
        lost: lost.into_iter().collect(),
    }
}

/// The window of time that a unit belongs to.
fn window(plan: &Plan, done: &Done) -> usize {
    let at_us = plan.sessions[done.session].units[done.unit].at_us;
    let share = at_us as f64 / plan.facts.span_us.max(1) as f64;
    ((share * WINDOWS as f64) as usize).min(WINDOWS - 1)
}

fn lag(mut lags: Vec<u64>, mut lates: Vec<u64>, pace: Pace) -> Lag {
    if pace.speed == Speed::Max || lags.is_empty() {
        return Lag { p50_us: None, p95_us: None, max_us: None, late_us_p95: None };
    }
    lags.sort_unstable();
    lates.sort_unstable();
    Lag {
        p50_us: Some(quantile(&lags, 0.5)),
        p95_us: Some(quantile(&lags, 0.95)),
        max_us: lags.last().copied(),
        late_us_p95: Some(quantile(&lates, 0.95)),
    }
}

impl Sums {
    fn add(&mut self, planned: &Planned, ran: &Ran, turn: usize, window: usize, not_compared: Option<NotCompared>) {
        let (before, now) = (&planned.recorded, &ran.answered);
        self.calls += 1;
        self.recorded_errors += u64::from(before.error.is_some());
        self.errors += u64::from(now.error.is_some());
        if !planned.is_answered {
            return;
        }
        if before.error != now.error {
            *self.errors_differ.entry(format!("{} → {}", code(before), code(now))).or_default() += 1;
            self.failed += u64::from(before.error.is_none());
            self.failed_otherwise += u64::from(before.error.is_some());
            return;
        }
        let same_rows = (before.rows, before.counted) == (now.rows, now.counted);
        self.rows_differ += u64::from(!same_rows);
        // A redacted answer has no checksum, and one with values of this run cannot have the recorded one.
        let has_checksum = before.checksum != 0 || before.rows == 0;
        if not_compared.is_none() && planned.uses.is_empty() && has_checksum && before.error.is_none() {
            self.compared += 1;
            self.answers_differ += u64::from(before.checksum != now.checksum || !same_rows);
        }
        self.pairs.resize_with(self.pairs.len().max(turn + 1), Vec::new);
        let (recorded_us, now_us) = (planned.took_us as f64, ran.took_us as f64);
        self.pairs[turn].push(Pair { window, recorded_us, now_us });
    }

    fn statement(&self, plan: &Plan, shape: usize, turns: usize) -> StatementResult {
        let of = &plan.shapes[shape];
        let pairs: Vec<Pair> = self.pairs.iter().flatten().copied().collect();
        let mean = |turn: usize| {
            let pairs = self.pairs.get(turn).filter(|pairs| !pairs.is_empty())?;
            Some(pairs.iter().map(|pair| pair.now_us).sum::<f64>() / pairs.len() as f64)
        };
        StatementResult {
            fingerprint: format!("{:016x}", of.fingerprint),
            text: of.text.clone(),
            calls: self.calls,
            recorded_errors: self.recorded_errors,
            errors: self.errors,
            errors_differ: self.errors_differ.clone(),
            rows_differ: self.rows_differ,
            compared: self.compared,
            answers_differ: self.answers_differ,
            not_compared: of.not_compared.map(NotCompared::words),
            latency: compare(&pairs),
            turn_means: (0..turns).map(mean).collect(),
            shape,
        }
    }
}

fn code(answered: &Answered) -> String {
    answered.error.map_or_else(|| "none".to_owned(), |code| String::from_utf8_lossy(&code).into_owned())
}

/// Later than this on a machine that has cores to spare, a replay does not have the recorded arrivals.
const LATE_US_MAX: u64 = 10_000;
/// Further behind than this, the server has not had the recorded load.
const LAG_US_MAX: u64 = 1_000_000;

/// Why a result must not be used.
pub(crate) fn faults(server: &ServerResult, plan: &Plan) -> Vec<String> {
    let mut faults = Vec::new();
    let skipped: u64 = server.skipped.values().sum();
    let all = server.sent + skipped;
    if server.sent == 0 {
        faults.push(format!("{}: no unit was sent", server.url));
        return faults;
    }
    if 2 * (server.failed + skipped) > all {
        faults.push(format!(
            "{}: of {all} units {} failed and {skipped} were not sent; does it have the data of the recording?",
            server.url, server.failed
        ));
    }
    if let Some(late) = server.lag.late_us_p95.filter(|late| *late > LATE_US_MAX) {
        let late = plimsoll_display::duration_us(late as f64);
        faults.push(format!(
            "this machine was late: one unit in twenty began {late} or more after its time although its session was free; \
             replay from a machine with more cores, or with a lower --speed"
        ));
    }
    let lag_max = LAG_US_MAX.max(plan.facts.span_us / 10);
    if let Some(lag) = server.lag.p95_us.filter(|lag| *lag > lag_max) {
        let lag = plimsoll_display::duration_us(lag as f64);
        faults.push(format!(
            "{} fell behind: one unit in twenty began {lag} or more after its time, so its latencies are not those of the \
             recorded load",
            server.url
        ));
    }
    faults
}
