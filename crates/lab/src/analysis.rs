//! The joint results of an experiment's runs: estimates, noise, interference, knees, scalability, policies, claims.
//!
//! Everything here is a pure function of the points, their histograms and the plan, and can be computed again from a run
//! directory. Runs are sorted into cells (`cells`): one setting, one arm, one workload. Invalid runs are left out and listed. The
//! second runs of the setting that runs twice count only for the noise floor, so all settings rest on the same number of runs.
//! The statistics are [`plimsoll_model`]'s.

pub(crate) mod cells;
pub(crate) mod equal_mix;
mod estimates;
mod figures;
mod interference;
mod knees;
mod levers;
#[cfg(test)]
pub(crate) mod made_up;
mod near;
mod noise;
mod policies;
mod scalability;
pub(crate) mod side_by_side;
mod verdicts;

use crate::histograms::WorkloadHistograms;
use crate::results::{Experiment, Interval, Results};
use crate::summary::{Summary, TOGETHER};
use cells::{Cells, SettingValues};
use noise::WorkloadNoise;
pub use verdicts::judge;

/// Fills in all parts that follow from the points and their histograms. `histograms` are those of each point in order;
/// without them, figures over several runs that need them are `None`.
pub fn complete(results: &mut Results, histograms: &[&[WorkloadHistograms]]) {
    let cells = Cells::of(&results.points);
    let cores = results.machine.cores_usable;
    let workloads = cells.workloads();
    let noises: Vec<WorkloadNoise> = workloads.iter().map(|name| WorkloadNoise::of(&cells, name)).collect();
    let estimates = noises.iter().flat_map(|noise| estimates::of(&cells, noise, histograms)).collect();
    let interference = noises.iter().flat_map(|noise| interference::of(&cells, noise, cores)).collect();
    let side_by_side = side_by_side::of(&cells, &noises, cores);
    let sweep = &results.experiment.sweep;
    let knees = noises.iter().flat_map(|noise| knees::of(&cells, noise, sweep)).collect();
    let scalability = noises.iter().flat_map(|noise| scalability::of(&cells, noise, sweep)).collect();
    let noise_floor = noises.iter().map(|noise| (noise.workload().to_owned(), noise.floor())).collect();
    (results.estimates, results.interference, results.noise_floor) = (estimates, interference, noise_floor);
    (results.knees, results.scalability, results.side_by_side) = (knees, scalability, side_by_side);
    results.policies = policies::of(&cells, &workloads, sweep);
    results.levers = levers::of(&results.points);
    let rank = Rank::of(&results.experiment);
    results.estimates.sort_by_cached_key(|one| rank.of_cell(&one.setting, &one.arm, &one.workload));
    results.interference.sort_by_cached_key(|one| rank.of_cell(&one.setting, &one.arm, &one.workload));
    results.knees.sort_by_cached_key(|one| rank.of_cell(&one.setting, &one.arm, &one.workload));
    results.scalability.sort_by_cached_key(|one| rank.of_cell(&one.setting, &one.arm, &one.workload));
    let summary = Summary::of(results);
    let has = |of: fn(&str) -> bool| results.points.iter().any(|point| of(&point.arm));
    // A `bench` has no arm of one workload alone.
    let has_both = has(|arm| arm == TOGETHER) && has(|arm| arm.starts_with("alone:"));
    let is_compared = summary.workloads.len() > 1 && summary.settings_left_out == 0 && has_both;
    results.advice = if is_compared { summary.advice() } else { Vec::new() };
}

/// The order of the experiment file, for runs that ran in random order: by workload, then arm, then setting.
pub(crate) struct Rank<'a>(&'a Experiment);

impl<'a> Rank<'a> {
    pub(crate) fn of(experiment: &'a Experiment) -> Self {
        Rank(experiment)
    }

    pub(crate) fn of_cell(&self, setting: &SettingValues, arm: &str, workload: &str) -> (usize, usize, Vec<usize>) {
        let place = |names: &[String], name: &str| names.iter().position(|one| one == name).unwrap_or(names.len());
        let values = self.0.sweep.iter().map(|axis| {
            let value = setting.get(&axis.key);
            axis.values.iter().position(|one| Some(one) == value).unwrap_or(axis.values.len())
        });
        (place(&self.0.workloads, workload), place(&self.0.arms, arm), values.collect())
    }
}

impl From<plimsoll_model::statistics::Interval> for Interval {
    fn from(interval: plimsoll_model::statistics::Interval) -> Self {
        Interval { value: interval.value, low: interval.low, high: interval.high }
    }
}

#[cfg(test)]
mod tests;
