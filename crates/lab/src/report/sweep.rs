//! The results of a sweep: for each axis, every workload's figures over it, the arms side by side.
//!
//! Numeric axes give curves, with knees and the scalability law if they were found; other axes give one row per value.
//! The values of the other axes give separate panels. [`measure`] selects the figures, [`panels`] lays them out.

use maud::{Markup, html};
use serde_json::Value;

use self::measure::Measure;
use super::chart::{Chart, Ends, Reference, Unit, figure, numbers};
use super::gaps::gaps;
use super::numbers::estimates_table;
use super::page::{Page, setting_label};
use crate::amounts::{AmountKind, Amounts};
use crate::limits::UNLIMITED;
use crate::results::SweptAxis;
use plimsoll_display::page::section;
use plimsoll_display::{bytes, plain};

mod measure;
mod panels;

/// From this number of panels on, all figures but throughput are folded.
const PANELS_OPEN: usize = 12;

/// Panels of one figure; more would not be read, and the tables have all.
pub(super) const PANELS_MAX: usize = 30;

/// A swept axis as a chart needs it.
#[derive(Debug, Clone)]
pub(super) struct Axis<'a> {
    pub key: &'a str,
    /// Its values, in the order of the file.
    pub values: Vec<&'a Value>,
    /// The amounts that its values stand for.
    pub amounts: Amounts,
    /// Whether it is drawn as a curve: every value is an amount.
    pub is_numeric: bool,
}

impl Axis<'_> {
    /// Where the full amount is drawn, which has no number.
    fn end_told(&self) -> Option<String> {
        let end = self.amounts.has_end().then(|| self.amounts.position(&UNLIMITED.into())).flatten()?;
        let at = if self.x_unit() == Some(Unit::Bytes) { bytes(end as u64) } else { plain(end) };
        Some(format!("{UNLIMITED} is drawn at {at}."))
    }

    fn x_unit(&self) -> Option<Unit> {
        (self.amounts.kind() == Some(AmountKind::Bytes)).then_some(Unit::Bytes)
    }
}

/// The axes that have at least two values: numeric ones first, because they show more.
pub(super) fn axes<'a>(page: &Page<'a>) -> Vec<Axis<'a>> {
    let axes = page.results.experiment.sweep.iter().filter(|axis| axis.values.len() > 1);
    let axis = |axis: &'a SweptAxis| {
        let amounts = Amounts::of(&axis.values);
        let is_numeric = amounts.are_all();
        Axis { key: &axis.key, values: axis.values.iter().collect(), amounts, is_numeric }
    };
    let mut axes = axes.map(axis).collect::<Vec<_>>();
    axes.sort_by_key(|axis| !axis.is_numeric);
    axes
}

/// A section for each axis: its id, its name, itself. Ids are positions, since a key may be anything.
pub(super) fn sections(page: &Page) -> Vec<(String, String, Markup)> {
    let has_gap = |workload: &&str| !gaps(page, workload).is_empty();
    if page.results.estimates.is_empty() && !page.workloads().iter().any(has_gap) {
        return Vec::new();
    }
    let axes = axes(page);
    let section_of = |(position, axis): (usize, &Axis)| {
        let (id, name) = (page.id(&format!("sweep-{position}")), format!("Over {}", axis.key));
        let body = html! {
            p class="lead" { (lead(page, axis)) }
            @for workload in page.workloads() { (of_workload(page, axis, workload)) }
        };
        let markup = section(&id, &name, body);
        (id, name, markup)
    };
    axes.iter().enumerate().map(section_of).collect()
}

fn lead(page: &Page, axis: &Axis) -> String {
    let results = page.results;
    let mut lead =
        "Points are means over repeats with their 95 % intervals; small dots are the repeats, crosses those far from \
                    the others."
            .to_owned();
    if axis.is_numeric && results.knees.iter().any(|knee| knee.axis == axis.key) {
        lead += " A flag is the least allocation that is sufficient for that share of full throughput, its foot the 95 % \
                 interval, a dashed line the monotone fit.";
    }
    if results.scalability.iter().any(|law| law.axis == axis.key && !law.fit.is_empty()) {
        lead += " A dashed line is the universal scalability law fitted to the points.";
    }
    if results.experiment.sweep.len() > 1 {
        lead += " A panel is one value of what else was swept; all panels of a figure share their scales.";
    }
    let is_gap = |workload: &&str| !gaps(page, workload).is_empty();
    if page.workloads().iter().any(is_gap) {
        lead += if axis.is_numeric {
            " A cross on the axis is a setting without a valid run; the numbers below say why."
        } else {
            " A setting without a valid run is among the numbers below, with the reason."
        };
    }
    lead
}

