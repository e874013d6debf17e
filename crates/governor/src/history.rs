//! Counts of the last seconds: rates and percentiles are computed from differences.
//!
//! One thread takes a snapshot each second; the console, the metrics and the live page read.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::statistics::{ClassStatistics, Counts, DatabaseCounts, Statistics};

/// The number of snapshots kept: one for each second of the longest window, and one for its beginning.
const SNAPSHOTS: usize = 61;
/// The number of chart points kept, one per second.
pub(crate) const POINTS: usize = 120;

/// The last seconds.
#[derive(Debug, Default)]
pub struct History {
    snapshots: VecDeque<Snapshot>,
    points: VecDeque<Point>,
}

/// The counts of all classes at a moment.
#[derive(Debug)]
struct Snapshot {
    at: Instant,
    classes: Vec<ClassCounts>,
    databases: BTreeMap<String, DatabaseCounts>,
    watch: WatchCounts,
}

/// The cost of looks at the server's locks up to a moment, or between two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchCounts {
    pub looks: u64,
    pub look_time: Duration,
    /// CPU time of the watcher's thread.
    pub cpu: Duration,
}

/// The counts of a class at a moment, or between two.
#[derive(Debug, Clone)]
pub struct ClassCounts {
    /// Transactions that ended.
    pub transactions: u64,
    /// Units that ended.
    pub units: u64,
    /// Errors sent to clients.
    pub errors: u64,
    /// Transactions that were rolled back for others.
    pub preempted: u64,
    /// Times of transactions, waiting for admission included.
    pub transaction_times: Counts,
    /// Times of units.
    pub unit_times: Counts,
    /// Times in the queue, of the transactions that were queued.
    pub queue_times: Counts,
}

/// One second for charts, by class: transactions per second, and the 95th percentile of their times in seconds; `None`
/// without transactions.
pub type Point = Vec<(f64, Option<f64>)>;

/// The counts of a class during the last seconds.
#[derive(Debug, Clone)]
pub struct Window {
    /// The actual length: less than requested if the governor has not been running for that long.
    pub length: Duration,
    pub counts: ClassCounts,
}

impl ClassCounts {
    /// The counts up to now.
    pub fn of(class: &ClassStatistics) -> Self {
        let preempted = [&class.preempted_waiting, &class.preempted_running, &class.preempted_idle];
        ClassCounts {
            transactions: class.transactions.load(Relaxed),
            units: class.units.load(Relaxed),
            errors: class.errors.load(Relaxed),
            preempted: preempted.iter().map(|count| count.load(Relaxed)).sum(),
            transaction_times: class.times.transaction.counts(),
            unit_times: class.times.unit.counts(),
            queue_times: class.times.queue.counts(),
        }
    }

    fn since(&self, earlier: &ClassCounts) -> Self {
        ClassCounts {
            transactions: self.transactions.saturating_sub(earlier.transactions),
            units: self.units.saturating_sub(earlier.units),
            errors: self.errors.saturating_sub(earlier.errors),
            preempted: self.preempted.saturating_sub(earlier.preempted),
            transaction_times: self.transaction_times.since(&earlier.transaction_times),
            unit_times: self.unit_times.since(&earlier.unit_times),
            queue_times: self.queue_times.since(&earlier.queue_times),
        }
    }
}

impl WatchCounts {
    fn of(statistics: &Statistics) -> Self {
        WatchCounts {
            looks: statistics.looks.load(Relaxed),
            look_time: Duration::from_nanos(statistics.look_nanos.load(Relaxed)),
            cpu: Duration::from_nanos(statistics.watch_cpu_nanos.load(Relaxed)),
        }
    }
}

impl Window {
    /// That count per second.
    pub fn rate(&self, count: u64) -> f64 {
        count as f64 / self.length.as_secs_f64()
    }
}

impl History {
    /// Takes a snapshot; called about once per second.
    pub fn take(&mut self, statistics: &Statistics, now: Instant) {
        let classes: Vec<ClassCounts> = statistics.classes().map(ClassCounts::of).collect();
        if let Some(before) = self.snapshots.back() {
            let seconds = now.saturating_duration_since(before.at).as_secs_f64();
            let of_class = |(place, counts): (usize, &ClassCounts)| {
                let Some(earlier) = before.classes.get(place) else { return (0.0, None) };
                let since = counts.since(earlier);
                let rate = if seconds > 0.0 { since.transactions as f64 / seconds } else { 0.0 };
                (rate, since.transaction_times.percentile(0.95).map(|time| time.as_secs_f64()))
            };
            self.points.push_back(classes.iter().enumerate().map(of_class).collect());
        }
        let (databases, watch) = (statistics.databases.counts(), WatchCounts::of(statistics));
        self.snapshots.push_back(Snapshot { at: now, classes, databases, watch });
        if self.snapshots.len() > SNAPSHOTS {
            self.snapshots.pop_front();
        }
        if self.points.len() > POINTS {
            self.points.pop_front();
        }
    }

