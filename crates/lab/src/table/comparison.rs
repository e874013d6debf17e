//! Two runs against each other, as text.

use super::sweep;
use crate::compare::{Answer, ComparedPoint, Comparison, FailedShare};
use crate::results::Interval;
use plimsoll_display::wrap;
use plimsoll_display::{MISSING, count, fine_percent, joined, percent};

/// Columns for the name of the compared cell. The rest of a line of 80 is numbers.
const WIDTH: usize = 32;

/// The whole text, ending in a line break.
pub fn render(comparison: &Comparison) -> String {
    let mut out = Vec::new();
    out.extend(failures(comparison));
    out.push(format!("{:<WIDTH$}{:>6}{:>15}  {:<18}{:>7}", "", "ratio", "95 %", "", "latency"));
    out.extend(comparison.points.iter().flat_map(|point| lines(point, comparison.margin)));
    out.push(String::new());
    out.extend(answers(comparison));
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

/// How many points have each answer, and what the answers mean.
fn answers(comparison: &Comparison) -> Vec<String> {
    let count = |is: fn(&Answer) -> bool| comparison.points.iter().filter(|point| is(&point.throughput_answer)).count();
    let undecided = count(|answer| matches!(answer, Answer::Undecided { .. }));
    let without_repeats = count(|answer| matches!(answer, Answer::Undecided { loss_max: None, .. }));
    let margin = percent(comparison.margin);
    let all = comparison.points.len();
    let mut out = wrap(
        &format!(
            "{all} point{}: {} faster, {} slower, {} with no difference larger than {margin}, {undecided} undecided",
            if all == 1 { "" } else { "s" },
            count(|answer| *answer == Answer::Faster),
            count(|answer| *answer == Answer::Slower),
            count(|answer| *answer == Answer::NoLargerDifference),
        ),
        "",
        "  ",
    );
    if undecided > without_repeats {
        let told = "undecided (-20 %): a loss of up to 20 % is not excluded; more repeats decide";
        out.extend(wrap(told, "", "  "));
    }
    if without_repeats > 0 {
        let told = "undecided without a number: one of the two has no repeats, so that nothing is excluded; use repeats = 3 or more";
        out.extend(wrap(told, "", "  "));
    }
    if all >= BY_CHANCE {
        let told =
            format!("each is judged at 95 %: of {all} equal points about {} would differ by chance", all / BY_CHANCE);
        out.extend(wrap(&told, "", "  "));
    }
    out
}

/// Of this many comparisons of equals at 95 %, one is expected to show a difference.
const BY_CHANCE: usize = 20;

/// One line, or two if the name of the compared cell is too long.
fn lines(point: &ComparedPoint, margin: f64) -> Vec<String> {
    let what = sweep::place(&point.workload, &point.arm, &point.setting);
    let value =
        |ratio: Option<Interval>| ratio.map_or_else(|| MISSING.to_owned(), |ratio| format!("{:.2}", ratio.value));
    let range = sweep::range(point.throughput, |ratio| format!("{ratio:.2}"));
    let answer = point.throughput_answer.words(margin);
    let mut lines = if what.chars().count() < WIDTH { Vec::new() } else { wrap(&what, "", "  ") };
    let what = if lines.is_empty() { what.as_str() } else { "" };
    let (throughput, latency) = (value(point.throughput), value(point.mean_latency));
    lines.push(format!("{what:<WIDTH$}{throughput:>6}{range:>15}  {answer:<18}{latency:>7}"));
    lines
}
