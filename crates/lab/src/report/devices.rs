//! The activity of the machine and its devices in each run, and figures that could not be measured.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::page::Page;
use crate::figures::{Figure, Unit, given_by};
use crate::results::{Point, Unmeasured};
use plimsoll_display::page::{figure_cell, number, table, text};
use plimsoll_display::{percent, significant};

/// Every figure that some run has, with a row for each run.
pub(super) fn devices(page: &Page) -> Markup {
    let points = &page.results.points;
    let is_known = |figure: &&Figure| points.iter().any(|point| figure.of_device(&point.device).is_some());
    let figures: Vec<&Figure> = given_by("device").filter(is_known).collect();
    let mut columns = vec![number("Run"), text("Arm")];
    columns.extend(figures.iter().filter_map(|figure| figure.claim?.subject).map(number));
    html! {
        (table("What the machine and its devices did in each window", &columns, html! {
            @for (run, point) in points.iter().enumerate() {
                tr class=[(!point.valid).then_some("invalid")] {
                    th scope="row" class="n" { (run) }
                    td { (point.arm) }
                    @for figure in &figures { (figure_cell(written(figure, point))) }
                }
            }
        }))
        @if figures.iter().any(|figure| figure.key.starts_with("device.group")) {
            p {
                "Group: the control groups that the database's process is in, with all other processes in them. Under a limit that \
                 is a group of ours and holds the database alone."
            }
        }
    }
}

fn written(figure: &Figure, point: &Point) -> Option<String> {
    let value = figure.of_device(&point.device)?;
    Some(match figure.unit {
        Unit::Share => percent(value),
        unit => format!("{} {}", significant(value), unit.name()),
    })
}

/// The figures that sensors lack, and why; nothing if they have all.
pub(super) fn unmeasured(page: &Page) -> Markup {
    let mut found: BTreeMap<(&str, &Unmeasured), Vec<String>> = BTreeMap::new();
    for (run, point) in page.results.points.iter().enumerate() {
        for (sensor, why) in &point.unmeasured {
            found.entry((sensor, why)).or_default().push(run.to_string());
        }
    }
    if found.is_empty() {
        return html! {};
    }
    let all = page.results.points.len();
    let columns =
        [text("Sensor"), text("Why it told nothing, or not everything"), text("What would help"), text("Runs")];
    table(
        "What was not measured, and why",
        &columns,
        html! {
            @for ((sensor, why), runs) in &found {
                tr {
                    th scope="row" { (sensor) }
                    td class="words" { (why.reason) }
                    td class="words" { (why.remedy.as_deref().unwrap_or("nothing is known to")) }
                    td { @if runs.len() == all { "all" } @else { (runs.join(", ")) } }
                }
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use plimsoll_machine::pressure::PressureUse;

    use super::super::{ReportInput, fixture};
    use super::*;

    #[test]
    fn figures_that_some_run_has_are_columns_and_the_others_have_reasons() {
        let mut results = fixture::study();
        let pressure = PressureUse { io_some: Some(0.25), ..PressureUse::default() };
        results.points[0].device.pressure = Some(pressure);
        results.points[1].device.mhz = Some(2450.0);
        let why = Unmeasured { reason: "no cpufreq".to_owned(), remedy: Some("bare metal".to_owned()) };
        results.points[0].unmeasured.insert("frequency".to_owned(), why);
        let source = ReportInput::from(&results);
        let page = Page::new(&source, None);
        let table = devices(&page).into_string();
        for there in ["pressure_io_some", "25 %", ">mhz<", "MHz", "write_mb_s"] {
            assert!(table.contains(there), "{there}: {table}");
        }
        assert!(!table.contains("Group:") && !table.contains("cache_held_mib"), "nobody measured it: {table}");
        let reasons = unmeasured(&page).into_string();
        for there in ["frequency", "no cpufreq", "bare metal", "<td>0</td>"] {
            assert!(reasons.contains(there), "{there}: {reasons}");
        }
        let told = fixture::study();
        assert_eq!(unmeasured(&Page::new(&ReportInput::from(&told), None)).into_string(), "");
    }
}
