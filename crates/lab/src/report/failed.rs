//! What failed: requests that were given up and why, runs that are invalid, attempts that were run again.

use maud::{Markup, html};

use super::page::{Page, arm_label};
use crate::failed::{FailureCounts, invalid_runs, told_again};
use crate::results::FailedRequests;
use plimsoll_display::page::{Column, figure_cell, number, section, table, text};
use plimsoll_display::{count, fine_percent};

/// Rows of a table that the page carries.
const ROWS_MAX: usize = 400;

/// The section; nothing if nothing failed and nothing was run again.
pub(super) fn section_of(page: &Page) -> Markup {
    let points = &page.results.points;
    let (failed, invalid, again) = (FailureCounts::with_failures(points), invalid_runs(points), told_again(points));
    if failed.is_empty() && invalid.is_empty() && again.is_empty() {
        return html! {};
    }
    section(
        &page.id("failed"),
        "What failed",
        html! {
            @if !failed.is_empty() { (requests(page, &failed)) }
            @if !invalid.is_empty() { (runs(page, &invalid)) }
            @if !again.is_empty() {
                p { "Attempts that were rolled back and run again: " (again.join("; ")) "." }
            }
        },
    )
}

fn requests(page: &Page, failed: &[FailureCounts<'_>]) -> Markup {
    let mut columns: Vec<Column> = page.keys().iter().map(|key| text(key)).collect();
    columns.extend([text("Workload"), text("Arm"), number("Failed"), number("Share of all"), text("Reason")]);
    table(
        "Requests that failed",
        &columns,
        html! {
            @for cell in failed.iter().take(ROWS_MAX) {
                tr {
                    (page.setting_cells(cell.setting))
                    th scope="row" { (cell.workload) }
                    td { (arm_label(cell.arm, cell.workload)) }
                    (figure_cell(Some(format!("{} of {}", count(cell.aborted.error), count(cell.ended())))))
                    (figure_cell(Some(fine_percent(cell.share()))))
                    td class="words" { (reasons(&cell.reasons)) }
                }
            }
        },
    )
}

fn reasons(reasons: &[FailedRequests]) -> Markup {
    html! {
        @for failed in reasons {
            div {
                (count(failed.count)) " times "
                @if let Some(code) = &failed.code { code { (code) } " " }
                (failed.message)
                @if let Some(first) = &failed.first { small { "first: " (first) } }
            }
        }
    }
}

fn runs(page: &Page, invalid: &[(&str, Vec<usize>)]) -> Markup {
    table(
        "Invalid runs, which count for nothing",
        &[number("Runs"), text("Reason"), text("Which")],
        html! {
            @for (why, runs) in invalid.iter().take(ROWS_MAX) {
                tr class="invalid" {
                    (figure_cell(Some(runs.len().to_string())))
                    td class="words" { (why) }
                    td {
                        @for (position, run) in runs.iter().enumerate() {
                            @if position > 0 { ", " }
                            (page.run_link(*run))
                        }
                    }
                }
            }
        },
    )
}
