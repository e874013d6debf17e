//! Isolation: the share of its speed alone that each workload keeps with every setting that a study has tried.

use maud::{Markup, html};

use super::chart::{Chart, Line as Stroke, LinePanel, LineStyle, Scale, Span, Unit, figure, numbers, short};
use super::layout::interval_cell;
use super::page::Page;
use crate::line::frontier;
use crate::results::{Interval, Isolation, KeptShare, Line, LineStanding};
use plimsoll_display::page::{figure_cell, number, section, table, text};
use plimsoll_display::percent;
use plimsoll_display::ratio;

/// The section; nothing if no setting was tried.
pub(super) fn section_of(page: &Page) -> Markup {
    let Some(line) = &page.results.line else { return html! {} };
    let how = line.best.map(|at| &line.tried[at].how[..]).unwrap_or_default();
    section(
        &page.id("line"),
        "The line",
        html! {
            p class="lead" { (line.sentence) }
            @for one in how { p { code { (one) } } }
            @if let Some(chart) = drawn(line) {
                (figure(&page.run(), "What each keeps of its speed alone", NOTE, &chart, html! {}))
            }
            (numbers("The numbers of the line", numbers_table(line)))
        },
    )
}

/// Below the title of the curve.
const NOTE: &str = "Each setting with its 95 % intervals. The farther up and to the right, the more both keep.";

/// The colours of settings: those of the palette but the grey of runs alone.
const COLOURS: usize = 6;

/// A point that both workloads keep at a setting, with its intervals.
struct Place<'a> {
    one: &'a Isolation,
    own: Interval,
    other: Interval,
}

/// What the protected workload keeps (to the right) and what the other one keeps (upwards) at each measured setting; `None`
/// if none was measured with two workloads.
fn drawn(line: &Line) -> Option<Chart> {
    let place = |one: &'_ Isolation| -> Option<(Interval, Interval)> {
        let [own, other] = &one.kept[..] else { return None };
        Some((own.throughput, other.throughput)).filter(|(own, other)| own.value.is_finite() && other.value.is_finite())
    };
    let placed = line.tried.iter().filter_map(|one| Some((one, place(one)?)));
    let places: Vec<Place<'_>> = placed.map(|(one, (own, other))| Place { one, own, other }).collect();
    let other = places.first()?.one.kept[1].workload.clone();
    let mut lines: Vec<Stroke> =
        places.iter().enumerate().flat_map(|(at, place)| strokes(place, 1 + at % COLOURS)).collect();
    let points: Vec<(f64, f64)> = places.iter().map(|place| (place.own.value, place.other.value)).collect();
    let joined: Vec<(f64, f64)> = frontier(&points).into_iter().map(|at| points[at]).collect();
    let top = places.iter().map(|place| place.other.high.unwrap_or(place.other.value)).fold(1.0, f64::max);
    let bound = |name: String, points: Vec<(f64, f64)>| Stroke {
        name,
        style: LineStyle::Bound,
        points: points.into_iter().map(|(x, y)| (short(x), short(y))).collect(),
        ..Stroke::default()
    };
    if joined.len() > 1 {
        lines.push(bound("the most that both keep".to_owned(), joined));
    }
    let promise = format!("the {} that {} is to keep", percent(line.slo), line.protect);
    lines.push(bound(promise, vec![(line.slo, 0.0), (line.slo, top)]));
    lines.push(bound("taking turns".to_owned(), vec![(0.0, 1.0), (1.0, 0.0)]));
    let scale = |name: &str| Scale {
        name: format!("{name} keeps of its throughput alone"),
        unit: Some(Unit::Ratio),
        span: Span::Zero,
    };
    let panel = LinePanel { lines, ..LinePanel::default() };
    Some(Chart::Lines {
        label: format!("What {} and {other} keep of their throughput alone, by setting", line.protect),
        x: scale(&line.protect),
        y: scale(&other),
        reference: None,
        panels: vec![panel],
    })
}

