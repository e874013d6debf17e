//! What a server reports: its statements, its background work, and the cost of sampling it.

use maud::{Markup, html};

use super::chart::{Chart, CurvePanel, CurvePoint, Ends, Figure, Flag, Series, Unit, figure, short};
use super::page::{Page, bare, setting_label};
use crate::results::{Point, Sampler, Server, StatementUse, WorkloadResult};
use plimsoll_display::page::{Column, figure_cell, number, section, table, text};
use plimsoll_display::{count, duration_us, percent, seconds, significant};

/// The number of runs with a chart of throughput over time: those with marks.
const CHARTS_MAX: usize = 6;

/// The number of marks that are drawn in one of them.
const FLAGS_MAX: usize = 8;

/// The number of statements that are shown of each run.
const STATEMENTS_SHOWN: usize = 8;

/// The number of runs whose statements are shown.
const RUNS_SHOWN: usize = 12;

/// The section; nothing if no server was watched.
pub(super) fn section_of(page: &Page) -> Markup {
    let runs: Vec<(usize, &Point, &Server)> = page
        .results
        .points
        .iter()
        .enumerate()
        .filter_map(|(run, point)| Some((run, point, point.server.as_ref()?)))
        .collect();
    if runs.is_empty() {
        return html! {};
    }
    section(
        &page.id("server"),
        "The server's own view",
        html! {
            (marks(page, &runs))
            div class="figures" { @for (run, point, server) in runs.iter().filter(has_marks).take(CHARTS_MAX) { (over_time(page, *run, point, server)) } }
            (statements(page, &runs))
            (sampler(page, &runs))
        },
    )
}

fn has_marks((_, _, server): &&(usize, &Point, &Server)) -> bool {
    !server.marks.is_empty()
}

/// Throughput second by second, with the server's background work.
fn over_time(page: &Page, run: usize, point: &Point, server: &Server) -> Markup {
    let flags = server.marks.iter().take(FLAGS_MAX);
    let flags: Vec<Flag> =
        flags.map(|mark| Flag { at: short(mark.at_s), low: None, high: None, label: mark.what.clone() }).collect();
    let panel = |workload: &WorkloadResult| {
        let seconds = workload.server.as_ref()?.throughput_by_second.iter().enumerate();
        let points = seconds.filter_map(|(second, throughput)| {
            Some(CurvePoint { at: second as f64 + 0.5, figure: Figure::new(bare(*throughput), Vec::new())? })
        });
        let points: Vec<CurvePoint> = points.collect();
        let series = Series { name: workload.name.clone(), colour: 1, points, ..Series::default() };
        let (row, title) = (workload.name.clone(), workload.name.clone());
        Some(CurvePanel { row, title, series: vec![series], flags: flags.clone(), ..CurvePanel::default() })
    };
    let chart = Chart::Curve {
        label: format!("Throughput over time in run {run}"),
        x: "seconds after the window's opening".to_owned(),
        x_unit: None,
        y: "completed per second".to_owned(),
        unit: Unit::Rate,
        ends: Ends::Interval,
        reference: None,
        panels: point.workloads.iter().filter_map(panel).collect(),
    };
    figure(&page.run(), &format!("Throughput over time in run {run}"), "", &chart, html! {})
}

fn marks(page: &Page, runs: &[(usize, &Point, &Server)]) -> Markup {
    let marked: Vec<_> = runs.iter().filter(|(_, _, server)| !server.marks.is_empty()).collect();
    html! {
        @if marked.is_empty() {
            p class="lead" { "No checkpoint and no vacuum began or ended in any window." }
        } @else {
            p class="lead" {
                "Checkpoints and vacuums within the windows, by the second after a window opened. " code { "samples.parquet" }
                " has them beside the throughput of their second."
            }
            (table("Background work", &with_run(&[text("what happened")]), html! {
                @for (run, point, server) in &marked {
                    tr {
                        (run_cells(page, *run, point))
                        td {
                            @for (position, mark) in server.marks.iter().enumerate() {
                                @if position > 0 { "; " }
                                (seconds(mark.at_s)) ": " (mark.what)
                            }
                        }
                    }
                }
            }))
        }
    }
}

fn statements(page: &Page, runs: &[(usize, &Point, &Server)]) -> Markup {
    let kept = runs.iter().filter_map(|(run, point, server)| Some((*run, *point, server.statements.as_ref()?)));
    let kept: Vec<(usize, &Point, &Vec<StatementUse>)> = kept.collect();
    let columns = [
        number("calls"),
        number("time"),
        number("mean"),
        number("rows a call"),
        number("pages found"),
        number("pages read"),
        text("statement"),
    ];
    html! {
        @if !kept.is_empty() {
            p class="lead" { "The statements that took most of the server's time, by its own books (" code { "pg_stat_statements" } ")." }
            (table("Statements", &with_run(&columns), html! {
                @for (run, point, statements) in kept.iter().take(RUNS_SHOWN) {
                    @for statement in statements.iter().take(STATEMENTS_SHOWN) {
                        tr { (run_cells(page, *run, point)) (statement_cells(statement)) }
                    }
                }
            }))
            @if let Some(more @ 1..) = kept.len().checked_sub(RUNS_SHOWN) {
                p { "Those of " (more) " more runs are in " code { "results.json" } "." }
            }
        }
    }
}

fn statement_cells(statement: &StatementUse) -> Markup {
    let calls = statement.calls.max(1) as f64;
    html! {
        td class="n" { (count(statement.calls)) }
        td class="n" { (seconds(statement.time_s)) }
        td class="n" { (duration_us(statement.time_s * 1e6 / calls)) }
        td class="n" { (significant(statement.rows as f64 / calls)) }
        td class="n" { (count(statement.pages_hit)) }
        td class="n" { (count(statement.pages_read)) }
        td { code { (statement.text) } }
    }
}

fn sampler(page: &Page, runs: &[(usize, &Point, &Server)]) -> Markup {
    let columns = [
        number("looks"),
        number("a second"),
        number("late"),
        number("left out"),
        number("mean look"),
        number("longest"),
        number("of the window"),
        number("CPU of the thread"),
        number("CPU of the server"),
    ];
    html! {
        p class="lead" { "What it cost to look at the server's processes." }
        (table("Looks", &with_run(&columns), html! {
            @for (run, point, server) in runs { tr { (run_cells(page, *run, point)) (sampler_cells(&server.sampler)) } }
        }))
    }
}

fn sampler_cells(sampler: &Sampler) -> Markup {
    html! {
        td class="n" { (count(sampler.looks)) }
        td class="n" { (significant(sampler.looks_per_s)) }
        td class="n" { (count(sampler.late)) }
        td class="n" { (count(sampler.left_out)) }
        (figure_cell(sampler.look_mean_us.map(duration_us)))
        (figure_cell(sampler.look_max_us.map(duration_us)))
        td class="n" { (percent(sampler.duty)) }
        (figure_cell(sampler.cpu_thread_s.map(seconds)))
        (figure_cell(sampler.cpu_server_s.map(seconds)))
    }
}

fn with_run(columns: &[Column]) -> Vec<Column> {
    let mut all = vec![number("run"), text("setting and arm")];
    all.extend_from_slice(columns);
    all
}

fn run_cells(page: &Page, run: usize, point: &Point) -> Markup {
    let set = setting_label(&point.setting, &page.keys(), None);
    let name = if set.is_empty() { point.arm.clone() } else { format!("{set}, {}", point.arm) };
    html! {
        td class="n" { (page.run_link(run)) }
        td { (name) }
    }
}
