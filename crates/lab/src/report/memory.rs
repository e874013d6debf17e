//! The speed of the machine's memory, as measured earlier by `plimsoll machine --probe`.

use maud::{Markup, html};
use plimsoll_machine::memory_speed::bandwidth::{Bandwidth, Pattern};
use plimsoll_machine::memory_speed::{self, KeptSpeed, MemorySpeed};

use super::chart::{Chart, CurvePanel, CurvePoint, Ends, Figure, Series, Unit, figure, numbers, short};
use super::header::time;
use super::page::Page;
use crate::results::Interval;
use plimsoll_display::page::{figure_cell, number, section, table, text};
use plimsoll_display::range;
use plimsoll_display::{bytes, duration_us, percent, significant};

/// The section; nothing if it was not measured, which [`how_to_get_it`] reports.
pub(super) fn section_of(page: &Page) -> Markup {
    let Some(kept) = &page.results.memory_speed else { return html! {} };
    let speed = &kept.speed;
    section(
        &page.id("memory"),
        "Memory of this machine",
        html! {
            p class="lead" { (lead(kept)) }
            div class="figures" { (latency_curve(page, speed)) (loaded_curve(page, speed)) }
            (levels(speed))
            (bandwidths(speed))
            @if !speed.notes.is_empty() {
                p class="note" { "What to know of these figures:" }
                ul class="advice" { @for note in &speed.notes { li { (note) } } }
            }
        },
    )
}

/// If there are no figures, a line that says how to get them.
pub(super) fn how_to_get_it(page: &Page) -> Markup {
    if page.results.memory_speed.is_some() {
        return html! {};
    }
    html! {
        p class="note" {
            "How fast its memory is was not measured: " code { "plimsoll machine --probe" } " does so once, for all reports \
             that follow."
        }
    }
}

fn lead(kept: &KeptSpeed) -> String {
    let speed = &kept.speed;
    let (when, version) = (time(&kept.measured_at), &kept.program_version);
    let how = if speed.quick { ", in the quick form" } else { "" };
    let mut lead = format!(
        "Measured {when} by Plimsoll {version}{how}, not during the runs. Figures are medians of several rounds, with the \
         lowest and the highest."
    );
    if let Some([low, high]) = speed.llc_seen_bytes {
        lead += &format!(" One core really had {} to {} of the last level cache.", bytes(low), bytes(high));
    }
    if let Some(share) = speed.huge_page_share {
        lead += &format!(" {} of the buffer for latencies lay in huge pages.", percent(share));
    }
    lead
}

/// A figure of rounds, in another unit by `factor`.
fn rounds(figure: &memory_speed::Figure, factor: f64) -> Interval {
    Interval { value: figure.median * factor, low: Some(figure.low * factor), high: Some(figure.high * factor) }
}

/// Nanoseconds are written as microseconds below 1.
const US_PER_NS: f64 = 1e-3;

fn latency_curve(page: &Page, speed: &MemorySpeed) -> Markup {
    let points = speed.curve.iter().map(|point| (point.bytes as f64, &point.latency)).collect::<Vec<_>>();
    let columns = [number("Working set"), number("Time of a load")];
    let rows = html! {
        @for point in &speed.curve {
            tr {
                (figure_cell(Some(bytes(point.bytes as u64))))
                (rounds_cell(&point.latency, US_PER_NS, duration_us))
            }
        }
    };
    let chart = curve("Time of a load by the size of what is loaded from", ("working set", Some(Unit::Bytes)), &points);
    drawn(page, "Latency by working set", chart, table("Time of a load by working set", &columns, rows))
}

