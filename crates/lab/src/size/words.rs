//! Sizes in sentences.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_display::{bytes, list, percent, significant, value};
use plimsoll_policy::Target;
use serde_json::Value;

use super::BUDGET;
use super::resources::of_key;
use crate::limits::{MEMORY_MIB, UNLIMITED};
use crate::plan::SizingTerms;
use crate::results::{Headroom, Interval, SizeStanding, SizedLevel, SizedResource};

/// `1.5 cores`, `64MB`, `512 MiB`.
pub(crate) fn amount(written: &Value, unit: &str) -> String {
    match written.as_f64() {
        Some(number) if unit.is_empty() => number.to_string(),
        Some(1.0) if unit.ends_with('s') && !unit.ends_with("/s") => format!("1 {}", &unit[..unit.len() - 1]),
        Some(number) => format!("{number} {unit}"),
        None => value(written),
    }
}

/// The unit of a resource's amounts.
pub(crate) fn unit(key: &str) -> &'static str {
    of_key(key).map_or("", |resource| resource.unit)
}

/// The full amount: `all 2 cores`, `4GB`, `no limit`.
pub(crate) fn full(resource: &SizedResource) -> String {
    let written = match (&resource.full, resource.full_amount) {
        (Value::String(text), Some(number)) if text == UNLIMITED => amount(&plain_number(number), &resource.unit),
        (Value::String(text), None) if text == UNLIMITED => return "what there is".to_owned(),
        (other, _) => amount(other, &resource.unit),
    };
    format!("the full {written}")
}

fn plain_number(number: f64) -> Value {
    if number.fract() == 0.0 { Value::from(number as u64) } else { Value::from(number.round()) }
}

/// `90 % of full speed`, `p95 < 20ms`.
pub(crate) fn goal(level: &SizedLevel, promise: Option<&str>) -> String {
    match level.share {
        Some(share) => format!("{} of full speed", percent(share)),
        None => promise.unwrap_or("the promise").to_owned(),
    }
}

/// Why a resource has no answer.
pub(super) fn mute(reasons: &[&str]) -> String {
    let first = reasons.first().copied().unwrap_or("no run of it is valid");
    match reasons.len() {
        0 | 1 => first.to_owned(),
        more => format!("{first} (and {} other reasons)", more - 1),
    }
}

/// `cores: more than 0.5 and at most 1 of 2 for 90 % of full speed; …`
pub(super) fn resource(resource: &SizedResource, terms: SizingTerms, others_cores: f64) -> String {
    if let Some(why) = &resource.why_not {
        return format!("{}: not determined, because {why}", resource.name);
    }
    let promise = terms.promise.map(|target| target.to_string());
    let mut told: Vec<(String, Vec<String>)> = Vec::new();
    for level in &resource.levels {
        let (where_, goal) = (place(resource, level), goal(level, promise.as_deref()));
        match told.iter_mut().find(|(known, _)| *known == where_) {
            Some((_, goals)) => goals.push(goal),
            None => told.push((where_, vec![goal])),
        }
    }
    let part = |(place, goals): &(String, Vec<String>)| {
        let goals: Vec<&str> = goals.iter().map(String::as_str).collect();
        format!("{place} for {}", list(&goals))
    };
    let told = told.iter().map(part).collect::<Vec<_>>().join("; ");
    let caution = if resource.key == "cpu_quota" && others_cores > 0.0 {
        format!(" (others kept {others_cores:.2} cores busy, by which the upper ends are raised)")
    } else {
        String::new()
    };
    let more = if resource.levels.iter().any(|level| is_undecided(resource, level)) {
        format!("; more time would tell (--budget {})", longer(terms.budget))
    } else {
        String::new()
    };
    format!("{}: {told}{caution}{more}", resource.name)
}

/// Whether the upper end of a bracket is the full amount only because the time was over.
pub(crate) fn is_undecided(resource: &SizedResource, level: &SizedLevel) -> bool {
    level.is_open && !level.is_narrow && level.at_most.as_ref() == Some(&resource.full)
}

/// A budget that is worth trying after this one was too short: `10min`.
pub(crate) fn longer(budget: Duration) -> String {
    let minutes = (2.0 * budget.as_secs_f64()).max(BUDGET.as_secs_f64()) / 60.0;
    format!("{:.0}min", minutes.ceil())
}

