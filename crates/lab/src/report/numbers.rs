//! The numbers beside the charts: one row for each estimate, with links to the runs it rests on.

use maud::{Markup, html};

use super::gaps;
use super::layout::interval_cell;
use super::page::{Page, Setting, arm_label};
use crate::results::Estimate;
use plimsoll_display::page::{Column, figure_cell, number, table, text};
use plimsoll_display::{count, latency_told, rate};

/// The columns of figures.
const FIGURES: [&str; 8] = ["Per second", "Mean", "p50", "p90", "p95", "p99", "p99.9", "Slowest"];

/// Throughput and latency of a workload. Along an axis, that axis runs fastest.
pub(super) fn estimates_table(page: &Page, workload: &str, axis: Option<&str>) -> Markup {
    let arms = page.arms(workload);
    let axis = axis.and_then(|axis| page.keys().iter().position(|key| *key == axis));
    let place = |setting: &Setting, arm: &str| {
        let mut position = page.position(setting);
        let fastest = axis.map(|axis| position.remove(axis));
        // An arm without a valid run comes last.
        let arm = arms.iter().position(|other| *other == arm).unwrap_or(arms.len());
        if axis.is_some() { (arm, position, fastest) } else { (0, position, Some(arm)) }
    };
    let estimates = page.estimates(workload).into_iter();
    let mut rows =
        estimates.map(|estimate| (place(&estimate.setting, &estimate.arm), row(page, estimate))).collect::<Vec<_>>();
    let gaps = gaps::gaps(page, workload);
    rows.extend(
        gaps.iter().map(|gap| (place(gap.setting, gap.arm), gaps::row(page, gap, workload, FIGURES.len() + 1))),
    );
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    let mut columns = page.keys().into_iter().map(text).collect::<Vec<_>>();
    columns.push(text("Arm"));
    columns.extend(FIGURES.map(number));
    columns.extend([number("n"), text("Runs")]);
    let caption = "Throughput and mean latency over repeats with 95 % intervals; percentiles over the requests of all repeats, if ten lie beyond";
    table(caption, &columns, html! { @for (_, row) in rows { (row) } })
}

fn row(page: &Page, estimate: &Estimate) -> Markup {
    let latency = estimate.measured.all.latency_us.as_ref();
    let percentile = |us: Option<u64>| figure_cell(us.map(|us| latency_told(us as f64)));
    html! {
        tr {
            (page.setting_cells(&estimate.setting))
            th scope="row" { (arm_label(&estimate.arm, &estimate.workload)) }
            (interval_cell(Some(estimate.throughput_per_s), rate))
            (interval_cell(estimate.mean_latency_us, latency_told))
            (percentile(latency.and_then(|l| l.p50)))
            (percentile(latency.and_then(|l| l.p90)))
            (percentile(latency.and_then(|l| l.p95)))
            (percentile(latency.and_then(|l| l.p99)))
            (percentile(latency.and_then(|l| l.p999)))
            (percentile(latency.map(|l| l.max)))
            td class="n" { (estimate.runs.len()) }
            (page.run_links(estimate))
        }
    }
}

/// The columns that identify an estimate, then `more` of figures, then the runs.
pub(super) fn keyed(page: &Page, more: &[&str]) -> Vec<Column> {
    let mut columns = vec![text("Workload"), text("Arm")];
    columns.extend(page.keys().into_iter().map(text));
    columns.extend(more.iter().map(|name| number(name)));
    columns.push(text("Runs"));
    columns
}

/// The cells under [`keyed`] that identify an estimate.
pub(super) fn key_cells(page: &Page, estimate: &Estimate) -> Markup {
    html! {
        th scope="row" { (estimate.workload) }
        td { (arm_label(&estimate.arm, &estimate.workload)) }
        (page.setting_cells(&estimate.setting))
    }
}

/// A count, or a dash.
pub(super) fn count_cell(value: Option<u64>) -> Markup {
    figure_cell(value.map(count))
}
