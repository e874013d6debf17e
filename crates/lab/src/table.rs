//! The study as text for a terminal of 80 columns.
//! It is plain, so that it can be piped, pasted and compared.

use plimsoll_machine::describe;

use crate::results::{Mode, Point, Results};
use crate::summary::{Summary, TOGETHER};
use plimsoll_display::{count, counted, list, seconds, wrap};

pub mod advice;
pub(crate) mod claims;
pub mod comparison;
mod counted;
mod failed;
mod freshness;
mod kept;
mod levers;
mod line;
mod lock_waiting;
mod policies;
pub mod prediction;
mod size;
mod sweep;
#[cfg(test)]
mod tests;
mod time_share;
mod undisturbed;
mod workload;

/// The number of warnings that are printed; the report and `results.json` have all.
const WARNINGS_MAX: usize = 5;

/// The whole text, ending in a line break. `files` are the paths of files that were written, named last.
pub fn render(results: &Results, files: &[String]) -> String {
    let summary = Summary::of(results);
    let mut out = Vec::new();
    header(&mut out, results, &summary);
    failed::lines(&mut out, results);
    let arms = results.experiment.arms.iter();
    if results.mode == Mode::SimulatedProcessor {
        out.extend(counted::lines(results));
    } else if let Some(sizes) = &results.sizes {
        out.extend(size::lines(sizes));
    } else if summary.settings_left_out > 0 || arms.clone().any(|arm| arm != TOGETHER && !arm.starts_with("alone:")) {
        out.extend(sweep::lines(results));
    } else {
        for workload in &summary.workloads {
            out.push(String::new());
            workload::section(&mut out, results, workload);
        }
    }
    out.extend(undisturbed::lines(results));
    out.extend(time_share::sampler_lines(results));
    out.extend(lock_waiting::lines(results));
    out.extend(freshness::lines(results));
    out.extend(policies::lines(results));
    out.extend(levers::lines(results));
    if !results.claims.is_empty() {
        out.push(String::new());
        out.push("Claims".to_owned());
        out.extend(results.claims.iter().flat_map(claims::lines));
    }
    if !results.advice.is_empty() {
        out.push(String::new());
        out.push("What it means".to_owned());
    }
    for sentence in &results.advice {
        out.extend(wrap(sentence, "  - ", "    "));
    }
    out.extend(results.line.iter().flat_map(line::lines));
    let rest = if files.is_empty() { "with --json" } else { "in the report" };
    warnings(&mut out, results, rest);
    if !files.is_empty() {
        out.push(String::new());
        out.push("Written".to_owned());
        out.extend(files.iter().map(|file| format!("  {file}")));
    }
    out.push(String::new());
    out.join("\n")
}

/// The lines about isolation, for tests in other modules.
#[cfg(test)]
pub(crate) fn line_of(line: &crate::results::Line) -> Vec<String> {
    line::lines(line)
}

fn header(out: &mut Vec<String>, results: &Results, summary: &Summary) {
    let who = summary.workloads.iter().map(|w| format!("{} ({}, {})", w.name, w.kind, clients_of(results, w.name)));
    // Without figures in any run, their names are all that is known.
    let who = if summary.workloads.is_empty() { results.experiment.workloads.clone() } else { who.collect::<Vec<_>>() };
    let who = list(&who.iter().map(String::as_str).collect::<Vec<_>>());
    let name = wrap(&format!("{}: {who}", results.experiment.name), "", "  ");
    out.extend(name);
    let machine = &results.machine;
    let place = match results.mode {
        Mode::Measured => format!("{}, {}", machine.cpu_model, describe::usable_cores(machine)),
        Mode::Simulated => "simulated, not measured".to_owned(),
        Mode::SimulatedProcessor => "counted on a simulated processor".to_owned(),
    };
    let arms = summary.workloads.iter().flat_map(|workload| [&workload.alone, &workload.together]);
    let has_interval = arms.filter_map(|arm| arm.throughput()).any(|mean| mean.low.is_some());
    out.extend(wrap(
        &format!(
            "{place}; {}; took {}{}",
            points_told(&results.points),
            seconds(results.elapsed_s),
            if has_interval { "; ± and ranges are 95 % intervals" } else { "" }
        ),
        "",
        "  ",
    ));
}

/// The clients of a workload, `1 to 16 clients` if they are swept.
fn clients_of(results: &Results, workload: &str) -> String {
    let of_runs = results.points.iter().flat_map(|point| &point.workloads).filter(|result| result.name == workload);
    let (least, most) =
        of_runs.fold((usize::MAX, 0), |(least, most), run| (least.min(run.clients), most.max(run.clients)));
    let who = results.mode.who();
    if least < most { format!("{least} to {most} {who}s") } else { counted(most, who) }
}

/// `6 points of 20.0 s`, and how many of them are invalid.
pub(crate) fn points_told(points: &[Point]) -> String {
    let invalid = points.iter().filter(|point| !point.valid).count();
    let windows = points.iter().map(|point| point.window_s).filter(|window| *window > 0.0);
    let window = windows.reduce(f64::max);
    let of = window.map_or_else(String::new, |window| format!(" of {}", seconds(window)));
    let plural = if points.len() == 1 { "" } else { "s" };
    let left_out = if invalid > 0 { format!(", {invalid} invalid and left out") } else { String::new() };
    format!("{} point{plural}{of}{left_out}", count(points.len() as u64))
}

/// The first warnings, and a pointer to the rest.
fn warnings(out: &mut Vec<String>, results: &Results, rest: &str) {
    if results.warnings.is_empty() {
        return;
    }
    out.push(String::new());
    out.push("Warnings".to_owned());
    for warning in results.warnings.iter().take(WARNINGS_MAX) {
        out.extend(wrap(warning, "  - ", "    "));
    }
    if let Some(more @ 1..) = results.warnings.len().checked_sub(WARNINGS_MAX) {
        out.push(format!("  and {more} more, {rest}"));
    }
}