fn of_workload(page: &Page, axis: &Axis, workload: &str) -> Markup {
    if page.arms(workload).is_empty() && gaps(page, workload).is_empty() {
        return html! {};
    }
    let classes = measure::classes(page, workload);
    let mut figures = vec![
        ("Throughput", "completed per second", Unit::Rate, vec![Measure::Throughput]),
        ("Latency", "latency", Unit::Duration, vec![Measure::Median, Measure::P99]),
    ];
    if classes.len() > 1 {
        let of = |make: fn(String) -> Measure| classes.iter().cloned().map(make).collect::<Vec<_>>();
        figures.push(("Throughput by class", "completed per second", Unit::Rate, of(Measure::ClassThroughput)));
        figures.push(("p95 latency by class", "p95 latency", Unit::Duration, of(Measure::ClassP95)));
    }
    let table = estimates_table(page, workload, Some(axis.key));
    html! {
        h3 { (workload) }
        div class="figures wide-figures" {
            @for (title, y, unit, measures) in &figures { (drawn(page, axis, workload, (title, y, *unit), measures)) }
            (interference(page, axis, workload))
        }
        (numbers(&format!("The numbers of {workload}"), table))
    }
}

fn drawn(page: &Page, axis: &Axis, workload: &str, what: (&str, &str, Unit), measures: &[Measure]) -> Markup {
    let (title, y, unit) = what;
    let label = format!("{title} of {workload} over {}", axis.key);
    let (chart, left_out, panels) = if axis.is_numeric {
        let (panels, left_out) = panels::curves(page, axis, workload, measures);
        if panels.iter().all(|panel| panel.series.iter().all(|series| series.points.is_empty())) {
            return html! {};
        }
        let (x, y) = (axis.key.to_owned(), y.to_owned());
        let count = panels.len();
        let (x_unit, ends, reference) = (axis.x_unit(), Ends::Interval, None);
        (Chart::Curve { label, x, x_unit, y, unit, ends, reference, panels }, left_out, count)
    } else {
        let (panels, left_out) = panels::rows(page, axis, workload, measures);
        if panels.is_empty() {
            return html! {};
        }
        let count = panels.len();
        (Chart::Intervals { label, x: y.to_owned(), unit, reference: None, panels }, left_out, count)
    };
    let drawn = figure(&page.run(), title, &left_out_note(left_out), &chart, html! {});
    if panels <= PANELS_OPEN || unit == Unit::Rate && measures.len() == 1 {
        return drawn;
    }
    html! { details { summary { (title) ", " (panels) " panels" } (drawn) } }
}

/// Throughput beside others over throughput alone, along a numeric axis.
fn interference(page: &Page, axis: &Axis, workload: &str) -> Markup {
    if !axis.is_numeric {
        return html! {};
    }
    let (panels, left_out) = panels::ratios(page, axis, workload);
    if panels.is_empty() {
        return html! {};
    }
    let reference = Reference { value: 1.0, floor: page.floor(workload), label: "as alone".to_owned() };
    let chart = Chart::Curve {
        label: format!("Throughput of {workload} beside others over its throughput alone, over {}", axis.key),
        x: axis.key.to_owned(),
        x_unit: axis.x_unit(),
        y: "throughput over throughput alone".to_owned(),
        unit: Unit::Ratio,
        ends: Ends::Interval,
        reference: Some(reference),
        panels,
    };
    figure(&page.run(), "Interference", &left_out_note(left_out), &chart, html! {})
}

fn left_out_note(left_out: usize) -> String {
    match left_out {
        0 => String::new(),
        1 => "1 more panel is in the table only".to_owned(),
        more => format!("{more} more panels are in the table only"),
    }
}

/// Every combination of the other axes' values that was run, in order, with its name.
pub(super) fn facets(page: &Page, axis: &Axis) -> Vec<(super::page::Setting, String)> {
    let mut facets = Vec::new();
    for setting in page.settings() {
        let mut rest = setting.clone();
        rest.remove(axis.key);
        if !facets.iter().any(|(other, _)| *other == rest) {
            let label = setting_label(&rest, &page.keys(), Some(axis.key));
            facets.push((rest, label));
        }
    }
    facets
}
