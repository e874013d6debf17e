//! Advice for the reader, in at most four sentences; each carries the numbers it rests on.

use super::compare::{Blur, REQUESTS_MIN, UNREPEATED_NOISE, Verdict, verdict};
use super::{Tail, Workload};
use crate::results::Interval;
use plimsoll_display::{fine_percent, latency_told, list, percent, rate};

mod cause;

use cause::Cause;

const SENTENCES_MAX: usize = 4;

/// Undecided workloads come first, then the worst harmed one, then its cause, then the others, then whether sharing is
/// worthwhile.
pub(super) fn advice(workloads: &[Workload], side_by_side: Option<Interval>) -> Vec<String> {
    if workloads.is_empty() {
        return vec!["There are no results: 0 points were measured.".to_string()];
    }
    let mut by_harm = workloads.iter().map(|workload| (workload, verdict(workload))).collect::<Vec<_>>();
    by_harm.sort_by(|a, b| harm(b.0, b.1).total_cmp(&harm(a.0, a.1)));
    if by_harm.iter().all(|(workload, verdict)| is_unharmed(workload, *verdict)) && workloads.len() > 1 {
        return vec![no_difference(workloads)];
    }
    let mut sentences = Vec::new();
    let mut causes_told: Vec<std::mem::Discriminant<Cause>> = Vec::new();
    for (workload, verdict) in by_harm {
        let others = workloads.iter().map(|w| w.name).filter(|&name| name != workload.name).collect::<Vec<_>>();
        if is_not_compared(workload) {
            continue;
        }
        sentences.push(effect(workload, verdict, &list(&others)));
        if is_unharmed(workload, verdict) || !matches!(verdict, Verdict::Slower | Verdict::NoDifference(_)) {
            continue;
        }
        if let Some(cause) = Cause::of(workload) {
            let kind = std::mem::discriminant(&cause);
            if !causes_told.contains(&kind) {
                causes_told.push(kind);
                sentences.push(cause.sentence(workload.name, &list(&others)));
            }
        }
    }
    sentences.extend(side_by_side.filter(|_| is_decided(workloads)).and_then(taking_turns));
    sentences.truncate(SENTENCES_MAX);
    sentences
}

/// Sorts the worst first: too few requests, stopped, slowed (by how much), longer latency, not measured.
fn harm(workload: &Workload, verdict: Verdict) -> f64 {
    match verdict {
        Verdict::TooFew(_) => 4.0,
        Verdict::Stopped => 3.0,
        Verdict::Slower => 2.0 - workload.interference.map_or(0.0, |i| i.value),
        Verdict::NoDifference(_) if !is_unharmed(workload, verdict) => 0.9,
        Verdict::Unclear => 0.85,
        Verdict::NotMeasured(_) | Verdict::IdleAlone => 0.8,
        Verdict::NoDifference(_) => 0.5,
        Verdict::Faster => 0.0,
    }
}

/// Whether a workload has no run alone to be compared with: `bench` runs the mix only.
fn is_not_compared(workload: &Workload) -> bool {
    workload.alone.runs.is_empty() && workload.alone.left_out == 0
}

fn is_unharmed(workload: &Workload, verdict: Verdict) -> bool {
    matches!(verdict, Verdict::NoDifference(_)) && !Tail::of(workload).is_some_and(|tail| tail.grew())
}

/// Whether each workload has enough measurements to add up their work.
fn is_decided(workloads: &[Workload]) -> bool {
    workloads.iter().all(|workload| !matches!(verdict(workload), Verdict::TooFew(_)))
}

/// Seeing no difference does not prove that there is none; the text says how large a loss the measurement excludes.
fn no_difference(workloads: &[Workload]) -> String {
    let told = |workload: &Workload| {
        let ratio = workload.interference.map_or(1.0, |i| i.value);
        format!("{} keeps {ratio:.2} of its throughput alone{}", workload.name, within(workload))
    };
    format!("No difference seen: {}.", workloads.iter().map(told).collect::<Vec<_>>().join("; "))
}

/// The bound above which the 95 % interval excludes a loss of throughput, 0 to 1; `None` without one. If repeats agree
/// by counting the same few requests, a loss of one request cannot be excluded.
fn loss_excluded(workload: &Workload) -> Option<f64> {
    let completed = [&workload.alone, &workload.together].into_iter().filter_map(|arm| arm.completed_min()).min()?;
    let low = workload.interference?.low?;
    Some((1.0 - low).clamp(1.0 / completed.max(1) as f64, 1.0))
}

