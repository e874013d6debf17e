//! The figures that claims are about: of all runs, of the runs of one block, or of the second runs of one block (A/A),
//! by the same code.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use plimsoll_workload::driver::LittlesLaw;

use super::cells::{CellFigures, key};
use super::equal_mix::{Costs, speed};
use crate::amounts::Amounts;
use crate::claim::{Cell, Figures, Metric, RequestSubset};
use crate::figures::{FigureArgument, FigureValue, Reading, figure};
use crate::histograms::WorkloadHistograms;
use crate::plan::{Plan, option_text};
use crate::record::RunRecord;
use crate::results::{KneeLevel, Point, Results, WorkloadResult};

/// By how much the two means of [`MeanResponse`] may differ, relative to the first, for claims to be judged by both.
const MEANS_DIFFERENCE_MAX: f64 = 0.25;

/// How the mean response of all requests of a workload is computed. In a steady state both ways agree (Little's law).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MeanResponse {
    /// The mean of the requests that ended within the windows.
    OfEnded,
    /// The time that requests spent within the windows, over the number of those that ended there.
    BySpent,
}

/// Figures of some of an experiment's runs.
#[derive(Debug)]
pub(super) struct RunFigures<'a> {
    plan: &'a Plan,
    results: &'a Results,
    mean: MeanResponse,
    experiment: Rc<WholeExperiment<'a>>,
    /// Valid runs by setting and arm.
    cells: BTreeMap<(usize, usize), CellRuns<'a>>,
}

/// Data that the figures of all blocks share.
#[derive(Debug)]
struct WholeExperiment<'a> {
    /// The results of a workload in each valid run, by setting, arm and the workload's position in the plan.
    runs: BTreeMap<(usize, usize, usize), Vec<&'a WorkloadResult>>,
    /// By the workload's position in the plan: the costs of requests of each kind; `None` if the kinds do not differ in
    /// cost.
    costs: Vec<Result<Option<Costs>, String>>,
}

/// The runs of an arm at a setting.
#[derive(Debug, Default)]
struct CellRuns<'a> {
    runs: Vec<&'a RunRecord>,
    /// The joint measurements of the runs, by the workload's position in the plan; computed on first use.
    measured: BTreeMap<usize, OnceCell<Option<CellFigures>>>,
}

impl<'a> RunFigures<'a> {
    /// Figures of every valid run. The joint measurements of a cell's runs are read from the document.
    pub(super) fn new(plan: &'a Plan, results: &'a Results, records: &'a [RunRecord], mean: MeanResponse) -> Self {
        let first = || records.iter().filter(|record| !record.id.is_again && record.point.valid);
        let experiment = Rc::new(WholeExperiment::of(plan, first()));
        let cells = cells_of(plan, first());
        for cell in cells.values() {
            let point = &cell.runs[0].point;
            for (workload, measured) in &cell.measured {
                let name = &plan.base.workloads[*workload].name;
                let known = results.cell(&point.setting, &point.arm, name).map(CellFigures::from);
                measured.get_or_init(|| known);
            }
        }
        RunFigures { plan, results, mean, experiment, cells }
    }

    /// Figures of the valid runs of one block: its first runs, or the second ones of settings that run twice (A/A).
    pub(super) fn of_block(&self, records: &'a [RunRecord], block: u32, is_again: bool) -> Self {
        let wanted = records.iter().filter(|record| record.id.repeat == block && record.id.is_again == is_again);
        let cells = cells_of(self.plan, wanted.filter(|record| record.point.valid));
        RunFigures { experiment: Rc::clone(&self.experiment), cells, ..*self }
    }

