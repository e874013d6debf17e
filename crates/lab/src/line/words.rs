//! The line in a sentence.

use crate::results::{Interval, Isolation, KeptShare, Line, LineStanding};
use plimsoll_display::percent;

/// The best measured setting: the one that most certainly keeps the bound. Of several that keep it, the one at which
/// the others keep most.
pub(super) fn best(tried: &[Isolation]) -> Option<usize> {
    let own = |one: &Isolation| one.kept.first().map_or(0.0, least);
    let others = |one: &Isolation| one.kept.iter().skip(1).map(|kept| kept.throughput.value).sum::<f64>();
    let worth = |one: &Isolation| match one.standing {
        Some(LineStanding::Kept) => others(one),
        _ => own(one),
    };
    let measured = tried.iter().enumerate().filter(|(_, one)| one.standing.is_some());
    // Of equal settings the first, which is the study's own.
    let best = measured.max_by(|(at_a, a), (at_b, b)| {
        a.standing.cmp(&b.standing).then(worth(a).total_cmp(&worth(b))).then(at_b.cmp(at_a))
    });
    best.map(|(at, _)| at)
}

/// The smallest share that a workload keeps, of its throughput and of its p95.
fn least(kept: &KeptShare) -> f64 {
    kept.p95.map_or(kept.throughput.value, |p95| p95.value.min(kept.throughput.value))
}

/// `0.93 (0.90 to 0.96)`.
pub(crate) fn told(interval: Interval) -> String {
    match interval.low.zip(interval.high) {
        Some((low, high)) => format!("{:.2} ({low:.2} to {high:.2})", interval.value),
        None => format!("{:.2} (spread unknown)", interval.value),
    }
}

/// The conclusion.
pub(super) fn sentence(line: &Line) -> String {
    let Line { protect, slo, tried, best, .. } = line;
    let part = percent(*slo);
    let Some((at, best)) = best.map(|at| (at, &tried[at])) else {
        return format!("Whether {protect} can keep {part} of its speed alone was not measured.");
    };
    let figures = figures(best);
    let with = if at == 0 { "Beside the others as they are".to_owned() } else { format!("With {}", best.words) };
    let nothing = if tried.iter().skip(1).any(|one| one.standing.is_some()) {
        format!("Nothing that was measured lets {protect} keep {part} of its speed alone")
    } else if tried.len() > 1 {
        format!("{protect} does not keep {part} of its speed alone, and nothing that would isolate it was measured")
    } else {
        format!(
            "{protect} does not keep {part} of its speed alone, and this target has nothing to isolate it that a study can set"
        )
    };
    match best.standing {
        Some(LineStanding::Kept) if at == 0 => format!("{with}, {figures}: nothing needs isolating."),
        Some(LineStanding::Kept) => format!("{with}, {figures}."),
        Some(LineStanding::Undecided) => {
            format!("Whether {protect} keeps {part} of its speed alone is undecided. {with}, {figures}.")
        }
        _ if at == 0 => format!("{nothing}. Beside the others as they are, {figures}."),
        _ => format!("{nothing}. The best is {}: {figures}.", best.words),
    }
}

/// `oltp keeps 0.93 (0.90 to 0.96) of its throughput alone, its p95 being 1.05 (1.02 to 1.08) times as long, and olap keeps …`.
fn figures(one: &Isolation) -> String {
    let of = |(at, kept): (usize, &KeptShare)| {
        let keeps = format!("{} keeps {} of its throughput alone", kept.workload, told(kept.throughput));
        let p95 = kept.p95.filter(|_| at == 0).map(|p95| {
            let longer = Interval {
                value: 1.0 / p95.value,
                low: p95.high.map(|end| 1.0 / end),
                high: p95.low.map(|end| 1.0 / end),
            };
            format!(" with a p95 {} times as long", told(longer))
        });
        format!("{keeps}{}", p95.unwrap_or_default())
    };
    let all: Vec<String> = one.kept.iter().enumerate().map(of).collect();
    all.join(", and ")
}
