//! The repeats of each cell as one estimate.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_model::statistics::{self, Samples};

use super::cells::{Cell, Cells};
use super::noise::WorkloadNoise;
use crate::histograms::{Latencies, LockHistograms, WorkloadHistograms, merged};
use crate::latency;
use crate::results::{Estimate, Lengths, LockStatistics, Part, TimeShare, WorkloadResult};

/// An estimate of each cell of a workload that has a valid run.
pub(super) fn of(cells: &Cells<'_>, noise: &WorkloadNoise<'_>, histograms: &[&[WorkloadHistograms]]) -> Vec<Estimate> {
    let own: Vec<&Cell<'_>> = cells.of_workload(noise.workload()).collect();
    let latencies = latency_samples(cells, &own, noise.throughput.blocks());
    let outliers: BTreeSet<(usize, usize)> = statistics::outliers(&noise.speed).into_iter().collect();
    let estimates = own.iter().enumerate().filter_map(|(row, cell)| {
        let results: Vec<&WorkloadResult> = cell.runs.iter().map(|run| cells.result(cell, *run)).collect();
        let parts: Vec<&WorkloadHistograms> = cell
            .runs
            .iter()
            .filter_map(|run| histograms.get(*run)?.iter().find(|histograms| histograms.workload == cell.workload))
            .collect();
        // Of a part of the runs, percentiles would pass for those of all.
        let parts = if parts.len() == cell.runs.len() { parts } else { Vec::new() };
        let all = merged(parts.iter().flat_map(|part| part.transactions.values()));
        let mut classes = merged_parts(&results, &parts, |result| &result.classes, |part| &part.classes);
        for (class, part) in &mut classes {
            part.locks = merged_locks(&results, &parts, class);
        }
        let is_outlier = |run: &&usize| outliers.contains(&(row, cells.block(**run)));
        Some(Estimate {
            setting: cell.setting.clone(),
            arm: cell.arm.to_owned(),
            workload: cell.workload.to_owned(),
            runs: cell.runs.clone(),
            left_out: cell.left_out.clone(),
            outliers: cell.runs.iter().filter(is_outlier).copied().collect(),
            throughput_per_s: statistics::estimate(&noise.throughput, row)?.into(),
            mean_latency_us: statistics::estimate(&latencies, row).map(Into::into),
            latency_us: all.as_ref().and_then(latency::figures),
            latency_distribution: all.as_ref().map(latency::distribution).unwrap_or_default(),
            classes,
            transactions: merged_parts(&results, &parts, |result| &result.transactions, |part| &part.transactions),
            time_share: time_share(&results),
            round_trip_share: round_trip_share(&results),
        })
    });
    estimates.collect()
}

/// Mean latency of each cell's runs, in rows like those of the throughput.
fn latency_samples(cells: &Cells<'_>, own: &[&Cell<'_>], blocks: usize) -> Samples {
    let rows = own.iter().map(|cell| {
        let mut row = vec![None; blocks];
        for run in &cell.runs {
            row[cells.block(*run)] = cells.result(cell, *run).latency_us.map(|latency| latency.mean);
        }
        row
    });
    Samples::new(rows.collect())
}

/// Classes or transactions over all runs: requests summed, throughput averaged, latencies merged.
fn merged_parts<'a>(
    results: &[&'a WorkloadResult],
    histograms: &[&'a WorkloadHistograms],
    parts: impl Fn(&'a WorkloadResult) -> &'a BTreeMap<String, Part>,
    latencies: impl Fn(&'a WorkloadHistograms) -> &'a BTreeMap<String, Latencies>,
) -> BTreeMap<String, Part> {
    let names: BTreeSet<&String> = results.iter().flat_map(|result| parts(result).keys()).collect();
    let part = |name: &String| {
        let of_runs = results.iter().filter_map(|result| parts(result).get(name));
        let of_runs: Vec<&Part> = of_runs.collect();
        let all = merged(histograms.iter().filter_map(|histograms| latencies(histograms).get(name)));
        let (time_share, samples) = Part::time_share_over(&of_runs);
        Part {
            completed: of_runs.iter().map(|part| part.completed).sum(),
            // A run without any such request had a throughput of 0.
            throughput_per_s: of_runs.iter().map(|part| part.throughput_per_s).sum::<f64>() / results.len() as f64,
            latency_us: all.as_ref().and_then(latency::figures),
            locks: None,
            time_share,
            samples,
        }
    };
    names.into_iter().map(|name| (name.clone(), part(name))).collect()
}

/// The lock statistics of a class over all runs; `None` if a run that had requests of the class lacks them.
fn merged_locks(
    results: &[&WorkloadResult],
    histograms: &[&WorkloadHistograms],
    class: &str,
) -> Option<LockStatistics> {
    let of_runs = results.iter().filter_map(|result| result.classes.get(class));
    let of_runs: Vec<&LockStatistics> = of_runs.map(|part| part.locks.as_ref()).collect::<Option<_>>()?;
    let mut all = LockStatistics::merged(&of_runs);
    let fill_in = |lengths: &mut Lengths, of: fn(&LockHistograms) -> &BTreeMap<String, Latencies>| {
        let histogram = merged(histograms.iter().filter_map(|one| of(&one.locks).get(class)));
        // Histograms of a part of the runs would tell percentiles of that part only.
        *lengths = lengths.with_percentiles(histogram.filter(|all| all.len() == lengths.count).as_ref());
    };
    fill_in(&mut all.queue_time_us, |locks| &locks.queue_time);
    fill_in(&mut all.wait_excess_us, |locks| &locks.wait_excess);
    fill_in(&mut all.wait_remainder_us, |locks| &locks.wait_remainder);
    fill_in(&mut all.work_lost_us, |locks| &locks.work_lost);
    Some(all)
}

/// The mean over runs; `None` where a run lacks it.
fn round_trip_share(results: &[&WorkloadResult]) -> Option<f64> {
    let shares: Vec<f64> = results.iter().map(|result| result.round_trip_share).collect::<Option<_>>()?;
    (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
}

/// The mean of each part over runs; `None` where a run lacks it, which is then within `other`.
fn time_share(results: &[&WorkloadResult]) -> Option<TimeShare> {
    let shares: Option<Vec<_>> = results.iter().map(|result| Some((result.time_share?, 1.0))).collect();
    TimeShare::mean(&shares?)
}
