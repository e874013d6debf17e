//! The figures that claims are about: of all runs, or of those of one block, by the same code.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use rand::RngExt;
use rand_pcg::Pcg64;

use super::cells::{Measured, key};
use super::equal_mix::{Costs, speed};
use crate::claim::{Cell, Figures, Metric, Part};
use crate::figures::{Asking, Found, Reading, figure};
use crate::histograms::WorkloadHistograms;
use crate::plan::Plan;
use crate::record::RunRecord;
use crate::results::{Point, Results, WorkloadResult};

/// Figures of some of an experiment's runs.
#[derive(Debug)]
pub(super) struct RunFigures<'a> {
    plan: &'a Plan,
    results: &'a Results,
    /// Every run of the experiment, from which follows what a request of each kind costs: all blocks share one unit.
    all: &'a [RunRecord],
    /// Valid runs by setting and arm, with what their workloads measured together, once somebody asks.
    cells: BTreeMap<(usize, usize), CellRuns<'a>>,
    is_resampled: bool,
}

/// The runs of an arm at a setting.
#[derive(Debug, Default)]
struct CellRuns<'a> {
    runs: Vec<&'a RunRecord>,
    /// By position of the workload in the plan.
    measured: BTreeMap<usize, OnceCell<Option<Measured>>>,
}

impl<'a> RunFigures<'a> {
    /// Those of every valid run.
    pub(super) fn new(plan: &'a Plan, results: &'a Results, records: &'a [RunRecord]) -> Self {
        let first = records.iter().filter(|record| !record.id.is_again);
        let found = Self::of_those(plan, results, records, first);
        // What all runs of a cell measured together is in the document.
        for cells in found.cells.values() {
            let point = &cells.runs[0].point;
            for (workload, measured) in &cells.measured {
                let name = &plan.base.workloads[*workload].name;
                let cell = results.cell(&point.setting, &point.arm, name).map(Measured::from);
                measured.set(cell).unwrap_or_else(|_| unreachable!("nobody has asked yet"));
            }
        }
        found
    }

    fn of_those(
        plan: &'a Plan,
        results: &'a Results,
        all: &'a [RunRecord],
        wanted: impl Iterator<Item = &'a RunRecord>,
    ) -> Self {
        let mut cells: BTreeMap<(usize, usize), CellRuns<'a>> = BTreeMap::new();
        for record in wanted.filter(|record| record.point.valid) {
            let cell = cells.entry((record.id.setting, record.id.arm)).or_insert_with(|| {
                let members = plan.arms[record.id.arm].members.iter();
                CellRuns { runs: Vec::new(), measured: members.map(|member| (*member, OnceCell::new())).collect() }
            });
            cell.runs.push(record);
        }
        RunFigures { plan, results, all, cells, is_resampled: false }
    }

    /// The same experiment with other luck: blocks drawn with replacement, the same for all settings and arms, so that
    /// what a block's runs share stays together.
    pub(super) fn resampled(&self, seed: u64) -> Self {
        let mut random = Pcg64::new(u128::from(seed), 0);
        let runs = || self.cells.values().flat_map(|cell| &cell.runs);
        let repeats = runs().map(|record| record.id.repeat).max().unwrap_or(1);
        let blocks: Vec<u32> = (0..repeats).map(|_| random.random_range(1..=repeats)).collect();
        let mut drawn: Vec<&RunRecord> = Vec::new();
        for cell in self.cells.values() {
            let of_blocks = blocks.iter().flat_map(|block| cell.runs.iter().filter(move |one| one.id.repeat == *block));
            let before = drawn.len();
            drawn.extend(of_blocks);
            if drawn.len() == before {
                // A cell whose drawn blocks are all invalid still has its runs.
                drawn.extend(&cell.runs);
            }
        }
        let found = Self::of_those(self.plan, self.results, self.all, drawn.into_iter());
        RunFigures { is_resampled: true, ..found }
    }

