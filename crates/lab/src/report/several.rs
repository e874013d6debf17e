//! Several experiments on one page: links to each, and figures that several of them measured, side by side.

use maud::{Markup, html};

use super::header;
use super::layout::interval_cell;
use super::page::{Page, arm_label, setting_label};
use crate::results::Estimate;
use plimsoll_display::page::{number, section, table, text};
use plimsoll_display::rate;

/// Rows of figures side by side; the documents themselves have all.
const ROWS_MAX: usize = 200;

/// Title, and each document with its verdict.
pub(super) fn top(title: &str, pages: &[Page]) -> Markup {
    html! {
        header {
            p class="eyebrow" { "Plimsoll" }
            h1 { (title) }
            ol class="runs-list" {
                @for page in pages {
                    li {
                        a href={ "#" (page.id("top")) } { (header::title(page.results)) }
                        p { (page.results.experiment.name) ", " (header::time(&page.results.started)) }
                        (header::verdict_list(page))
                    }
                }
            }
        }
    }
}

/// Throughput of cells that at least two documents measured; nothing if they have none in common.
pub(super) fn side_by_side(pages: &[Page]) -> Markup {
    let rows = common(pages);
    if rows.is_empty() {
        return html! {};
    }
    let mut columns = vec![text("Workload"), text("Arm"), text("Setting")];
    let heading = |(position, page): (usize, &Page)| {
        number(&format!("{}: {}, {}", position + 1, page.results.experiment.name, header::time(&page.results.started)))
    };
    // A document that has nothing in common with another has no column.
    let takes_part = (0..pages.len()).filter(|&page| rows.iter().any(|(_, found)| found[page].is_some()));
    let takes_part = takes_part.collect::<Vec<_>>();
    columns.extend(takes_part.iter().map(|&page| heading((page, &pages[page]))));
    let is_one_machine =
        pages.windows(2).all(|two| two[0].results.machine_fingerprint == two[1].results.machine_fingerprint);
    let body = html! {
        p class="lead" {
            "Throughput with 95 % intervals of what more than one of these experiments measured. Whether a difference is more \
             than noise is told by "
            code { "plimsoll compare" }
            "."
            @if !is_one_machine { " They ran on different machines." }
        }
        (table("Throughput side by side", &columns, html! {
            @for (first, found) in rows.iter().take(ROWS_MAX) {
                tr {
                    th scope="row" { (first.workload) }
                    td { (arm_label(&first.arm, &first.workload)) }
                    td { (setting_label(&first.setting, &first.setting.keys().map(String::as_str).collect::<Vec<_>>(), None)) }
                    @for &page in &takes_part { (interval_cell(found[page].map(|e| e.throughput_per_s), rate)) }
                }
            }
        }))
        @if rows.len() > ROWS_MAX { p class="note" { (rows.len() - ROWS_MAX) " more rows are in the documents below." } }
    };
    section("side-by-side", "Side by side", body)
}

/// The cells that at least two documents measured, with the estimate of each.
fn common<'a>(pages: &[Page<'a>]) -> Vec<(&'a Estimate, Vec<Option<&'a Estimate>>)> {
    let mut rows: Vec<(&Estimate, Vec<Option<&Estimate>>)> = Vec::new();
    for (position, page) in pages.iter().enumerate() {
        for estimate in page.all_estimates() {
            let is_known = pages[..position].iter().any(|earlier| of(earlier, estimate).is_some());
            let found = || pages.iter().map(|page| of(page, estimate)).collect::<Vec<_>>();
            if !is_known && pages[position + 1..].iter().any(|later| of(later, estimate).is_some()) {
                rows.push((estimate, found()));
            }
        }
    }
    rows
}

/// A document's estimate of the same setting, arm and workload.
fn of<'a>(page: &Page<'a>, like: &Estimate) -> Option<&'a Estimate> {
    page.estimate(&like.setting, &like.arm, &like.workload)
}
