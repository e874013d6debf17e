//! The slowdown of workloads by others: throughput beside others over throughput alone.
//!
//! A few ratios are rows with intervals; from three workloads on, pairs make a matrix. Along numeric sweeps the curves are in the
//! section of the axis.

use maud::{Markup, html};

use super::chart::{Cell, Chart, Figure, IntervalPanel, IntervalRow, Reference, Unit, figure, numbers, short};
use super::layout::interval_cell;
use super::page::{Page, Setting, arm_label, beside, setting_label};
use crate::results::Interference;
use plimsoll_display::fine_percent;
use plimsoll_display::page::{number, section, table, text};
use plimsoll_display::ratio;

/// Rows of one chart; more are easier to read in the matrix and the table.
const ROWS_MAX: usize = 24;

/// The number of matrices that are drawn; the table has the others.
const MATRICES_MAX: usize = 6;

/// The section; nothing if no workload ran both ways.
pub(super) fn section_of(page: &Page) -> Markup {
    let found = &page.results.interference;
    if found.is_empty() {
        return html! {};
    }
    let settings = page.settings().into_iter().filter(|s| found.iter().any(|i| i.setting == **s)).collect::<Vec<_>>();
    let matrices = settings.iter().filter_map(|setting| Some((*setting, matrix(page, setting)?))).collect::<Vec<_>>();
    // Along a numeric axis, its curves already show it.
    let is_drawn = super::sweep::axes(page).iter().any(|axis| axis.is_numeric);
    section(
        &page.id("interference"),
        "Interference",
        html! {
            p class="lead" {
                "Throughput beside others over throughput alone: 1 is undisturbed, 0.5 is half the speed. Differences within the \
                 noise floor are told as no difference seen."
            }
            @if found.len() <= ROWS_MAX && !is_drawn { (rows(page, &settings)) }
            @for (setting, chart) in matrices.iter().take(MATRICES_MAX) {
                @let name = setting_label(setting, &page.keys(), None);
                @let title = if name.is_empty() { "Who suffers beside whom".to_owned() } else { name };
                (figure(&page.run(), &title, "A row is who suffers, a column beside whom.", chart, html! {}))
            }
            @if matrices.len() > MATRICES_MAX {
                p class="note" { (matrices.len() - MATRICES_MAX) " more matrices are in the table only." }
            }
            (numbers("The numbers of interference", numbers_table(page)))
        },
    )
}

fn rows(page: &Page, settings: &[&Setting]) -> Markup {
    let mut panels = Vec::new();
    for workload in page.workloads() {
        let mut rows = Vec::new();
        for setting in settings {
            for found in of(page, setting, workload) {
                let Some(figure) = Figure::new(found.ratio, Vec::new()) else { continue };
                let label = arm_label(&found.arm, workload);
                let set = setting_label(setting, &page.keys(), None);
                rows.push(IntervalRow {
                    name: if set.is_empty() { label } else { format!("{label}, {set}") },
                    detail: found.finding.words().to_owned(),
                    colour: page.colour(&found.arm, workload),
                    floor: page.floor(workload),
                    figure,
                });
            }
        }
        if !rows.is_empty() {
            panels.push(IntervalPanel { title: workload.to_owned(), rows, ..IntervalPanel::default() });
        }
    }
    if panels.is_empty() {
        return html! {};
    }
    let label = "dashed: as alone; shaded: noise".to_owned();
    let chart = Chart::Intervals {
        label: "Throughput over throughput alone".to_owned(),
        x: "of throughput alone".to_owned(),
        unit: Unit::Ratio,
        reference: Some(Reference { value: 1.0, floor: None, label }),
        panels,
    };
    figure(&page.run(), "How much is left beside others", "", &chart, html! {})
}

fn of<'a>(page: &Page<'a>, setting: &Setting, workload: &str) -> Vec<&'a Interference> {
    page.results.interference.iter().filter(|i| i.workload == workload && i.setting == *setting).collect()
}

/// Pairs of at least three workloads at one setting.
fn matrix(page: &Page, setting: &Setting) -> Option<Chart> {
    let names = page.workloads();
    let position = |name: &str| names.iter().position(|other| *other == name);
    let mut cells = Vec::new();
    for found in page.results.interference.iter().filter(|i| i.setting == *setting && i.ratio.value.is_finite()) {
        let &[other] = beside(&found.arm, &found.workload).as_slice() else { continue };
        let (Some(row), Some(column)) = (position(&found.workload), position(other)) else { continue };
        let end = |value: Option<f64>| value.filter(|v| v.is_finite()).map(short);
        let (low, high) = (end(found.ratio.low), end(found.ratio.high));
        cells.push(Cell { row, column, value: short(found.ratio.value), low, high, finding: found.finding });
    }
    let used = (0..names.len()).filter(|&n| cells.iter().any(|c| c.row == n || c.column == n)).collect::<Vec<_>>();
    if used.len() < 3 {
        return None;
    }
    let renumbered = |old: usize| used.iter().position(|&n| n == old).unwrap_or(0);
    for cell in &mut cells {
        (cell.row, cell.column) = (renumbered(cell.row), renumbered(cell.column));
    }
    let names = used.iter().map(|&n| names[n].to_owned()).collect::<Vec<_>>();
    let label = "Throughput of each workload beside each other one, over its throughput alone".to_owned();
    Some(Chart::Matrix { label, rows: names.clone(), columns: names, cells })
}

fn numbers_table(page: &Page) -> Markup {
    let mut columns = vec![text("Workload"), text("Arm")];
    columns.extend(page.keys().into_iter().map(text));
    columns.extend([
        number("Of alone"),
        text("Finding"),
        number("Noise floor"),
        text("Runs beside"),
        text("Runs alone"),
    ]);
    table(
        "Throughput over throughput alone, with 95 % intervals",
        &columns,
        html! {
            @for found in &page.results.interference {
                tr {
                    th scope="row" { (found.workload) }
                    td { (arm_label(&found.arm, &found.workload)) }
                    (page.setting_cells(&found.setting))
                    (interval_cell(Some(found.ratio), ratio))
                    td { (found.finding.words()) }
                    td class="n" { (page.floor(&found.workload).map_or_else(|| "unknown".to_owned(), fine_percent)) }
                    (runs(page, found, &found.arm))
                    (runs(page, found, &format!("alone:{}", found.workload)))
                }
            }
        },
    )
}

fn runs(page: &Page, found: &Interference, arm: &str) -> Markup {
    match page.estimate(&found.setting, arm, &found.workload) {
        Some(estimate) => page.run_links(estimate),
        None => html! { td class="missing" { (plimsoll_display::MISSING) } },
    }
}
