//! The work of a workload in each second of the window.

use std::time::Duration;

use super::clock::Nanos;
use super::measurement::AbortCounts;
use super::recorder::Bounds;

pub(super) const SECOND: Nanos = 1_000_000_000;

/// One second of the window; the last one may be shorter.
///
/// Counted like the whole window: requests by their end, work by the time in which it was done. Sums over all samples
/// are the window's totals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// When it begins, seconds after the window's opening.
    pub at_s: f64,
    /// Its length, seconds: 1 for all but perhaps the last.
    pub seconds: f64,
    /// Requests that ended in it, those that rolled themselves back as prescribed included.
    pub completed: u64,
    /// Requests weighted with the share of their time in it.
    pub work_done: f64,
    /// Per second: work done for an analytical benchmark, completed requests for all others.
    pub throughput_per_s: f64,
    /// Mean latency of the completed requests, microseconds, exact; `None` if none completed.
    pub latency_mean_us: Option<f64>,
    /// Largest latency of the completed requests, microseconds, exact; `None` if none completed.
    pub latency_max_us: Option<f64>,
    /// Attempts that failed or were rolled back, of requests that ended in it.
    pub aborted: AbortCounts,
    /// Seconds spent waiting for locks by requests that ended in it, even if they waited in other seconds; `None` if
    /// the target does not report it.
    pub lock_wait_s: Option<f64>,
}

/// The record of a client, or of a whole workload, for one second.
///
/// A client writes here at each request, so no two clients share a cache line, nor a pair of lines that is fetched at
/// once.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(128))]
pub(super) struct Second {
    /// Requests completed. A count.
    pub completed: u64,
    /// Requests weighted with the share of their time in this second.
    pub work_done: f64,
    /// Sum of the latencies of completed requests.
    pub latency_total: Nanos,
    /// The largest of them.
    pub latency_max: Nanos,
    /// Lock waits of requests that ended in it, as far as sessions report them.
    pub lock_wait: Nanos,
    /// The same of waits for devices.
    pub io_wait: Nanos,
    /// Attempts that failed or were rolled back.
    pub aborted: AbortCounts,
}

impl Second {
    /// Adds another recorder's figures of this second, or the same recorder's figures of another second.
    fn add(&mut self, other: &Second) {
        self.completed += other.completed;
        self.work_done += other.work_done;
        self.latency_total += other.latency_total;
        self.latency_max = self.latency_max.max(other.latency_max);
        self.lock_wait += other.lock_wait;
        self.io_wait += other.io_wait;
        self.aborted.add(&other.aborted);
    }
}

/// The seconds of a window, from its opening to the last one with a record.
#[derive(Debug, Clone, Default)]
pub(super) struct Seconds(Vec<Second>);

impl Seconds {
    /// The second of the window in which a moment inside it lies.
    #[inline]
    pub(super) fn at(&mut self, moment: Nanos, window: &Bounds) -> &mut Second {
        self.number(((moment - window.begin) / SECOND) as usize)
    }

    /// Credits `work`, done evenly from `from` to `to`, to the seconds between. Both lie inside the window or on its end.
    #[inline]
    pub(super) fn credit(&mut self, work: f64, from: Nanos, to: Nanos, window: &Bounds) {
        let first = (from - window.begin) / SECOND;
        // Work that ends as a second begins belongs to the second before.
        let last = (to - window.begin).saturating_sub(1) / SECOND;
        if first >= last {
            self.number(first as usize).work_done += work;
        } else {
            self.spread(work / (to - from) as f64, from - window.begin, to - window.begin);
        }
    }

    /// Credits work over several seconds, counted from the window's opening.
    fn spread(&mut self, work_per_nano: f64, from: Nanos, to: Nanos) {
        let mut at = from;
        while at < to {
            let second = at / SECOND;
            let until = to.min((second + 1) * SECOND);
            self.number(second as usize).work_done += (until - at) as f64 * work_per_nano;
            at = until;
        }
    }

    #[inline]
    fn number(&mut self, index: usize) -> &mut Second {
        if index >= self.0.len() {
            self.extend_to(index);
        }
        &mut self.0[index]
    }

    /// Runs once per second and client at most, and rarely allocates.
    #[cold]
    fn extend_to(&mut self, index: usize) {
        self.0.resize(index + 1, Second::default());
    }

    /// Adds the figures of another recorder of the same window.
    pub(super) fn merge(&mut self, other: &Seconds) {
        if other.0.len() > self.0.len() {
            self.0.resize(other.0.len(), Second::default());
        }
        self.0.iter_mut().zip(&other.0).for_each(|(second, other)| second.add(other));
    }

    /// All seconds as one.
    pub(super) fn total(&self) -> Second {
        let mut total = Second::default();
        self.0.iter().for_each(|second| total.add(second));
        total
    }

    /// The samples of a window of this length: one for every second, even if it has no record.
    pub(super) fn samples(&self, window: Duration, is_analytical: bool, knows_lock_wait: bool) -> Vec<Sample> {
        let count = window.as_nanos().div_ceil(u128::from(SECOND)) as usize;
        let sample = |number: usize| {
            let second = self.0.get(number).copied().unwrap_or_default();
            let begin = Duration::from_secs(number as u64);
            let seconds = (window - begin).min(Duration::from_secs(1)).as_secs_f64();
            let amount = if is_analytical { second.work_done } else { second.completed as f64 };
            let if_any = |figure: f64| (second.completed > 0).then_some(figure);
            Sample {
                at_s: begin.as_secs_f64(),
                seconds,
                completed: second.completed,
                work_done: second.work_done,
                throughput_per_s: amount / seconds,
                latency_mean_us: if_any(second.latency_total as f64 / 1e3 / second.completed as f64),
                latency_max_us: if_any(second.latency_max as f64 / 1e3),
                aborted: second.aborted,
                lock_wait_s: knows_lock_wait.then(|| Duration::from_nanos(second.lock_wait).as_secs_f64()),
            }
        };
        (0..count).map(sample).collect()
    }
}

#[cfg(test)]
mod tests;
