//! What failed, as text: requests that were given up, runs that are invalid, attempts that were run again.

use super::sweep::{place, setting};
use crate::failed::{FailureCounts, invalid_runs, reason, told_again};
use crate::results::{FailedRequests, Point, Results};
use plimsoll_display::wrap;
use plimsoll_display::{count, joined};

/// Workloads, and reasons of each, that are listed. The report and `results.json` have all.
const LISTED_MAX: usize = 6;

/// The sections, each after an empty line; nothing if nothing failed.
pub(super) fn lines(out: &mut Vec<String>, results: &Results) {
    let mut section = |heading: String, lines: Vec<String>| {
        if !lines.is_empty() {
            out.push(String::new());
            out.push(heading);
            out.extend(lines);
        }
    };
    section("Failed requests".to_owned(), failed_requests(&results.points));
    section("Invalid runs".to_owned(), invalid(&results.points));
    section("Attempts run again".to_owned(), again(&results.points));
}

fn failed_requests(points: &[Point]) -> Vec<String> {
    let failed = FailureCounts::with_failures(points);
    let mut lines = Vec::new();
    for cell in failed.iter().take(LISTED_MAX) {
        let place = place(cell.workload, cell.arm, cell.setting);
        lines.extend(wrap(&format!("{place}: {}", cell.told()), "  ", "    "));
        lines.extend(cell.reasons.iter().take(LISTED_MAX).flat_map(reason_lines));
        lines.extend(more(cell.reasons.len(), "    ", "reasons"));
    }
    lines.extend(more(failed.len(), "  ", "places where requests failed"));
    lines
}

/// The number and the reason; below them the first such request in full.
fn reason_lines(failed: &FailedRequests) -> Vec<String> {
    let mut lines = wrap(&format!("{} times {}", count(failed.count), reason(failed)), "    ", "      ");
    if let Some(first) = &failed.first {
        lines.extend(wrap(&format!("first: {first}"), "      ", "        "));
    }
    lines
}

fn invalid(points: &[Point]) -> Vec<String> {
    let invalid = invalid_runs(points);
    let told = |(why, runs): &(&str, Vec<usize>)| {
        let first = &points[runs[0]];
        let others = match runs.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let place = joined([setting(&first.setting), first.arm.clone(), format!("repeat {}", first.repeat)]);
        wrap(&format!("{place}{others}: {why}"), "  ", "    ")
    };
    let mut lines: Vec<String> = invalid.iter().take(LISTED_MAX).flat_map(told).collect();
    lines.extend(more(invalid.len(), "  ", "reasons"));
    lines
}

fn again(points: &[Point]) -> Vec<String> {
    told_again(points).iter().flat_map(|line| wrap(line, "  ", "    ")).collect()
}

/// `and 3 more reasons`, if there are more than are listed.
fn more(all: usize, indentation: &str, what: &str) -> Option<String> {
    let more = all.checked_sub(LISTED_MAX).filter(|more| *more > 0)?;
    Some(format!("{indentation}and {more} more {what}"))
}
