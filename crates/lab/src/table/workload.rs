//! One workload: throughput, latency, time share and counters, alone above together.

use super::time_share;
use crate::figures::{Reading, figure};
use crate::results::{Results, most_urgent_first};
use crate::summary::{Arm, Workload};
use plimsoll_display::wrap;
use plimsoll_display::{MISSING, count, fine_percent, latency_told, percent, rate, significant};

/// Adds the lines of `workload`. A figure that is not known has no line, except counters, whose absence is explained.
pub(super) fn section(out: &mut Vec<String>, results: &Results, workload: &Workload) {
    out.push(workload.name.to_owned());
    throughput(out, workload);
    latency(out, workload);
    time_share::lines(out, workload);
    counters(out, results, workload);
}

fn throughput(out: &mut Vec<String>, workload: &Workload) {
    for (index, (arm, runs)) in workload.arms_run().into_iter().enumerate() {
        let label = if index == 0 { "throughput" } else { "" };
        let mut line = format!("  {label:<12}{arm:<10}");
        match runs.throughput() {
            Some(mean) => {
                line += &format!("{:>10}", rate(mean.value));
                if let Some((low, high)) = mean.low.zip(mean.high).filter(|_| mean.value > 0.0) {
                    line += &format!("  ± {}", fine_percent((high - low) / 2.0 / mean.value));
                }
                let completed = runs.cell.map_or(0, |cell| cell.measured.all.completed);
                line += &format!("  ({} completed)", count(completed));
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
    let Some(interference) = workload.interference else { return };
    let spread = match (interference.low, interference.high, workload.noise_floor) {
        (Some(low), Some(high), Some(floor)) => {
            format!("  ({low:.2} to {high:.2}, noise floor {})", fine_percent(floor))
        }
        _ => "  (one repeat, noise floor unknown)".to_string(),
    };
    out.push(format!("  {:<22}{:>10.2}{spread}", "together / alone", interference.value));
}

/// The latencies shown: a heading and the name of the figure.
const LATENCY: [(&str, &str); 4] =
    [("mean", "latency_us.mean"), ("p50", "latency_us.p50"), ("p95", "latency_us.p95"), ("p99", "latency_us.p99")];

fn latency(out: &mut Vec<String>, workload: &Workload) {
    let cells = workload.arms().into_iter().filter_map(|(_, arm)| arm.cell);
    let classes = most_urgent_first(cells.flat_map(|cell| cell.measured.classes.keys()));
    let mut rows = Vec::new();
    latency_rows(&mut rows, workload, "all", Some);
    // A single class is the workload itself.
    for class in classes.iter().filter(|_| classes.len() > 1) {
        latency_rows(&mut rows, workload, class, |reading| reading.class(class));
    }
    if !rows.is_empty() {
        let heads: String = LATENCY.iter().map(|(name, _)| format!("{name:>10}")).collect();
        out.push(format!("  {:<22}{heads}", "latency"));
        out.extend(rows);
    }
    let lacks_tail = |arm: &Arm<'_>| arm.figure("latency_us.mean").is_some() && arm.figure("latency_us.p99").is_none();
    if workload.arms_run().iter().any(|(_, arm)| lacks_tail(arm)) {
        out.push(format!("    {MISSING}: fewer than ten requests lie beyond that percentile"));
    }
}

/// Over the requests of all repeats; a dash is a percentile beyond which fewer than ten requests lie.
fn latency_rows<'a>(
    out: &mut Vec<String>,
    workload: &Workload<'a>,
    label: &str,
    part: impl Fn(Reading<'a>) -> Option<Reading<'a>>,
) {
    let mut label = label;
    for (arm, runs) in workload.arms_run() {
        let reading = runs.reading().and_then(&part);
        let told = LATENCY.map(|(_, key)| reading.and_then(|reading| figure(key).value(&reading)));
        if told.iter().all(Option::is_none) {
            continue;
        }
        let cells = told.map(|figure| figure.map_or_else(|| MISSING.to_owned(), latency_told));
        let cells: String = cells.iter().map(|cell| format!("{cell:>10}")).collect();
        out.push(format!("    {label:<10}{arm:<8}{cells}"));
        label = "";
    }
}

/// The name of the sensor.
const HARDWARE_COUNTERS: &str = "hardware counters";

/// The hardware counters shown: a heading, the column's width and the name of the figure.
const COUNTERS: [(&str, usize, &str); 4] = [
    ("IPC", 7, "counters.ipc"),
    ("L1D/1k", 9, "counters.l1d_mpki"),
    ("LLC/1k", 9, "counters.llc_mpki"),
    ("branch/1k", 10, "counters.branch_mpki"),
];

fn counters(out: &mut Vec<String>, results: &Results, workload: &Workload) {
    let counted = |arm: &Arm<'_>| arm.cell.and_then(|cell| cell.measured.counters);
    if workload.arms_run().iter().all(|(_, arm)| counted(arm).is_none()) {
        let why = why_no_counters(results).map_or_else(String::new, |why| format!(": {why}"));
        out.extend(wrap(&format!("none{why}"), &format!("  {:<12}", "counters"), &" ".repeat(14)));
        return;
    }
    let heads: String = COUNTERS.iter().map(|(name, width, _)| format!("{name:>width$}")).collect();
    out.push(format!("  {:<20}{heads}{:>9}", "counters", "counted"));
    for (arm, runs) in workload.arms_run() {
        let cell = |key: &str| match runs.figure(key) {
            Some(ipc) if key == "counters.ipc" => format!("{ipc:.2}"),
            Some(rate) => significant(rate),
            None => MISSING.to_owned(),
        };
        let cells: String = COUNTERS.iter().map(|(_, width, key)| format!("{:>width$}", cell(key))).collect();
        let coverage = counted(runs).map_or_else(|| MISSING.to_owned(), |counters| percent(counters.coverage));
        out.push(format!("  {:<12}{arm:<8}{cells}{coverage:>9}", ""));
    }
}

/// Why there are no hardware counters: the host lacks them, or else a run could not read them.
fn why_no_counters(results: &Results) -> Option<&str> {
    let mut capabilities = results.machine.capabilities.iter();
    let lacking = capabilities.find(|one| one.name == HARDWARE_COUNTERS && !one.available);
    // A warning names its subject and then, after a colon, the reason.
    let met = || results.warnings.iter().find(|warning| warning.contains(HARDWARE_COUNTERS))?.split_once(": ");
    lacking.map(|one| one.reason.as_str()).or_else(|| met().map(|(_, why)| why))
}
