//! Latency as percentile curves on log axes, and tables by class and transaction.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::layout::{self, arm_mark, figure_cell, number, range_cell, text};
use super::svg::{Scale, WIDTH, log_ticks, px};
use crate::results::{Latency, Part, WorkloadResult};
use crate::summary::{Arm, Spread, Summary, Workload};
use crate::units::{count, duration_us, range_us, rate};

const LEFT: f64 = 50.0;
const RIGHT: f64 = 300.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 196.0;
const HEIGHT: f64 = 234.0;

/// Percentiles that the axis names, with the power of ten of what lies beyond them.
const PERCENTILES: [(f64, &str); 5] =
    [(0.5, "50 %"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %"), (0.9999, "99.99 %")];

/// The section.
pub(super) fn section(summary: &Summary) -> Markup {
    layout::section(
        "latency",
        "Latency",
        html! {
            p class="lead" {
                "How long requests took from their intended start. Read: 99 % of requests took no longer than the curve at 99 %. "
                "The bold line is the repeat with the median throughput, thin lines are the others."
            }
            div class="charts" {
                @for workload in &summary.workloads { (layout::chart(workload.name, "", chart(workload))) }
            }
            @for workload in &summary.workloads { (table(workload)) }
        },
    )
}

/// A curve as nines of the quantile against microseconds.
type Curve = Vec<(f64, f64)>;

fn nines(quantile: f64) -> f64 {
    -(1.0 - quantile).log10()
}

/// From the median up. The largest value belongs to no percentile and is left to the table. Where a run kept no
/// distribution, its percentiles draw a coarse one.
fn curve(result: &WorkloadResult) -> Curve {
    let percentiles = result.latency_us.map_or([None; 5], |l| [l.p50, l.p90, l.p95, l.p99, l.p999]);
    let coarse = [0.5, 0.9, 0.95, 0.99, 0.999].into_iter().zip(percentiles).filter_map(|(q, us)| Some((q, us?)));
    let pairs: Vec<(f64, u64)> =
        if result.latency_distribution.is_empty() { coarse.collect() } else { result.latency_distribution.clone() };
    let visible = pairs.into_iter().filter(|(quantile, _)| (0.5..1.0).contains(quantile) && nines(*quantile) <= 4.0001);
    visible.map(|(quantile, us)| (nines(quantile), us.max(1) as f64)).collect()
}

fn chart(workload: &Workload) -> Markup {
    let curves = workload.arms().map(|(name, arm)| {
        let bold = arm.representative();
        let thin =
            arm.runs.iter().map(|run| run.result).filter(|result| !bold.is_some_and(|b| std::ptr::eq(b, *result)));
        (name, bold.map(curve).filter(|c| c.len() > 1), thin.map(curve).filter(|c| c.len() > 1).collect::<Vec<_>>())
    });
    let all = curves.iter().flat_map(|(_, bold, thin)| bold.iter().chain(thin).flatten());
    let (least, most, far) = all
        .fold((f64::MAX, 0.0, 0.0), |(least, most, far), &(nines, us)| (us.min(least), us.max(most), nines.max(far)));
    let label = label(workload);
    if most == 0.0 {
        return html! { p class="missing" { "No latency was recorded: too few requests completed." } };
    }
    let ticks = log_ticks(least, most);
    let (first, last) = (ticks[0], ticks[ticks.len() - 1]);
    let x = Scale { domain: (nines(0.5), far.max(nines(0.9))), range: (LEFT, RIGHT) };
    let y = Scale { domain: (first.log10(), last.log10()), range: (BOTTOM, TOP) };
    html! {
        svg viewBox={ "0 0 " (px(WIDTH)) " " (px(HEIGHT)) } role="img" aria-label=(label) {
            title { (label) }
            @for tick in &ticks {
                line class="grid" x1=(px(LEFT)) x2=(px(RIGHT)) y1=(px(y.at(tick.log10()))) y2=(px(y.at(tick.log10()))) {}
                text class="tick" x=(px(LEFT - 6.0)) y=(px(y.at(tick.log10()) + 4.0)) text-anchor="end" { (tick_told(*tick)) }
            }
            @for (quantile, name) in PERCENTILES.iter().filter(|(quantile, _)| nines(*quantile) <= x.domain.1 + 0.01) {
                line class="grid" x1=(px(x.at(nines(*quantile)))) x2=(px(x.at(nines(*quantile)))) y1=(px(TOP)) y2=(px(BOTTOM)) {}
                text class="tick" x=(px(x.at(nines(*quantile)))) y=(px(BOTTOM + 17.0)) text-anchor="middle" { (name) }
            }
            @for (name, bold, thin) in &curves {
                @for curve in thin { polyline class={ "curve thin " (name) } points=(points(curve, x, y)) {} }
                @if let Some(curve) = bold { polyline class={ "curve " (name) } points=(points(curve, x, y)) {} }
            }
            (end_labels(&curves.map(|(name, bold, _)| (name, bold)), x, y))
            text class="axis" x=(px((LEFT + RIGHT) / 2.0)) y=(px(HEIGHT - 5.0)) text-anchor="middle" { "percentile of requests" }
        }
    }
}

/// Names at the ends of their lines, pushed apart where they would overlap.
fn end_labels(curves: &[(&str, Option<Curve>); 2], x: Scale, y: Scale) -> Markup {
    let ends = curves.iter().filter_map(|(name, curve)| {
        let &(nines, us) = curve.as_ref()?.last()?;
        Some((*name, x.at(nines), y.at(us.log10())))
    });
    let mut ends = ends.collect::<Vec<_>>();
    ends.sort_by(|a, b| a.2.total_cmp(&b.2));
    if let [upper, lower] = ends.as_mut_slice() {
        lower.2 = lower.2.max(upper.2 + 13.0);
    }
    html! {
        @for (name, end, height) in ends {
            text class={ "series " (name) } x=(px(end + 5.0)) y=(px(height + 4.0)) { (name) }
        }
    }
}

fn points(curve: &Curve, x: Scale, y: Scale) -> String {
    curve
        .iter()
        .map(|(nines, us)| format!("{},{}", px(x.at(*nines)), px(y.at(us.log10()))))
        .collect::<Vec<_>>()
        .join(" ")
}

/// A tick is a round number and needs no decimals.
fn tick_told(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{us:.0} µs"),
        us if us < 1e6 => format!("{:.0} ms", us / 1e3),
        us => format!("{:.0} s", us / 1e6),
    }
}

fn label(workload: &Workload) -> String {
    let told = workload.arms().map(|(name, arm)| {
        let p99 = arm.percentile(|result| result.latency_us, |latency| latency.p99);
        let p50 = arm.percentile(|result| result.latency_us, |latency| latency.p50);
        let parts = [("p50", p50), ("p99", p99)]
            .into_iter()
            .filter_map(|(which, p)| Some(format!("{which} {}", duration_us(p?.value as f64))));
        let parts = parts.collect::<Vec<_>>();
        format!("{name} {}", if parts.is_empty() { "not measured".to_string() } else { parts.join(", ") })
    });
    format!("Latency of {}: {}", workload.name, told.join("; "))
}

fn table(workload: &Workload) -> Markup {
    let columns = [
        text("Requests"),
        text("Arm"),
        number("Completed"),
        number("Per second"),
        number("Mean"),
        number("p50"),
        number("p90"),
        number("p95"),
        number("p99"),
        number("p99.9"),
        number("Largest"),
    ];
    let classes = names(workload, |result| &result.classes);
    let transactions = names(workload, |result| &result.transactions);
    layout::table(
        &format!("{}: latency by class and transaction", workload.name),
        &columns,
        html! {
            (rows(workload, "all", |result| Some(whole(result))))
            @for class in classes.iter().filter(|_| classes.len() > 1) {
                (rows(workload, &format!("class {class}"), |result| result.classes.get(*class).cloned()))
            }
            @for name in &transactions {
                (rows(workload, name, |result| result.transactions.get(*name).cloned()))
            }
        },
    )
}

fn whole(result: &WorkloadResult) -> Part {
    Part { completed: result.completed, throughput_per_s: result.throughput_per_s, latency_us: result.latency_us }
}

fn names<'a>(
    workload: &'a Workload<'a>,
    parts: impl Fn(&'a WorkloadResult) -> &'a BTreeMap<String, Part>,
) -> Vec<&'a str> {
    let runs = workload.alone.runs.iter().chain(&workload.together.runs);
    let mut names = runs.flat_map(|run| parts(run.result).keys()).map(String::as_str).collect::<Vec<_>>();
    // q2 before q10.
    names.sort_unstable_by_key(|name| (name.trim_end_matches(|c: char| c.is_ascii_digit()), name.len(), *name));
    names.dedup();
    names
}

