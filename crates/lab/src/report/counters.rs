//! Hardware counters by workload and arm, and what the devices did at each point.

use maud::{Markup, html};

use super::layout::{self, arm_mark, figure_cell, number, text};
use crate::results::{Device, Point, Results};
use crate::summary::{Rates, Summary};
use crate::units::{percent, significant};

/// Both sections.
pub(super) fn section(results: &Results, summary: &Summary) -> Markup {
    html! { (counters(results, summary)) (devices(&results.points)) }
}

fn counters(results: &Results, summary: &Summary) -> Markup {
    let columns = [
        text("Workload"),
        text("Arm"),
        number("IPC"),
        number("L1D load misses"),
        number("LLC misses"),
        number("Branch misses"),
        number("Instructions per request"),
        number("Counted"),
    ];
    layout::section(
        "counters",
        "Hardware counters",
        html! {
            p class="lead" { "User mode, threads of the workload alone. Misses are per 1000 instructions." }
            (layout::table("Counters over all repeats", &columns, html! {
                @for workload in &summary.workloads {
                    @for (name, arm) in workload.arms() {
                        tr { th scope="row" { (workload.name) } td { (arm_mark(name)) } (rates(arm.rates())) }
                    }
                }
            }))
            @let missing = summary.workloads.iter().flat_map(|w| w.arms()).any(|(_, arm)| arm.rates().is_none());
            @if missing { p class="note" { (why_missing(results)) } }
        },
    )
}

fn rates(rates: Option<Rates>) -> Markup {
    let cell = |rate: fn(&Rates) -> Option<f64>| figure_cell(rates.as_ref().and_then(rate).map(significant));
    html! {
        (figure_cell(rates.and_then(|r| r.ipc).map(|ipc| format!("{ipc:.2}"))))
        (cell(|r| r.l1d_misses))
        (cell(|r| r.llc_misses))
        (cell(|r| r.branch_misses))
        (figure_cell(rates.and_then(|r| r.instructions_per_request).map(million)))
        (figure_cell(rates.map(|r| percent(r.coverage))))
    }
}

fn million(instructions: f64) -> String {
    match instructions {
        i if i < 1e6 => format!("{} k", significant(i / 1e3)),
        i if i < 1e9 => format!("{} M", significant(i / 1e6)),
        i => format!("{} G", significant(i / 1e9)),
    }
}

/// The machine's own reason where it has one, else the warnings that speak of counters.
fn why_missing(results: &Results) -> String {
    let capability = results.machine.capabilities.iter().find(|c| c.name.contains("counters") && !c.available);
    if let Some(capability) = capability {
        let remedy = capability.remedy.as_ref().map_or_else(String::new, |remedy| format!(" Remedy: {remedy}."));
        return format!("Missing figures: {}.{remedy}", capability.reason);
    }
    let told =
        results.warnings.iter().filter(|warning| warning.contains("counter")).map(String::as_str).collect::<Vec<_>>();
    if told.is_empty() {
        "A dash is a figure that no valid run could measure.".to_string()
    } else {
        format!("Missing figures: {}.", told.join("; "))
    }
}

fn devices(points: &[Point]) -> Markup {
    let columns = [
        text("Arm"),
        number("Repeat"),
        number("Cores busy"),
        number("Disk busy"),
        number("Disk read"),
        number("Disk write"),
        number("Memory read"),
    ];
    layout::section(
        "devices",
        "Devices",
        html! {
            (layout::table("What the devices did in each window", &columns, html! {
                @for point in points {
                    tr {
                        th scope="row" { (point.arm) }
                        td class="n" { (point.repeat) @if !point.valid { " (invalid)" } }
                        (device(&point.device))
                    }
                }
            }))
        },
    )
}

fn device(device: &Device) -> Markup {
    html! {
        (figure_cell(device.cpu_busy.map(percent)))
        (figure_cell(device.io_busy.map(percent)))
        (figure_cell(device.read_mb_s.map(|mb_s| format!("{} MB/s", significant(mb_s)))))
        (figure_cell(device.write_mb_s.map(|mb_s| format!("{} MB/s", significant(mb_s)))))
        (figure_cell(device.dram_read_gb_s.map(|gb_s| format!("{} GB/s", significant(gb_s)))))
    }
}
