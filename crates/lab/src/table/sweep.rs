//! A sweep as text: a line for each setting, and the results along its axes.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::plan::option_text;
use crate::results::{Estimate, Interference, Interval, Knee, KneeLevel, Results, Scalability};
use plimsoll_display::wrap;
use plimsoll_display::{MISSING, joined, latency_told, rate, significant};

/// Throughput and tail latency of each workload, then interference, knees and scalability.
pub(super) fn lines(results: &Results) -> Vec<String> {
    let mut out = Vec::new();
    let is_swept = !results.experiment.sweep.is_empty();
    // Without a sweep a line is an arm, else a setting.
    let heading = |one: &Estimate| match is_swept {
        true => format!("{}, {}", one.workload, one.arm),
        false => one.workload.clone(),
    };
    let mut last = String::new();
    for estimate in &results.estimates {
        if heading(estimate) != last {
            last = heading(estimate);
            out.push(String::new());
            out.push(format!("{last:<32}{:>12}{:>22}{:>12}", "throughput", "95 % interval", "p99"));
        }
        let what = if is_swept { setting(&estimate.setting) } else { estimate.arm.clone() };
        out.extend(named(&what, 30, &estimate_figures(estimate)));
    }
    if results.estimates.iter().any(|estimate| !estimate.outliers.is_empty()) {
        out.push("* a repeat lies far from the others; it counts all the same".to_owned());
    }
    out.extend(section("Together over alone", results.interference.iter().flat_map(interference_lines)));
    out.extend(section("Sufficient allocations", results.knees.iter().flat_map(knee_lines)));
    out.extend(section("Scalability", results.scalability.iter().flat_map(scalability_lines)));
    out
}

fn section(name: &str, lines: impl Iterator<Item = String>) -> Vec<String> {
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() { lines } else { [vec![String::new(), name.to_owned()], lines].concat() }
}

/// A line with a name and its figures; two lines if the name is longer than its column, because a truncated name could
/// be that of another line.
pub(super) fn named(what: &str, width: usize, figures: &str) -> Vec<String> {
    if what.chars().count() <= width {
        return vec![format!("  {what:<width$}{figures}")];
    }
    let mut lines = wrap(what, "  ", "    ");
    lines.push(format!("  {:<width$}{figures}", ""));
    lines
}

/// The same for words, which may take several lines.
fn told(what: &str, width: usize, words: &str) -> Vec<String> {
    let indentation = " ".repeat(width + 2);
    let mut words = wrap(words, &indentation, &indentation).into_iter();
    let mut lines = named(what, width, words.next().unwrap_or_default().trim_start());
    lines.extend(words);
    lines
}

fn estimate_figures(estimate: &Estimate) -> String {
    let p99 = estimate.measured.all.latency_us.and_then(|latency| latency.p99).map(|us| latency_told(us as f64));
    let marks = if estimate.outliers.is_empty() { "" } else { " *" };
    format!(
        "{:>12}{:>22}{:>12}{marks}",
        rate(estimate.throughput_per_s.value),
        range(Some(estimate.throughput_per_s), rate),
        p99.unwrap_or_else(|| MISSING.to_owned()),
    )
}

fn interference_lines(interference: &Interference) -> Vec<String> {
    let finding = interference.finding.words();
    let told = |ratio: f64| format!("{ratio:.2}");
    let what = place(&interference.workload, &interference.arm, &interference.setting);
    let ratio = interference.ratio;
    named(&what, 36, &format!("{:>6}{:>16}  {finding}", told(ratio.value), range(Some(ratio), told)))
}

fn knee_lines(knee: &Knee) -> Vec<String> {
    let what = place(&knee.workload, &knee.arm, &knee.setting);
    let level = |level: &KneeLevel| {
        let share = format!("{:.0} %", level.share * 100.0);
        let words = match (&level.allocation, level.low.as_ref().zip(level.high.as_ref())) {
            (Some(at), Some((low, high))) => {
                format!("{}={} ({} to {})", knee.axis, amount(at), amount(low), amount(high))
            }
            (Some(at), None) => format!("{}={}", knee.axis, amount(at)),
            (None, _) => format!("not determined: {}", level.why_not.as_deref().unwrap_or("unknown")),
        };
        told(&what, 36, &format!("{share}  {words}"))
    };
    knee.levels.iter().flat_map(level).collect()
}

/// An amount as it was written, numbers with three digits.
fn amount(written: &Value) -> String {
    written.as_f64().map_or_else(|| option_text(written), significant)
}

fn scalability_lines(scalability: &Scalability) -> Vec<String> {
    let what = format!("{} in {}", scalability.workload, scalability.arm);
    let (Some(sigma), Some(kappa)) = (scalability.sigma, scalability.kappa) else {
        let why = scalability.why_not.as_deref().unwrap_or("unknown");
        return told(&what, 30, &format!("not determined: {why}"));
    };
    let peak = scalability.peak_clients.map_or_else(|| "no peak".to_owned(), |at| format!("peak at {:.0}", at.value));
    let (sigma, kappa) = (sigma.value * 100.0, kappa.value * 100.0);
    told(&what, 30, &format!("contention {sigma:.1} %, coherency {kappa:.2} %, {peak}"))
}

/// The ends of an interval: `5 ms to 7 ms`.
pub(super) fn range(interval: Option<Interval>, told: impl Fn(f64) -> String) -> String {
    let ends = interval.and_then(|interval| interval.low.zip(interval.high));
    ends.map_or_else(|| MISSING.to_owned(), |(low, high)| format!("{} to {}", told(low), told(high)))
}

/// `oltp in together, dop=2`.
pub(super) fn place(workload: &str, arm: &str, swept: &BTreeMap<String, Value>) -> String {
    joined([format!("{workload} in {arm}"), setting(swept)])
}

/// `dop=2, oltp.clients=4`.
pub(in crate::table) fn setting(setting: &BTreeMap<String, Value>) -> String {
    let pairs = setting.iter().map(|(key, value)| format!("{key}={}", option_text(value))).collect::<Vec<_>>();
    pairs.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_too_long_for_their_column_stay_whole() {
        assert_eq!(named("dop=2", 8, "   7.0 /s"), ["  dop=2      7.0 /s"]);
        assert_eq!(named("lock_policy=pow", 8, "   7.0 /s"), ["  lock_policy=pow", "             7.0 /s"]);
        let words = "not determined: the largest value is not sufficient beyond noise, so more may help";
        let expect = [
            "  oltp    not determined: the largest value is not sufficient beyond noise, so",
            "          more may help",
        ];
        assert_eq!(told("oltp", 8, words), expect);
    }
}
