//! The figures that claims are about, from all runs or from those of one block.

use std::collections::BTreeMap;

use plimsoll_workload::driver::Histogram;

use super::cells::key;
use super::lock_figures;
use crate::claim::{Cell, Figures, LockFigure, MachineFigure, Metric, Part, Percentile, TimePart};
use crate::histograms::merged;
use crate::latency;
use crate::plan::Plan;
use crate::record::RunRecord;
use crate::results::{self, KneeLevel, LockStatistics, Results, WorkloadResult};
use crate::summary::equal_mix::{Costs, speed};

/// Figures of some of an experiment's runs: of all, of one block, or of the second runs of one block.
#[derive(Debug)]
pub(super) struct RunFigures<'a> {
    plan: &'a Plan,
    results: &'a Results,
    /// Valid runs by setting and arm.
    runs: BTreeMap<(usize, usize), Vec<&'a RunRecord>>,
}

impl<'a> RunFigures<'a> {
    /// Those of every valid run.
    pub(super) fn new(plan: &'a Plan, results: &'a Results, records: &'a [RunRecord]) -> Self {
        Self::of_those(plan, results, records.iter().filter(|record| !record.id.is_again))
    }

    /// Those of the valid runs of one block: its first runs, or the second ones of settings that run twice (A/A).
    pub(super) fn of_block(&self, records: &'a [RunRecord], block: u32, is_again: bool) -> Self {
        let wanted = records.iter().filter(|record| record.id.repeat == block && record.id.is_again == is_again);
        Self::of_those(self.plan, self.results, wanted)
    }

    fn of_those(plan: &'a Plan, results: &'a Results, records: impl Iterator<Item = &'a RunRecord>) -> Self {
        let mut runs: BTreeMap<(usize, usize), Vec<&RunRecord>> = BTreeMap::new();
        for record in records.filter(|record| record.point.valid) {
            runs.entry((record.id.setting, record.id.arm)).or_default().push(record);
        }
        RunFigures { plan, results, runs }
    }

    /// The runs of a cell, which are not none.
    fn runs_of(&self, setting: usize, arm: usize) -> Result<&[&'a RunRecord], String> {
        let runs = self.runs.get(&(setting, arm)).filter(|runs| !runs.is_empty());
        runs.map(Vec::as_slice).ok_or_else(|| {
            let swept = key(&self.plan.setting(setting).swept).trim_end().replace('\n', ", ");
            let at = if swept.is_empty() { String::new() } else { format!(" at {swept}") };
            format!("there is no valid run of {}{at}", self.plan.arms[arm].name)
        })
    }