    /// What a workload's requests in an arm at a setting measured, or some of them.
    fn reading(&self, cell: &Cell) -> Result<Reading<'_>, String> {
        let name = self.workload(cell.workload);
        let arm = &self.plan.arms[cell.arm].name;
        let runs = self.cells.get(&(cell.setting, cell.arm)).ok_or_else(|| {
            let swept = key(&self.plan.setting(cell.setting).swept).trim_end().replace('\n', ", ");
            let at = if swept.is_empty() { String::new() } else { format!(" at {swept}") };
            format!("there is no valid run of {arm}{at}")
        })?;
        let measured =
            runs.measured.get(&cell.workload).and_then(|measured| measured.get_or_init(|| runs.measure(name)).as_ref());
        let whole = measured.ok_or_else(|| format!("{name} has no figures in {arm}"))?.reading();
        let part = match &cell.part {
            Part::All => Some(whole),
            Part::Class(class) => whole.class(&class.name()),
            Part::Transaction(kind) => whole.transaction(kind),
        };
        part.ok_or_else(|| self.nothing_completed(cell))
    }

    fn workload(&self, workload: usize) -> &'a str {
        &self.plan.base.workloads[workload].name
    }

    /// Valid runs of a workload in the whole experiment, those of one arm at one setting together.
    fn all_runs(&self, workload: usize) -> BTreeMap<(usize, usize), Vec<&'a WorkloadResult>> {
        let name = self.workload(workload);
        let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for record in self.all.iter().filter(|record| record.point.valid && !record.id.is_again) {
            let results = record.point.workloads.iter().filter(|result| result.name == name);
            found.entry((record.id.setting, record.id.arm)).or_default().extend(results);
        }
        found
    }

    /// What requests of each kind cost, of a workload whose requests differ in cost; `None` of others.
    fn costs(&self, workload: usize) -> Result<Option<Costs>, String> {
        let cells: Vec<Vec<&WorkloadResult>> = self.all_runs(workload).into_values().collect();
        Costs::common(&cells)
    }

    /// Requests per second; of requests that differ in cost at an equal mix, so that it can be compared between cells.
    fn throughput(&self, cell: &Cell) -> Found {
        let reading = match self.reading(cell) {
            Ok(reading) => reading,
            // A run without any such request had a throughput of 0.
            Err(_) if cell.part != Part::All && self.reading(&Cell { part: Part::All, ..cell.clone() }).is_ok() => {
                return Ok(0.0);
            }
            Err(why) => return Err(why),
        };
        match self.costs(cell.workload)?.filter(|_| cell.part == Part::All) {
            Some(costs) => Ok(costs.throughput(reading.workload)),
            None => figure("throughput_per_s").read(&reading, Asking::Nothing),
        }
    }

    /// The mean latency; of requests that differ in cost at an equal mix.
    fn mean_latency(&self, cell: &Cell) -> Found {
        let reading = self.reading(cell)?;
        match self.costs(cell.workload)?.filter(|_| cell.part == Part::All) {
            Some(costs) => costs.mean_latency(reading.workload).ok_or_else(|| self.nothing_completed(cell)),
            None => figure("latency_us.mean").read(&reading, Asking::Nothing),
        }
    }

    fn relative_to_alone(&self, cell: &Cell) -> Found {
        let name = format!("alone:{}", self.workload(cell.workload));
        let alone = self.plan.arms.iter().position(|arm| arm.name == name);
        let alone =
            Cell { arm: alone.ok_or_else(|| format!("there is no arm {name} to compare with"))?, ..cell.clone() };
        let ratio = if cell.part == Part::All {
            let all = self.all_runs(cell.workload);
            let runs_of = |arm: usize| all.get(&(cell.setting, arm)).cloned().unwrap_or_default();
            let both: Vec<&WorkloadResult> = [runs_of(cell.arm), runs_of(alone.arm)].concat();
            let costs = Costs::of(&runs_of(alone.arm), &both);
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
}

impl CellRuns<'_> {
    /// What a workload measured in these runs together.
    fn measure(&self, workload: &str) -> Option<Measured> {
        let points: Vec<&Point> = self.runs.iter().map(|record| &record.point).collect();
        let histograms = self.runs.iter().flat_map(|record| &record.histograms);
        let histograms: Vec<&WorkloadHistograms> = histograms.filter(|one| one.workload == workload).collect();
        Measured::of(&points, workload, &histograms)
    }
}

impl Figures for RunFigures<'_> {
    fn figure(&self, cell: &Cell, metric: Metric) -> Found {
        match metric {
            Metric::Throughput => self.throughput(cell),
            Metric::MeanLatency => self.mean_latency(cell),
            Metric::ThroughputRelativeToAlone => self.relative_to_alone(cell),
            Metric::Listed(listed, asking) => listed.read(&self.reading(cell)?, asking),
        }
    }

    fn knee(&self, axis: usize, share: f64, cell: &Cell) -> Result<f64, String> {
        let axis = &self.plan.axes[axis];
        let allocations = axis.numbers().ok_or_else(|| format!("the values of {} are no numbers", axis.key))?;
        let stride = self.stride(&axis.key);
        let along = |position: usize| Cell { setting: cell.setting + position * stride, ..cell.clone() };
        if self.is_resampled {
            // What a claim's confidence asks for is only whether the knee moves; that costs no resampling within resampling.
            let throughput = (0..allocations.len())
                .filter_map(|position| Some((allocations[position], self.throughput(&along(position)).ok()?)));
            let throughput: Vec<(f64, f64)> = throughput.collect();
            let full = throughput.iter().max_by(|a, b| a.0.total_cmp(&b.0)).map_or(f64::NAN, |(_, full)| *full);
            let enough = throughput.iter().filter(|(_, reached)| *reached >= share * full).map(|(at, _)| *at);
            return enough.min_by(f64::total_cmp).ok_or_else(|| "nothing was measured".to_owned());
        }
        let mut setting = self.plan.setting(cell.setting).swept;
        setting.remove(&axis.key);
        let (arm, workload) = (&self.plan.arms[cell.arm].name, self.workload(cell.workload));
        let found = self.results.knees.iter().find(|knee| {
            knee.axis == axis.key && knee.setting == setting && knee.arm == *arm && knee.workload == workload
        });
        let level = found.and_then(|knee| knee.levels.iter().find(|level| (level.share - share).abs() < 1e-9));
        let level = level
            .ok_or_else(|| format!("no knee for {share} was looked for along {}; there are 0.9 and 0.95", axis.key))?;
        level.allocation.ok_or_else(|| level.why_not.clone().unwrap_or_else(|| "it is not determined".to_owned()))
    }
}

impl RunFigures<'_> {
    /// How far apart in the numbers of settings two neighbours along an axis are.
    fn stride(&self, key: &str) -> usize {
        let position = self.plan.axes.iter().position(|axis| axis.key == key).expect("it is an axis of the plan");
        self.plan.axes[position + 1..].iter().map(|axis| axis.values.len()).product()
    }
}
