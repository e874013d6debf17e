//! What requests of one class met at locks: how often and how long they waited, and what was lost when they were rolled
//! back (MW 3.7).

use std::iter;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::recorder::{Ended, LATENCY_MAX};
use crate::database::LockWait;

/// Two significant digits, where latencies have three: each client has four of these histograms for each class, of 26 KiB
/// each instead of 188.
const DIGITS: u8 = 2;

/// Requests that had something happen to them more often than this are counted as if it had been this often.
const OCCURRENCES_MAX: usize = 100;

/// The lock statistics of a class, over its requests that ended inside the window, completed or given up, with all of their
/// attempts.
///
/// Histograms are of microseconds, have two significant digits and end at [`LATENCY_MAX`]; totals are exact.
#[derive(Debug, Clone)]
pub struct LockStatistics {
    /// QueueTime of each lock request that had to wait, microseconds.
    pub queue_time_us: Histogram<u64>,
    /// WaitExcess of each lock request that had to wait, microseconds: the part of its QueueTime that it waited for holders.
    pub wait_excess_us: Histogram<u64>,
    /// WaitRemainder of each lock request that had to wait, microseconds: the part of its QueueTime that it waited for other
    /// waiters.
    pub wait_remainder_us: Histogram<u64>,
    /// Sum of all QueueTimes.
    pub queue_time_total: Duration,
    /// Sum of all WaitExcesses.
    pub wait_excess_total: Duration,
    /// How many requests waited for no lock, for one, for two, … by position; the position 100 has those with more as well.
    pub requests_by_waits: Vec<u64>,
    /// How many requests were preempted never, once, twice, … by position; the position 100 has those with more as well.
    pub requests_by_preemptions: Vec<u64>,
    /// Response times of the completed requests that waited for no lock, for one, for two, for three or more.
    pub response_by_waits: [Lengths; 4],
    /// Sum of the response times of all these requests, those given up included.
    pub response_total: Duration,
    /// The last attempts of completed requests, the ones that got through: how long a transaction lives that nobody rolls back.
    pub successful_attempts: Lengths,
    /// How old each preempted attempt was when it was told, without the taking back where that is known, microseconds.
    pub work_lost_us: Histogram<u64>,
    /// The same, summed.
    pub work_lost: Lengths,
    /// Attempts rolled back as a deadlock's victim or for a more important transaction. A count.
    pub rollbacks: u64,
    /// Time spent on taking back their changes; `None` where the target cannot tell.
    pub rollback_time: Option<Duration>,
}

/// A number of lengths of time and their sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lengths {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub total: Duration,
}

impl Lengths {
    fn add(&mut self, length: Duration) {
        self.merge(&Lengths { count: 1, total: length });
    }

    fn merge(&mut self, other: &Lengths) {
        self.count += other.count;
        self.total += other.total;
    }

    /// Their mean, seconds; `None` of none.
    pub fn mean_s(&self) -> Option<f64> {
        (self.count > 0).then(|| self.total.as_secs_f64() / self.count as f64)
    }
}

impl LockStatistics {
    /// Of no requests.
    pub(super) fn new() -> Self {
        let empty = Histogram::new_with_bounds(1, LATENCY_MAX.as_micros() as u64, DIGITS)
            .expect("bounds and digits are within its limits");
        LockStatistics {
            queue_time_us: empty.clone(),
            wait_excess_us: empty.clone(),
            wait_remainder_us: empty.clone(),
            queue_time_total: Duration::ZERO,
            wait_excess_total: Duration::ZERO,
            requests_by_waits: Vec::new(),
            requests_by_preemptions: Vec::new(),
            response_by_waits: [Lengths::default(); 4],
            response_total: Duration::ZERO,
            successful_attempts: Lengths::default(),
            work_lost_us: empty,
            work_lost: Lengths::default(),
            rollbacks: 0,
            rollback_time: Some(Duration::ZERO),
        }
    }

