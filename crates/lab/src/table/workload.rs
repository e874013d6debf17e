//! One workload: throughput, latency, time share and counters, alone above together.

use super::{Style, time_share};
use crate::results::{Latency, MeanLength, WorkloadResult, most_urgent_first};
use crate::summary::{Rates, Workload};
use crate::units::{MISSING, count, duration_us, fine_percent, percent, rate, significant};

/// Adds the lines of `workload`.
pub(super) fn section(out: &mut Vec<String>, workload: &Workload, style: Style) {
    out.push(style.bold(workload.name));
    throughput(out, workload);
    latency(out, workload);
    time_share::lines(out, workload);
    counters(out, workload);
}

fn throughput(out: &mut Vec<String>, workload: &Workload) {
    for (index, (arm, runs)) in workload.arms_run().into_iter().enumerate() {
        let label = if index == 0 { "throughput" } else { "" };
        let mut line = format!("  {label:<12}{arm:<10}");
        match runs.throughput() {
            Some(spread) => {
                line += &format!("{:>10}", rate(spread.mean));
                if runs.runs.len() > 1 && spread.mean > 0.0 {
                    line += &format!("  ± {}", fine_percent((spread.high - spread.low) / 2.0 / spread.mean));
                }
                line += &format!("  ({} completed)", count(runs.runs.iter().map(|run| run.result.all.completed).sum()));
            }
            None => line += &format!("{MISSING:>10}  no valid run"),
        }
        if runs.left_out > 0 {
            line += &format!(", {} invalid", runs.left_out);
        }
        out.push(line);
    }
    if workload.arms_run().len() < 2 {
        return;
    }
    let Some(interference) = workload.interference else {
        out.push(format!("  {:<22}{MISSING:>10}", "together / alone"));
        return;
    };
    let spread = match (interference.low, interference.high, workload.noise_floor) {
        (Some(low), Some(high), Some(floor)) => {
            format!("  ({low:.2} to {high:.2}, noise floor {})", fine_percent(floor))
        }
        _ => "  (one repeat, noise floor unknown)".to_string(),
    };
    out.push(format!("  {:<22}{:>10.2}{spread}", "together / alone", interference.value));
}

fn latency(out: &mut Vec<String>, workload: &Workload) {
    let classes = workload.alone.runs.iter().chain(&workload.together.runs).flat_map(|run| run.result.classes.keys());
    let classes = most_urgent_first(classes);
    out.push(format!("  {:<22}{:>10}{:>10}{:>10}{:>10}", "latency", "mean", "p50", "p95", "p99"));
    latency_rows(out, workload, "all", |result| Some((result.all.completed, result.all.latency_us?)));
    // A single class is the workload itself.
    for class in classes.iter().filter(|_| classes.len() > 1) {
        latency_rows(out, workload, class, |result| {
            let part = result.classes.get(*class)?;
            Some((part.completed, part.latency_us?))
        });
    }
}

/// `part` picks a latency and how many requests it is of. The mean is over all repeats, percentiles are of one.
fn latency_rows(
    out: &mut Vec<String>,
    workload: &Workload,
    label: &str,
    part: impl Fn(&WorkloadResult) -> Option<(u64, Latency)>,
) {
    for (index, (arm, runs)) in workload.arms_run().into_iter().enumerate() {
        let told = |figure: Option<f64>| figure.map_or_else(|| MISSING.to_string(), duration_us);
        let cell = |which: fn(&Latency) -> Option<u64>| {
            let percentile = runs.percentile(|result| part(result).map(|(_, latency)| latency), which);
            told(percentile.map(|percentile| percentile.value as f64))
        };
        let means = runs.runs.iter().filter_map(|run| part(run.result));
        let mean = MeanLength::merged(means.map(|(count, latency)| MeanLength { count, mean_us: Some(latency.mean) }));
        let label = if index == 0 { label } else { "" };
        out.push(format!(
            "    {label:<10}{arm:<8}{:>10}{:>10}{:>10}{:>10}",
            told(mean.mean_us),
            cell(|l| l.p50),
            cell(|l| l.p95),
            cell(|l| l.p99)
        ));
    }
}

fn counters(out: &mut Vec<String>, workload: &Workload) {
    if workload.arms_run().iter().all(|(_, arm)| arm.rates().is_none()) {
        out.push(format!("  {:<22}{MISSING:>10}", "counters"));
        return;
    }
    out.push(format!(
        "  {:<20}{:>7}{:>9}{:>9}{:>10}{:>9}",
        "counters", "IPC", "L1D/1k", "LLC/1k", "branch/1k", "counted"
    ));
    for (arm, runs) in workload.arms_run() {
        let rates = runs.rates();
        let cell = |rate: fn(&Rates) -> Option<f64>| {
            rates.as_ref().and_then(rate).map_or_else(|| MISSING.to_string(), significant)
        };
        out.push(format!(
            "  {:<12}{arm:<8}{:>7}{:>9}{:>9}{:>10}{:>9}",
            "",
            rates.and_then(|r| r.ipc).map_or_else(|| MISSING.to_string(), |ipc| format!("{ipc:.2}")),
            cell(|r| r.l1d_misses),
            cell(|r| r.llc_misses),
            cell(|r| r.branch_misses),
            rates.map_or_else(|| MISSING.to_string(), |rates| percent(rates.coverage))
        ));
    }
}