/// Where the least sufficient amount is.
fn place(resource: &SizedResource, level: &SizedLevel) -> String {
    let written = |value: &Value| {
        if *value == resource.full { full(resource) } else { amount(value, &resource.unit) }
    };
    match (&level.more_than, &level.at_most) {
        (None, Some(_)) if is_undecided(resource, level) => "not decided".to_owned(),
        (Some(low), Some(_)) if is_undecided(resource, level) => {
            format!("more than {}, and how much more is not decided,", written(low))
        }
        (None, Some(high)) if level.is_narrow => format!("{} is enough, the least that was tried,", written(high)),
        (None, Some(high)) if *high == resource.full => {
            format!("at most {}, since noise hides how much less would do,", written(high))
        }
        (None, Some(high)) => format!("at most {}", written(high)),
        (Some(low), Some(high)) => format!("more than {} and at most {}", written(low), written(high)),
        (Some(low), None) if *low == resource.full => format!("{} is not enough", written(low)),
        (Some(low), None) => format!("more than {}", written(low)),
        (None, None) => "not decided".to_owned(),
    }
}

fn interval(interval: Interval, told: impl Fn(f64) -> String) -> String {
    match (interval.low, interval.high) {
        (Some(low), Some(high)) => format!("{} ({} to {})", told(interval.value), told(low), told(high)),
        _ => told(interval.value),
    }
}

fn milliseconds(ms: f64) -> String {
    format!("{} ms", significant(ms))
}

/// Whether the full machine keeps the promise.
pub(super) fn promise(target: Target, limit_ms: f64, full: Option<Interval>, standing: SizeStanding) -> String {
    let percentile = target.percentile;
    let Some(full) = full else {
        return format!(
            "whether {target} is kept is not known: no window has enough requests for {percentile}; allow more time with --budget"
        );
    };
    let measured = interval(full, milliseconds);
    match standing {
        SizeStanding::Kept => format!("with everything {percentile} is {measured}, which keeps {target}"),
        SizeStanding::Broken => format!(
            "even with everything {percentile} is {measured}: the promise of {} needs a larger machine, or less load",
            milliseconds(limit_ms)
        ),
        SizeStanding::Undecided => {
            format!("with everything {percentile} is {measured}; noise hides whether that keeps {target}")
        }
    }
}

/// `with 1.25 cores, 256 MiB memory at once it keeps 0.93 (0.91 to 0.95) of full speed`.
pub(super) fn joint(setting: &BTreeMap<String, Value>, ratio: Interval, latency_ms: Option<Interval>) -> String {
    let one = |(key, written): (&String, &Value)| {
        let (name, unit) = of_key(key).map_or((key.as_str(), ""), |resource| (resource.name, resource.unit));
        let amount = amount(written, unit);
        if unit == name || unit.trim_end_matches('s') == name.trim_end_matches('s') {
            amount
        } else {
            format!("{name} {amount}")
        }
    };
    let limits: Vec<String> = setting.iter().map(one).collect();
    let limits: Vec<&str> = limits.iter().map(String::as_str).collect();
    let ratio = interval(ratio, |share| format!("{share:.2}"));
    let latency = latency_ms.map(|ms| format!(", at {}", interval(ms, milliseconds))).unwrap_or_default();
    format!("with {} at once it keeps {ratio} of full speed{latency} (measured)", list(&limits))
}

/// What twice the load would need.
pub(super) fn headroom(headroom: &Headroom, cores: usize) -> String {
    let mut parts = Vec::new();
    if let Some(ratio) = headroom.measured_ratio {
        let latency = headroom.measured_ms.map(|ms| format!(", at {}", interval(ms, milliseconds)));
        parts.push(format!(
            "with twice the {} it completes {} times as many requests{} (measured)",
            headroom.key,
            interval(ratio, |ratio| format!("{ratio:.2}")),
            latency.unwrap_or_default()
        ));
    }
    if let (Some(busy), Some(needed)) = (headroom.busy_cores, headroom.predicted_cores) {
        let verdict = if needed > cores as f64 { "more than this machine has" } else { "which this machine has" };
        parts.push(format!(
            "twice as many requests need {needed:.1} cores with their clients, {verdict} (predicted from {busy:.1} now)"
        ));
    }
    if parts.is_empty() {
        return "what twice the load needs was not measured: the time was over".to_owned();
    }
    parts.join("; ")
}

