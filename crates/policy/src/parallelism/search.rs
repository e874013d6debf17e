//! The search for the best degrees of a template at one level of load.
//!
//! It begins with a serial run. Each step then adds a partition to the most expensive pipeline of the last one. A step
//! that is faster than the best so far, beyond noise, is the new best. A step that is not costs a credit, but the walk
//! continues from it with a step twice as large, because the gain of one partition among many drowns in noise. A
//! pipeline for which three steps in a row did not pay falls back to its degree in the best and is left alone. The walk
//! ends when the credit is used up or no pipeline is left. Then the best is compared with the given candidates, such as
//! the best at another load.
//!
//! The result stays until its times leave their own interval; then the search begins again.

use std::collections::BTreeMap;
use std::time::Duration;

use super::judge::{Judgement, Times, has_moved, judge, noise};
use super::{Convergence, LoadBucket, PipelineCost};

/// Steps without a gain until the walk ends; each gain returns one.
const CREDIT: u32 = 12;

/// Steps in a row without a gain after which a pipeline is left alone. The last adds four partitions.
const FRUITLESS_MAX: u32 = 3;

/// A pipeline with less than this share of all pipelines' time is not worth a step: a gain there could not be seen.
const SHARE_MIN: f64 = 0.02;

/// Runs of the best that are judged together once the search has settled: at first, and at most. The number doubles
/// each time the search begins again, so that times that never settle do not keep it searching.
const WATCHED: (usize, usize) = (16, 256);

/// One way to run the query that was tried.
#[derive(Debug, Clone, Default)]
struct TriedWay {
    times: Times,
    /// The number of its first run, since the search began or began again.
    first: u32,
}

/// The purpose of the present trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrialPurpose {
    /// The first run.
    Serial,
    /// More partitions for this pipeline.
    Grow(usize),
    /// One of the candidates.
    Candidate,
    /// Nothing: the best is run.
    Settled,
}

#[derive(Debug, Clone)]
pub(super) struct DegreeSearch {
    tried: BTreeMap<Vec<u32>, TriedWay>,
    best: Vec<u32>,
    trial: Vec<u32>,
    step: TrialPurpose,
    /// Whether the next run is of the best instead of the trial, because the best has too few runs.
    repeat_best: bool,
    candidates: Vec<Vec<u32>>,
    /// The most partitions of each pipeline.
    limits: Vec<u32>,
    /// The costs of the pipelines in the last run of the trial.
    costs: Vec<PipelineCost>,
    fruitless: Vec<u32>,
    credit: u32,
    /// The times of the best when the search settled.
    reference: Times,
    /// Its times since.
    recent: Vec<f64>,
    watched: usize,
    runs: u64,
    /// Runs since the search began, or began again, and their time.
    since: (u32, Duration),
    /// Time lost before it began again.
    lost: Duration,
    reopened: u32,
}

impl DegreeSearch {
    /// A search that has run nothing; `candidates` are tried at its end.
    pub(super) fn new(limits: Vec<u32>, candidates: Vec<Vec<u32>>) -> Self {
        let serial = vec![1; limits.len()];
        DegreeSearch {
            tried: BTreeMap::new(),
            best: serial.clone(),
            trial: serial,
            step: TrialPurpose::Serial,
            repeat_best: false,
            candidates,
            costs: Vec::new(),
            fruitless: vec![0; limits.len()],
            limits,
            credit: CREDIT,
            reference: Times::default(),
            recent: Vec::new(),
            watched: WATCHED.0,
            runs: 0,
            since: (0, Duration::ZERO),
            lost: Duration::ZERO,
            reopened: 0,
        }
    }

    /// The degrees of the next run, within the limits as they are now.
    pub(super) fn next(&mut self, limits: &[u32]) -> Vec<u32> {
        self.limits = limits.to_vec();
        for degrees in [&mut self.trial, &mut self.best] {
            degrees.iter_mut().zip(limits).for_each(|(degree, limit)| *degree = (*degree).min(*limit));
        }
        if self.repeat_best { self.best.clone() } else { self.trial.clone() }
    }

    /// The best so far.
    pub(super) fn best(&self) -> &[u32] {
        &self.best
    }

    /// A run has ended. Several may run at the same time: the result of degrees that are no longer on trial is only
    /// stored.
    pub(super) fn ran(&mut self, degrees: &[u32], time: Duration, costs: &[PipelineCost]) {
        self.runs += 1;
        self.since = (self.since.0.saturating_add(1), self.since.1 + time);
        let first = self.since.0;
        let tried = self.tried.entry(degrees.to_vec()).or_insert_with(|| TriedWay { times: Times::default(), first });
        tried.times.add(time);
        if self.step == TrialPurpose::Settled {
            if degrees == self.best {
                self.watch(time);
            }
            return;
        }
        if degrees == self.trial {
            self.costs = costs.to_vec();
        }
        if degrees == self.trial || degrees == self.best {
            self.decide();
        }
    }

    fn times(&self, degrees: &[u32]) -> Option<&Times> {
        self.tried.get(degrees).map(|tried| &tried.times)
    }

