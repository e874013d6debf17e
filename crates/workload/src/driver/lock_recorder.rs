//! Records the lock waits and rollbacks of one class's requests, from which [`LockStatistics`] are computed.

use std::iter;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::lock_statistics::{Lengths, LockStatistics, MeanLength, ResponseByWaits, WaitHistograms};
use super::recorder::{EndedRequest, LATENCY_MAX};
use crate::database::LockWait;

/// Two significant digits, where latencies have three: each client has four of these histograms for each class, of 26 KiB
/// each instead of 188.
const DIGITS: u8 = 2;

/// A request to which something happened more often than this is counted as if it had happened this often.
const OCCURRENCES_MAX: usize = 100;

/// The record of a class, over its requests that ended inside the window, completed or given up, with all of their
/// attempts.
///
/// Histograms are of microseconds, have two significant digits and end at [`LATENCY_MAX`]; totals are exact.
#[derive(Debug, Clone)]
pub(super) struct LockRecorder {
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
    /// The QueueTimes of lock requests for which a holder was preempted (MW 3.8.4, *QueueTime | Preempt*).
    pub queue_time_if_preempted: Total,
    /// How many requests waited for no lock, for one, for two, … by position; position 100 includes those with more.
    pub requests_by_waits: Vec<u64>,
    /// How many requests were preempted never, once, twice, … by position; position 100 includes those with more.
    pub requests_by_preemptions: Vec<u64>,
    /// Response times of the completed requests that waited for no lock, for one, for two, for three or more.
    pub response_by_waits: [Total; 4],
    /// Sum of the response times of all these requests, those given up included.
    pub response_total: Duration,
    /// The last, successful attempts of completed requests: how long a transaction runs that is not rolled back.
    pub successful_attempts: Total,
    /// The age of each preempted attempt when the preemption was reported, without the rollback if its time is known,
    /// microseconds.
    pub work_lost_us: Histogram<u64>,
    /// The sum of these ages.
    pub work_lost: Total,
    /// Attempts rolled back as a deadlock's victim or for a more important transaction. A count.
    pub rollbacks: u64,
    /// Time spent on undoing their changes; `None` if the target does not report it.
    pub rollback_time: Option<Duration>,
}

/// A number of lengths of time and their sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Total {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub total: Duration,
}

impl Total {
    fn add(&mut self, length: Duration) {
        self.merge(&Total { count: 1, total: length });
    }

    fn merge(&mut self, other: &Total) {
        self.count += other.count;
        self.total += other.total;
    }
}

impl LockRecorder {
    /// Of no requests.
    pub(super) fn new() -> Self {
        let empty = Histogram::new_with_bounds(1, LATENCY_MAX.as_micros() as u64, DIGITS)
            .expect("bounds and digits are within its limits");
        LockRecorder {
            queue_time_us: empty.clone(),
            wait_excess_us: empty.clone(),
            wait_remainder_us: empty.clone(),
            queue_time_total: Duration::ZERO,
            wait_excess_total: Duration::ZERO,
            queue_time_if_preempted: Total::default(),
            requests_by_waits: Vec::new(),
            requests_by_preemptions: Vec::new(),
            response_by_waits: [Total::default(); 4],
            response_total: Duration::ZERO,
            successful_attempts: Total::default(),
            work_lost_us: empty,
            work_lost: Total::default(),
            rollbacks: 0,
            rollback_time: Some(Duration::ZERO),
        }
    }

    /// Notes down a request that ended inside the window and had these waits.
    pub(super) fn note(&mut self, request: &EndedRequest<'_>, waits: &[LockWait]) {
        waits.iter().for_each(|wait| self.note_wait(wait));
        count_in(&mut self.requests_by_waits, waits.len());
        count_in(&mut self.requests_by_preemptions, request.work_lost.len());
        let response = Duration::from_nanos(request.end - request.intended);
        self.response_total += response;
        if request.outcome.is_ok() {
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
        if wait.preempted {
            self.queue_time_if_preempted.add(wait.queue_time);
        }
    }

    /// Adds the record of another client, or of another class.
    pub(super) fn merge(&mut self, other: &LockRecorder) {
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
        self.queue_time_if_preempted.merge(&other.queue_time_if_preempted);
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
    pub(super) fn requests(&self) -> u64 {
        self.requests_by_waits.iter().sum()
    }

    /// The QueueTimes of lock requests for which no holder was preempted (MW 3.8.4, *QueueTime | Wait*).
    pub(super) fn queue_time_if_completed(&self) -> Total {
        let preempted = &self.queue_time_if_preempted;
        Total {
            count: self.queue_time_us.len() - preempted.count,
            total: self.queue_time_total.saturating_sub(preempted.total),
        }
    }

    /// Sum of all WaitRemainders.
    pub(super) fn wait_remainder_total(&self) -> Duration {
        self.queue_time_total.saturating_sub(self.wait_excess_total)
    }

    /// The record in figures.
    pub(super) fn statistics(&self) -> LockStatistics {
        let lengths = |histogram: &Histogram<u64>, total: Duration| Lengths::of(histogram, microseconds(total));
        let mean = |total: &Total| MeanLength::of(total.count, microseconds(total.total));
        let [none, one, two, more] = self.response_by_waits.each_ref().map(mean);
        LockStatistics {
            requests: self.requests(),
            requests_by_waits: self.requests_by_waits.clone(),
            requests_by_preemptions: self.requests_by_preemptions.clone(),
            response_by_waits: ResponseByWaits { none, one, two, more },
            response_s: self.response_total.as_secs_f64(),
            queue_time_us: lengths(&self.queue_time_us, self.queue_time_total),
            queue_time_if_preempted: mean(&self.queue_time_if_preempted),
            queue_time_if_completed: mean(&self.queue_time_if_completed()),
            wait_excess_us: lengths(&self.wait_excess_us, self.wait_excess_total),
            wait_remainder_us: lengths(&self.wait_remainder_us, self.wait_remainder_total()),
            rollbacks: self.rollbacks,
            rollback_s: self.rollback_time.map(|time| time.as_secs_f64()),
            work_lost_us: lengths(&self.work_lost_us, self.work_lost.total),
            successful_attempts: mean(&self.successful_attempts),
            queue_time_share: None,
            work_lost_share: None,
        }
        .with_shares()
    }

    /// The same in histograms.
    pub(super) fn into_histograms(self) -> WaitHistograms {
        WaitHistograms {
            queue_time_us: self.queue_time_us,
            wait_excess_us: self.wait_excess_us,
            wait_remainder_us: self.wait_remainder_us,
            work_lost_us: self.work_lost_us,
        }
    }
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Records a length in microseconds. A length below half a microsecond counts as 0.
fn record(histogram: &mut Histogram<u64>, length: Duration) {
    histogram.saturating_record(((length.as_nanos() + 500) / 1_000) as u64);
}

/// Counts one more request to which something happened `times` times.
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
