//! Every run as measured. Each row has an id, so that a figure elsewhere can be traced to its samples.

use maud::{Markup, html};

use super::devices;
use super::numbers::count_cell;
use super::page::Page;
use crate::results::{Aborted, Point, WorkloadResult};
use plimsoll_display::of;
use plimsoll_display::page::{figure_cell, number, section, table, text};
use plimsoll_display::{MISSING, latency_told, plain, rate, seconds, value};

pub(super) fn section_of(page: &Page) -> Markup {
    let points = &page.results.points;
    if points.is_empty() {
        return html! {};
    }
    section(
        &page.id("runs"),
        "Every run",
        html! {
            p class="lead" {
                "In the order they ran; the number of a run is its position in " code { "points" } " of results.json. Figures \
                 elsewhere on this page link here."
            }
            details {
                summary { "The figures of " (of(points.len(), points.len(), "run")) }
                (table("Every run, as measured", &columns(page), html! {
                    @for (run, point) in points.iter().enumerate() { (rows(page, run, point)) }
                }))
            }
            details {
                summary { "What the machine and its devices did in each run" }
                (devices::devices(page))
                (devices::unmeasured(page))
            }
        },
    )
}

fn columns(page: &Page) -> Vec<plimsoll_display::page::Column> {
    let mut columns = vec![number("Run"), text("Workload"), text("Arm")];
    columns.extend(page.keys().into_iter().map(text));
    columns.extend([number("Repeat"), text("Valid"), number("Begun after"), number("Window"), number("Clients")]);
    columns.extend(["Completed", "Per second", "Mean", "p50", "p95", "p99", "Slowest", "Aborted"].map(number));
    columns.push(text("Achieved of limits"));
    columns
}

fn rows(page: &Page, run: usize, point: &Point) -> Markup {
    let id = format!("{}{run}", page.run());
    html! {
        @if point.workloads.is_empty() {
            tr id=(id) class=[(!point.valid).then_some("invalid")] {
                th scope="row" class="n" { (run) }
                td { (MISSING) }
                (facts(page, point))
                td colspan="10" { (achieved(page, point)) }
            }
        }
        @for (position, result) in point.workloads.iter().enumerate() {
            tr id=[(position == 0).then_some(&id)] class=[(!point.valid).then_some("invalid")] {
                th scope="row" class="n" { (run) }
                td { (result.name) }
                (facts(page, point))
                (figures(result))
                td { (achieved(page, point)) }
            }
        }
    }
}

fn facts(page: &Page, point: &Point) -> Markup {
    html! {
        td { (point.arm) }
        (page.setting_cells(&point.setting))
        td class="n" { (point.repeat) @if point.is_again { " again" } }
        td class=[(!point.valid).then_some("words")] { @match (&point.why_invalid, point.valid) {
            (_, true) => "yes",
            (Some(why), false) => { "no: " (why) },
            (None, false) => "no",
        } }
        td class="n" { (seconds(point.at_s)) }
        td class="n" { (seconds(point.window_s)) }
    }
}

fn figures(result: &WorkloadResult) -> Markup {
    let latency = result.all.latency_us;
    let percentile = |us: Option<u64>| figure_cell(us.map(|us| latency_told(us as f64)));
    let Aborted { deadlock, preempted, conflict, user: _, error } = result.aborted;
    let aborted = deadlock + preempted + conflict + error;
    html! {
        td class="n" { (result.clients) }
        (count_cell(Some(result.all.completed)))
        td class="n" { (rate(result.all.throughput_per_s)) }
        (figure_cell(latency.map(|l| latency_told(l.mean))))
        (percentile(latency.and_then(|l| l.p50)))
        (percentile(latency.and_then(|l| l.p95)))
        (percentile(latency.and_then(|l| l.p99)))
        (percentile(latency.map(|l| l.max)))
        (count_cell(Some(aborted)))
    }
}

/// The amount observed of each limit, beside the requested one: `cores 3.9 of 4`.
fn achieved(page: &Page, point: &Point) -> String {
    let told = point.achieved.iter().map(|(name, seen)| {
        let typed = || page.results.experiment.settings.get(&format!("machine.{name}"));
        let wanted = point.setting.get(name).or_else(typed);
        let wanted = wanted.map(|wanted| format!(" of {}", value(wanted))).unwrap_or_default();
        let seen = seen.as_f64().map_or_else(|| value(seen), plain);
        format!("{name} {seen}{wanted}")
    });
    told.collect::<Vec<_>>().join(", ")
}
