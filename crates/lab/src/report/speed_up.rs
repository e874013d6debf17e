//! The speed-up of each query with a larger amount: a small chart for each.

use maud::{Markup, html};

use super::chart::{Chart, CurvePanel, CurvePoint, Ends, Figure, Reference, Series, Unit, figure, numbers, short};
use super::layout::interval_cell;
use super::page::{Page, arm_label, setting_label};
use crate::amounts::{AmountKind, Amounts};
use crate::speed_up::{SpeedUp, speed_ups};
use plimsoll_display::page::{number, section, table, text};
use plimsoll_display::ratio;
use plimsoll_display::{joined, value};

/// The most charts that are drawn; more would not be read, and the table has all.
const CHARTS_MAX: usize = 6;

/// Rows of a table.
const ROWS_MAX: usize = 600;

/// The section; nothing if no allocation was swept with queries.
pub(super) fn section_of(page: &Page) -> Markup {
    let all = speed_ups(page.results);
    if all.is_empty() {
        return html! {};
    }
    let groups: Vec<&[SpeedUp]> = all.chunk_by(is_beside).collect();
    section(
        &page.id("speed-up"),
        "Speed-up of each query",
        html! {
            p class="lead" {
                "How many times as fast each query is as with the least, by mean latencies within each block, with 95 % intervals; small \
                 dots are the blocks. A query that stays on the dashed line gains nothing from more."
            }
            @for group in groups.iter().take(CHARTS_MAX) { (drawn(page, group)) }
            @if groups.len() > CHARTS_MAX { p class="note" { (groups.len() - CHARTS_MAX) " more charts are not drawn." } }
            (numbers("The numbers of speed-up", numbers_table(page, &all)))
        },
    )
}

fn is_beside(one: &SpeedUp, next: &SpeedUp) -> bool {
    (one.axis, one.arm, one.workload, &one.setting) == (next.axis, next.arm, next.workload, &next.setting)
}

fn drawn(page: &Page, group: &[SpeedUp]) -> Markup {
    let [one, ..] = group else { return html! {} };
    let axis = page.results.experiment.sweep.iter().find(|axis| axis.key == one.axis);
    let amounts = Amounts::of(axis.map_or(&[][..], |axis| &axis.values));
    let panel = |query: &SpeedUp| {
        let points = query.points.iter().filter_map(|point| {
            let samples = point.runs.iter().map(|(run, ratio)| (*run, *ratio, false)).collect();
            Some(CurvePoint { at: short(amounts.position(&point.value)?), figure: Figure::new(point.times, samples)? })
        });
        let series =
            Series { colour: page.colour(one.arm, one.workload).max(1), points: points.collect(), ..Series::default() };
        let (row, note) = (String::new(), String::new());
        CurvePanel { row, title: query.query.to_owned(), note, series: vec![series], ..CurvePanel::default() }
    };
    let chart = Chart::Curve {
        label: format!("Speed-up of the queries of {} over {}", one.workload, one.axis),
        x: one.axis.to_owned(),
        x_unit: (amounts.kind() == Some(AmountKind::Bytes)).then_some(Unit::Bytes),
        y: "times as fast".to_owned(),
        unit: Unit::Ratio,
        ends: Ends::Interval,
        reference: Some(Reference { value: 1.0, floor: None, label: String::new() }),
        panels: group.iter().map(panel).collect(),
    };
    let place = [arm_label(one.arm, one.workload), setting_label(&one.setting, &page.keys(), Some(one.axis))];
    let place = joined(place);
    figure(&page.run(), &format!("{}, {place}, over {}", one.workload, one.axis), "", &chart, html! {})
}

fn numbers_table(page: &Page, all: &[SpeedUp]) -> Markup {
    let columns = [
        text("Workload"),
        text("Arm"),
        text("Setting"),
        text("Query"),
        text("Over"),
        number("At"),
        number("Times as fast"),
        number("Blocks"),
    ];
    let rows = all.iter().flat_map(|query| query.points.iter().map(move |point| (query, point)));
    let rows: Vec<_> = rows.collect();
    html! {
        (table("Mean latency with the least over mean latency with this much, with 95 % intervals", &columns, html! {
            @for (query, point) in rows.iter().take(ROWS_MAX) {
                tr {
                    th scope="row" { (query.workload) }
                    td { (arm_label(query.arm, query.workload)) }
                    td { (setting_label(&query.setting, &page.keys(), Some(query.axis))) }
                    td { (query.query) }
                    td { (query.axis) }
                    td class="n" { (value(&point.value)) }
                    (interval_cell(Some(point.times), ratio))
                    td class="n" { (point.runs.len()) }
                }
            }
        }))
        @if rows.len() > ROWS_MAX { p class="note" { (rows.len() - ROWS_MAX) " more rows follow from results.json." } }
    }
}