    fn workload(&self, workload: usize) -> &'a str {
        &self.plan.base.workloads[workload].name
    }

    fn results_of(&self, setting: usize, arm: usize, workload: usize) -> Result<Vec<&'a WorkloadResult>, String> {
        let name = self.workload(workload);
        let result = |record: &&'a RunRecord| record.point.workloads.iter().find(|result| result.name == name);
        Ok(self.runs_of(setting, arm)?.iter().filter_map(result).collect())
    }

    fn throughput(&self, cell: &Cell) -> Result<f64, String> {
        let results = self.results_of(cell.setting, cell.arm, cell.workload)?;
        let of_run = |result: &&WorkloadResult| match part_of(result, &cell.part) {
            // A run without any such request had a throughput of 0.
            Some(part) => part.throughput_per_s,
            None => 0.0,
        };
        Ok(results.iter().map(of_run).sum::<f64>() / results.len() as f64)
    }

    fn mean_latency(&self, cell: &Cell) -> Result<f64, String> {
        let results = self.results_of(cell.setting, cell.arm, cell.workload)?;
        let parts = results.iter().filter_map(|result| part_of(result, &cell.part));
        let means = parts.filter_map(|part| Some((part.latency_us?.mean, part.completed as f64)));
        let (total, count) = means.fold((0.0, 0.0), |(total, count), (mean, n)| (total + mean * n, count + n));
        if count > 0.0 { Ok(total / count) } else { Err(self.nothing_completed(cell)) }
    }

    fn percentile(&self, cell: &Cell, percentile: Percentile) -> Result<f64, String> {
        let all = self.histogram(cell)?;
        let figures = latency::figures(&all).ok_or_else(|| self.nothing_completed(cell))?;
        let value = match percentile {
            Percentile::P50 => figures.p50,
            Percentile::P90 => figures.p90,
            Percentile::P95 => figures.p95,
            Percentile::P99 => figures.p99,
            Percentile::P999 => figures.p999,
        };
        let (name, completed) = (percentile.name(), all.len());
        value.map(|us| us as f64).ok_or_else(|| format!("{completed} requests are too few for a {name}"))
    }

    /// Latencies of the requests of all runs of a cell.
    fn histogram(&self, cell: &Cell) -> Result<Histogram<u64>, String> {
        let name = self.workload(cell.workload);
        let runs = self.runs_of(cell.setting, cell.arm)?.iter();
        let workloads = runs.filter_map(|record| record.histograms.iter().find(|one| one.workload == name));
        let all = match &cell.part {
            Part::All => merged(workloads.flat_map(|one| one.transactions.values())),
            Part::Class(class) => merged(workloads.filter_map(|one| one.classes.get(&*class.name()))),
            Part::Transaction(kind) => merged(workloads.filter_map(|one| one.transactions.get(kind))),
        };
        all.ok_or_else(|| self.nothing_completed(cell))
    }

    fn time_share(&self, cell: &Cell, part: TimePart) -> Result<f64, String> {
        let results = self.results_of(cell.setting, cell.arm, cell.workload)?;
        let of_run = |result: &&WorkloadResult| {
            let share = result.time_share?;
            match part {
                TimePart::RoundTrip => result.round_trip_share,
                TimePart::CpuRun => share.cpu_run,
                TimePart::CpuWait => share.cpu_wait,
                TimePart::Io => share.io,
                TimePart::IoLatch => share.io_latch,
                TimePart::Lock => share.lock,
                TimePart::Client => share.client,
                TimePart::Other => Some(share.other),
            }
        };
        let shares: Option<Vec<f64>> = results.iter().map(of_run).collect();
        let missing = || format!("the share {} of {} was not measured", part.name(), self.workload(cell.workload));
        shares.map(|shares| shares.iter().sum::<f64>() / shares.len() as f64).ok_or_else(missing)
    }

    fn relative_to_alone(&self, cell: &Cell) -> Result<f64, String> {
        let name = format!("alone:{}", self.workload(cell.workload));
        let alone = self.plan.arms.iter().position(|arm| arm.name == name);
        let alone = alone.ok_or_else(|| format!("there is no arm {name} to compare with"))?;
        let ratio = if cell.part == Part::All {
            let [shared, alone] = [cell.arm, alone].map(|arm| self.results_of(cell.setting, arm, cell.workload));
            let (shared, alone) = (shared?, alone?);
            let all: Vec<_> = shared.iter().chain(&alone).copied().collect();
            let costs = Costs::of(&alone, &all);
            let mean = |runs: &[&WorkloadResult]| {
                runs.iter().map(|run| speed(run, costs.as_ref())).sum::<f64>() / runs.len() as f64
            };
            mean(&shared) / mean(&alone)
        } else {
            self.throughput(cell)? / self.throughput(&Cell { arm: alone, ..cell.clone() })?
        };
        if ratio.is_finite() { Ok(ratio) } else { Err(format!("{name} completed nothing to compare with")) }
    }

    /// The mean over the runs; not measured if it is missing in any of them.
    fn machine(&self, cell: &Cell, figure: MachineFigure) -> Result<f64, String> {
        let name = self.workload(cell.workload);
        let runs = self.runs_of(cell.setting, cell.arm)?;
        let of_run = |record: &&RunRecord| {
            let point = &record.point;
            let workload = point.workloads.iter().find(|result| result.name == name)?;
            let document = match figure {
                MachineFigure::PerRequest(_) => serde_json::to_value(workload.counters.as_ref()?).ok()?,
                MachineFigure::TopDown(_) => serde_json::to_value(workload.top_down.as_ref()?).ok()?,
                MachineFigure::CacheMisses(_) => serde_json::to_value(workload.cache_misses.as_ref()?).ok()?,
                MachineFigure::Device(_) => serde_json::to_value(point.device).ok()?,
                MachineFigure::Achieved(_) => serde_json::to_value(&point.achieved).ok()?,
            };
            let value = document.get(figure.key())?.as_f64()?;
            match figure {
                MachineFigure::PerRequest(_) if workload.completed == 0 => None,
                MachineFigure::PerRequest(_) => Some(value / workload.completed as f64),
                _ => Some(value),
            }
        };
        let values: Option<Vec<f64>> = runs.iter().map(of_run).collect();
        let values = values.ok_or_else(|| format!("{} of {name} was not measured", figure.key()))?;
        Ok(values.iter().sum::<f64>() / values.len() as f64)
    }

    /// Of all runs together, so that a run counts by what happened in it.
    fn at_locks(&self, cell: &Cell, figure: LockFigure) -> Result<f64, String> {
        let results = self.results_of(cell.setting, cell.arm, cell.workload)?;
        let is_meant = |class: &str| match &cell.part {
            Part::Class(priority) => priority.name() == class,
            _ => true,
        };
        let classes = results.iter().flat_map(|result| &result.classes).filter(|(class, _)| is_meant(class));
        let known: Option<Vec<&LockStatistics>> = classes.map(|(_, part)| part.locks.as_ref()).collect();
        let name = self.workload(cell.workload);
        let known = known.ok_or_else(|| format!("this target cannot tell the lock waits of {name} apart"))?;
        let all = LockStatistics::merged(&known);
        if all.requests == 0 {
            return Err(self.nothing_completed(cell));
        }
        lock_figures::figure(&all, figure)
    }

    fn nothing_completed(&self, cell: &Cell) -> String {
        let (workload, arm) = (self.workload(cell.workload), &self.plan.arms[cell.arm].name);
        format!("no request of {workload} completed in {arm} ({})", cell.part)
    }
}

