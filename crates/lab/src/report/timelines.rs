//! Every run second by second, so that a reader sees whether it had settled, stalled or drifted.

use maud::{Markup, html};

use super::chart::{Chart, Line, LinePanel, LineStyle, Scale, Span, Unit, figure, numbers, short};
use super::page::{Page, Setting, arm_label, setting_label};
use crate::record::SampleRow;
use crate::results::WorkloadResult;
use plimsoll_display::page::{figure_cell, number, section, table, text};
use plimsoll_display::rate;
use plimsoll_display::ratio;

/// A window with fewer seconds shows no trend.
const SECONDS_MIN: usize = 3;

/// The number of panels that are shown unfolded.
const PANELS_OPEN: usize = 8;

/// Points of all lines together: a page with more is slow, and `samples.parquet` has every second.
const POINTS_MAX: usize = 24_000;

/// Rows of the table.
const ROWS_MAX: usize = 400;

/// One workload in one run.
struct Course<'a> {
    run: usize,
    result: &'a WorkloadResult,
    seconds: Vec<&'a SampleRow>,
}

/// The section; nothing if no window is long enough, or no record is available.
pub(super) fn section_of(page: &Page) -> Markup {
    let workloads = page.workloads();
    let courses: Vec<(&str, Vec<Course<'_>>)> =
        workloads.into_iter().map(|workload| (workload, courses(page, workload))).collect();
    let runs: usize = courses.iter().map(|(_, courses)| courses.len()).sum();
    if runs == 0 {
        return html! {};
    }
    let most = (POINTS_MAX / runs).max(10);
    let is_thinned = courses.iter().any(|(_, all)| all.iter().any(|course| course.seconds.len() > most));
    section(
        &page.id("timelines"),
        "Second by second",
        html! {
            p class="lead" {
                "Requests completed in each second of each window; a line is a run, invalid ones left out."
                @if is_thinned { " Long windows are drawn in steps of several seconds; samples.parquet has every one." }
            }
            @for (workload, courses) in courses.iter().filter(|(_, courses)| !courses.is_empty()) {
                (drawn(page, workload, courses, most))
            }
        },
    )
}

/// The valid runs of a workload whose seconds are known.
fn courses<'a>(page: &Page<'a>, workload: &str) -> Vec<Course<'a>> {
    let runs = (0..page.results.points.len()).filter_map(|run| {
        let point = page.results.points.get(run).filter(|point| point.valid)?;
        let result = point.workloads.iter().find(|result| result.name == workload)?;
        let seconds: Vec<_> = page.record(run)?.samples.iter().filter(|row| row.workload == workload).collect();
        (seconds.len() >= SECONDS_MIN).then_some(Course { run, result, seconds })
    });
    runs.collect()
}

fn drawn(page: &Page, workload: &str, courses: &[Course], most: usize) -> Markup {
    let mut panels: Vec<(&Setting, LinePanel)> = Vec::new();
    for setting in page.settings() {
        let of_setting = courses.iter().filter(|course| page.results.points[course.run].setting == *setting);
        let lines: Vec<Line> = of_setting.map(|course| line(page, workload, course, most)).collect();
        if !lines.is_empty() {
            let (row, note) = (String::new(), String::new());
            let title = setting_label(setting, &page.keys(), None);
            panels.push((setting, LinePanel { row, title, note, lines }));
        }
    }
    let panels: Vec<LinePanel> = panels.into_iter().map(|(_, panel)| panel).collect();
    let chart = |panels: &[LinePanel]| Chart::Lines {
        label: format!("Throughput of {workload} second by second"),
        x: Scale { name: "seconds since the window opened".to_owned(), unit: None, span: Span::Zero },
        y: Scale { name: "completed per second".to_owned(), unit: Some(Unit::Rate), span: Span::Zero },
        reference: None,
        panels: panels.to_vec(),
    };
    let (open, folded) = panels.split_at(panels.len().min(PANELS_OPEN));
    html! {
        (figure(&page.run(), workload, "", &chart(open), numbers(&format!("How even {workload} was"), evenness(page, courses))))
        @if !folded.is_empty() {
            details {
                summary { (folded.len()) " more settings of " (workload) }
                (figure(&page.run(), workload, "", &chart(folded), html! {}))
            }
        }
    }
}

fn line(page: &Page, workload: &str, course: &Course, most: usize) -> Line {
    let point = &page.results.points[course.run];
    let step = course.seconds.len().div_ceil(most).max(1);
    // A step of several seconds weights each by its length; the last second of a window may be a part of one.
    let of_step = |rows: &[&SampleRow]| {
        let seconds: f64 = rows.iter().map(|row| row.seconds).sum();
        let work: f64 = rows.iter().map(|row| row.throughput_per_s * row.seconds).sum();
        let middle = rows.first()?.second + seconds / 2.0;
        (seconds > 0.0 && work.is_finite()).then(|| (short(middle), short(work / seconds)))
    };
    Line {
        name: arm_label(&point.arm, workload),
        detail: format!("run {}, block {}", course.run, point.repeat),
        colour: page.colour(&point.arm, workload),
        style: LineStyle::Straight,
        run: Some(course.run),
        points: course.seconds.chunks(step).filter_map(of_step).collect(),
    }
}

/// The slowest and the fastest second of each run, and its second half beside the first.
fn evenness(page: &Page, courses: &[Course]) -> Markup {
    let mut columns = vec![number("Run"), text("Arm")];
    columns.extend(page.keys().into_iter().map(text));
    columns.extend(["Block", "Whole window", "Slowest second", "Fastest second", "Second half over first"].map(number));
    table(
        "Seconds of each window",
        &columns,
        html! {
            @for course in courses.iter().take(ROWS_MAX) {
                @let point = &page.results.points[course.run];
                @let rates = course.seconds.iter().map(|row| row.throughput_per_s).collect::<Vec<_>>();
                tr {
                    th scope="row" class="n" { (page.run_link(course.run)) }
                    td { (arm_label(&point.arm, &course.result.name)) }
                    (page.setting_cells(&point.setting))
                    td class="n" { (point.repeat) }
                    td class="n" { (rate(course.result.all.throughput_per_s)) }
                    (figure_cell(rates.iter().copied().reduce(f64::min).map(rate)))
                    (figure_cell(rates.iter().copied().reduce(f64::max).map(rate)))
                    (figure_cell(halves(&course.seconds).map(ratio)))
                }
            }
        },
    )
}

/// Mean throughput of the second half of the seconds over that of the first; `None` if no request completed in the
/// first.
fn halves(seconds: &[&SampleRow]) -> Option<f64> {
    let half = seconds.len() / 2;
    let mean = |rows: &[&SampleRow]| rows.iter().map(|row| row.throughput_per_s).sum::<f64>() / rows.len() as f64;
    let (first, second) = (mean(&seconds[..half]), mean(&seconds[seconds.len() - half..]));
    (first > 0.0).then(|| second / first)
}
