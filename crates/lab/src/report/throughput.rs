//! Throughput without a sweep: each arm of each workload with its repeats.

use maud::{Markup, html};

use super::chart::{Chart, Figure, IntervalPanel, IntervalRow, Unit, figure, numbers};
use super::numbers::estimates_table;
use super::page::{Page, arm_label};
use plimsoll_display::of;
use plimsoll_display::page::section;

/// The section; nothing if an axis shows more.
pub(super) fn section_of(page: &Page) -> Markup {
    if !super::sweep::axes(page).is_empty() || page.results.estimates.is_empty() {
        return html! {};
    }
    section(
        &page.id("throughput"),
        "Throughput",
        html! {
            p class="lead" {
                "Completed requests per second: mean over repeats with its 95 % interval; small dots are the repeats, crosses \
                 those far from the others."
            }
            div class="figures" { @for workload in page.workloads() { (of_workload(page, workload)) } }
        },
    )
}

fn of_workload(page: &Page, workload: &str) -> Markup {
    let estimates = page.estimates(workload);
    let rows = estimates.iter().filter_map(|estimate| {
        let runs = page.samples(estimate, |result| Some(result.all.throughput_per_s));
        let all = estimate.runs.len() + estimate.left_out.len();
        Some(IntervalRow {
            name: arm_label(&estimate.arm, workload),
            detail: of(estimate.runs.len(), all, "run"),
            colour: page.colour(&estimate.arm, workload),
            floor: None,
            figure: Figure::new(estimate.throughput_per_s, runs)?,
        })
    });
    let panel = IntervalPanel { row: String::new(), title: String::new(), rows: rows.collect() };
    if panel.rows.is_empty() {
        return html! {};
    }
    let chart = Chart::Intervals {
        label: format!("Throughput of {workload}"),
        x: "completed per second".to_owned(),
        unit: Unit::Rate,
        reference: None,
        panels: vec![panel],
    };
    let table = numbers(&format!("The numbers of {workload}"), estimates_table(page, workload, None));
    figure(&page.run(), workload, "", &chart, table)
}
