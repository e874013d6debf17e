//! Which runs a search for sizes makes next: a pure function of its plan and of the runs so far.
//!
//! A block has one run with everything, and one for each amount that a search along some axis asks for, with everything
//! else in full. All axes share the full run, so a block costs little more than the amounts in it. A search that was killed
//! continues as it would have, because nothing but the records counts, the time that they took included.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plimsoll_display::distinct;
use plimsoll_model::knee::SHARES;
use plimsoll_model::knee::bracket::{Bracket, BracketSearch, Trial};
use plimsoll_policy::{Target, TargetLimit};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

use super::slow_downs;
use crate::analysis::equal_mix::{Costs, speed};
use crate::limits::MEMORY_MIB;
use crate::plan::{Plan, SweepTarget};
use crate::record::{RunId, RunRecord};
use crate::results::WorkloadResult;

/// How often a larger load runs, and all limits at once.
const BLOCKS: usize = 4;

/// An amount is given up after as many runs without a figure.
const FRUITLESS_MAX: usize = 3;

/// Speed of a run that its memory ended, relative to the full one.
const ENDED: f64 = 1e-3;

/// Longer gaps between runs are pauses of an experiment that was continued later.
const GAP_MAX_S: f64 = 60.0;

/// What an amount is sufficient for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    /// This share of full speed.
    Share(f64),
    /// This promise on response times.
    Promise(Target),
}

/// The goals of a plan: shares of full speed, and its promise if it has one.
pub(crate) fn goals(plan: &Plan) -> Vec<Goal> {
    SHARES.into_iter().map(Goal::Share).chain(plan.run.sizing.promise.map(Goal::Promise)).collect()
}

/// Whether an axis is a load, not a resource.
pub(crate) fn is_load(plan: &Plan, axis: usize) -> bool {
    matches!(&plan.axes[axis].place, SweepTarget::Workload(_, field) if field == "clients" || field == "rate")
}

/// The runs of a setting that have no figure.
#[derive(Default)]
struct Fruitless<'a> {
    count: usize,
    /// Those in which the database did not run at all.
    ended: usize,
    reasons: Vec<&'a str>,
}

/// The runs of a plan so far.
pub(crate) struct Evidence<'a> {
    plan: &'a Plan,
    /// The workload's result in each valid run, by setting and block.
    valid: BTreeMap<(usize, u32), &'a WorkloadResult>,
    /// Runs without a figure, by setting.
    fruitless: BTreeMap<usize, Fruitless<'a>>,
    costs: Option<Costs>,
    blocks: u32,
    /// Seconds that the runs took, loading included.
    pub(crate) spent_s: f64,
    runs: usize,
}

impl<'a> Evidence<'a> {
    /// Of runs in the order in which they were made.
    pub(crate) fn of(plan: &'a Plan, records: impl Iterator<Item = &'a RunRecord>) -> Self {
        let mut evidence = Evidence {
            plan,
            valid: BTreeMap::new(),
            fruitless: BTreeMap::new(),
            costs: None,
            blocks: 0,
            spent_s: 0.0,
            runs: 0,
        };
        let mut ended_s = 0.0;
        for record in records {
            let RunRecord { id, point, .. } = record;
            evidence.blocks = evidence.blocks.max(id.repeat);
            evidence.runs += 1;
            let end_s = point.at_s + point.window_s;
            evidence.spent_s += (end_s - ended_s).clamp(0.0, GAP_MAX_S + point.warmup_s + point.window_s);
            ended_s = end_s;
            match point.workloads.first().filter(|_| point.valid) {
                Some(result) => drop(evidence.valid.insert((id.setting, id.repeat), result)),
                None => {
                    let fruitless = evidence.fruitless.entry(id.setting).or_default();
                    fruitless.count += 1;
                    fruitless.ended += usize::from(point.workloads.is_empty());
                    fruitless.reasons.extend(point.why_invalid.as_deref());
                }
            }
        }
        let all: Vec<&WorkloadResult> = evidence.valid.values().copied().collect();
        let full = evidence.full();
        let of_full: Vec<_> = evidence.of_setting(full).map(|(_, result)| result).collect();
        evidence.costs = Costs::of(&of_full, &all);
        evidence
    }

    /// The setting with everything.
    pub(crate) fn full(&self) -> usize {
        self.with(&[])
    }

