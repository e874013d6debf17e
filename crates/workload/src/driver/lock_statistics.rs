//! Lock waits and rollbacks of requests: how often and how long they waited, and how much work rollbacks lost (MW 3.7).

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::latency::Latency;

/// Lengths of time at locks, microseconds, with two significant digits: complete histograms, which can be merged with
/// those of other windows.
#[derive(Debug, Clone)]
pub struct WaitHistograms {
    /// QueueTime of each lock request that had to wait.
    pub queue_time_us: Histogram<u64>,
    /// WaitExcess of each.
    pub wait_excess_us: Histogram<u64>,
    /// WaitRemainder of each.
    pub wait_remainder_us: Histogram<u64>,
    /// The age of each attempt that was preempted.
    pub work_lost_us: Histogram<u64>,
}

/// The lock statistics of a class, over its requests that ended inside the window, completed or given up, with all of their
/// attempts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LockStatistics {
    /// How many requests these are.
    pub requests: u64,
    /// How many requests waited for no lock, for one, for two, … by position; position 100 includes those with more.
    pub requests_by_waits: Vec<u64>,
    /// How many requests were preempted never, once, twice, … by position; position 100 includes those with more.
    pub requests_by_preemptions: Vec<u64>,
    /// Response times of the completed requests by the number of locks that they waited for.
    pub response_by_waits: ResponseByWaits,
    /// Sum of the response times of all requests, seconds.
    pub response_s: f64,
    /// QueueTime as a share of response time, 0 to 1; `None` if no request ended.
    pub queue_time_share: Option<f64>,
    /// QueueTime of each lock request that had to wait: from asking until it was granted or refused.
    pub queue_time_us: Lengths,
    /// QueueTime of those for which a holder of the lock was preempted (MW 3.8.4).
    #[serde(default)]
    pub queue_time_if_preempted: MeanLength,
    /// QueueTime of the others, whose holders completed or rolled back for another reason.
    #[serde(default)]
    pub queue_time_if_completed: MeanLength,
    /// WaitExcess of each: the part of QueueTime spent on holders of the lock.
    pub wait_excess_us: Lengths,
    /// WaitRemainder of each: the part of QueueTime spent on others in the queue.
    pub wait_remainder_us: Lengths,
    /// Attempts rolled back as a deadlock's victim, for a more important transaction or after a conflict. A count.
    pub rollbacks: u64,
    /// Time spent on undoing their changes, seconds; `None` if the target does not report it.
    pub rollback_s: Option<f64>,
    /// The age of each preempted attempt when the preemption was reported; its count is that of preemptions.
    pub work_lost_us: Lengths,
    /// Mean age of a preempted attempt over the mean length of successful ones; `None` if no attempt was preempted, or
    /// none succeeded.
    pub work_lost_share: Option<f64>,
    /// The last, successful attempts of completed requests.
    pub successful_attempts: MeanLength,
}

/// Response times of completed requests by the number of locks that they waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ResponseByWaits {
    /// Of those that waited for none.
    #[serde(rename = "0")]
    pub none: MeanLength,
    /// Of those that waited for one.
    #[serde(rename = "1")]
    pub one: MeanLength,
    /// Of those that waited for two.
    #[serde(rename = "2")]
    pub two: MeanLength,
    /// Of those that waited for three or more.
    #[serde(rename = "3+")]
    pub more: MeanLength,
}

/// Lengths of time of which only the mean is recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct MeanLength {
    /// How many.
    pub count: u64,
    /// Their mean, microseconds; `None` of none.
    pub mean_us: Option<f64>,
}

/// Lengths of time in microseconds. A percentile is `None` if there are fewer than 1 / (1 - q) lengths, or if runs were
/// merged without their histograms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Lengths {
    /// How many.
    pub count: u64,
    /// Arithmetic mean, exact where percentiles are rounded; `None` of none.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<u64>,
    /// 90th percentile.
    pub p90: Option<u64>,
    /// 95th percentile.
    pub p95: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// Largest; `None` of none.
    pub max: Option<u64>,
}

impl MeanLength {
    /// The mean of `count` lengths with that sum.
    pub fn of(count: u64, total_us: f64) -> Self {
        MeanLength { count, mean_us: (count > 0).then(|| total_us / count as f64) }
    }

    /// Their sum, microseconds.
    fn total_us(&self) -> f64 {
        self.mean_us.unwrap_or(0.0) * self.count as f64
    }