    /// The measurements of a workload's requests, or some of them, in an arm at a setting.
    fn reading(&self, cell: &Cell) -> Result<Reading<'_>, String> {
        let name = self.workload(cell.workload);
        let arm = &self.plan.arms[cell.arm].name;
        let runs = self.cells.get(&(cell.setting, cell.arm)).ok_or_else(|| {
            let swept = key(&self.plan.setting(cell.setting).swept).trim_end().replace('\n', ", ");
            let at = if swept.is_empty() { String::new() } else { format!(" at {swept}") };
            format!("there is no valid run of {arm}{at}")
        })?;
        let measured = runs.measured.get(&cell.workload);
        let measured = measured.and_then(|measured| measured.get_or_init(|| runs.measure(name)).as_ref());
        let whole = measured.ok_or_else(|| format!("{name} has no figures in {arm}"))?.reading();
        let part = match &cell.part {
            RequestSubset::All => Some(whole),
            RequestSubset::Class(class) => whole.class(&class.name()),
            RequestSubset::Transaction(kind) => whole.transaction(kind),
        };
        part.ok_or_else(|| self.nothing_completed(cell))
    }

    /// Whether the windows of some cell break Little's law, so that the two means of responses differ.
    pub(super) fn break_littles_law(&self) -> bool {
        self.experiment.runs.values().any(|runs| WorkloadResult::littles_law(runs.iter().copied()).doubt().is_some())
    }

    /// Refuses figures of responses if windows break Little's law: the responses that ended then do not represent
    /// the requests that ran. Means may differ by more, because claims are judged by both. All windows of the
    /// experiment count, also for the figures of one block.
    fn check_responses(&self, cell: &Cell, metric: Metric) -> Result<(), String> {
        let law = self.littles_law(cell);
        let has_both_means = metric == Metric::MeanLatency
            && cell.part == RequestSubset::All
            && law.difference().is_some_and(|difference| difference.abs() <= MEANS_DIFFERENCE_MAX);
        match law.doubt().filter(|_| !has_both_means) {
            None => Ok(()),
            Some(why) => {
                let (arm, workload) = (&self.plan.arms[cell.arm].name, self.workload(cell.workload));
                Err(format!("undecided, because in {arm} {workload} {why}"))
            }
        }
    }

    /// Little's law over all windows of the experiment.
    fn littles_law(&self, cell: &Cell) -> LittlesLaw {
        let runs = self.experiment.runs.get(&(cell.setting, cell.arm, cell.workload));
        WorkloadResult::littles_law(runs.into_iter().flatten().copied())
    }

    /// Refuses figures of runs with cache classes that were bound to no part of the cache: they say nothing about
    /// classes.
    fn check_classes(&self, cell: &Cell) -> Result<(), String> {
        let runs = self.cells.get(&(cell.setting, cell.arm)).into_iter().flat_map(|cell| &cell.runs);
        if runs.filter_map(|run| run.point.device.cache_switches).any(|switching| switching.unbound) {
            return Err("cache classes were bound to no part of the cache; the warnings of the run say why".to_owned());
        }
        Ok(())
    }

    fn workload(&self, workload: usize) -> &'a str {
        &self.plan.base.workloads[workload].name
    }

    /// The costs of requests, if the cell has all requests of a workload and they differ in cost.
    fn costs(&self, cell: &Cell) -> Result<Option<&Costs>, String> {
        match &self.experiment.costs[cell.workload] {
            _ if cell.part != RequestSubset::All => Ok(None),
            Ok(costs) => Ok(costs.as_ref()),
            Err(why) => Err(why.clone()),
        }
    }

    /// Requests per second; of requests that differ in cost at an equal mix, so that cells can be compared.
    fn throughput(&self, cell: &Cell) -> FigureValue {
        let reading = match self.reading(cell) {
            Ok(reading) => reading,
            // A run without any such request had a throughput of 0.
            Err(_)
                if cell.part != RequestSubset::All
                    && self.reading(&Cell { part: RequestSubset::All, ..cell.clone() }).is_ok() =>
            {
                return Ok(0.0);
            }
            Err(why) => return Err(why),
        };
        match self.costs(cell)? {
            Some(costs) => Ok(costs.throughput(reading.workload)),
            None => figure("throughput_per_s").read(&reading, FigureArgument::Nothing),
        }
    }

    /// The mean latency; of requests that differ in cost at an equal mix.
    fn mean_latency(&self, cell: &Cell) -> FigureValue {
        let reading = self.reading(cell)?;
        let of_ended = match self.costs(cell)? {
            Some(costs) => costs.mean_latency(reading.workload).ok_or_else(|| self.nothing_completed(cell)),
            None => figure("latency_us.mean").read(&reading, FigureArgument::Nothing),
        };
        let is_by_spent = self.mean == MeanResponse::BySpent && cell.part == RequestSubset::All;
        if !is_by_spent || self.littles_law(cell).doubt().is_none() {
            return of_ended;
        }
        let runs = self.cells.get(&(cell.setting, cell.arm)).into_iter().flat_map(|runs| &runs.runs);
        let name = self.workload(cell.workload);
        let law = WorkloadResult::littles_law(runs.flat_map(|run| &run.point.workloads).filter(|one| one.name == name));
        Ok(of_ended? * (1.0 + law.difference().unwrap_or(0.0)))
    }

    /// As in [`interference`](super::interference): requests are weighted by their cost alone at the same setting.
    fn relative_to_alone(&self, cell: &Cell) -> FigureValue {
        let name = format!("alone:{}", self.workload(cell.workload));
        let alone = self.plan.arms.iter().position(|arm| arm.name == name);
        let alone =
            Cell { arm: alone.ok_or_else(|| format!("there is no arm {name} to compare with"))?, ..cell.clone() };
        let ratio = if cell.part == RequestSubset::All {
            let runs_of = |cell: &Cell| {
                let runs = self.experiment.runs.get(&(cell.setting, cell.arm, cell.workload));
                runs.map_or(&[][..], Vec::as_slice)
            };
            let costs = Costs::of(runs_of(&alone), &[runs_of(cell), runs_of(&alone)].concat());
            let [shared, alone] = [self.reading(cell)?, self.reading(&alone)?];
            speed(shared.workload, costs.as_ref()) / speed(alone.workload, costs.as_ref())
        } else {
            self.throughput(cell)? / self.throughput(&alone)?
        };
        if ratio.is_finite() { Ok(ratio) } else { Err(format!("{name} completed nothing to compare with")) }
    }

    fn nothing_completed(&self, cell: &Cell) -> String {
        let (workload, arm) = (self.workload(cell.workload), &self.plan.arms[cell.arm].name);
        format!("no request of {workload} completed in {arm} ({})", cell.part)
    }

    fn knee_level(&self, axis: usize, share: f64, cell: &Cell) -> Result<&KneeLevel, String> {
        let axis = &self.plan.axes[axis];
        let mut setting = self.plan.setting(cell.setting).swept;
        setting.remove(&axis.key);
        let (arm, workload) = (&self.plan.arms[cell.arm].name, self.workload(cell.workload));
        let found = self.results.knees.iter().find(|knee| {
            knee.axis == axis.key && knee.setting == setting && knee.arm == *arm && knee.workload == workload
        });
        let level = found.and_then(|knee| knee.levels.iter().find(|level| (level.share - share).abs() < 1e-9));
        let level = level
            .ok_or_else(|| format!("no knee for {share} was looked for along {}; there are 0.9 and 0.95", axis.key))?;
        // A curve that is level down to the least value has its knee below the sweep. Below one there is nothing.
        let amounts = Amounts::of(&axis.values);
        let least = amounts.ascending().first().map_or(f64::INFINITY, |(amount, _)| *amount);
        match level.allocation.as_ref().and_then(|found| amounts.amount(found)) {
            Some(found) if found <= least && least > 1.0 => Err(format!(
                "no knee within the sweep, because its least value, {least}, is enough; sweep `{}` lower",
                axis.key
            )),
            _ => Ok(level),
        }
    }
}