/// An amount of a machine in a catalogue: `1 core`, `2 GiB of memory`, `100 MB/s`.
pub(super) fn supply(key: &str, number: f64) -> String {
    match key {
        MEMORY_MIB => format!("{} of memory", bytes((number * f64::from(1 << 20)) as u64)),
        _ => amount(&plain_or_number(number), unit(key)),
    }
}

fn plain_or_number(number: f64) -> Value {
    if number.fract() == 0.0 { Value::from(number as u64) } else { Value::from(number) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sized(more_than: Option<Value>, at_most: Option<Value>, is_narrow: bool) -> String {
        sized_until(more_than, at_most, is_narrow, false)
    }

    fn sized_until(more_than: Option<Value>, at_most: Option<Value>, is_narrow: bool, is_open: bool) -> String {
        let level =
            |share| SizedLevel { share, more_than: more_than.clone(), at_most: at_most.clone(), is_narrow, is_open };
        let cores = SizedResource {
            key: "cpu_quota".to_owned(),
            name: "cores".to_owned(),
            unit: "cores".to_owned(),
            full: json!("unlimited"),
            full_amount: Some(2.0),
            levels: vec![level(Some(0.9)), level(Some(0.95))],
            trials: Vec::new(),
            why_not: None,
            sentence: String::new(),
        };
        let terms = SizingTerms { budget: Duration::from_secs(75), promise: None };
        resource(&cores, terms, 0.0)
    }

    #[test]
    fn there_is_always_an_answer() {
        let goals = "for 90 % of full speed and 95 % of full speed";
        let check = |found: String, expect: &str| assert_eq!(found, format!("cores: {expect} {goals}"));
        check(sized(Some(json!(0.5)), Some(json!(2)), false), "more than 0.5 cores and at most 2 cores");
        check(
            sized(Some(json!(1.75)), Some(json!("unlimited")), true),
            "more than 1.75 cores and at most the full 2 cores",
        );
        check(sized(None, Some(json!(0.1)), true), "0.1 cores is enough, the least that was tried,");
        check(
            sized(None, Some(json!("unlimited")), false),
            "at most the full 2 cores, since noise hides how much less would do,",
        );
    }

    /// Two blocks may show 1.04 (1.02 to 1.05) of full speed, and be too few to decide at an error of 1 %.
    #[test]
    fn time_that_was_over_is_not_called_a_need_for_everything() {
        let goals = "for 90 % of full speed and 95 % of full speed; more time would tell (--budget 5min)";
        let check = |found: String, expect: &str| assert_eq!(found, format!("cores: {expect} {goals}"));
        check(sized_until(None, Some(json!("unlimited")), false, true), "not decided");
        check(
            sized_until(Some(json!(0.75)), Some(json!("unlimited")), false, true),
            "more than 0.75 cores, and how much more is not decided,",
        );
        let narrowed = sized_until(Some(json!(0.75)), Some(json!(1.5)), false, true);
        assert!(!narrowed.contains("more time"), "a bracket is an answer: {narrowed}");
        assert_eq!(longer(BUDGET), "10min");
    }

    #[test]
    fn a_machine_that_is_too_small_is_named_with_both_numbers() {
        let target: Target = "p95 < 20ms".parse().expect("a target");
        let full = Interval { value: 31.2, low: Some(29.0), high: Some(33.0) };
        let told = promise(target, 20.0, Some(full), SizeStanding::Broken);
        assert_eq!(
            told,
            "even with everything p95 is 31.2 ms (29.0 ms to 33.0 ms): the promise of 20.0 ms needs a larger machine, or less load"
        );
    }

    #[test]
    fn limits_at_once_are_listed() {
        let setting = [("cpu_quota".to_owned(), json!(1)), ("work_mem".to_owned(), json!("64kB"))].into();
        let ratio = Interval { value: 0.93, low: Some(0.9), high: Some(0.96) };
        assert_eq!(
            joint(&setting, ratio, None),
            "with 1 core and work_mem 64kB at once it keeps 0.93 (0.90 to 0.96) of full speed (measured)"
        );
    }
}