    fn noise(&self) -> f64 {
        noise(self.tried.values().map(|tried| &tried.times))
    }

    fn decide(&mut self) {
        let Some(trial) = self.times(&self.trial) else { return };
        if self.step == TrialPurpose::Serial {
            return self.advance();
        }
        let judgement = self.times(&self.best).map(|best| judge(trial, best, self.noise()));
        self.repeat_best = judgement == Some(Judgement::RunSecond);
        match judgement {
            Some(Judgement::RunFirst | Judgement::RunSecond) => {}
            Some(Judgement::NotBetter) => {
                self.count_failure();
                self.advance();
            }
            // The best is not comparable if a limit has overtaken it.
            Some(Judgement::Better) | None => {
                self.best = self.trial.clone();
                if let TrialPurpose::Grow(pipeline) = self.step {
                    self.fruitless[pipeline] = 0;
                    self.credit = (self.credit + 1).min(CREDIT);
                }
                self.advance();
            }
        }
    }

    fn count_failure(&mut self) {
        let TrialPurpose::Grow(pipeline) = self.step else { return };
        self.credit -= 1;
        self.fruitless[pipeline] += 1;
        if self.fruitless[pipeline] == FRUITLESS_MAX {
            self.trial[pipeline] = self.best[pipeline];
        }
    }

    /// Chooses the next trial. During the walk, it starts from the present one.
    fn advance(&mut self) {
        let is_walking = matches!(self.step, TrialPurpose::Serial | TrialPurpose::Grow(_));
        let dearest = if is_walking && self.credit > 0 { self.dearest() } else { None };
        if let Some(pipeline) = dearest {
            let grown = self.trial[pipeline] + (1 << self.fruitless[pipeline]);
            self.trial[pipeline] = grown.min(self.limits[pipeline]);
            self.step = TrialPurpose::Grow(pipeline);
            return;
        }
        let best = &self.best;
        self.candidates.retain(|candidate| candidate != best);
        (self.trial, self.step) = match self.candidates.pop() {
            Some(candidate) => (candidate, TrialPurpose::Candidate),
            None => (self.best.clone(), TrialPurpose::Settled),
        };
        self.reference = self.times(&self.best).cloned().unwrap_or_default();
    }

    /// The pipeline with the most time, among those that can still grow.
    fn dearest(&self) -> Option<usize> {
        let all: Duration = self.costs.iter().map(|cost| cost.wall).sum();
        let may_grow = |pipeline: usize| {
            self.trial[pipeline] < self.limits[pipeline]
                && self.fruitless[pipeline] < FRUITLESS_MAX
                && self.costs[pipeline].wall > all.mul_f64(SHARE_MIN)
        };
        let open = (0..self.costs.len().min(self.trial.len())).filter(|&pipeline| may_grow(pipeline));
        open.max_by_key(|&pipeline| (self.costs[pipeline].wall, self.costs[pipeline].cpu))
    }

    /// Judges a run of the best after the search has settled.
    fn watch(&mut self, time: Duration) {
        self.recent.push(time.as_secs_f64().max(1e-9).ln());
        if self.recent.len() < self.watched {
            return;
        }
        if has_moved(&self.recent, &self.reference, self.noise()) {
            let again = DegreeSearch::new(self.limits.clone(), vec![self.best.clone()]);
            *self = DegreeSearch {
                watched: (self.watched * 2).min(WATCHED.1),
                runs: self.runs,
                lost: self.regret_before_change().unwrap_or(self.lost),
                reopened: self.reopened + 1,
                ..again
            };
        }
        self.recent.clear();
    }

    /// The time that all runs took beyond the time that they would have taken with the best. Times of the best before
    /// it changed are not compared with its times since.
    fn regret(&self) -> Option<Duration> {
        let (runs, time) = self.since;
        let known = if self.step == TrialPurpose::Settled { Some(&self.reference) } else { self.times(&self.best) };
        Some(self.lost + time.saturating_sub(known?.typical()? * runs))
    }

    /// The same, when the runs that are judged together are found to have changed.
    fn regret_before_change(&self) -> Option<Duration> {
        let changed: f64 = self.recent.iter().map(|log| log.exp()).sum();
        let runs = self.since.0.saturating_sub(u32::try_from(self.recent.len()).unwrap_or(u32::MAX));
        let time = self.since.1.saturating_sub(Duration::from_secs_f64(changed));
        Some(self.lost + time.saturating_sub(self.reference.typical()? * runs))
    }

    /// The result of the search so far.
    pub(super) fn convergence(&self, load: LoadBucket) -> Convergence {
        let tried = self.tried.get(&self.best);
        let typical = tried.and_then(|tried| tried.times.typical());
        let serial = self.times(&vec![1; self.best.len()]).and_then(Times::typical);
        Convergence {
            load,
            best: self.best.clone(),
            is_settled: self.step == TrialPurpose::Settled,
            runs: self.runs,
            runs_to_best: tried.map(|tried| tried.first.into()),
            typical,
            speed_up: serial.zip(typical).map(|(serial, best)| serial.as_secs_f64() / best.as_secs_f64()),
            regret: self.regret(),
            reopened: self.reopened,
        }
    }
}
