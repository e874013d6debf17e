//! Advice as text.

use super::sweep;
use crate::advise::{Advice, Standing, TriedValue};
use crate::predict::{CachePair, CacheShared};
use crate::results::{Interval, Verified};
use plimsoll_display::wrap;
use plimsoll_display::{MISSING, duration_us, joined, percent, rate, value};

/// Columns for the tried value.
const WIDTH: usize = 30;

/// The whole text, ending in a line break.
pub fn render(advice: &Advice) -> String {
    let (name, limit) = advice.slo.split_once('<').unwrap_or((&advice.slo, ""));
    let mut out = wrap(&headline(advice), "", "  ");
    out.push(String::new());
    let per_s = format!("{} per s", advice.maximise);
    out.push(format!(
        "{:<WIDTH$}{:>12}{:>22}{:>16}",
        format!("{} (< {})", name.trim(), limit.trim()),
        "predicted",
        "95 %",
        per_s
    ));
    out.extend(advice.tried.iter().enumerate().flat_map(|(at, tried)| lines(advice, at, tried)));
    if advice.tried.iter().any(|tried| tried.is_extrapolated) {
        out.push(String::new());
        out.extend(wrap("* beyond what was measured of a workload alone, or of a mix", "", "  "));
    }
    if !advice.allocations.is_empty() {
        out.push(String::new());
        out.push("The smallest allocations that are sufficient".to_owned());
        for one in &advice.allocations {
            let amount =
                one.amount.as_ref().map(value).or_else(|| one.why_not.clone()).unwrap_or_else(|| MISSING.to_owned());
            let what = format!("{} in {}, {} of its throughput", one.workload, one.arm, percent(one.share));
            out.extend(wrap(&format!("{what}: {} {amount}", one.key), "  ", "    "));
        }
    }
    if !advice.cache.is_empty() {
        out.push(String::new());
        out.push("What cache partitioning would bring".to_owned());
        out.extend(advice.cache.iter().flat_map(|pair| wrap(&partitioned(pair), "  ", "    ")));
    }
    if let Some(verified) = &advice.verified {
        out.extend(measured(verified));
    }
    out.extend(listed("To know of it", &advice.cautions));
    out.extend(listed("Where such measurements mislead", &advice.pitfalls));
    out.push(String::new());
    out.join("\n")
}

/// Sentences under a heading; nothing without any.
pub(super) fn listed<T: AsRef<str>>(heading: &str, sentences: &[T]) -> Vec<String> {
    if sentences.is_empty() {
        return Vec::new();
    }
    let mut out = vec![String::new(), heading.to_owned()];
    out.extend(sentences.iter().flat_map(|sentence| wrap(sentence.as_ref(), "  - ", "    ")));
    out
}

/// The gain of a pair from the masks of their classes.
fn partitioned(pair: &CachePair) -> String {
    let of = |one: Interval| with_range(Some(one), |ratio| format!("{ratio:.2}"));
    let one = |one: &CacheShared| {
        format!(
            "{} ({}) keeps {} of its throughput alone, and {} with the cache shared",
            one.name,
            one.class,
            of(one.with_masks),
            of(one.shared)
        )
    };
    let setting = sweep::setting(&pair.setting);
    let setting = if setting.is_empty() { setting } else { format!("{setting}: ") };
    let workloads: Vec<String> = pair.workloads.iter().map(one).collect();
    format!("{setting}with the masks of their classes {}", workloads.join("; "))
}

/// The advised value and its neighbour, as measured.
fn measured(verified: &Verified) -> Vec<String> {
    let mut out = vec![String::new()];
    out.extend(wrap(&verified.sentence, "", "  "));
    for one in &verified.settings {
        let time = |interval: Option<Interval>| with_range(interval, |ms| duration_us(ms * 1e3));
        let per_s = |interval: Option<Interval>| with_range(interval, rate);
        let text = format!(
            "{}={}: {} predicted, {} measured; {} {} per s predicted, {} measured",
            verified.key,
            one.value,
            time(one.predicted_ms),
            time(one.measured_ms),
            verified.maximise,
            per_s(one.predicted_per_s),
            per_s(one.measured_per_s)
        );
        out.extend(wrap(&text, "  ", "    "));
        out.extend(one.why_not.iter().flat_map(|why| wrap(why, "    ", "    ")));
    }
    out
}

/// `18 ms (17 ms to 19 ms)`.
fn with_range(interval: Option<Interval>, write: impl Fn(f64) -> String) -> String {
    let Some(interval) = interval else { return MISSING.to_owned() };
    match interval.low.zip(interval.high) {
        Some((low, high)) => format!("{} ({} to {})", write(interval.value), write(low), write(high)),
        None => write(interval.value),
    }
}

fn headline(advice: &Advice) -> String {
    let Some(best) = advice.best.map(|at| &advice.tried[at]) else {
        let count = |standing| advice.tried.iter().filter(|tried| tried.standing == standing).count();
        return format!(
            "No value of {} is predicted to keep {}: {} break it, {} are undecided, {} could not be predicted.",
            advice.key,
            advice.slo,
            count(Standing::Broken),
            count(Standing::Undecided),
            count(Standing::Refused)
        );
    };
    let gets = best.throughput_per_s.map_or_else(|| MISSING.to_owned(), |throughput| rate(throughput.value));
    format!("{}={} keeps {}, and {} gets {gets}.", advice.key, best.value, advice.slo, advice.maximise)
}

fn lines(advice: &Advice, at: usize, tried: &TriedValue) -> Vec<String> {
    let mark = if tried.is_extrapolated { " *" } else { "" };
    let what = joined([format!("{}={}{mark}", advice.key, tried.value), sweep::setting(&tried.setting)]);
    if let Some(why) = &tried.refused {
        return wrap(&format!("{what}: not predicted: {why}"), "  ", "    ");
    }
    let standing = match tried.standing {
        Standing::Kept if advice.best == Some(at) => "> ",
        Standing::Kept => "+ ",
        Standing::Undecided => "? ",
        Standing::Broken | Standing::Refused => "- ",
    };
    let time = |ms: f64| duration_us(ms * 1e3);
    let of = |interval: Option<Interval>| interval.map_or_else(|| MISSING.to_owned(), |one| time(one.value));
    let range = sweep::range(tried.percentile_ms, time);
    let throughput = tried.throughput_per_s.map_or_else(|| MISSING.to_owned(), |one| rate(one.value));
    let mut out = if what.chars().count() + 2 <= WIDTH { Vec::new() } else { wrap(&what, standing, "    ") };
    let what = if out.is_empty() { format!("{standing}{what}") } else { String::new() };
    out.push(format!("{what:<WIDTH$}{:>12}{range:>22}{throughput:>16}", of(tried.percentile_ms)));
    out
}