/// The bound above which a loss is excluded, or why that is not known.
fn within(workload: &Workload) -> String {
    if verdict(workload) == Verdict::NoDifference(Blur::OneRepeat) {
        return format!(" (1 repeat, which cannot show less than {})", percent(UNREPEATED_NOISE));
    }
    let Some(loss) = loss_excluded(workload) else { return String::new() };
    let floor = workload.noise_floor.map_or_else(String::new, |floor| format!(", noise floor {}", fine_percent(floor)));
    format!(", and a loss above {} is excluded (95 % interval{floor})", fine_percent(loss))
}

/// The effect on one workload.
fn effect(workload: &Workload, verdict: Verdict, others: &str) -> String {
    let name = workload.name;
    let beside = if others.is_empty() { String::new() } else { format!("Beside {others}, ") };
    let throughput = |arm: &super::Arm| arm.throughput().map_or_else(String::new, |mean| rate(mean.value));
    let (alone, together) = (throughput(&workload.alone), throughput(&workload.together));
    let ratio = workload.interference.map_or(1.0, |i| i.value);
    match verdict {
        Verdict::NotMeasured(arm) => {
            let left_out = workload.alone.left_out + workload.together.left_out;
            format!("{name}: no result, because 0 of its runs {arm} are valid ({left_out} left out).")
        }
        Verdict::IdleAlone => {
            format!("{name}: no result, because it completed 0 requests alone; measure longer.")
        }
        Verdict::TooFew(completed) => format!(
            "Undecided: {name} completed as few as {completed} requests in a window, and {REQUESTS_MIN} are needed to tell what sharing does to it; measure longer, or with smaller data."
        ),
        Verdict::Stopped => format!("{beside}{name} completes 0 requests, against {alone} alone."),
        Verdict::Slower => {
            let worse = Tail::of(workload).filter(|tail| tail.together.value > tail.alone.value);
            let tail = worse.map_or_else(String::new, |tail| {
                let (alone, together) = (latency_told(tail.alone.value), latency_told(tail.together.value));
                format!(", {} latency {together} instead of {alone}", tail.name)
            });
            let spread = spread(workload);
            format!(
                "{beside}{name} runs at {ratio:.2} of its speed alone: {together} instead of {alone}{tail}{spread}."
            )
        }
        Verdict::Faster => format!(
            "{beside}{name} runs at {ratio:.2} of its speed alone{}: sharing rarely speeds work up, so ask what else changed between its runs.",
            spread(workload)
        ),
        Verdict::Unclear => format!(
            "Undecided: {name} ran at {ratio:.2} of its speed alone{}, but a difference of this size could be noise; use more repeats, or measure on a quieter machine.",
            spread(workload)
        ),
        Verdict::NoDifference(_) => match Tail::of(workload).filter(Tail::grew) {
            Some(tail) => format!(
                "{beside}{name} keeps its throughput ({ratio:.2} of alone), but its {} latency grows {:.1} times, from {} to {}.",
                tail.name,
                tail.growth(),
                latency_told(tail.alone.value),
                latency_told(tail.together.value)
            ),
            None => format!("{name}: no difference seen, {ratio:.2} of its speed alone{}.", within(workload)),
        },
    }
}

/// The certainty of a ratio, in brackets.
fn spread(workload: &Workload) -> String {
    match (interval(workload), workload.noise_floor) {
        (Some(interval), Some(floor)) => format!(" ({interval}, noise floor {})", fine_percent(floor)),
        _ => " (1 repeat: noise unknown)".to_string(),
    }
}

/// `95 % interval 0.38 to 0.47`.
fn interval(workload: &Workload) -> Option<String> {
    let interference = workload.interference?;
    Some(format!("95 % interval {:.2} to {:.2}", interference.low?, interference.high?))
}

/// Whether sharing does more work than taking turns; nothing without an interval.
fn taking_turns(work: Interval) -> Option<String> {
    let (low, high) = work.low.zip(work.high)?;
    let told = format!("{:.2} times the work of taking turns (95 % interval {low:.2} to {high:.2})", work.value);
    Some(match (low > 1.0, high < 1.0) {
        (true, _) => format!("Side by side they do {told}."),
        (_, true) => format!("Side by side they do only {told}: run them one after the other."),
        _ => format!("Whether side by side they do more than by taking turns is undecided: {told}."),
    })
}
