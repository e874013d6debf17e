//! Two runs of an experiment against each other, point by point.
//!
//! The two are measured at different times, so blocks cannot be paired, and drift of the machine between them is part of the
//! difference: run them on a quiet machine, one soon after the other. There are three answers ([`Answer`]): slower or faster, if
//! the interval of the ratio ([`compare_runs`]) excludes 1; no difference larger than a margin, if the interval lies within it; and
//! undecided, with the loss that is not excluded.

mod answer;
mod failures;
mod settings;

use std::collections::BTreeMap;

use plimsoll_model::statistics::{Noise, Samples, compare_runs};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::analysis::Rank;
use crate::analysis::cells::{Cell, Cells};
use crate::analysis::equal_mix::{Costs, speed};
use crate::results::{Interval, Mode, Results, WorkloadResult};

pub use answer::{Answer, MARGIN};
pub use failures::{ComparedFailures, FailedShare, WithoutValidRun};
use failures::{failures, without_valid_run};

/// The result of comparing two runs.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Comparison {
    /// Workloads of which requests fail more often in one of the two.
    pub failures: Vec<ComparedFailures>,
    /// Settings and arms of which one of the two has no valid run.
    pub without_valid_run: Vec<WithoutValidRun>,
    /// Settings that differ, as `name: base -> new`, also those that may. Settings of the target that only one of the two has are
    /// named in one line.
    pub differences: Vec<String>,
    /// The difference that is small enough to be called none, 0.05 for 5 %.
    pub margin: f64,
    /// Each setting, arm and workload that both have.
    pub points: Vec<ComparedPoint>,
    /// How many points only one of the two has.
    pub unmatched: usize,
}

/// One setting, arm and workload of both runs.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ComparedPoint {
    /// The swept settings.
    pub setting: BTreeMap<String, Value>,
    /// The arm.
    pub arm: String,
    /// The workload.
    pub workload: String,
    /// Valid runs of the base, as positions in its points.
    pub base_runs: Vec<usize>,
    /// Valid runs of the other.
    pub runs: Vec<usize>,
    /// Throughput over the base's; for analytical workloads at an equal mix of queries. `None` if one of them has no run.
    pub throughput: Option<Interval>,
    /// The answer that follows from it.
    pub throughput_answer: Answer,
    /// Mean latency over the base's; `None` if nothing completed in one of them.
    pub mean_latency: Option<Interval>,
    /// The answer that follows from it; `Faster` is less latency.
    pub latency_answer: Answer,
}

/// Why two runs are not compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// One was measured and the other simulated.
    #[error(
        "one of the two was measured and the other simulated: their throughputs cannot be compared. Compare the ratios of each with those that its claims name"
    )]
    Modes,
    /// They ran different things.
    #[error("the two ran different workloads ({}), so a difference would mean nothing. To compare them anyway, use --anyway", .0.join("; "))]
    Workloads(Vec<String>),
    /// They ran on different machines.
    #[error("the two ran on different machines ({base} and {other}); to compare them anyway, use --anyway")]
    Machines {
        /// The base's, with its fingerprint.
        base: String,
        /// The other's.
        other: String,
    },
    /// They have no point in common.
    #[error("the two have no setting, arm and workload in common")]
    NothingInCommon,
}

/// Compares `other` with `base`. A difference within `margin`, 0.05 for 5 %, is small enough to be called none. With `anyway`,
/// also if workloads or machines differ.
pub fn compare(base: &Results, other: &Results, margin: f64, anyway: bool) -> Result<Comparison, CompareError> {
    let (differences, of_workloads) = settings::differences(base, other);
    if !anyway && !of_workloads.is_empty() {
        return Err(CompareError::Workloads(of_workloads));
    }
    if base.mode != other.mode {
        return Err(CompareError::Modes);
    }
    // A simulation is the same on any machine.
    let is_measured = base.mode == Mode::Measured;
    if !anyway && is_measured && base.machine_fingerprint != other.machine_fingerprint {
        let told = |results: &Results| format!("{}, {}", results.machine.cpu_model, results.machine_fingerprint);
        return Err(CompareError::Machines { base: told(base), other: told(other) });
    }
    let (base_cells, cells) = (Cells::of(&base.points), Cells::of(&other.points));
    let workloads = base_cells.workloads();
    let compared = workloads.iter().map(|workload| Pairs::of(&base_cells, &cells, workload));
    let mut points: Vec<ComparedPoint> =
        compared.flat_map(|pairs| pairs.compare(&base_cells, &cells, margin)).collect();
    let rank = Rank::of(&base.experiment);
    points.sort_by_cached_key(|point| rank.of_cell(&point.setting, &point.arm, &point.workload));
    let without_valid_run = without_valid_run(base, other);
    if points.is_empty() && without_valid_run.is_empty() {
        return Err(CompareError::NothingInCommon);
    }
    let unmatched = base_cells.len() + cells.len() - 2 * points.len();
    Ok(Comparison { failures: failures(base, other), without_valid_run, differences, margin, points, unmatched })
}

