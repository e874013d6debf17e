//! Throughput together over throughput alone, at an equal mix of request kinds.
//!
//! Where kinds differ in cost, as the queries of TPC-H do, two windows of the same sequence hold different mixes, and the
//! ratio of their totals would compare cheap queries with dear ones. Weighting each kind's throughput with what one
//! request of it takes alone turns both totals into the same unit, seconds of work as it is alone per second:
//!
//! ```text
//! ratio = sum over kinds of (X_together * T_alone) / sum over kinds of (X_alone * T_alone)
//! ```
//! with X the throughput and T the mean latency of the kind. If every kind is slowed by the same factor f, the ratio is
//! 1 / f whatever the mixes, for clients that never pause.

use std::collections::BTreeMap;

use crate::results::WorkloadResult;

/// Throughput together over throughput alone at an equal mix, each a mean over the repeats given. `None` if nothing ran
/// alone, or if a kind ran whose latency alone is not known because no request of it completed there.
pub fn equal_mix_ratio(alone: &[&WorkloadResult], together: &[&WorkloadResult]) -> Option<f64> {
    let costs = mean_latencies(alone);
    let (alone, together) = (work(alone, &costs)?, work(together, &costs)?);
    (alone > 0.0).then(|| together / alone)
}

/// Mean latency of each kind over all repeats, in microseconds.
fn mean_latencies<'a>(repeats: &[&'a WorkloadResult]) -> BTreeMap<&'a str, f64> {
    let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (kind, part) in repeats.iter().flat_map(|repeat| &repeat.transactions) {
        let Some(latency) = part.latency_us else { continue };
        let (total, count) = sums.entry(kind).or_default();
        *total += latency.mean * part.completed as f64;
        *count += part.completed as f64;
    }
    sums.into_iter().map(|(kind, (total, count))| (kind, total / count)).collect()
}

/// Throughput weighted with cost, mean over repeats; `None` if a cost is unknown or there is no repeat.
fn work(repeats: &[&WorkloadResult], costs: &BTreeMap<&str, f64>) -> Option<f64> {
    let mut sum = 0.0;
    for (kind, part) in repeats.iter().flat_map(|repeat| &repeat.transactions) {
        if part.throughput_per_s > 0.0 {
            sum += part.throughput_per_s * costs.get(kind.as_str())?;
        }
    }
    (!repeats.is_empty()).then(|| sum / repeats.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Aborted, Latency, Part};

    /// A result of one client that ran so many requests of kinds of such latency, back to back for a second.
    fn result(kinds: &[(&str, u64, f64)]) -> WorkloadResult {
        let part = |(kind, completed, mean): &(&str, u64, f64)| {
            let latency =
                Latency { mean: *mean, p50: None, p90: None, p95: None, p99: None, p999: None, max: *mean as u64 };
            let part = Part {
                completed: *completed,
                throughput_per_s: (*completed).max(1) as f64,
                latency_us: (*completed > 0).then_some(latency),
            };
            ((*kind).to_owned(), part)
        };
        WorkloadResult {
            name: "olap".to_owned(),
            kind: "tpch".to_owned(),
            clients: 1,
            completed: 0,
            throughput_per_s: 0.0,
            aborted: Aborted::default(),
            latency_us: None,
            latency_distribution: Vec::new(),
            classes: BTreeMap::new(),
            transactions: kinds.iter().map(part).collect(),
            time_share: None,
            locks: None,
            counters: None,
        }
    }

    #[test]
    fn a_common_slowdown_shows_whatever_the_mixes_are() {
        // Alone: 8 cheap and 2 dear; together everything takes twice as long, and the window holds other kinds.
        let alone = result(&[("cheap", 8, 25_000.0), ("dear", 2, 400_000.0)]);
        let together = result(&[("cheap", 4, 50_000.0), ("dear", 1, 800_000.0)]);
        let only_cheap = result(&[("cheap", 20, 50_000.0)]);
        assert_eq!(equal_mix_ratio(&[&alone], &[&together]), Some(0.5));
        assert_eq!(equal_mix_ratio(&[&alone], &[&only_cheap]), Some(0.5));
        assert_eq!(equal_mix_ratio(&[&alone, &alone], &[&together, &only_cheap]), Some(0.5));
        // The ratio of totals would have said twice as fast.
        assert_eq!(only_cheap.transactions["cheap"].completed, 2 * (8 + 2));
    }

    #[test]
    fn what_cannot_be_weighed_is_not_guessed() {
        let alone = result(&[("cheap", 8, 25_000.0)]);
        let begun = result(&[("cheap", 8, 25_000.0), ("dear", 0, 0.0)]);
        assert_eq!(equal_mix_ratio(&[&alone], &[&begun]), None);
        assert_eq!(equal_mix_ratio(&[], &[&alone]), None);
        assert_eq!(equal_mix_ratio(&[&alone], &[]), None);
    }
}