    /// The setting with these amounts, as axes and positions, and everything else in full.
    pub(crate) fn with(&self, amounts: &[(usize, usize)]) -> usize {
        let mut positions: Vec<usize> = self.plan.axis_lengths().iter().map(|length| length - 1).collect();
        amounts.iter().for_each(|(axis, position)| positions[*axis] = *position);
        self.plan.setting_number(&positions)
    }

    /// The valid runs of a setting, by block.
    pub(crate) fn of_setting(&self, setting: usize) -> impl Iterator<Item = (u32, &'a WorkloadResult)> {
        self.valid.range((setting, 0)..=(setting, u32::MAX)).map(|((_, block), result)| (*block, *result))
    }

    /// The speed of a setting over that of everything, of each block that has both.
    pub(crate) fn ratios(&self, setting: usize) -> Vec<f64> {
        let full = self.full();
        let costs = self.costs.as_ref();
        let ratio = |(block, result): (u32, &WorkloadResult)| {
            let full = speed(self.valid.get(&(full, block))?, costs);
            (full > 0.0).then(|| speed(result, costs) / full)
        };
        self.of_setting(setting).filter_map(ratio).collect()
    }

    /// The promised percentile in each run of a setting, microseconds.
    pub(crate) fn latencies_us(&self, setting: usize, target: Target) -> Vec<f64> {
        self.of_setting(setting).filter_map(|(_, result)| percentile_us(result, target)).collect()
    }

    /// The trial of a setting for a goal.
    fn trial(&self, axis: usize, setting: usize, goal: Goal) -> Trial {
        let mut distances: Vec<f64> = match goal {
            Goal::Share(share) => self.ratios(setting).iter().map(|ratio| ratio.max(ENDED).ln() - share.ln()).collect(),
            Goal::Promise(target) => {
                let limit_us = limit_us(target);
                self.latencies_us(setting, target).iter().map(|latency| (limit_us / latency.max(1e-3)).ln()).collect()
            }
        };
        let (fruitless, ended) = self.fruitless.get(&setting).map_or((0, 0), |runs| (runs.count, runs.ended));
        // Too little memory ends server processes: that is an answer, not a fault.
        if self.plan.axes[axis].key == MEMORY_MIB {
            distances.extend(std::iter::repeat_n(ENDED.ln(), ended));
        }
        let mute = self.of_setting(setting).count().saturating_sub(distances.len());
        let given_up = distances.len() < 2 && fruitless + mute >= FRUITLESS_MAX;
        Trial { distances, given_up }
    }

    /// The search along an axis for a goal.
    pub(crate) fn search(&self, axis: usize, goal: Goal) -> BracketSearch {
        let setting = |at: usize| self.with(&[(axis, at)]);
        let trials: Vec<Trial> =
            (0..self.plan.axes[axis].values.len()).map(|at| self.trial(axis, setting(at), goal)).collect();
        match goal {
            Goal::Share(_) => BracketSearch::of_share(&trials),
            Goal::Promise(_) => BracketSearch::of_promise(&trials),
        }
    }

    /// Whether no amount of an axis below the full one has a figure, though some ran.
    pub(crate) fn is_mute(&self, axis: usize) -> bool {
        let has_figure = |setting: usize| self.of_setting(setting).next().is_some();
        !self.below(axis).any(has_figure) && self.below(axis).any(|setting| self.fruitless.contains_key(&setting))
    }