    /// The counts of the class at that place during the last `length`, up to the last snapshot; `None` before there are
    /// two.
    pub fn window(&self, class: usize, length: Duration) -> Option<Window> {
        let last = self.snapshots.back()?;
        let begun = |snapshot: &&Snapshot| last.at.saturating_duration_since(snapshot.at) >= length;
        // The youngest one that is old enough, or the oldest.
        let mut with_class = self.snapshots.iter().filter(|snapshot| snapshot.classes.len() > class);
        let oldest = with_class.clone().next();
        let first = with_class.rfind(begun).or(oldest)?;
        let real = last.at.saturating_duration_since(first.at);
        let counts = last.classes.get(class)?.since(first.classes.get(class)?);
        (!real.is_zero()).then_some(Window { length: real, counts })
    }

    /// The counts of each database during all seconds that are kept (up to a minute), and the length of that time; `None`
    /// before there are two.
    pub(crate) fn databases(&self) -> Option<(Duration, BTreeMap<String, DatabaseCounts>)> {
        let (first, last) = (self.snapshots.front()?, self.snapshots.back()?);
        let length = last.at.saturating_duration_since(first.at);
        let since = |(name, counts): (&String, &DatabaseCounts)| {
            let before = first.databases.get(name).copied().unwrap_or_default();
            (name.clone(), counts.since(&before))
        };
        (!length.is_zero()).then(|| (length, last.databases.iter().map(since).collect()))
    }

    /// The cost of looks during all seconds that are kept (up to a minute), and the length of that time; `None` before
    /// there are two.
    pub fn watch(&self) -> Option<(Duration, WatchCounts)> {
        let (first, last) = (self.snapshots.front()?, self.snapshots.back()?);
        let length = last.at.saturating_duration_since(first.at);
        let counts = WatchCounts {
            looks: last.watch.looks.saturating_sub(first.watch.looks),
            look_time: last.watch.look_time.saturating_sub(first.watch.look_time),
            cpu: last.watch.cpu.saturating_sub(first.watch.cpu),
        };
        (!length.is_zero()).then_some((length, counts))
    }

    /// The last seconds for charts, oldest first.
    pub fn points(&self) -> impl Iterator<Item = &Point> {
        self.points.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::count;

    #[test]
    fn windows_are_differences_of_snapshots() {
        let statistics = Statistics::new(["high".to_owned(), "low".to_owned()]);
        let (mut history, start) = (History::default(), Instant::now());
        let high = statistics.classes().next().expect("a class");
        assert!(history.window(0, Duration::from_secs(10)).is_none(), "nothing was taken yet");
        for second in 0..100 {
            history.take(&statistics, start + Duration::from_secs(second));
            // From second 50 on, one transaction of 8 ms per second.
            if second >= 50 {
                count(&high.transactions);
                high.times.transaction.record(Duration::from_millis(8));
            }
        }
        let window = |seconds| history.window(0, Duration::from_secs(seconds)).expect("snapshots were taken");
        assert_eq!((window(10).length, window(10).counts.transactions), (Duration::from_secs(10), 10));
        assert_eq!((window(60).length, window(60).counts.transactions), (Duration::from_secs(60), 49));
        assert_eq!(window(3600).length, Duration::from_secs(60), "no more is kept");
        let p95 = window(10).counts.transaction_times.percentile(0.95).expect("times were counted");
        assert!((p95.as_secs_f64() / 8e-3 - 1.0).abs() < 0.035, "{p95:?}");
        assert_eq!(window(10).rate(window(10).counts.transactions), 1.0);
        let points: Vec<_> = history.points().collect();
        assert_eq!(points.len(), 99);
        assert_eq!((points[0][0], points[98][0].0), ((0.0, None), 1.0));
        assert_eq!(history.window(1, Duration::from_secs(10)).map(|window| window.counts.transactions), Some(0));
    }

    #[test]
    fn looks_are_those_of_the_last_minute() {
        let statistics = Statistics::new(["high".to_owned()]);
        let (mut history, start) = (History::default(), Instant::now());
        for second in 0..100 {
            history.take(&statistics, start + Duration::from_secs(second));
            statistics.count_look(Duration::from_millis(2));
        }
        let (length, counts) = history.watch().expect("there are more than two");
        assert_eq!((length, counts.looks), (Duration::from_secs(60), 60));
        assert_eq!((counts.look_time, counts.cpu), (Duration::from_millis(120), Duration::ZERO));
    }

    #[test]
    fn a_class_that_came_by_a_reload_has_a_window_when_it_is_old_enough() {
        let statistics = Statistics::new(["high".to_owned()]);
        let (mut history, start) = (History::default(), Instant::now());
        history.take(&statistics, start);
        statistics.extend(["high".to_owned(), "low".to_owned()]);
        history.take(&statistics, start + Duration::from_secs(1));
        assert!(history.window(1, Duration::from_secs(1)).is_none());
        history.take(&statistics, start + Duration::from_secs(2));
        assert!(history.window(1, Duration::from_secs(1)).is_some());
    }
}