/// A workload's requests, or a part of them.
fn part_of(result: &WorkloadResult, part: &Part) -> Option<results::Part> {
    match part {
        Part::All => Some(results::Part {
            completed: result.completed,
            throughput_per_s: result.throughput_per_s,
            latency_us: result.latency_us,
            ..results::Part::default()
        }),
        // Lock statistics are looked at where they lie; they are too large to be copied for every figure.
        Part::Class(class) => result.classes.get(&*class.name()).map(|part| results::Part { locks: None, ..*part }),
        Part::Transaction(name) => result.transactions.get(name).cloned(),
    }
}

impl Figures for RunFigures<'_> {
    fn figure(&self, cell: &Cell, metric: Metric) -> Result<f64, String> {
        match metric {
            Metric::Throughput => self.throughput(cell),
            Metric::MeanLatency => self.mean_latency(cell),
            Metric::Latency(percentile) => self.percentile(cell, percentile),
            Metric::TimeShare(part) => self.time_share(cell, part),
            Metric::ThroughputRelativeToAlone => self.relative_to_alone(cell),
            Metric::Machine(figure) => self.machine(cell, figure),
            Metric::Lock(figure) => self.at_locks(cell, figure),
        }
    }

    fn knee(&self, axis: usize, share: f64, cell: &Cell) -> Result<f64, String> {
        let level = self.knee_level(axis, share, cell)?;
        level.allocation.ok_or_else(|| level.why_not.clone().unwrap_or_else(|| "it is not determined".to_owned()))
    }

    fn knee_bounds(&self, axis: usize, share: f64, cell: &Cell) -> Result<[f64; 2], String> {
        let level = self.knee_level(axis, share, cell)?;
        let bounds = level.low.zip(level.high).map(|(low, high)| [low, high]);
        bounds.ok_or_else(|| "the knee has no interval".to_owned())
    }

    fn resolution(&self, cell: &Cell, metric: Metric) -> f64 {
        if !matches!(metric, Metric::Throughput | Metric::ThroughputRelativeToAlone) {
            return 0.0;
        }
        let runs = self.results_of(cell.setting, cell.arm, cell.workload).unwrap_or_default();
        let completed = |run: &&WorkloadResult| part_of(run, &cell.part).map_or(0, |part| part.completed);
        let all: u64 = runs.iter().map(completed).sum();
        1.0 / all.max(1) as f64
    }
}

impl RunFigures<'_> {
    fn knee_level(&self, axis: usize, share: f64, cell: &Cell) -> Result<&KneeLevel, String> {
        let axis = &self.plan.axes[axis];
        let mut setting = self.plan.setting(cell.setting).swept;
        setting.remove(&axis.key);
        let (arm, workload) = (&self.plan.arms[cell.arm].name, self.workload(cell.workload));
        let found = self.results.knees.iter().find(|knee| {
            knee.axis == axis.key && knee.setting == setting && knee.arm == *arm && knee.workload == workload
        });
        let level = found.and_then(|knee| knee.levels.iter().find(|level| (level.share - share).abs() < 1e-9));
        level.ok_or_else(|| format!("no knee for {share} was looked for along {}; there are 0.9 and 0.95", axis.key))
    }
}
