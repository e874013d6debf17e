//! Two runs against each other, as text.

use super::{sweep, wrap};
use crate::compare::{ComparedPoint, Comparison, FailedShare};
use crate::results::{Finding, Interval};
use crate::units::{MISSING, count, fine_percent, joined};

/// Columns for the name of the compared cell. The rest of a line of 80 is numbers.
const WIDTH: usize = 32;

/// The whole text, ending in a line break.
pub fn render(comparison: &Comparison) -> String {
    let mut out = Vec::new();
    out.extend(failures(comparison));
    out.push(format!("{:<WIDTH$}{:>6}{:>15}  {:<18}{:>7}", "", "ratio", "95 %", "", "latency"));
    out.extend(comparison.points.iter().flat_map(lines));
    let count = |finding| comparison.points.iter().filter(|point| point.finding == finding).count();
    out.push(String::new());
    out.push(format!(
        "{} points: {} faster, {} slower, {} no difference seen, {} not determined",
        comparison.points.len(),
        count(Finding::Faster),
        count(Finding::Slower),
        count(Finding::NoDifference),
        count(Finding::NotDetermined)
    ));
    if comparison.unmatched > 0 {
        out.push(format!("{} points are in one of the two only and are left out", comparison.unmatched));
    }
    for difference in &comparison.differences {
        out.extend(wrap(difference, "settings differ: ", "    "));
    }
    out.push(String::new());
    out.join("\n")
}

/// What failed in one of the two, before any ratio: figures of different work cannot be compared.
fn failures(comparison: &Comparison) -> Vec<String> {
    let mut out = Vec::new();
    for failed in &comparison.failures {
        let told = |share: &FailedShare| {
            let why = share.reason().map_or_else(String::new, |why| format!(", {why}"));
            format!("{} of {} ({}{why})", count(share.failed), count(share.ended), fine_percent(share.share()))
        };
        let place = sweep::place(&failed.workload, &failed.arm, &failed.setting);
        let (base, other) = (told(&failed.base), told(&failed.other));
        out.extend(wrap(&format!("{place}: requests that failed: {base} -> {other}"), "failures differ: ", "    "));
    }
    for missing in &comparison.without_valid_run {
        let place = joined([missing.arm.clone(), sweep::setting(&missing.setting)]);
        for (which, why) in [("base", &missing.base), ("other run", &missing.other)] {
            let Some(why) = why else { continue };
            out.extend(wrap(&format!("{place}: no valid run in the {which}: {why}"), "not compared: ", "    "));
        }
    }
    if !out.is_empty() {
        out.push(String::new());
    }
    out
}

/// One line, or two if the name of the compared cell is too long.
fn lines(point: &ComparedPoint) -> Vec<String> {
    let what = sweep::place(&point.workload, &point.arm, &point.setting);
    let value =
        |ratio: Option<Interval>| ratio.map_or_else(|| MISSING.to_owned(), |ratio| format!("{:.2}", ratio.value));
    let range = sweep::range(point.throughput, |ratio| format!("{ratio:.2}"));
    let finding = point.finding.words();
    let mut lines = if what.chars().count() < WIDTH { Vec::new() } else { wrap(&what, "", "  ") };
    let what = if lines.is_empty() { what.as_str() } else { "" };
    let (throughput, latency) = (value(point.throughput), value(point.mean_latency));
    lines.push(format!("{what:<WIDTH$}{throughput:>6}{range:>15}  {finding:<18}{latency:>7}"));
    lines
}