    /// Why runs along an axis have no figure, each reason once.
    pub(crate) fn reasons(&self, axis: usize) -> Vec<&'a str> {
        distinct(
            self.below(axis).filter_map(|at| self.fruitless.get(&at)).flat_map(|runs| runs.reasons.iter().copied()),
        )
    }

    fn below(&self, axis: usize) -> impl Iterator<Item = usize> {
        (0..self.plan.axes[axis].values.len() - 1).map(move |at| self.with(&[(axis, at)]))
    }

    /// The setting with the sufficient amount of every resource at once: for the promise if there is one and it is kept,
    /// else for the larger share. `None` if nothing can be spared.
    pub(crate) fn joint(&self) -> Option<usize> {
        let goals = goals(self.plan);
        let resources = || (0..self.plan.axes.len()).filter(|axis| !is_load(self.plan, *axis));
        let kept = goals.iter().rev().find(|goal| {
            matches!(goal, Goal::Share(_)) || resources().all(|axis| self.search(axis, **goal).bracket().high.is_some())
        })?;
        let amount = |axis: usize| {
            let Bracket { high, .. } = self.search(axis, *kept).bracket();
            high.filter(|high| high + 1 < self.plan.axes[axis].values.len()).map(|high| (axis, high))
        };
        let amounts: Vec<(usize, usize)> = resources().filter_map(amount).collect();
        (amounts.len() > 1).then(|| self.with(&amounts))
    }

    /// The settings of the next block beside the full one; empty if nothing more can be learned.
    fn wanted(&self) -> BTreeSet<usize> {
        let goals = goals(self.plan);
        let mut wanted = BTreeSet::new();
        for axis in 0..self.plan.axes.len() {
            if is_load(self.plan, axis) {
                wanted.extend(self.unless_known(self.with(&[(axis, 0)])));
                continue;
            }
            let next = goals.iter().filter_map(|goal| self.search(axis, *goal).next());
            wanted.extend(next.map(|at| self.with(&[(axis, at)])));
        }
        if wanted.is_empty() {
            wanted.extend(self.joint().and_then(|setting| self.unless_known(setting)));
        }
        // What time is left goes to the question which request is hurt by what.
        if wanted.is_empty() {
            wanted.extend(slow_downs::undecided(self, self.plan));
        }
        wanted
    }

    fn unless_known(&self, setting: usize) -> Option<usize> {
        let fruitless = self.fruitless.get(&setting).map_or(0, |runs| runs.count);
        (self.of_setting(setting).count() < BLOCKS && fruitless < FRUITLESS_MAX).then_some(setting)
    }
}

/// The runs of the next block, in their order; empty if the search is over, or another block would exceed its budget.
pub(crate) fn next_block<'a>(plan: &'a Plan, records: impl Iterator<Item = &'a RunRecord>) -> Vec<RunId> {
    let evidence = Evidence::of(plan, records);
    let mut settings = evidence.wanted();
    if settings.is_empty() {
        return Vec::new();
    }
    settings.insert(evidence.full());
    let planned_s = plan.estimated_time(1).as_secs_f64();
    let run_s = if evidence.runs > 0 { evidence.spent_s / evidence.runs as f64 } else { planned_s };
    let needed_s = run_s.max(planned_s) * settings.len() as f64;
    // The first two blocks show the spread, without which there is no answer at all.
    if evidence.blocks >= 2 && evidence.spent_s + needed_s > plan.run.sizing.budget.as_secs_f64() {
        return Vec::new();
    }
    let repeat = evidence.blocks + 1;
    let mut settings: Vec<usize> = settings.into_iter().collect();
    settings.shuffle(&mut Pcg64::seed_from_u64(plan.run.seed_of_block(repeat)));
    // Settings that need another server lie at one end of a block and the beginning of the next.
    settings.sort_by_key(|setting| needs_server(plan, *setting) == repeat.is_multiple_of(2));
    settings.reverse();
    settings.into_iter().map(|setting| RunId { setting, arm: 0, repeat, is_again: false }).collect()
}

/// The time that a search may still take.
pub(crate) fn time_left(plan: &Plan, records: &[RunRecord]) -> Duration {
    let spent_s = Evidence::of(plan, records.iter()).spent_s;
    plan.run.sizing.budget.saturating_sub(Duration::from_secs_f64(spent_s))
}

fn needs_server(plan: &Plan, setting: usize) -> bool {
    let setting = plan.setting(setting);
    let is_less = |key: &str| {
        let axis = plan.axes.iter().find(|axis| axis.key == key);
        axis.is_some_and(|axis| axis.values.last() != setting.swept.get(key))
    };
    is_less(MEMORY_MIB) || is_less("shared_buffers")
}

/// The limit of a promise, microseconds.
pub(crate) fn limit_us(target: Target) -> f64 {
    match target.limit {
        TargetLimit::Length(length) => length.as_secs_f64() * 1e6,
        // Refused where promises are read.
        TargetLimit::HundredthsOfAlone(_) => f64::INFINITY,
    }
}

/// The promised percentile of a run; `None` if it completed too few requests, or if runs have no such percentile.
pub(crate) fn percentile_us(result: &WorkloadResult, target: Target) -> Option<f64> {
    let latency = result.all.latency_us?;
    let us = match target.percentile.to_string().as_str() {
        "p50" => latency.p50,
        "p90" => latency.p90,
        "p95" => latency.p95,
        "p99" => latency.p99,
        "p99.9" => latency.p999,
        _ => None,
    };
    us.map(|us| us as f64)
}

#[cfg(test)]
mod tests;