    /// All of them as one.
    pub fn merged(parts: impl IntoIterator<Item = MeanLength>) -> Self {
        let (count, total) =
            parts.into_iter().fold((0, 0.0), |(count, total), part| (count + part.count, total + part.total_us()));
        MeanLength::of(count, total)
    }
}

impl Lengths {
    /// The figures of a histogram of microseconds whose exact sum is `total_us`.
    pub fn of(histogram: &Histogram<u64>, total_us: f64) -> Self {
        Lengths { mean: MeanLength::of(histogram.len(), total_us).mean_us, ..Lengths::default() }
            .with_percentiles(Some(histogram))
    }

    /// The same with percentiles and extent of a histogram of all of them.
    pub fn with_percentiles(self, histogram: Option<&Histogram<u64>>) -> Self {
        let Some((histogram, figures)) = histogram.and_then(|of| Some((of, Latency::of(of)?))) else {
            return self;
        };
        let Latency { p50, p90, p95, p99, max, .. } = figures;
        Lengths { count: histogram.len(), mean: self.mean, p50, p90, p95, p99, max: Some(max) }
    }

    /// All of them as one, without percentiles, which cannot be merged.
    fn merged<'a>(parts: impl Iterator<Item = &'a Lengths> + Clone) -> Self {
        let means = parts.clone().map(|part| MeanLength { count: part.count, mean_us: part.mean });
        let MeanLength { count, mean_us } = MeanLength::merged(means);
        Lengths { count, mean: mean_us, max: parts.filter_map(|part| part.max).max(), ..Lengths::default() }
    }
}

impl LockStatistics {
    /// Several runs or classes as one: counts and times are added up, means weighted by their counts. Percentiles are
    /// left out; [`Lengths::with_percentiles`] computes them from histograms.
    pub fn merged(parts: &[&LockStatistics]) -> LockStatistics {
        let counts = |of: fn(&LockStatistics) -> &Vec<u64>| {
            let length = parts.iter().map(|part| of(part).len()).max().unwrap_or(0);
            let at = |times| parts.iter().filter_map(|part| of(part).get(times)).sum::<u64>();
            (0..length).map(at).collect::<Vec<u64>>()
        };
        let lengths = |of: fn(&LockStatistics) -> &Lengths| Lengths::merged(parts.iter().map(|part| of(part)));
        let means = |of: fn(&LockStatistics) -> MeanLength| MeanLength::merged(parts.iter().map(|part| of(part)));
        LockStatistics {
            requests: parts.iter().map(|part| part.requests).sum(),
            requests_by_waits: counts(|part| &part.requests_by_waits),
            requests_by_preemptions: counts(|part| &part.requests_by_preemptions),
            response_by_waits: ResponseByWaits {
                none: means(|part| part.response_by_waits.none),
                one: means(|part| part.response_by_waits.one),
                two: means(|part| part.response_by_waits.two),
                more: means(|part| part.response_by_waits.more),
            },
            response_s: parts.iter().map(|part| part.response_s).sum(),
            queue_time_us: lengths(|part| &part.queue_time_us),
            queue_time_if_preempted: means(|part| part.queue_time_if_preempted),
            queue_time_if_completed: means(|part| part.queue_time_if_completed),
            wait_excess_us: lengths(|part| &part.wait_excess_us),
            wait_remainder_us: lengths(|part| &part.wait_remainder_us),
            rollbacks: parts.iter().map(|part| part.rollbacks).sum(),
            rollback_s: parts.iter().map(|part| part.rollback_s).sum(),
            work_lost_us: lengths(|part| &part.work_lost_us),
            successful_attempts: means(|part| part.successful_attempts),
            queue_time_share: None,
            work_lost_share: None,
        }
        .with_shares()
    }

    /// The same with the shares that follow from the rest.
    pub fn with_shares(mut self) -> Self {
        let queued = self.queue_time_us.mean.unwrap_or(0.0) * self.queue_time_us.count as f64 / 1e6;
        self.queue_time_share = (self.response_s > 0.0).then(|| queued / self.response_s);
        let life = self.successful_attempts.mean_us.filter(|mean| *mean > 0.0);
        self.work_lost_share = self.work_lost_us.mean.zip(life).map(|(lost, life)| lost / life);
        self
    }

    /// Lock requests that had to wait. A count.
    pub fn waits(&self) -> u64 {
        self.queue_time_us.count
    }

    /// Attempts rolled back for a more important transaction. A count.
    pub fn preemptions(&self) -> u64 {
        self.work_lost_us.count
    }

