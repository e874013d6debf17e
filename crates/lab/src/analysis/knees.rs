//! Smallest sufficient allocations along each sweep of an amount.

use plimsoll_display::value;
use plimsoll_model::knee::{self, SHARES, WhyNot};
use plimsoll_model::statistics::Samples;

use super::cells::{Cell, Cells, SettingValues};
use super::noise::WorkloadNoise;
use crate::amounts::Amounts;
use crate::analysis::equal_mix::{Costs, speed};
use crate::results::{AxisRole, Knee, KneeLevel, SweptAxis, WorkloadResult};

/// The seed of resampling within the model; knees of equal points are equal.
const SEED: u64 = 7;

/// A curve along one axis, with fixed values of all others.
pub(super) struct Curve<'a, 'b> {
    /// The values of all other axes.
    pub setting: SettingValues,
    pub arm: &'a str,
    /// The axis' values, ascending, each with the cell there and its row in the samples of the workload.
    pub cells: Vec<(f64, usize, &'b Cell<'a>)>,
}

/// The knees of a workload along each axis of allocations.
pub(super) fn of(cells: &Cells<'_>, noise: &WorkloadNoise<'_>, sweep: &[SweptAxis]) -> Vec<Knee> {
    let axes = sweep.iter().filter(|axis| axis.role == AxisRole::Allocation);
    let axes = axes.map(|axis| (axis, Amounts::of(&axis.values))).filter(|(_, amounts)| amounts.len() > 1);
    axes.flat_map(|(axis, amounts)| {
        let curves = curves(cells, noise.workload(), &axis.key, &amounts);
        curves.into_iter().map(move |curve| of_curve(cells, noise, axis, &amounts, curve))
    })
    .collect()
}

/// Every curve of a workload along an axis, in the order in which they ran. Values that are no amounts are left out.
pub(super) fn curves<'a, 'b>(
    cells: &'b Cells<'a>,
    workload: &str,
    axis: &str,
    amounts: &Amounts,
) -> Vec<Curve<'a, 'b>> {
    let mut curves: Vec<Curve<'a, 'b>> = Vec::new();
    for (row, cell) in cells.of_workload(workload).enumerate().filter(|(_, cell)| !cell.runs.is_empty()) {
        let mut setting = cell.setting.clone();
        let Some(value) = setting.remove(axis).and_then(|value| amounts.amount(&value)) else { continue };
        let found = curves.iter().position(|curve| curve.arm == cell.arm && curve.setting == setting);
        let position = found.unwrap_or_else(|| {
            curves.push(Curve { setting, arm: cell.arm, cells: Vec::new() });
            curves.len() - 1
        });
        curves[position].cells.push((value, row, cell));
    }
    curves.iter_mut().for_each(|curve| curve.cells.sort_by(|a, b| a.0.total_cmp(&b.0)));
    curves
}

fn of_curve(
    cells: &Cells<'_>,
    noise: &WorkloadNoise<'_>,
    axis: &SweptAxis,
    amounts: &Amounts,
    curve: Curve<'_, '_>,
) -> Knee {
    let allocations: Vec<f64> = curve.cells.iter().map(|(value, ..)| *value).collect();
    let samples = curve.samples(cells, noise.speed.blocks());
    let found = knee::knee(&allocations, &samples, noise.speed_noise.as_ref(), &SHARES, SEED);
    let written = |amount: f64| amounts.written(amount);
    let levels = found.levels.into_iter().map(|level| KneeLevel {
        share: level.share,
        allocation: level.allocation.map(written),
        low: level.low.map(written),
        high: level.high.map(written),
        why_not: level.why_not.map(|why| why_told(why, amounts)),
    });
    Knee {
        axis: axis.key.clone(),
        setting: curve.setting,
        arm: curve.arm.to_owned(),
        workload: noise.workload().to_owned(),
        levels: levels.collect(),
        fit: found.fit.into_iter().map(|(amount, mean)| (written(amount), mean)).collect(),
    }
}

/// Why there is no knee, with the amounts as they were written.
fn why_told(why: WhyNot, amounts: &Amounts) -> String {
    let written = |amount: f64| value(&amounts.written(amount));
    match why {
        WhyNot::Falls { from, to, drop } => format!(
            "performance falls by {:.1} % from {} to {}, beyond noise: the full allocation is not the best",
            drop * 100.0,
            written(from),
            written(to)
        ),
        WhyNot::NothingCompleted(full) => format!("nothing completed at the full allocation, {}", written(full)),
        other => other.to_string(),
    }
}

impl Curve<'_, '_> {
    /// The runs along the curve. For analytical workloads they are at an equal mix of queries, with costs from the full
    /// allocation; the figures are then scaled to requests per second at that allocation.
    pub(super) fn samples(&self, cells: &Cells<'_>, blocks: usize) -> Samples {
        let results = |cell: &Cell<'_>| cell.runs.iter().map(|run| cells.result(cell, *run)).collect::<Vec<_>>();
        let full = self.cells.last().map(|(_, _, cell)| results(cell)).unwrap_or_default();
        let all: Vec<_> = self.cells.iter().flat_map(|(_, _, cell)| results(cell)).collect();
        let costs = Costs::of(&full, &all);
        let total = |of: &dyn Fn(&WorkloadResult) -> f64| full.iter().map(|run| of(run)).sum::<f64>();
        let unit = total(&|run| run.all.throughput_per_s) / total(&|run| speed(run, costs.as_ref()));
        let unit = if unit.is_finite() { unit } else { 1.0 };
        let in_units = |run: &WorkloadResult| Some(speed(run, costs.as_ref()) * unit);
        let row = |cell: &Cell<'_>| cells.row(cell, &cell.runs, blocks, in_units);
        Samples::new(self.cells.iter().map(|(_, _, cell)| row(cell)).collect())
    }
}
