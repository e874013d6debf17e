//! The repeats of each cell as one estimate.

use std::collections::BTreeSet;

use plimsoll_model::statistics::{self, Samples};

use super::cells::{Cell, Cells};
use super::noise::WorkloadNoise;
use crate::histograms::WorkloadHistograms;
use crate::results::{Estimate, WorkloadResult};

/// An estimate of each cell of a workload that has a valid run.
pub(super) fn of(cells: &Cells<'_>, noise: &WorkloadNoise<'_>, histograms: &[&[WorkloadHistograms]]) -> Vec<Estimate> {
    let own: Vec<&Cell<'_>> = cells.of_workload(noise.workload()).collect();
    let latencies = latency_samples(cells, &own, noise.throughput.blocks());
    let outliers: BTreeSet<(usize, usize)> = statistics::outliers(&noise.speed).into_iter().collect();
    let estimates = own.iter().enumerate().filter_map(|(row, cell)| {
        let is_outlier = |run: &&usize| outliers.contains(&(row, cells.block(**run)));
        let measured = cells.measured(cell, &cell.runs, histograms)?;
        Some(Estimate {
            setting: cell.setting.clone(),
            arm: cell.arm.to_owned(),
            workload: cell.workload.to_owned(),
            runs: cell.runs.clone(),
            left_out: cell.left_out.clone(),
            outliers: cell.runs.iter().filter(is_outlier).copied().collect(),
            throughput_per_s: statistics::estimate(&noise.throughput, row)?.into(),
            mean_latency_us: statistics::estimate(&latencies, row).map(Into::into),
            measured: measured.workload,
            device: measured.device,
            achieved: measured.achieved,
        })
    });
    estimates.collect()
}

/// Mean latency of each cell's runs, in rows like those of the throughput.
fn latency_samples(cells: &Cells<'_>, own: &[&Cell<'_>], blocks: usize) -> Samples {
    let mean = |result: &WorkloadResult| result.all.latency_us.map(|latency| latency.mean);
    Samples::new(own.iter().map(|cell| cells.row(cell, &cell.runs, blocks, mean)).collect())
}