fn loaded_curve(page: &Page, speed: &MemorySpeed) -> Markup {
    let three_digits = |value: f64| format!("{value:.2e}").parse().unwrap_or(value);
    let points =
        speed.loaded.iter().map(|point| (three_digits(point.traffic_gb_s), &point.latency)).collect::<Vec<_>>();
    let columns = [number("Traffic"), number("Time of a load")];
    let rows = html! {
        @for point in &speed.loaded {
            tr {
                (figure_cell(Some(gigabytes(point.traffic_gb_s))))
                (rounds_cell(&point.latency, US_PER_NS, duration_us))
            }
        }
    };
    let label = "Time of a load from memory while other cores read from it";
    let chart = curve(label, ("GB/s read from memory", None), &points);
    drawn(page, "Latency under load", chart, table("Time of a load from memory by traffic", &columns, rows))
}

/// Latencies over a quantity; `None` if nothing was measured.
fn curve(label: &str, (x, x_unit): (&str, Option<Unit>), points: &[(f64, &memory_speed::Figure)]) -> Option<Chart> {
    let points = points.iter().filter_map(|(at, latency)| {
        Some(CurvePoint { at: short(*at), figure: Figure::new(rounds(latency, US_PER_NS), Vec::new())? })
    });
    let points = points.collect::<Vec<_>>();
    if points.is_empty() {
        return None;
    }
    let series = Series { colour: 1, points, ..Series::default() };
    let (row, title, note) = (String::new(), String::new(), String::new());
    Some(Chart::Curve {
        label: label.to_owned(),
        x: x.to_owned(),
        x_unit,
        y: "time of a load".to_owned(),
        unit: Unit::Duration,
        ends: Ends::Rounds,
        reference: None,
        panels: vec![CurvePanel { row, title, note, series: vec![series], ..CurvePanel::default() }],
    })
}

fn drawn(page: &Page, title: &str, chart: Option<Chart>, table: Markup) -> Markup {
    match chart {
        Some(chart) => figure(&page.run(), title, "", &chart, numbers("The numbers", table)),
        None => html! {},
    }
}

fn levels(speed: &MemorySpeed) -> Markup {
    if speed.levels.is_empty() {
        return html! {};
    }
    let columns = [text("Answered by"), number("A load takes"), number("Working set")];
    table(
        "Latency of each level",
        &columns,
        html! {
            @for level in &speed.levels {
                tr {
                    th scope="row" { (level.level.name()) }
                    (rounds_cell(&level.latency, US_PER_NS, duration_us))
                    (figure_cell(Some(bytes(level.bytes as u64))))
                }
            }
        },
    )
}

/// A row for each pattern, a column for each number of cores.
fn bandwidths(speed: &MemorySpeed) -> Markup {
    let mut who: Vec<String> = speed.bandwidth.iter().map(cores).collect();
    who.dedup();
    if who.is_empty() {
        return html! {};
    }
    let columns = std::iter::once(text("Access")).chain(who.iter().map(|who| number(who))).collect::<Vec<_>>();
    let rate = |pattern: Pattern, who: &String| {
        let found = speed.bandwidth.iter().find(|one| one.pattern == pattern && cores(one) == *who);
        html! {
            @match found {
                Some(one) => (rounds_cell(&one.rate, 1.0, gigabytes)),
                None => (figure_cell(None)),
            }
        }
    };
    table(
        "Bandwidth of memory",
        &columns,
        html! {
            @for pattern in Pattern::ALL {
                tr {
                    th scope="row" { (pattern.name()) }
                    @for who in &who { (rate(pattern, who)) }
                }
            }
        },
    )
}

/// A figure of rounds, with a remark if the rounds lie far apart.
fn rounds_cell(figure: &memory_speed::Figure, factor: f64, write: fn(f64) -> String) -> Markup {
    html! {
        td class="n" {
            (write(figure.median * factor))
            small { (range(figure.low * factor, figure.high * factor, write)) @if figure.is_noisy() { ", far apart" } }
        }
    }
}

fn cores(bandwidth: &Bandwidth) -> String {
    match (bandwidth.cores.len(), bandwidth.socket) {
        (1, _) => "one core".to_owned(),
        (count, Some(socket)) => format!("{count} cores of socket {socket}"),
        (count, None) => format!("{count} cores"),
    }
}

fn gigabytes(gb_s: f64) -> String {
    format!("{} GB/s", significant(gb_s))
}
