//! Latency in figures, and as the points of a curve.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Latency in microseconds. A percentile is `None` if fewer than ten requests lie beyond it, or if runs were merged
/// without their histograms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: Option<u64>,
    /// 90th percentile.
    pub p90: Option<u64>,
    /// 95th percentile.
    pub p95: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// 99.9th percentile.
    pub p999: Option<u64>,
    /// Largest.
    pub max: u64,
}

/// Quantiles that draw a latency distribution: evenly spaced in the number of nines, where tails differ.
const QUANTILES: [f64; 23] = [
    0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998,
    0.999, 0.9999, 1.0,
];

/// How many requests must lie beyond a percentile, so that it does not depend on one of them.
const BEYOND_MIN: u64 = 10;

impl Latency {
    /// How many requests must have completed for this percentile to be reported.
    pub fn completed_min(quantile: f64) -> u64 {
        // The share beyond, 1.0 - 0.9 say, is a little less than a tenth.
        BEYOND_MIN * (1.0 / (1.0 - quantile)).round() as u64
    }

    /// Latency in figures; a percentile is reported only if ten requests lie beyond it.
    pub fn of(histogram: &Histogram<u64>) -> Option<Latency> {
        if histogram.is_empty() {
            return None;
        }
        let is_told = |quantile| histogram.len() >= Latency::completed_min(quantile);
        let percentile = |quantile| is_told(quantile).then(|| histogram.value_at_quantile(quantile));
        Some(Latency {
            mean: histogram.mean(),
            p50: percentile(0.5),
            p90: percentile(0.9),
            p95: percentile(0.95),
            p99: percentile(0.99),
            p999: percentile(0.999),
            max: histogram.max(),
        })
    }

    /// The points of the distribution that this number of requests supports.
    pub fn distribution(histogram: &Histogram<u64>) -> Vec<(f64, u64)> {
        let count = histogram.len() as f64;
        let known = QUANTILES
            .into_iter()
            .filter(|quantile| count > 0.0 && (*quantile == 1.0 || count * (1.0 - quantile) >= 1.0));
        known.map(|quantile| (quantile, histogram.value_at_quantile(quantile))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(count: u64) -> Histogram<u64> {
        let mut histogram = Histogram::new(3).expect("three digits");
        (1..=count).for_each(|value| histogram.record(value).expect("it grows"));
        histogram
    }

    #[test]
    fn percentiles_are_told_only_of_enough_requests() {
        let check = |count, expect: [Option<u64>; 5]| {
            let found = Latency::of(&histogram(count)).map(|l| [l.p50, l.p90, l.p95, l.p99, l.p999]);
            assert_eq!(found, (count > 0).then_some(expect), "{count}");
        };
        check(0, [None; 5]);
        check(1, [None; 5]);
        check(19, [None; 5]);
        check(20, [Some(10), None, None, None, None]);
        check(199, [Some(100), Some(180), None, None, None]);
        check(1000, [Some(500), Some(900), Some(950), Some(990), None]);
        let all = [5_000, 9_000, 9_500, 9_900, 9_990].map(|us| us as u64);
        let found = Latency::of(&histogram(10_000))
            .map(|l| [l.p50, l.p90, l.p95, l.p99, l.p999].map(Option::unwrap_or_default));
        let is_near = |(found, expect): (u64, u64)| found.abs_diff(expect) <= expect / 500;
        assert!(found.is_some_and(|found| found.into_iter().zip(all).all(is_near)), "{found:?}");
    }

    #[test]
    fn distributions_ascend_and_end_with_the_largest() {
        let points = Latency::distribution(&histogram(200));
        assert!(points.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{points:?}");
        assert_eq!(points.first(), Some(&(0.0, 1)));
        assert_eq!(points.last(), Some(&(1.0, 200)));
        assert!(points.iter().all(|(quantile, _)| ![0.998, 0.999, 0.9999].contains(quantile)), "{points:?}");
        assert_eq!(Latency::distribution(&histogram(0)), []);
    }
}
