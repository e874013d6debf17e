//! Where response time went.

use maud::{Markup, html};

use super::chart::{Chart, ShareBar, figure, numbers, short};
use super::layout::{figure_cell, section, table};
use super::numbers::{key_cells, keyed};
use super::page::{Page, arm_label, setting_label};
use crate::results::{Estimate, TimeShare};
use crate::units::percent;

/// Parts in the order of the bars, with what they are.
const PARTS: [(&str, &str); 5] = [
    ("on a core", "running instructions"),
    ("waiting for a core", "could run, but every core was taken"),
    ("device", "waiting for a disk"),
    ("database lock", "waiting for a lock that another transaction holds"),
    (
        "other",
        "everything else, and whatever could not be measured; for queries mostly workers with nothing to do, for interactive clients round trips",
    ),
];

/// Bars that are drawn.
const BARS_MAX: usize = 40;

/// The section; nothing where no share is known.
pub(super) fn section_of(page: &Page) -> Markup {
    let workloads = page.workloads();
    let estimates = workloads.iter().flat_map(|workload| page.estimates(workload));
    let shares = estimates.filter_map(|e| Some((e, e.time_share?))).collect::<Vec<_>>();
    if shares.is_empty() {
        return html! {};
    }
    let bars = shares.iter().take(BARS_MAX).map(|(estimate, share)| bar(page, estimate, share)).collect();
    let chart = Chart::Shares {
        label: "Parts of response time".to_owned(),
        parts: PARTS.map(|(name, _)| name.to_owned()).into(),
        bars,
    };
    let left_out = shares.len().saturating_sub(BARS_MAX);
    let note = if left_out > 0 { format!("{left_out} more bars are in the table only") } else { String::new() };
    section(
        &page.id("time-share"),
        "Where time goes",
        html! {
            p class="lead" { "Parts of response time, mean over repeats. What could not be measured is within the last part." }
            (figure(&page.run(), "Parts of response time", &note, &chart, numbers("The numbers of time shares", numbers_table(page, &shares))))
            dl class="terms" { @for (name, meaning) in PARTS { dt { (name) } dd { (meaning) } } }
        },
    )
}

fn parts(share: &TimeShare) -> [Option<f64>; 5] {
    [share.cpu_run, share.cpu_wait, share.io, share.lock, Some(share.other)].map(|part| part.filter(|p| p.is_finite()))
}

fn bar(page: &Page, estimate: &Estimate, share: &TimeShare) -> ShareBar {
    let arm = arm_label(&estimate.arm, &estimate.workload);
    let set = setting_label(&estimate.setting, &page.keys(), None);
    ShareBar {
        group: estimate.workload.clone(),
        name: if set.is_empty() { arm } else { format!("{set}, {arm}") },
        values: parts(share).map(|part| part.map(short)).into(),
    }
}

fn numbers_table(page: &Page, shares: &[(&Estimate, TimeShare)]) -> Markup {
    let has_round_trips = shares.iter().any(|(estimate, _)| estimate.round_trip_share.is_some_and(|share| share > 0.0));
    let mut names = PARTS.map(|(name, _)| name).to_vec();
    names.extend(has_round_trips.then_some("of it round trips"));
    let columns = keyed(page, &names);
    table(
        "Parts of response time, mean over repeats",
        &columns,
        html! {
            @for (estimate, share) in shares {
                tr {
                    (key_cells(page, estimate))
                    @for part in parts(share) { (figure_cell(part.map(percent))) }
                    @if has_round_trips { (figure_cell(estimate.round_trip_share.map(percent))) }
                    (page.run_links(estimate))
                }
            }
        },
    )
}