/// The number of an allocation.
fn number_of(allocation: &serde_json::Value) -> Result<f64, String> {
    allocation.as_f64().ok_or_else(|| format!("only the full amount, {}, is sufficient", option_text(allocation)))
}

/// Whether a figure is about responses. Throughput is not: it counts ends, or credits each query with its share of the
/// window.
fn is_of_responses(metric: Metric) -> bool {
    match metric {
        Metric::MeanLatency => true,
        Metric::Listed(listed, _) => listed.key.starts_with("latency_us.") || listed.key.starts_with("time_share."),
        Metric::Throughput | Metric::ThroughputRelativeToAlone => false,
    }
}

fn cells_of<'a>(plan: &Plan, records: impl Iterator<Item = &'a RunRecord>) -> BTreeMap<(usize, usize), CellRuns<'a>> {
    let mut cells: BTreeMap<(usize, usize), CellRuns<'a>> = BTreeMap::new();
    for record in records {
        let members = plan.arms[record.id.arm].members.iter();
        let cell = cells.entry((record.id.setting, record.id.arm)).or_insert_with(|| CellRuns {
            runs: Vec::new(),
            measured: members.map(|member| (*member, OnceCell::new())).collect(),
        });
        cell.runs.push(record);
    }
    cells
}

impl<'a> WholeExperiment<'a> {
    fn of(plan: &Plan, records: impl Iterator<Item = &'a RunRecord>) -> Self {
        let position = |name: &str| plan.base.workloads.iter().position(|workload| workload.name == name);
        let mut runs: BTreeMap<_, Vec<&WorkloadResult>> = BTreeMap::new();
        for record in records {
            for result in &record.point.workloads {
                let Some(workload) = position(&result.name) else { continue };
                runs.entry((record.id.setting, record.id.arm, workload)).or_default().push(result);
            }
        }
        let costs = (0..plan.base.workloads.len()).map(|workload| {
            let cells = runs.iter().filter(|((.., of), _)| *of == workload);
            Costs::common(&cells.map(|(_, runs)| runs.as_slice()).collect::<Vec<_>>())
        });
        let costs = costs.collect();
        WholeExperiment { runs, costs }
    }
}

