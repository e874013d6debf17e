//! The top of the page: what was run, what came out, how far to trust it.

use maud::{Markup, html};

use super::layout;
use crate::results::Results;
use crate::summary::{Summary, Tail, Workload};
use crate::table::{clients, points_told};
use crate::units::{MISSING, duration_us, fine_percent, list, rate, seconds};

/// `shop and reports`.
pub(super) fn who(summary: &Summary) -> String {
    let names = summary.workloads.iter().map(|w| w.name).collect::<Vec<_>>();
    if names.is_empty() { "no workload".to_string() } else { list(&names) }
}

/// What was run, where and when.
pub(super) fn header(results: &Results, summary: &Summary) -> Markup {
    let machine = &results.machine;
    let workloads = summary.workloads.iter().map(|w| format!("{} ({}, {})", w.name, w.kind, clients(w.clients)));
    let workloads = workloads.collect::<Vec<_>>();
    html! {
        header {
            p class="eyebrow" { "Plimsoll · " (results.experiment.name) }
            h1 { (who(summary)) ", alone and together" }
            p class="meta" {
                (list(&workloads.iter().map(String::as_str).collect::<Vec<_>>()))
                " on " (machine.cpu_model) ", " (machine.cores_usable) " cores usable. "
                (points_told(&results.points)) ", " (seconds(results.elapsed_s)) " in all, begun "
                time datetime=(results.started) { (results.started.replace('T', " ").replace('Z', " UTC")) } "."
            }
        }
    }
}

/// The advice, a tile for each workload, and the warnings.
pub(super) fn section(results: &Results, summary: &Summary) -> Markup {
    html! {
        section id="findings" {
            h2 class="quiet" { "What it means" }
            @if let Some((headline, more)) = results.advice.split_first() {
                p class="headline" { (headline) }
                @if !more.is_empty() { ul class="advice" { @for sentence in more { li { (sentence) } } } }
            }
            @if summary.settings_left_out > 0 {
                p class="note" {
                    "Charts and means are of the first setting; the points of " (summary.settings_left_out)
                    " more are in the table of points."
                }
            }
            div class="tiles" { @for workload in &summary.workloads { (tile(workload)) } }
        }
        @if !results.warnings.is_empty() {
            section id="warnings" class="warnings" {
                h2 { "Read with care" }
                ul { @for warning in &results.warnings { li { (warning) } } }
            }
        }
    }
}

fn tile(workload: &Workload) -> Markup {
    let ratio = workload.interference.map_or_else(|| MISSING.to_string(), |i| format!("{:.2}", i.ratio));
    let throughput = workload.arms().map(|(_, arm)| arm.throughput().map(|spread| rate(spread.mean)));
    let tail = Tail::of(workload);
    let tail_name = tail.map_or("p99", |tail| tail.name);
    let latency = [tail.map(|tail| tail.alone), tail.map(|tail| tail.together)];
    let latency = latency.map(|percentile| percentile.map(|percentile| duration_us(percentile.value as f64)));
    let from_to = |values: [Option<String>; 2]| {
        let [alone, together] = values.map(|value| value.unwrap_or_else(|| MISSING.to_string()));
        html! { span { (alone) } " → " b { (together) } }
    };
    html! {
        article class="tile" {
            h3 { (workload.name) span class={ "pill " (workload.finding().replace(' ', "-")) } { (workload.finding()) } }
            p class="ratio" { b { (ratio) } " of its throughput alone" }
            dl {
                div { dt { "throughput" } dd { (from_to(throughput)) } }
                div { dt { (tail_name) " latency" } dd { (from_to(latency)) } }
                div { dt { "pairs of repeats" } dd { (pairs(workload)) } }
                div { dt { "noise floor" } dd { (workload.noise_floor.map_or_else(|| MISSING.to_string(), fine_percent)) } }
            }
        }
    }
}

fn pairs(workload: &Workload) -> String {
    match workload.interference {
        Some(i) if workload.noise_floor.is_some() => format!("{:.2} to {:.2}", i.low, i.high),
        _ => MISSING.to_string(),
    }
}

/// The words the page uses.
pub(super) fn terms() -> Markup {
    const TERMS: [(&str, &str); 8] = [
        (
            "Arm",
            "Who runs: one workload alone, or all together. Each arm runs once in every block, so that drift of the machine hits all alike.",
        ),
        (
            "Throughput",
            "Completed requests per second of the measurement window. Bars are means over valid repeats, dots are the repeats.",
        ),
        (
            "Interference",
            "Throughput together divided by throughput alone: 1 is undisturbed, 0.5 is half as fast. Its range is over every pair of a repeat together and a repeat alone.",
        ),
        (
            "Noise floor",
            "Half the spread between repeats of one arm relative to their mean, of the arm where it is larger. A difference within it is reported as no difference seen.",
        ),
        (
            "Latency",
            "From the moment a request was meant to start, so that queueing counts, to its completion. Percentiles are those of the repeat with the median throughput; the range below is over all repeats. One that too few requests completed to tell is left out.",
        ),
        (
            "Time share",
            "Where response time goes: on a core, waiting for a core, waiting for the disk, waiting for a database lock, and everything else. The parts add up to all of it; a part that could not be measured is within other.",
        ),
        (
            "Per 1000 instructions",
            "Counts of user mode divided by instructions, so that a slower run is comparable. IPC is instructions per core cycle.",
        ),
        ("Counted", "Share of the window in which the hardware really counted; figures are scaled up by it."),
    ];
    layout::section(
        "terms",
        "Terms",
        html! {
            dl class="terms" { @for (term, meaning) in TERMS { dt { (term) } dd { (meaning) } } }
        },
    )
}