    /// Notes down a request that ended inside the window and had these waits.
    pub(super) fn note(&mut self, request: &Ended<'_>, waits: &[LockWait]) {
        waits.iter().for_each(|wait| self.note_wait(wait));
        count_in(&mut self.requests_by_waits, waits.len());
        count_in(&mut self.requests_by_preemptions, request.work_lost.len());
        let response = Duration::from_nanos(request.end - request.intended);
        self.response_total += response;
        if request.outcome.is_some() {
            self.response_by_waits[waits.len().min(3)].add(response);
            self.successful_attempts.add(Duration::from_nanos(request.end - request.last_attempt));
        }
        for lost in request.work_lost {
            record(&mut self.work_lost_us, *lost);
            self.work_lost.add(*lost);
        }
        self.rollbacks += u64::from(request.deadlocks + request.preemptions + request.conflicts);
        self.rollback_time = self.rollback_time.zip(request.rollback_time).map(|(sum, time)| sum + time);
    }

    fn note_wait(&mut self, wait: &LockWait) {
        record(&mut self.queue_time_us, wait.queue_time);
        record(&mut self.wait_excess_us, wait.excess);
        record(&mut self.wait_remainder_us, wait.queue_time.saturating_sub(wait.excess));
        self.queue_time_total += wait.queue_time;
        self.wait_excess_total += wait.excess;
    }

    /// Takes in what another client, or another class, has.
    pub(super) fn merge(&mut self, other: &LockStatistics) {
        let histograms = [
            (&mut self.queue_time_us, &other.queue_time_us),
            (&mut self.wait_excess_us, &other.wait_excess_us),
            (&mut self.wait_remainder_us, &other.wait_remainder_us),
            (&mut self.work_lost_us, &other.work_lost_us),
        ];
        for (sum, part) in histograms {
            sum.add(part).expect("all of them have the same bounds");
        }
        self.queue_time_total += other.queue_time_total;
        self.wait_excess_total += other.wait_excess_total;
        add_up(&mut self.requests_by_waits, &other.requests_by_waits);
        add_up(&mut self.requests_by_preemptions, &other.requests_by_preemptions);
        self.response_by_waits.iter_mut().zip(&other.response_by_waits).for_each(|(sum, part)| sum.merge(part));
        self.response_total += other.response_total;
        self.successful_attempts.merge(&other.successful_attempts);
        self.work_lost.merge(&other.work_lost);
        self.rollbacks += other.rollbacks;
        self.rollback_time = self.rollback_time.zip(other.rollback_time).map(|(sum, part)| sum + part);
    }

    /// How many requests these are.
    pub fn requests(&self) -> u64 {
        self.requests_by_waits.iter().sum()
    }

    /// Lock requests that had to wait. A count.
    pub fn waits(&self) -> u64 {
        self.queue_time_us.len()
    }

    /// Sum of all WaitRemainders.
    pub fn wait_remainder_total(&self) -> Duration {
        self.queue_time_total.saturating_sub(self.wait_excess_total)
    }

    /// QueueTime as a share of response time, 0 to 1; `None` if no request ended.
    pub fn queue_time_share(&self) -> Option<f64> {
        let response = self.response_total.as_secs_f64();
        (response > 0.0).then(|| self.queue_time_total.as_secs_f64() / response)
    }

    /// Mean age of a preempted attempt as a fraction of the mean length of those that got through; `None` if nobody was
    /// preempted, or nobody got through.
    pub fn work_lost_share(&self) -> Option<f64> {
        Some(self.work_lost.mean_s()? / self.successful_attempts.mean_s().filter(|mean| *mean > 0.0)?)
    }
}

/// Records a length in microseconds. What happens within the same microsecond is 0.
fn record(histogram: &mut Histogram<u64>, length: Duration) {
    histogram.saturating_record(((length.as_nanos() + 500) / 1_000) as u64);
}

/// Counts one more request to which something happened so often.
fn count_in(requests: &mut Vec<u64>, times: usize) {
    let times = times.min(OCCURRENCES_MAX);
    if times >= requests.len() {
        requests.resize(times + 1, 0);
    }
    requests[times] += 1;
}

fn add_up(sum: &mut Vec<u64>, part: &[u64]) {
    let missing = part.len().saturating_sub(sum.len());
    sum.extend(iter::repeat_n(0, missing));
    sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
}

#[cfg(test)]
mod tests;
