//! Runs sorted by setting, arm and workload.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::figures::Reading;
use crate::histograms::WorkloadHistograms;
use crate::results::{Device, Estimate, Point, WorkloadResult, mean};
use plimsoll_display::distinct;

/// The swept values of a setting, by key.
pub(crate) type SettingValues = BTreeMap<String, Value>;

/// All runs of an experiment, sorted.
#[derive(Debug)]
pub(crate) struct Cells<'a> {
    points: &'a [Point],
    cells: Vec<Cell<'a>>,
}

/// The runs of one workload in one arm at one setting, as positions in the list of points.
#[derive(Debug)]
pub(crate) struct Cell<'a> {
    pub setting: &'a SettingValues,
    pub arm: &'a str,
    pub workload: &'a str,
    /// Valid runs, in the order they ran.
    pub runs: Vec<usize>,
    pub left_out: Vec<usize>,
    /// Valid second runs of the setting that runs twice (A/A).
    pub again: Vec<usize>,
}

/// The figures that runs of a cell measured together.
#[derive(Debug, Clone, Default)]
pub(crate) struct CellFigures {
    pub workload: WorkloadResult,
    /// The activity of the devices, mean over runs.
    pub device: Device,
    /// The observed value of each limit, mean over runs.
    pub achieved: BTreeMap<String, Value>,
}

impl CellFigures {
    /// The figures of a workload and the machine in these runs; `None` if none of them had the workload.
    pub(crate) fn of(points: &[&Point], workload: &str, histograms: &[&WorkloadHistograms]) -> Option<Self> {
        let results = points.iter().flat_map(|point| &point.workloads).filter(|result| result.name == workload);
        let results: Vec<&WorkloadResult> = results.collect();
        Some(CellFigures {
            workload: WorkloadResult::merged(&results, histograms)?,
            device: mean(points.iter().map(|point| Some(&point.device))).unwrap_or_default(),
            achieved: mean(points.iter().map(|point| Some(&point.achieved))).unwrap_or_default(),
        })
    }

    /// The measurements in the form from which figures are read.
    pub(crate) fn reading(&self) -> Reading<'_> {
        let CellFigures { workload, device, achieved } = self;
        Reading { device, achieved, workload, part: &workload.all }
    }
}

impl From<&Estimate> for CellFigures {
    fn from(cell: &Estimate) -> Self {
        CellFigures { workload: cell.measured.clone(), device: cell.device, achieved: cell.achieved.clone() }
    }
}

impl<'a> Cells<'a> {
    pub(crate) fn of(points: &'a [Point]) -> Self {
        // Keyed by text, because JSON values have no order.
        let mut positions: BTreeMap<(String, &str, &str), usize> = BTreeMap::new();
        let mut cells: Vec<Cell<'a>> = Vec::new();
        for (number, point) in points.iter().enumerate() {
            for result in &point.workloads {
                let (arm, workload) = (point.arm.as_str(), result.name.as_str());
                let key = (key(&point.setting), arm, workload);
                let position = *positions.entry(key).or_insert_with(|| {
                    let (runs, left_out, again) = (Vec::new(), Vec::new(), Vec::new());
                    cells.push(Cell { setting: &point.setting, arm, workload, runs, left_out, again });
                    cells.len() - 1
                });
                let cell = &mut cells[position];
                // If a file was edited by hand, values that are not throughputs are left out.
                match point.valid && result.all.throughput_per_s >= 0.0 && result.all.throughput_per_s.is_finite() {
                    false => cell.left_out.push(number),
                    true if point.is_again => cell.again.push(number),
                    true => cell.runs.push(number),
                }
            }
        }
        Cells { points, cells }
    }

    /// The names of all workloads, in the order in which they first ran.
    pub(crate) fn workloads(&self) -> Vec<&'a str> {
        distinct(self.cells.iter().map(|cell| cell.workload))
    }

    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    pub(crate) fn of_workload(&self, workload: &str) -> impl Iterator<Item = &Cell<'a>> {
        self.cells.iter().filter(move |cell| cell.workload == workload)
    }

    /// The result of the workload of a cell in one of its runs.
    pub(crate) fn result(&self, cell: &Cell<'_>, run: usize) -> &'a WorkloadResult {
        let results = &self.points[run].workloads;
        results.iter().find(|result| result.name == cell.workload).expect("the run is of this cell")
    }

    /// The valid runs of a cell.
    pub(crate) fn points_of(&self, cell: &Cell<'_>) -> Vec<&'a Point> {
        cell.runs.iter().map(|run| &self.points[*run]).collect()
    }

    /// The joint measurements of some runs of a cell; `None` without runs. `histograms` are those of every point in
    /// order.
    pub(crate) fn measured(
        &self,
        cell: &Cell<'_>,
        runs: &[usize],
        histograms: &[&[WorkloadHistograms]],
    ) -> Option<CellFigures> {
        let own = |run: &usize| histograms.get(*run)?.iter().find(|one| one.workload == cell.workload);
        let own: Vec<&WorkloadHistograms> = runs.iter().filter_map(own).collect();
        let points: Vec<&Point> = runs.iter().map(|run| &self.points[*run]).collect();
        CellFigures::of(&points, cell.workload, &own)
    }

    /// The fewest requests that the workload of a cell completed in a valid run; 0 without one.
    pub(crate) fn completed_min(&self, cell: &Cell<'_>) -> u64 {
        cell.runs.iter().map(|run| self.result(cell, *run).all.completed).min().unwrap_or(0)
    }

    /// A figure of some runs of a cell in each block; `None` if none ran or it is not known.
    pub(crate) fn row<T: Clone>(
        &self,
        cell: &Cell<'_>,
        runs: &[usize],
        blocks: usize,
        figure: impl Fn(&WorkloadResult) -> Option<T>,
    ) -> Vec<Option<T>> {
        let mut row = vec![None; blocks];
        for run in runs {
            row[self.block(*run)] = figure(self.result(cell, *run));
        }
        row
    }

    /// The block of a run, from 0.
    pub(crate) fn block(&self, run: usize) -> usize {
        self.points[run].repeat.saturating_sub(1) as usize
    }
}

/// Whether a relative difference is no larger than one request more or less in a window, where some window has that few
/// requests.
pub(crate) fn is_one_request(difference: f64, completed_min: u64) -> bool {
    difference.abs() * completed_min.max(1) as f64 <= 1.0
}

/// A setting as text: equal settings have equal texts.
pub(crate) fn key(setting: &SettingValues) -> String {
    setting.iter().map(|(name, value)| format!("{name}={value}\n")).collect()
}
