//! Throughput alone against together: a bar for the mean, a dot for each repeat, the noise floor as a band.

use maud::{Markup, html};

use super::layout::{self, arm_mark, figure_cell, number, text};
use super::svg::{Scale, WIDTH, linear_ticks, px};
use crate::summary::{Arm, Summary, Workload};
use crate::units::{count, fine_percent, rate};

const LEFT: f64 = 84.0;
const RIGHT: f64 = 292.0;
const TOP: f64 = 10.0;
const BAR: f64 = 30.0;
const GAP: f64 = 16.0;
const BOTTOM: f64 = TOP + 2.0 * BAR + GAP + 8.0;
const HEIGHT: f64 = BOTTOM + 34.0;

/// The section.
pub(super) fn section(summary: &Summary) -> Markup {
    layout::section(
        "throughput",
        "Throughput",
        html! {
            p class="lead" {
                "Completed requests per second, mean over repeats; a dot is one repeat. A bar that ends inside the shaded band "
                "around the mean alone cannot be told from noise."
            }
            div class="charts" {
                @for workload in &summary.workloads {
                    (layout::chart(workload.name, &verdict(workload), chart(workload)))
                }
            }
            (table(summary))
        },
    )
}

fn verdict(workload: &Workload) -> String {
    match workload.interference {
        Some(interference) => format!("{:.2} of alone, {}", interference.ratio, workload.finding()),
        None => workload.finding().to_string(),
    }
}

fn chart(workload: &Workload) -> Markup {
    let [alone, together] = workload.arms().map(|(_, arm)| arm.throughput());
    let band = alone
        .zip(workload.noise_floor)
        .map(|(spread, floor)| (spread.mean * (1.0 - floor).max(0.0), spread.mean * (1.0 + floor)));
    let highs = [alone.map(|s| s.high), together.map(|s| s.high), band.map(|(_, high)| high)];
    let most = highs.into_iter().flatten().fold(0.0, f64::max);
    let x = Scale { domain: (0.0, if most > 0.0 { most } else { 1.0 }), range: (LEFT, RIGHT) };
    let told = |arm: &Arm| arm.throughput().map_or("not measured".to_string(), |spread| rate(spread.mean));
    let label = format!("{}: {} alone, {} together", workload.name, told(&workload.alone), told(&workload.together));
    html! {
        svg viewBox={ "0 0 " (px(WIDTH)) " " (px(HEIGHT)) } role="img" aria-label=(label) {
            title { (label) }
            @for tick in linear_ticks(most) {
                line class="grid" x1=(px(x.at(tick))) x2=(px(x.at(tick))) y1=(px(TOP - 4.0)) y2=(px(BOTTOM)) {}
                text class="tick" x=(px(x.at(tick))) y=(px(BOTTOM + 13.0)) text-anchor="middle" {
                    (tick_told(tick))
                }
            }
            @if let Some((low, high)) = band {
                rect class="band" x=(px(x.at(low))) width=(px((x.at(high) - x.at(low)).max(1.0))) y=(px(TOP - 4.0)) height=(px(BOTTOM - TOP + 4.0)) {}
            }
            @for (index, (name, arm)) in workload.arms().into_iter().enumerate() {
                (row(workload, (name, arm), x, band, TOP + index as f64 * (BAR + GAP)))
            }
            @if let Some(spread) = alone {
                line class="reference" x1=(px(x.at(spread.mean))) x2=(px(x.at(spread.mean))) y1=(px(TOP - 4.0)) y2=(px(BOTTOM)) {}
            }
            text class="axis" x=(px((LEFT + RIGHT) / 2.0)) y=(px(HEIGHT - 5.0)) text-anchor="middle" { "completed requests per second" }
        }
    }
}

