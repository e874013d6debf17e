//! What a reader should know and do, in at most four sentences; each carries the numbers it rests on.

use super::compare::{Blur, UNREPEATED_NOISE, Verdict, verdict};
use super::{Tail, Workload};
use crate::units::{duration_us, fine_percent, list, percent, rate};

mod cause;

use cause::Cause;

const SENTENCES_MAX: usize = 4;

/// The worst harmed workload first, then why, then the others, then whether sharing pays at all.
pub(super) fn advice(workloads: &[Workload]) -> Vec<String> {
    if workloads.is_empty() {
        return vec!["Nothing can be said: there are 0 points.".to_string()];
    }
    let mut by_harm = workloads.iter().map(|workload| (workload, verdict(workload))).collect::<Vec<_>>();
    by_harm.sort_by(|a, b| harm(b.0, b.1).total_cmp(&harm(a.0, a.1)));
    if by_harm.iter().all(|(workload, verdict)| is_unharmed(workload, *verdict)) && workloads.len() > 1 {
        return vec![may_share(workloads)];
    }
    let mut sentences = Vec::new();
    let mut causes_told: Vec<std::mem::Discriminant<Cause>> = Vec::new();
    for (workload, verdict) in by_harm {
        let others = workloads.iter().map(|w| w.name).filter(|&name| name != workload.name).collect::<Vec<_>>();
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
    sentences.extend(taking_turns(workloads));
    sentences.truncate(SENTENCES_MAX);
    sentences
}

/// Sorts the worst first: what stopped, what slowed down by how much, whose latency grew, what could not be measured.
fn harm(workload: &Workload, verdict: Verdict) -> f64 {
    match verdict {
        Verdict::Stopped => 3.0,
        Verdict::Slower => 2.0 - workload.interference.map_or(0.0, |i| i.value),
        Verdict::NoDifference(_) if !is_unharmed(workload, verdict) => 0.9,
        Verdict::Unclear => 0.85,
        Verdict::NotMeasured(_) | Verdict::IdleAlone => 0.8,
        Verdict::NoDifference(_) => 0.5,
        Verdict::Faster => 0.0,
    }
}

fn is_unharmed(workload: &Workload, verdict: Verdict) -> bool {
    matches!(verdict, Verdict::NoDifference(_)) && !Tail::of(workload).is_some_and(|tail| tail.grew())
}

fn may_share(workloads: &[Workload]) -> String {
    let ratios = workloads.iter().map(|workload| {
        let ratio = workload.interference.map_or(1.0, |i| i.value);
        format!("{} keeps {ratio:.2} of its throughput alone{}", workload.name, within(workload))
    });
    format!("No difference seen, they may share this machine: {}.", ratios.collect::<Vec<_>>().join("; "))
}

/// Why a difference does not count, in brackets.
fn within(workload: &Workload) -> String {
    match verdict(workload) {
        Verdict::NoDifference(Blur::NoiseFloor(floor)) => format!(" (noise floor {})", fine_percent(floor)),
        Verdict::NoDifference(Blur::Interval) => {
            interval(workload).map_or_else(String::new, |told| format!(" ({told})"))
        }
        Verdict::NoDifference(Blur::FewRequests(completed)) => {
            format!(" (as few as {completed} completed in a window: measure longer)")
        }
        Verdict::NoDifference(Blur::OneRepeat) => {
            format!(" (1 repeat, which cannot tell less than {})", percent(UNREPEATED_NOISE))
        }
        _ => String::new(),
    }
}

/// What happened to one workload.
fn effect(workload: &Workload, verdict: Verdict, others: &str) -> String {
    let name = workload.name;
    let beside = if others.is_empty() { String::new() } else { format!("Beside {others}, ") };
    let throughput = |arm: &super::Arm| arm.throughput().map_or_else(String::new, |mean| rate(mean.value));
    let (alone, together) = (throughput(&workload.alone), throughput(&workload.together));
    let ratio = workload.interference.map_or(1.0, |i| i.value);
    match verdict {
        Verdict::NotMeasured(arm) => {
            let left_out = workload.alone.left_out + workload.together.left_out;
            format!("{name}: nothing can be said, for 0 of its runs {arm} are valid ({left_out} left out).")
        }
        Verdict::IdleAlone => {
            format!("{name}: nothing can be said, for it completed 0 requests alone; measure longer.")
        }
        Verdict::Stopped => format!("{beside}{name} completes 0 requests, against {alone} alone."),
        Verdict::Slower => {
            let worse = Tail::of(workload).filter(|tail| tail.together.value > tail.alone.value);
            let tail = worse.map_or_else(String::new, |tail| {
                let (alone, together) = (duration_us(tail.alone.value), duration_us(tail.together.value));
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
            "{name} ran at {ratio:.2} of its speed alone{}, but so much could be noise: repeat more often, or measure on a quieter machine.",
            spread(workload)
        ),
        Verdict::NoDifference(_) => match Tail::of(workload).filter(Tail::grew) {
            Some(tail) => format!(
                "{beside}{name} keeps its throughput ({ratio:.2} of alone), but its {} latency grows {:.1} times, from {} to {}.",
                tail.name,
                tail.growth(),
                duration_us(tail.alone.value),
                duration_us(tail.together.value)
            ),
            None => format!("{name}: no difference seen, {ratio:.2} of its speed alone{}.", within(workload)),
        },
    }
}

/// How sure a ratio is, in brackets.
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

/// The ratios of workloads that took turns would add up to 1, however the time is divided.
fn taking_turns(workloads: &[Workload]) -> Option<String> {
    let ratios = workloads.iter().map(|w| w.interference.map(|i| i.value)).collect::<Option<Vec<_>>>()?;
    if ratios.len() < 2 {
        return None;
    }
    let sum = ratios.iter().sum::<f64>();
    let terms = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect::<Vec<_>>().join(" + ");
    Some(if sum < 1.0 {
        format!(
            "Side by side they do only {sum:.2} ({terms}) of the work of taking turns: run them one after the other."
        )
    } else {
        format!("Side by side they do {sum:.2} times ({terms}) the work of taking turns.")
    })
}