    /// So many per request; `None` if there were no requests.
    pub fn per_request(&self, count: u64) -> Option<f64> {
        (self.requests > 0).then(|| count as f64 / self.requests as f64)
    }

    /// Mean time that a rollback took, microseconds; `None` if there was none, or the target does not report it.
    pub fn mean_rollback_us(&self) -> Option<f64> {
        self.rollback_s.filter(|_| self.rollbacks > 0).map(|total| total * 1e6 / self.rollbacks as f64)
    }
}

/// The share of requests to which something happened at least `from` times, and at most `to` times if given.
pub fn share_of(requests: &[u64], from: usize, to: Option<usize>) -> Option<f64> {
    let all: u64 = requests.iter().sum();
    let end = to.map_or(requests.len(), |to| (to + 1).min(requests.len()));
    let counted: u64 = requests.get(from..end).unwrap_or_default().iter().sum();
    (all > 0).then(|| counted as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(values: &[u64]) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000, 2).expect("sound bounds");
        values.iter().for_each(|value| histogram.record(*value).expect("within bounds"));
        histogram
    }

    /// Requests that each waited once, for `excess` µs for holders and as long again for other waiters.
    fn run(requests: u64, excess: u64) -> LockStatistics {
        let of = |us: u64| {
            let waits = vec![us; requests as usize];
            Lengths::of(&histogram(&waits), (us * requests) as f64)
        };
        LockStatistics {
            requests,
            requests_by_waits: vec![0, requests],
            requests_by_preemptions: vec![requests],
            response_s: (requests * excess * 4) as f64 / 1e6,
            queue_time_us: of(2 * excess),
            queue_time_if_preempted: MeanLength::of(requests / 10, (requests / 10 * 6 * excess) as f64),
            wait_excess_us: of(excess),
            wait_remainder_us: of(excess),
            rollback_s: Some(0.5),
            ..LockStatistics::default()
        }
        .with_shares()
    }

    #[test]
    fn lengths_have_exact_means_and_percentiles_of_enough() {
        let values: Vec<u64> = (0..40).collect();
        let lengths = Lengths::of(&histogram(&values), 790.0);
        assert_eq!((lengths.count, lengths.mean, lengths.p50, lengths.p90), (40, Some(19.75), Some(19), None));
        assert_eq!(Lengths::of(&histogram(&[]), 0.0), Lengths::default());
    }

    #[test]
    fn runs_add_up_and_means_weigh_by_what_they_are_of() {
        let (few, many) = (run(10, 400), run(30, 80));
        let all = LockStatistics::merged(&[&few, &many]);
        assert_eq!((all.requests, all.waits(), &all.requests_by_waits), (40, 40, &vec![0, 40]));
        assert_eq!((all.wait_excess_us.mean, all.queue_time_us.mean), (Some(160.0), Some(320.0)));
        assert_eq!(
            (all.queue_time_us.p50, all.queue_time_us.max),
            (None, few.queue_time_us.max),
            "no mean of percentiles"
        );
        assert_eq!(all.queue_time_if_preempted, MeanLength::of(4, 4.0 * 960.0), "(2400 + 3 * 480) / 4");
        assert!((all.queue_time_share.expect("requests ended") - 0.5).abs() < 1e-12);
        assert_eq!(all.rollback_s, Some(1.0));
        let mute = LockStatistics { rollback_s: None, ..run(1, 1) };
        assert_eq!(LockStatistics::merged(&[&few, &mute]).rollback_s, None, "of a part it would be too little");
        let uneven = LockStatistics { requests_by_waits: vec![3, 0, 0, 1], ..LockStatistics::default() };
        assert_eq!(LockStatistics::merged(&[&uneven, &few]).requests_by_waits, [3, 10, 0, 1]);
        assert_eq!(LockStatistics::merged(&[]), LockStatistics { rollback_s: Some(0.0), ..LockStatistics::default() });
    }

    #[test]
    fn shares_are_of_all_requests() {
        let check = |from, to, expect| assert_eq!(share_of(&[5, 3, 0, 2], from, to), expect, "{from} to {to:?}");
        check(0, Some(0), Some(0.5));
        check(1, None, Some(0.5));
        check(3, None, Some(0.2));
        check(2, Some(9), Some(0.2));
        check(7, None, Some(0.0));
        check(7, Some(7), Some(0.0));
        assert_eq!(share_of(&[], 0, None), None);
    }
}