/// The point of a setting, and its intervals in both directions.
fn strokes(place: &Place<'_>, colour: usize) -> Vec<Stroke> {
    let Place { one, own, other } = place;
    let stroke = |style, detail: &str, points: Vec<(f64, f64)>| Stroke {
        name: one.words.clone(),
        detail: detail.to_owned(),
        colour,
        style,
        points: points.into_iter().map(|(x, y)| (short(x), short(y))).collect(),
        ..Stroke::default()
    };
    let mut all = vec![stroke(LineStyle::Dots, words(one.standing), vec![(own.value, other.value)])];
    if let (Some(low), Some(high)) = (own.low, own.high) {
        all.push(stroke(LineStyle::Straight, "95 % interval", vec![(low, other.value), (high, other.value)]));
    }
    if let (Some(low), Some(high)) = (other.low, other.high) {
        all.push(stroke(LineStyle::Straight, "95 % interval", vec![(own.value, low), (own.value, high)]));
    }
    all
}

fn words(standing: Option<LineStanding>) -> &'static str {
    match standing {
        Some(LineStanding::Kept) => "keeps it",
        Some(LineStanding::Broken) => "does not keep it",
        Some(LineStanding::Undecided) => "undecided",
        None => "not measured",
    }
}

fn numbers_table(line: &Line) -> Markup {
    let columns = [
        text("Setting"),
        text("Protected"),
        text("Workload"),
        number("Throughput, of alone"),
        number("1 / p95, of alone"),
        number("Throughput as predicted"),
    ];
    let predicted = |one: &Isolation, name: &str| figure_cell(one.predicted.get(name).map(|keeps| ratio(*keeps)));
    table(
        "What each workload keeps of its speed alone, with 95 % intervals over all settings that were measured",
        &columns,
        html! {
            @for one in &line.tried {
                @for kept in &one.kept { (row(one, kept, &predicted(one, &kept.workload))) }
                @if one.kept.is_empty() {
                    @for name in one.predicted.keys() {
                        tr {
                            th scope="row" { (one.words) }
                            td { (words(None)) }
                            td { (name) }
                            (interval_cell(None, ratio))
                            (interval_cell(None, ratio))
                            (predicted(one, name))
                        }
                    }
                }
            }
        },
    )
}

fn row(one: &Isolation, kept: &KeptShare, predicted: &Markup) -> Markup {
    html! {
        tr {
            th scope="row" { (one.words) }
            td { (words(one.standing)) }
            td { (kept.workload) }
            (interval_cell(Some(kept.throughput), ratio))
            (interval_cell(kept.p95, ratio))
            (predicted)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Line {
        let kept = |workload: &str, value: f64| KeptShare {
            workload: workload.to_owned(),
            throughput: Interval { value, low: Some(value - 0.02), high: Some(value + 0.02) },
            p95: None,
        };
        let tried = |words: &str, own, other| Isolation {
            words: words.to_owned(),
            kept: vec![kept("shop", own), kept("reports", other)],
            standing: Some(LineStanding::Kept),
            ..Isolation::default()
        };
        let unmeasured = Isolation { words: "reports at dop 1".to_owned(), ..Isolation::default() };
        let tried = vec![tried("as they are", 0.6, 0.4), tried("reports at nice 15", 0.94, 0.2), unmeasured];
        Line { protect: "shop".to_owned(), slo: 0.9, tried, best: Some(1), sentence: String::new() }
    }

    #[test]
    fn the_curve_has_every_measured_setting_the_frontier_and_the_promise() {
        let Some(Chart::Lines { x, y, panels, .. }) = drawn(&line()) else { panic!("two settings were measured") };
        assert!(x.name.starts_with("shop keeps") && y.name.starts_with("reports keeps"));
        let lines = &panels[0].lines;
        let dots: Vec<_> = lines.iter().filter(|line| line.style == LineStyle::Dots).map(|line| &line.points).collect();
        assert_eq!(dots, [&vec![(0.6, 0.4)], &vec![(0.94, 0.2)]]);
        assert_eq!(lines.iter().filter(|line| line.style == LineStyle::Straight).count(), 4, "an interval each way");
        let bound = |name: &str| &lines.iter().find(|line| line.name == name).expect(name).points;
        assert_eq!(*bound("the most that both keep"), [(0.6, 0.4), (0.94, 0.2)]);
        assert_eq!(*bound("the 90 % that shop is to keep"), [(0.9, 0.0), (0.9, 1.0)]);
        let unmeasured = Line { tried: line().tried.split_off(2), ..line() };
        assert!(drawn(&unmeasured).is_none());
    }
}
