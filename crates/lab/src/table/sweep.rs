//! A sweep as text: a line for each setting, and what follows along its axes.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::results::{Estimate, Finding, Interference, Interval, Knee, KneeLevel, Results, Scalability};
use crate::units::MISSING;
use crate::units::{duration_us, rate, significant};

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
        let what = if is_swept { setting(&estimate.setting, 30) } else { shortened(&estimate.arm, 30) };
        out.push(estimate_line(&what, estimate));
    }
    if results.estimates.iter().any(|estimate| !estimate.outliers.is_empty()) {
        out.push("* a repeat lies far from the others; it counts all the same".to_owned());
    }
    out.extend(section("Together over alone", results.interference.iter().map(interference_line)));
    out.extend(section("Sufficient allocations", results.knees.iter().flat_map(knee_lines)));
    out.extend(section("Scalability over clients", results.scalability.iter().map(scalability_line)));
    out
}

fn section(name: &str, lines: impl Iterator<Item = String>) -> Vec<String> {
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() { lines } else { [vec![String::new(), name.to_owned()], lines].concat() }
}

fn estimate_line(what: &str, estimate: &Estimate) -> String {
    let p99 = estimate.latency_us.and_then(|latency| latency.p99).map(|us| duration_us(us as f64));
    let marks = if estimate.outliers.is_empty() { "" } else { " *" };
    format!(
        "  {:<30}{:>12}{:>22}{:>12}{marks}",
        what,
        rate(estimate.throughput_per_s.value),
        interval(&estimate.throughput_per_s, rate),
        p99.unwrap_or_else(|| MISSING.to_owned()),
    )
}

fn interference_line(interference: &Interference) -> String {
    let finding = match interference.finding {
        Finding::Faster => "faster",
        Finding::Slower => "slower",
        Finding::NoDifference => "no difference seen",
        Finding::NotDetermined => "not determined",
    };
    let told = |ratio: f64| format!("{ratio:.2}");
    let what = format!("{} in {}", interference.workload, interference.arm);
    let what = match setting(&interference.setting, 20) {
        at if at.is_empty() => what,
        at => format!("{what}, {at}"),
    };
    let ratio = interference.ratio;
    format!("  {:<36}{:>6}{:>16}  {finding}", shortened(&what, 36), told(ratio.value), interval(&ratio, told))
}

fn knee_lines(knee: &Knee) -> Vec<String> {
    let what = format!("{} in {}", knee.workload, knee.arm);
    let what = match setting(&knee.setting, 24) {
        at if at.is_empty() => what,
        at => format!("{what}, {at}"),
    };
    let level = |level: &KneeLevel| {
        let share = format!("{:.0} %", level.share * 100.0);
        let told = match (level.allocation, level.low.zip(level.high)) {
            (Some(at), Some((low, high))) => {
                let (at, low, high) = (significant(at), significant(low), significant(high));
                format!("{}={at} ({low} to {high})", knee.axis)
            }
            (Some(at), None) => format!("{}={}", knee.axis, significant(at)),
            (None, _) => format!("not determined: {}", level.why_not.as_deref().unwrap_or("unknown")),
        };
        format!("  {:<36}{share:>6}  {told}", shortened(&what, 36))
    };
    knee.levels.iter().map(level).collect()
}

fn scalability_line(scalability: &Scalability) -> String {
    let what = format!("{} in {}", scalability.workload, scalability.arm);
    let (Some(sigma), Some(kappa)) = (scalability.sigma, scalability.kappa) else {
        let why = scalability.why_not.as_deref().unwrap_or("unknown");
        return format!("  {:<30}not determined: {why}", shortened(&what, 30));
    };
    let peak = scalability.peak_clients.map_or_else(|| "no peak".to_owned(), |at| format!("peak at {:.0}", at.value));
    format!(
        "  {:<30}contention {:.1} %, coherency {:.2} %, {peak}",
        shortened(&what, 30),
        sigma.value * 100.0,
        kappa.value * 100.0
    )
}

fn interval(interval: &Interval, told: impl Fn(f64) -> String) -> String {
    match (interval.low, interval.high) {
        (Some(low), Some(high)) => format!("{} to {}", told(low), told(high)),
        _ => MISSING.to_owned(),
    }
}

/// `dop=2, oltp.clients=4`, shortened to so many characters.
pub(super) fn setting(setting: &BTreeMap<String, Value>, width: usize) -> String {
    let told = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let pairs = setting.iter().map(|(key, value)| format!("{key}={}", told(value))).collect::<Vec<_>>();
    shortened(&pairs.join(", "), width)
}

fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}
