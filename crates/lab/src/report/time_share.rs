//! Where response time goes, as stacked bars with the figures on them.

use maud::{Markup, html};

use super::layout::{self, arm_mark, figure_cell, number, text};
use super::svg::{WIDTH, px};
use crate::results::TimeShare;
use crate::summary::{Arm, Summary, Workload};
use crate::units::{duration_us, percent};

const LEFT: f64 = 58.0;
const BAR: f64 = 34.0;
const GAP: f64 = 10.0;
const HEIGHT: f64 = 2.0 * BAR + GAP + 4.0;

/// A narrower segment has no room for its figure.
const LABELLED_MIN: f64 = 27.0;

/// A part: its class in the style sheet, its name, how to read it.
type Part = (&'static str, &'static str, fn(&TimeShare) -> Option<f64>);

const PARTS: [Part; 5] = [
    ("run", "on a core", |share| share.cpu_run),
    ("wait", "waiting for a core", |share| share.cpu_wait),
    ("io", "waiting for a device", |share| share.io),
    ("lock", "waiting for a lock", |share| share.lock),
    ("other", "other", |share| Some(share.other)),
];

/// The section.
pub(super) fn section(summary: &Summary) -> Markup {
    layout::section(
        "time-share",
        "Where response time goes",
        html! {
            p class="lead" {
                "Parts of response time, mean over repeats. The table gives them as time a request too, for a part can shrink as a "
                "share and still grow."
            }
            ul class="legend" aria-label="Colours" {
                @for (class, name, _) in PARTS { li { span class={ "mark part-" (class) } aria-hidden="true" {} (name) } }
            }
            div class="charts" {
                @for workload in &summary.workloads { (layout::chart(workload.name, &unmeasured(workload), chart(workload))) }
            }
            (table(summary))
        },
    )
}

/// Which parts could not be told from `other`.
fn unmeasured(workload: &Workload) -> String {
    let shares = workload.arms().into_iter().filter_map(|(_, arm)| arm.time_share()).collect::<Vec<_>>();
    let missing = PARTS.iter().filter(|(_, _, of)| shares.iter().any(|share| of(share).is_none()));
    let missing = missing.map(|(_, name, _)| *name).collect::<Vec<_>>();
    if missing.is_empty() { String::new() } else { format!("not measured, within other: {}", missing.join(", ")) }
}

fn chart(workload: &Workload) -> Markup {
    let label =
        format!("Time share of {}: {}", workload.name, workload.arms().map(|(name, arm)| told(name, arm)).join("; "));
    html! {
        svg viewBox={ "0 0 " (px(WIDTH)) " " (px(HEIGHT)) } role="img" aria-label=(label) {
            title { (label) }
            @for (index, (name, arm)) in workload.arms().into_iter().enumerate() {
                (bar(name, arm, 2.0 + index as f64 * (BAR + GAP)))
            }
        }
    }
}

fn told(name: &str, arm: &Arm) -> String {
    let Some(share) = arm.time_share() else { return format!("{name} not measured") };
    let parts = PARTS.iter().filter_map(|(_, part, of)| Some(format!("{} {part}", percent(of(&share)?))));
    format!("{name} {}", parts.collect::<Vec<_>>().join(", "))
}

fn bar(name: &str, arm: &Arm, y: f64) -> Markup {
    let width = WIDTH - LEFT - 1.0;
    let middle = y + BAR / 2.0 + 4.0;
    let Some(share) = arm.time_share() else {
        return html! {
            text class="label" x="0" y=(px(middle)) { (name) }
            rect class="empty" x=(px(LEFT)) y=(px(y)) width=(px(width)) height=(px(BAR)) {}
            text class="missing" x=(px(LEFT + 8.0)) y=(px(middle)) { "not measured" }
        };
    };
    let mut start = LEFT;
    let segments = PARTS.iter().filter_map(|(class, part, of)| {
        let value = of(&share).filter(|value| *value > 0.0)?;
        let segment = (*class, *part, value, start, value * width);
        start += value * width;
        Some(segment)
    });
    let segments = segments.collect::<Vec<_>>();
    html! {
        text class="label" x="0" y=(px(middle)) { (name) }
        @for (class, part, value, start, width) in segments {
            rect class={ "segment part-" (class) } x=(px(start)) y=(px(y)) width=(px(width)) height=(px(BAR)) {
                title { (part) ": " (percent(value)) }
            }
            @if width >= LABELLED_MIN {
                text class={ "inside on-" (class) } x=(px(start + width / 2.0)) y=(px(middle)) text-anchor="middle" { (percent(value)) }
            }
        }
    }
}

fn table(summary: &Summary) -> Markup {
    let mut columns = vec![text("Workload"), text("Arm"), number("Mean response")];
    columns.extend(PARTS.iter().map(|(_, name, _)| number(name)));
    layout::table(
        "Parts of response time, as shares and as time a request",
        &columns,
        html! {
            @for workload in &summary.workloads {
                @for (name, arm) in workload.arms() {
                    @let share = arm.time_share();
                    @let mean = arm.mean_latency_us();
                    tr {
                        th scope="row" { (workload.name) }
                        td { (arm_mark(name)) }
                        (figure_cell(mean.map(duration_us)))
                        @for (_, _, of) in PARTS {
                            @let part = share.as_ref().and_then(of);
                            (layout::range_cell(part.map(|part| (percent(part), mean.map(|mean| duration_us(mean * part))))))
                        }
                    }
                }
            }
        },
    )
}
