//! The age of the copy that queries read: second by second, and for each run.

use maud::{Markup, html};

use super::chart::{Chart, Line, LinePanel, LineStyle, Scale, Span, Unit, figure, numbers, short};
use super::page::{Page, setting_label};
use crate::freshness::{answers, copied, overload};
use crate::record::SampleRow;
use crate::results::Point;
use crate::sections::freshness::FIGURES;
use plimsoll_display::page::{number, section, table, text};
use plimsoll_display::{figure_cells, figure_columns};

/// The section; nothing if queries read the rows that transactions write.
pub(super) fn section_of(page: &Page) -> Markup {
    let points = &page.results.points;
    if points.iter().all(|point| point.device.freshness.is_none()) {
        return html! {};
    }
    let label = "Lag of the copy second by second";
    section(
        &page.id("freshness"),
        "Freshness",
        html! {
            p class="lead" {
                "Queries read a copy to which changes are applied after they were committed. Its lag is the age of the oldest \
                 change that it lacked, 0 while it lacked none. A line is a run: what its lag stayed below for 95 % of each second."
            }
            @for one in copied(page.results) {
                @if let Some(why) = overload(&one) {
                    @let setting = setting_label(one.setting, &page.keys(), None);
                    p class="note" { (one.arm) @if !setting.is_empty() { ", " (setting) } ": " (why) "." }
                }
                @if let Some(age) = answers(&one.freshness) {
                    @let setting = setting_label(one.setting, &page.keys(), None);
                    p class="note" { (one.arm) @if !setting.is_empty() { ", " (setting) } ": " (age) "." }
                }
            }
            @match lags(page, label) {
                Some(chart) => { (figure(&page.run(), "lag", "", &chart, numbers(label, of_runs(page)))) }
                None => { (of_runs(page)) }
            }
        },
    )
}

fn lags(page: &Page, label: &str) -> Option<Chart> {
    let panels = page.settings().into_iter().filter_map(|setting| {
        let of_setting = page.results.points.iter().enumerate().filter(|(_, point)| point.setting == *setting);
        let lines: Vec<Line> = of_setting.filter_map(|(run, point)| line(page, run, point)).collect();
        let title = setting_label(setting, &page.keys(), None);
        (!lines.is_empty()).then(|| LinePanel { title, lines, ..LinePanel::default() })
    });
    let panels: Vec<LinePanel> = panels.collect();
    (!panels.is_empty()).then(|| Chart::Lines {
        label: label.to_owned(),
        x: Scale { name: "seconds since the window opened".to_owned(), unit: None, span: Span::Zero },
        y: Scale { name: "lag".to_owned(), unit: Some(Unit::Duration), span: Span::Zero },
        reference: None,
        panels,
    })
}

/// The seconds of a valid run, each once: every workload has a row for it.
fn line(page: &Page, run: usize, point: &Point) -> Option<Line> {
    let first = point.valid.then(|| point.workloads.first()).flatten()?;
    let of_second = |row: &SampleRow| {
        let lag_us = row.device.freshness?.lag_us?.p95?;
        Some((short(row.second + row.seconds / 2.0), short(lag_us)))
    };
    let rows = page.record(run)?.samples.iter().filter(|row| row.workload == first.name);
    let points: Vec<_> = rows.filter_map(of_second).collect();
    (points.len() > 1).then(|| Line {
        name: point.arm.clone(),
        detail: format!("run {run}, block {}", point.repeat),
        colour: page.colour(&point.arm, &first.name),
        style: LineStyle::Straight,
        run: Some(run),
        points,
    })
}

fn of_runs(page: &Page) -> Markup {
    let mut columns = vec![number("Run"), text("Arm")];
    columns.extend(page.keys().into_iter().map(text));
    columns.extend(figure_columns(&FIGURES));
    table(
        "What the copy did in each window",
        &columns,
        html! {
            @for (run, point) in page.results.points.iter().enumerate() {
                @if let Some(copy) = &point.device.freshness {
                    tr class=[(!point.valid).then_some("invalid")] {
                        th scope="row" class="n" { (page.run_link(run)) }
                        td { (point.arm) }
                        (page.setting_cells(&point.setting))
                        (figure_cells(&FIGURES, copy))
                    }
                }
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use plimsoll_workload::freshness::Freshness;

    use super::super::{ReportInput, fixture};
    use super::*;

    #[test]
    fn a_copy_that_falls_behind_is_drawn_and_said() {
        let without = fixture::study();
        assert_eq!(section_of(&Page::new(&ReportInput::from(&without), None)).into_string(), "");
        let mut results = fixture::study();
        let slow = Freshness { lambda: Some(9e6), ..fixture::copy::standby() };
        results.points.iter_mut().for_each(|point| point.device.freshness = Some(slow));
        results.estimates.iter_mut().for_each(|cell| cell.device.freshness = Some(slow));
        let records = fixture::records::records(&results);
        let source = ReportInput::new(&results, &records);
        let page = section_of(&Page::new(&source, None)).into_string();
        for there in ["Freshness", "cannot keep up", "9.00 MB", "12.0 ms", "seconds since the window opened"] {
            assert!(page.contains(there), "{there}: {page}");
        }
    }
}