impl CellRuns<'_> {
    /// The joint measurements of a workload in these runs.
    fn measure(&self, workload: &str) -> Option<CellFigures> {
        let points: Vec<&Point> = self.runs.iter().map(|record| &record.point).collect();
        let histograms = self.runs.iter().flat_map(|record| &record.histograms);
        let histograms: Vec<&WorkloadHistograms> = histograms.filter(|one| one.workload == workload).collect();
        CellFigures::of(&points, workload, &histograms)
    }
}

impl Figures for RunFigures<'_> {
    fn figure(&self, cell: &Cell, metric: Metric) -> FigureValue {
        if is_of_responses(metric) {
            self.check_responses(cell, metric)?;
        }
        if !matches!(metric, Metric::Listed(listed, _) if listed.key.starts_with("device.cache_switches.")) {
            self.check_classes(cell)?;
        }
        match metric {
            Metric::Throughput => self.throughput(cell),
            Metric::MeanLatency => self.mean_latency(cell),
            Metric::ThroughputRelativeToAlone => self.relative_to_alone(cell),
            Metric::Listed(listed, asking) => listed.read(&self.reading(cell)?, asking),
        }
    }

    fn knee(&self, axis: usize, share: f64, cell: &Cell) -> Result<f64, String> {
        let level = self.knee_level(axis, share, cell)?;
        let written = level.allocation.as_ref();
        let written =
            written.ok_or_else(|| level.why_not.clone().unwrap_or_else(|| "it is not determined".to_owned()))?;
        number_of(written)
    }

    fn knee_bounds(&self, axis: usize, share: f64, cell: &Cell) -> Result<[f64; 2], String> {
        let level = self.knee_level(axis, share, cell)?;
        let bounds = level.low.as_ref().zip(level.high.as_ref());
        let (low, high) = bounds.ok_or_else(|| "the knee has no interval".to_owned())?;
        // The full amount is more than any number.
        Ok([number_of(low)?, number_of(high).unwrap_or(f64::INFINITY)])
    }

    fn resolution(&self, cell: &Cell, metric: Metric) -> f64 {
        if !matches!(metric, Metric::Throughput | Metric::ThroughputRelativeToAlone) {
            return 0.0;
        }
        1.0 / self.reading(cell).map_or(0, |reading| reading.part.completed).max(1) as f64
    }
}