fn row(workload: &Workload, (name, arm): (&str, &Arm), x: Scale, band: Option<(f64, f64)>, y: f64) -> Markup {
    let middle = y + BAR / 2.0;
    let note = match (name, workload.interference, workload.noise_floor) {
        ("together", Some(interference), _) => format!("{:.2} of alone", interference.ratio),
        ("alone", _, Some(floor)) => format!("noise ± {}", fine_percent(floor)),
        _ => String::new(),
    };
    html! {
        text class="label" x="0" y=(px(middle - 2.0)) { (name) }
        text class="aside" x="0" y=(px(middle + 11.0)) { (note) }
        @match arm.throughput() {
            Some(spread) => {
                rect class={ "bar " (name) } x=(px(LEFT)) width=(px(x.at(spread.mean) - LEFT)) y=(px(y)) height=(px(BAR)) rx="2" {}
                @for (index, repeat) in arm.throughputs().into_iter().enumerate() {
                    circle class="dot" cx=(px(x.at(repeat))) cy=(px(dot_y(middle, index, arm.runs.len()))) r="3" {
                        title { "repeat " (arm.runs[index].point.repeat) ": " (rate(repeat)) }
                    }
                }
                text class="value" x=(px(value_x(x.at(spread.high), band.map(|(low, high)| (x.at(low), x.at(high)))))) y=(px(middle + 4.0)) { (rate(spread.mean)) }
            }
            None => text class="missing" x=(px(LEFT + 4.0)) y=(px(middle + 4.0)) { "no valid run" },
        }
    }
}

/// A round number without the decimals it does not need; the axis names the unit.
fn tick_told(per_s: f64) -> String {
    match per_s {
        per_s if per_s < 1e3 => per_s.to_string(),
        per_s if per_s < 1e6 => format!("{} k", per_s / 1e3),
        per_s => format!("{} M", per_s / 1e6),
    }
}

/// A figure stands right of its last dot, or of the band if it would lie on it.
fn value_x(end: f64, band: Option<(f64, f64)>) -> f64 {
    const ROOM: f64 = 50.0;
    match band {
        Some((low, high)) if end < high && end + ROOM > low => high + 7.0,
        _ => end + 9.0,
    }
}

/// Repeats lie below each other, so that equal ones can be counted.
fn dot_y(middle: f64, index: usize, count: usize) -> f64 {
    let step = (18.0 / count as f64).min(8.0);
    middle + (index as f64 - (count as f64 - 1.0) / 2.0) * step
}

fn table(summary: &Summary) -> Markup {
    let columns = [
        text("Workload"),
        text("Arm"),
        number("Mean"),
        number("Lowest"),
        number("Highest"),
        number("Repeats"),
        number("Left out"),
        number("Completed"),
        number("Of alone"),
        number("Pairs"),
        number("Noise floor"),
    ];
    layout::table(
        "Throughput, completed requests per second",
        &columns,
        html! {
            @for workload in &summary.workloads {
                @for (name, arm) in workload.arms() {
                    @let spread = arm.throughput();
                    @let interference = workload.interference.filter(|_| name == "together");
                    tr {
                        th scope="row" { (workload.name) }
                        td { (arm_mark(name)) }
                        (figure_cell(spread.map(|s| rate(s.mean))))
                        (figure_cell(spread.map(|s| rate(s.low))))
                        (figure_cell(spread.map(|s| rate(s.high))))
                        (figure_cell(Some(arm.runs.len().to_string())))
                        (figure_cell(Some(arm.left_out.to_string())))
                        (figure_cell(Some(count(arm.runs.iter().map(|run| run.result.completed).sum()))))
                        @if name == "together" {
                            (figure_cell(interference.map(|i| format!("{:.2}", i.ratio))))
                            (figure_cell(interference.filter(|_| workload.noise_floor.is_some()).map(|i| format!("{:.2} to {:.2}", i.low, i.high))))
                            (figure_cell(workload.noise_floor.map(fine_percent)))
                        } @else { td colspan="3" {} }
                    }
                }
            }
        },
    )
}