/// The cells of one workload that both runs have, and their samples, row by row.
struct Pairs<'a, 'b> {
    pairs: Vec<(&'b Cell<'a>, &'b Cell<'a>)>,
    speed: [Samples; 2],
    latency: [Samples; 2],
}

impl<'a, 'b> Pairs<'a, 'b> {
    fn of(base_cells: &'b Cells<'a>, cells: &'b Cells<'a>, workload: &str) -> Self {
        let pair = |base: &'b Cell<'a>| {
            let other = cells.of_workload(workload).find(|cell| cell.arm == base.arm && cell.setting == base.setting);
            Some((base, other.filter(|cell| !cell.runs.is_empty() && !base.runs.is_empty())?))
        };
        let pairs: Vec<_> = base_cells.of_workload(workload).filter_map(pair).collect();
        let costs: Vec<Option<Costs>> = pairs
            .iter()
            .map(|(base, other)| {
                let (base, other) = (results(base_cells, base), results(cells, other));
                let all: Vec<_> = base.iter().chain(&other).copied().collect();
                Costs::of(&base, &all)
            })
            .collect();
        let samples = |of: &dyn Fn(usize, &WorkloadResult) -> Option<f64>| {
            let row = |cells: &Cells<'a>, cell: &Cell<'a>, row: usize| {
                let runs = cell.runs.iter().map(|run| (cells.block(*run), of(row, cells.result(cell, *run))));
                runs.collect::<Vec<_>>()
            };
            let base = pairs.iter().enumerate().map(|(number, (base, _))| row(base_cells, base, number));
            let other = pairs.iter().enumerate().map(|(number, (_, other))| row(cells, other, number));
            [in_blocks(base.collect()), in_blocks(other.collect())]
        };
        let speed = samples(&|row, result| Some(speed(result, costs[row].as_ref())));
        let latency =
            samples(&|_, result| result.all.latency_us.map(|latency| latency.mean).filter(|mean| *mean >= 0.0));
        Pairs { pairs, speed, latency }
    }

    fn compare(&self, base_cells: &Cells<'a>, cells: &Cells<'a>, margin: f64) -> Vec<ComparedPoint> {
        let noise = |samples: &[Samples; 2]| [Noise::of(&samples[0]), Noise::of(&samples[1])];
        let (speed_noise, latency_noise) = (noise(&self.speed), noise(&self.latency));
        let ratio = |[base, other]: &[Samples; 2], [base_noise, noise]: &[Option<Noise>; 2], row: usize| {
            compare_runs((other, row, noise.as_ref()), (base, row, base_noise.as_ref())).map(Interval::from)
        };
        let point = |(row, (base, other)): (usize, &(&Cell<'a>, &Cell<'a>))| {
            let throughput = ratio(&self.speed, &speed_noise, row);
            let mean_latency = ratio(&self.latency, &latency_noise, row);
            let completed_min = base_cells.completed_min(base).min(cells.completed_min(other));
            ComparedPoint {
                setting: base.setting.clone(),
                arm: base.arm.to_owned(),
                workload: base.workload.to_owned(),
                base_runs: base.runs.clone(),
                runs: other.runs.clone(),
                throughput,
                throughput_answer: Answer::of_speed(throughput, margin, 1.0 / completed_min.max(1) as f64),
                mean_latency,
                latency_answer: Answer::of_latency(mean_latency, margin),
            }
        };
        self.pairs.iter().enumerate().map(point).collect()
    }
}

fn results<'a>(cells: &Cells<'a>, cell: &Cell<'a>) -> Vec<&'a WorkloadResult> {
    cell.runs.iter().map(|run| cells.result(cell, *run)).collect()
}

/// Figures of runs, row by row, each with the block in which it ran; a row may lack some.
fn in_blocks(rows: Vec<Vec<(usize, Option<f64>)>>) -> Samples {
    let blocks = rows.iter().flatten().map(|(block, _)| block + 1).max().unwrap_or(0);
    let row = |runs: Vec<(usize, Option<f64>)>| {
        let mut row = vec![None; blocks];
        runs.into_iter().for_each(|(block, figure)| row[block] = figure);
        row
    };
    Samples::new(rows.into_iter().map(row).collect())
}

#[cfg(test)]
mod tests;
