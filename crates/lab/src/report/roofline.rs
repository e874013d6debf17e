//! Instructions against the bytes they need from memory, below the roof that the memory probe measured.

use maud::{Markup, html};
use plimsoll_machine::memory_speed::bandwidth::{Bandwidth, Pattern};

use super::chart::{Chart, Line, LinePanel, LineStyle, Scale, Span, figure, numbers, short};
use super::numbers::{key_cells, keyed};
use super::page::{Page, arm_label, setting_label};
use crate::results::Estimate;
use plimsoll_display::page::{figure_cell, section, table};
use plimsoll_display::{percent, significant};

/// The number of cells that are drawn.
const CELLS_MAX: usize = 60;

/// The use of memory by a workload over all of its runs.
struct MemoryUse<'a> {
    estimate: &'a Estimate,
    /// Instructions per byte read from memory.
    intensity: f64,
    /// Instructions per second, in billions.
    speed: f64,
    /// Read from memory, GB/s.
    gb_s: f64,
}

/// The section; nothing without the probe's bandwidth, or counters of memory reads.
pub(super) fn section_of(page: &Page) -> Markup {
    let Some(roof) = roof(page) else { return html! {} };
    let estimates = page.all_estimates().into_iter();
    let used: Vec<MemoryUse<'_>> = estimates.filter_map(|estimate| used(page, estimate)).collect();
    if used.is_empty() {
        return html! {};
    }
    let columns =
        keyed(page, &["Instructions per byte", "10⁹ instructions per second", "Read from memory", "Of the roof"]);
    let table = table(
        "What memory was asked for, all repeats together",
        &columns,
        html! {
            @for one in &used {
                tr {
                    (key_cells(page, one.estimate))
                    td class="n" { (significant(one.intensity)) }
                    td class="n" { (significant(one.speed)) }
                    td class="n" { (significant(one.gb_s)) " GB/s" }
                    (figure_cell(Some(percent(one.gb_s / roof.rate.median))))
                    (page.run_links(one.estimate))
                }
            }
        },
    );
    section(
        &page.id("roofline"),
        "Roofline",
        html! {
            p class="lead" {
                "How fast each workload ran its instructions (user mode) by how many it ran for each byte read from memory. The dashed \
                 roof is what the probe's " (Pattern::Read.name()) " of " (plimsoll_display::of(roof.cores.len(), roof.cores.len(), "core"))
                " allows, " (significant(roof.rate.median)) " GB/s: a point near it is bound by memory bandwidth, one far below by \
                 something else. No flat roof is drawn, for the peak of the cores was not measured."
            }
            (figure(&page.run(), "Instructions and memory", "", &chart(page, &used, roof.rate.median), numbers("The numbers of the roofline", table)))
        },
    )
}

/// The sequential reads of the most cores.
fn roof<'a>(page: &Page<'a>) -> Option<&'a Bandwidth> {
    let speed = &page.results.memory_speed.as_ref()?.speed;
    let reads = speed.bandwidth.iter().filter(|one| one.pattern == Pattern::Read && one.rate.median > 0.0);
    reads.max_by_key(|one| one.cores.len())
}

/// `None` if a run lacks a counter: a part of the runs would give another speed.
fn used<'a>(page: &Page<'a>, estimate: &'a Estimate) -> Option<MemoryUse<'a>> {
    let counters = estimate.measured.counters?;
    let (instructions, bytes) = (counters.instructions? as f64, counters.dram_read_bytes? as f64);
    let seconds: f64 = estimate.runs.iter().filter_map(|run| Some(page.results.points.get(*run)?.window_s)).sum();
    (bytes > 0.0 && seconds > 0.0).then(|| MemoryUse {
        estimate,
        intensity: instructions / bytes,
        speed: instructions / seconds / 1e9,
        gb_s: bytes / seconds / 1e9,
    })
}

fn chart(page: &Page, used: &[MemoryUse], gb_s: f64) -> Chart {
    let at = || used.iter().map(|one| one.intensity);
    let (least, most) = (at().fold(f64::INFINITY, f64::min) / 2.0, at().fold(0.0, f64::max) * 2.0);
    let line = |name: String, colour, style, points| Line { name, colour, style, points, ..Line::default() };
    let roof = [least, most].map(|intensity| (short(intensity), short(intensity * gb_s)));
    let mut lines = vec![line("memory bandwidth".to_owned(), 0, LineStyle::Bound, roof.into())];
    let workloads = page.workloads();
    lines.extend(used.iter().take(CELLS_MAX).map(|one| {
        let number = workloads.iter().position(|name| *name == one.estimate.workload).unwrap_or(0);
        let arm = arm_label(&one.estimate.arm, &one.estimate.workload);
        let points = vec![(short(one.intensity), short(one.speed))];
        Line {
            detail: [arm, setting_label(&one.estimate.setting, &page.keys(), None)].join(" "),
            run: one.estimate.runs.first().copied(),
            ..line(one.estimate.workload.clone(), 1 + number % 6, LineStyle::Dots, points)
        }
    }));
    let scale = |name: &str| Scale { name: name.to_owned(), unit: None, span: Span::Log };
    Chart::Lines {
        label: "Instructions per second by instructions per byte read from memory".to_owned(),
        x: scale("instructions per byte read from memory"),
        y: scale("10⁹ instructions per second"),
        reference: None,
        panels: vec![LinePanel { lines, ..LinePanel::default() }],
    }
}
