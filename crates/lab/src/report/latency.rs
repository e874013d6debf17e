//! Latency by percentile, and by kind of transaction.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::chart::{Chart, DistributionPanel, DistributionSeries, figure, numbers};
use super::numbers::{count_cell, estimates_table, key_cells, keyed};
use super::page::{Page, arm_label, setting_label};
use crate::results::{Estimate, Part};
use plimsoll_display::page::{figure_cell, section, table};
use plimsoll_display::{latency_told, rate};

/// The number of settings whose distributions are drawn.
const SETTINGS_MAX: usize = 8;

/// Rows of parts that the page carries.
const PARTS_MAX: usize = 600;

/// The section; nothing if no request completed.
pub(super) fn section_of(page: &Page) -> Markup {
    let settings = page.settings();
    let drawn = page.workloads().into_iter().map(|workload| distribution(page, workload));
    let drawn = drawn.flatten().collect::<Vec<_>>();
    if drawn.is_empty() {
        return html! {};
    }
    let is_swept = !super::sweep::axes(page).is_empty();
    let left_out = settings.len().saturating_sub(SETTINGS_MAX);
    section(
        &page.id("latency"),
        "Latency",
        html! {
            p class="lead" {
                "From the intended start of a request to its end, over the requests of all repeats. A step to the right is ten \
                 times fewer requests, a step up a longer time on a logarithmic scale."
                @if left_out > 0 {
                    " Drawn are the first " (SETTINGS_MAX) " settings; percentiles of the other " (left_out) " are in the tables."
                }
            }
            div class="figures" {
                @for (workload, chart) in &drawn {
                    @let table = numbers(&format!("Percentiles of {workload}"), estimates_table(page, workload, None));
                    (figure(&page.run(), workload, "", chart, if is_swept { html! {} } else { table }))
                }
            }
            (parts(page, "By kind of request", |estimate| &estimate.measured.transactions))
            (parts(page, "By priority class", |estimate| &estimate.measured.classes))
        },
    )
}

fn distribution<'a>(page: &Page, workload: &'a str) -> Option<(&'a str, Chart)> {
    let arms = page.arms(workload);
    let mut panels = Vec::new();
    for setting in page.settings().into_iter().take(SETTINGS_MAX) {
        let series = arms.iter().filter_map(|arm| {
            let estimate = page.estimate(setting, arm, workload)?;
            let points =
                estimate.measured.latency_distribution.iter().copied().filter(|(quantile, _)| quantile.is_finite());
            let points = points.collect::<Vec<_>>();
            let colour = page.colour(arm, workload);
            (points.len() > 1).then(|| DistributionSeries { name: arm_label(arm, workload), colour, points })
        });
        let series = series.collect::<Vec<_>>();
        if !series.is_empty() {
            let title = setting_label(setting, &page.keys(), None);
            panels.push(DistributionPanel { row: String::new(), title, series });
        }
    }
    let label = format!("Latency of {workload} by percentile");
    (!panels.is_empty()).then_some((workload, Chart::Distribution { label, panels }))
}

type Parts = fn(&Estimate) -> &BTreeMap<String, Part>;

fn parts(page: &Page, heading: &str, of: Parts) -> Markup {
    let estimates = page.all_estimates().into_iter();
    let rows = estimates.flat_map(|e| of(e).iter().map(move |(name, part)| (e, name, part))).collect::<Vec<_>>();
    if rows.is_empty() {
        return html! {};
    }
    let columns = keyed(page, &["Which", "Completed", "Per second", "Mean", "p50", "p95", "p99"]);
    html! {
        details {
            summary { (heading) }
            (table(heading, &columns, html! {
                @for (estimate, name, part) in rows.iter().take(PARTS_MAX) {
                    tr {
                        (key_cells(page, estimate))
                        td class="n" { (name) }
                        (count_cell(Some(part.completed)))
                        (figure_cell(Some(rate(part.throughput_per_s))))
                        (figure_cell(part.latency_us.map(|l| latency_told(l.mean))))
                        @for us in part.latency_us.map_or([None; 3], |l| [l.p50, l.p95, l.p99]) {
                            (figure_cell(us.map(|us| latency_told(us as f64))))
                        }
                        (page.run_links(estimate))
                    }
                }
            }))
            @if rows.len() > PARTS_MAX { p class="note" { (rows.len() - PARTS_MAX) " more rows are in results.json." } }
        }
    }
}