fn rows(workload: &Workload, name: &str, part: impl Fn(&WorkloadResult) -> Option<Part>) -> Markup {
    html! {
        @for (arm_name, arm) in workload.arms() {
            @let parts = arm.runs.iter().filter_map(|run| part(run.result)).collect::<Vec<_>>();
            tr class=[(arm_name == "alone").then_some("group")] {
                @if arm_name == "alone" { th scope="row" rowspan="2" { (name) } }
                td { (arm_mark(arm_name)) }
                (figure_cell((!parts.is_empty()).then(|| count(parts.iter().map(|part| part.completed).sum()))))
                (figure_cell(Spread::of(&parts.iter().map(|part| part.throughput_per_s).collect::<Vec<_>>()).map(|s| rate(s.mean))))
                (figure_cell(mean(&parts).map(duration_us)))
                (percentile(arm, &part, |l| l.p50))
                (percentile(arm, &part, |l| l.p90))
                (percentile(arm, &part, |l| l.p95))
                (percentile(arm, &part, |l| l.p99))
                (percentile(arm, &part, |l| l.p999))
                (percentile(arm, &part, |l| Some(l.max)))
            }
        }
    }
}

/// Over every request of every repeat.
fn mean(parts: &[Part]) -> Option<f64> {
    let means = parts.iter().filter_map(|part| Some((part.latency_us?.mean, part.completed as f64)));
    let (sum, count) = means.fold((0.0, 0.0), |(sum, count), (mean, n)| (sum + mean * n, count + n));
    (count > 0.0).then(|| sum / count)
}

fn percentile(arm: &Arm, part: impl Fn(&WorkloadResult) -> Option<Part>, which: fn(&Latency) -> Option<u64>) -> Markup {
    let percentile = arm.percentile(|result| part(result)?.latency_us, which);
    range_cell(percentile.map(|percentile| {
        let range = (percentile.low < percentile.high).then(|| range_us(percentile.low as f64, percentile.high as f64));
        (duration_us(percentile.value as f64), range)
    }))
}
