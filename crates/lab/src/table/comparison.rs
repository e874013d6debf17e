//! Two runs against each other, as text.

use super::{sweep, wrap};
use crate::compare::{ComparedPoint, Comparison};
use crate::results::{Finding, Interval};
use crate::units::MISSING;

/// The whole text, ending in a line break.
pub fn render(comparison: &Comparison) -> String {
    let mut out = Vec::new();
    out.push(format!("{:<34}{:>7}{:>15}  {:<18}{:>6}", "", "ratio", "95 %", "", "latency"));
    out.extend(comparison.points.iter().map(line));
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

fn line(point: &ComparedPoint) -> String {
    let what = match sweep::setting(&point.setting, 20) {
        at if at.is_empty() => format!("{} in {}", point.workload, point.arm),
        at => format!("{} in {}, {at}", point.workload, point.arm),
    };
    let what: String = what.chars().take(33).collect();
    let value = |ratio: Option<Interval>| ratio.map_or_else(|| MISSING.to_owned(), |ratio| format!("{:.2}", ratio.value));
    let range = point.throughput.and_then(|ratio| ratio.low.zip(ratio.high));
    let range = range.map_or_else(|| MISSING.to_owned(), |(low, high)| format!("{low:.2} to {high:.2}"));
    let finding = match point.finding {
        Finding::Faster => "faster",
        Finding::Slower => "slower",
        Finding::NoDifference => "no difference seen",
        Finding::NotDetermined => "not determined",
    };
    format!("{what:<34}{:>7}{range:>15}  {finding:<18}{:>6}", value(point.throughput), value(point.mean_latency))
}
