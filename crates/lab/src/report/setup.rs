//! What the numbers came from: machine, settings, every point, and the words.

use maud::{Markup, html};

use super::findings;
use super::layout::{self, figure_cell, number, text};
use crate::results::{Point, Results, WorkloadResult};
use crate::summary::Rates;
use crate::units::{MISSING, bytes, count, duration_us, rate, seconds, value};

/// Everything below the measurements.
pub(super) fn sections(results: &Results) -> Markup {
    html! { (machine(results)) (settings(results)) (points(&results.points)) (findings::terms()) }
}

fn machine(results: &Results) -> Markup {
    let machine = &results.machine;
    let facts = [
        ("Processor", format!("{} ({})", machine.cpu_model, machine.cpu_id)),
        (
            "Cores",
            format!(
                "{} usable of {} online; threads per core: {}; sockets: {}",
                machine.cores_usable, machine.cores_online, machine.threads_per_core, machine.sockets
            ),
        ),
        (
            "Memory",
            match machine.memory_limit_bytes {
                Some(limit) => format!("{}, limited to {}", bytes(machine.memory_bytes), bytes(limit)),
                None => bytes(machine.memory_bytes),
            },
        ),
        ("Kernel", machine.kernel.clone()),
        ("Virtualised", machine.virtualised.clone().unwrap_or_else(|| "no sign of it".to_string())),
    ];
    let caches = [
        text("Cache"),
        text("Kind"),
        number("Size"),
        number("Ways"),
        number("Cores that share it"),
        number("How many"),
    ];
    let capabilities = [text("Capability"), text("Here"), text("How, or why not"), text("Remedy")];
    layout::section(
        "machine",
        "Machine",
        html! {
            dl class="facts" { @for (name, fact) in facts { dt { (name) } dd { (fact) } } }
            @if !machine.caches.is_empty() {
                (layout::table("Caches of core 0", &caches, html! {
                    @for cache in &machine.caches {
                        tr {
                            th scope="row" { "L" (cache.level) }
                            td { (cache.kind) }
                            (figure_cell(Some(bytes(cache.size_bytes))))
                            (figure_cell(cache.ways.map(|ways| ways.to_string())))
                            (figure_cell(Some(cache.shared_by.to_string())))
                            (figure_cell(Some(cache.count.to_string())))
                        }
                    }
                }))
            }
            @if !machine.capabilities.is_empty() {
                (layout::table("What this host can measure and limit", &capabilities, html! {
                    @for capability in &machine.capabilities {
                        tr {
                            th scope="row" { (capability.name) }
                            td { (if capability.available { "yes" } else { "no" }) }
                            td class="wide" { (capability.reason) }
                            td class="wide" { (capability.remedy.as_deref().unwrap_or("")) }
                        }
                    }
                }))
            }
        },
    )
}

fn settings(results: &Results) -> Markup {
    layout::section(
        "settings",
        "Settings",
        html! {
            p class="lead" { "Runs with the hash " code { (results.experiment.settings_hash) } " measured the same thing." }
            (layout::table("Every setting, defaults included", &[text("Setting"), text("Value")], html! {
                @for (name, setting) in &results.experiment.settings {
                    tr { th scope="row" { code { (name) } } td class="wide" { (value(setting)) } }
                }
            }))
        },
    )
}

fn points(points: &[Point]) -> Markup {
    let columns = [
        text("Arm"),
        number("Repeat"),
        text("Valid"),
        text("Workload"),
        number("Window"),
        number("Completed"),
        number("Per second"),
        number("Mean"),
        number("p50"),
        number("p95"),
        number("p99"),
        number("IPC"),
        text("Achieved"),
        text("Setting"),
    ];
    layout::section(
        "points",
        "Every point",
        html! {
            details {
                summary { (points.len()) " points in the order they ran" }
                (layout::table("Every point, as measured", &columns, html! {
                    @for point in points { @for result in &point.workloads { (row(point, result)) } }
                }))
            }
        },
    )
}

fn row(point: &Point, result: &WorkloadResult) -> Markup {
    let named = |values: &std::collections::BTreeMap<String, serde_json::Value>| {
        values.iter().map(|(name, setting)| format!("{name} {}", value(setting))).collect::<Vec<_>>().join(", ")
    };
    let percentile = |us: Option<u64>| figure_cell(us.map(|us| duration_us(us as f64)));
    let latency = result.latency_us;
    let rates = result.counters.and_then(|counters| Rates::of(&[counters], result.completed));
    html! {
        tr class=[(!point.valid).then_some("invalid")] {
            th scope="row" { (point.arm) }
            td class="n" { (point.repeat) }
            td { @match (&point.why_invalid, point.valid) {
                (_, true) => "yes",
                (Some(why), false) => { "no: " (why) },
                (None, false) => "no",
            } }
            td { (result.name) }
            td class="n" { (seconds(point.window_s)) }
            td class="n" { (count(result.completed)) }
            td class="n" { (rate(result.throughput_per_s)) }
            (figure_cell(latency.map(|l| duration_us(l.mean))))
            (percentile(latency.and_then(|l| l.p50)))
            (percentile(latency.and_then(|l| l.p95)))
            (percentile(latency.and_then(|l| l.p99)))
            (figure_cell(rates.and_then(|r| r.ipc).map(|ipc| format!("{ipc:.2}"))))
            td { (named(&point.achieved)) }
            td { @if point.setting.is_empty() { (MISSING) } @else { (named(&point.setting)) } }
        }
    }
}
