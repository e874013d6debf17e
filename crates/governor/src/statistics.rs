//! Counts and times by class.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use plimsoll_policy::ClassIndex;

/// The longest time that a histogram tells apart, microseconds: an hour.
const MICROS_MAX: u64 = 3_600_000_000;

/// Counts and times of all classes.
#[derive(Debug)]
pub struct Statistics {
    classes: Vec<ClassStatistics>,
    /// Clients that came, those refused included.
    pub clients: AtomicU64,
    /// Clients that were refused or sent nonsense before they were let in.
    pub clients_refused: AtomicU64,
    /// Looks at who waits for whom.
    pub looks: AtomicU64,
    /// Time that these took, nanoseconds.
    pub look_nanos: AtomicU64,
    /// Clients' own cancels passed on.
    pub client_cancels: AtomicU64,
    /// Sessions that are let through ungoverned since the server answered what it had not been asked.
    pub desyncs: AtomicU64,
}

/// Counts and times of one class since the governor started.
#[derive(Debug)]
pub struct ClassStatistics {
    /// Its name.
    pub name: String,
    /// Transactions that ended, whichever way.
    pub transactions: AtomicU64,
    /// Units (queries, or all up to a Sync) that ended.
    pub units: AtomicU64,
    /// Errors that clients were sent.
    pub errors: AtomicU64,
    /// Transactions inside now.
    pub inside: AtomicU64,
    /// Transactions that had to wait for admission.
    pub queued: AtomicU64,
    /// Transactions refused because the queue was full.
    pub refused_full: AtomicU64,
    /// Transactions refused because they had waited too long.
    pub refused_timeout: AtomicU64,
    /// Transactions rolled back for others while they waited for a lock, while they ran, while they waited for their client.
    pub preempted_waiting: AtomicU64,
    /// See [`preempted_waiting`](Self::preempted_waiting).
    pub preempted_running: AtomicU64,
    /// See [`preempted_waiting`](Self::preempted_waiting).
    pub preempted_idle: AtomicU64,
    /// Preemptions decided that came too late: the victim had moved on.
    pub preempted_too_late: AtomicU64,
    /// Preemptions decided and, by `track`, not carried out.
    pub preemptions_tracked: AtomicU64,
    /// Replays that came out the same.
    pub replays_verified: AtomicU64,
    /// Replays in which an answer differed (the client got 40001).
    pub replays_differed: AtomicU64,
    /// Rolled back, and not replayed because that would not have been safe (the client got 40001).
    pub replays_unsafe: AtomicU64,
    /// Sessions ended because a transaction waited for its client for too long.
    pub idle_ended: AtomicU64,
    /// Times.
    pub times: Mutex<Times>,
}

/// Times of one class, microseconds.
#[derive(Debug, Clone)]
pub struct Times {
    /// From a transaction's first byte until the server was idle again, waiting for admission included.
    pub transaction: Histogram<u64>,
    /// From a unit's first byte until its answer was complete.
    pub unit: Histogram<u64>,
    /// Waiting for admission, of those that had to.
    pub queue: Histogram<u64>,
}

impl Statistics {
    /// Nothing counted yet, for classes of these names.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let zero = AtomicU64::default;
        Statistics {
            classes: names.into_iter().map(ClassStatistics::new).collect(),
            clients: zero(),
            clients_refused: zero(),
            looks: zero(),
            look_nanos: zero(),
            client_cancels: zero(),
            desyncs: zero(),
        }
    }

    /// Those of a class.
    pub fn class(&self, class: ClassIndex) -> &ClassStatistics {
        &self.classes[usize::from(class.0)]
    }

    /// Those of every class, in the order of the settings.
    pub fn classes(&self) -> &[ClassStatistics] {
        &self.classes
    }
}

impl ClassStatistics {
    fn new(name: String) -> Self {
        let zero = AtomicU64::default;
        let histogram = || Histogram::new_with_max(MICROS_MAX, 2).expect("an hour fits two digits");
        let times = Times { transaction: histogram(), unit: histogram(), queue: histogram() };
        ClassStatistics {
            name,
            transactions: zero(),
            units: zero(),
            errors: zero(),
            inside: zero(),
            queued: zero(),
            refused_full: zero(),
            refused_timeout: zero(),
            preempted_waiting: zero(),
            preempted_running: zero(),
            preempted_idle: zero(),
            preempted_too_late: zero(),
            preemptions_tracked: zero(),
            replays_verified: zero(),
            replays_differed: zero(),
            replays_unsafe: zero(),
            idle_ended: zero(),
            times: Mutex::new(times),
        }
    }
}

/// Counts one.
pub fn count(counter: &AtomicU64) {
    // Relaxed: counters are read for people, and order nothing.
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A time as histograms keep it.
pub fn micros(time: Duration) -> u64 {
    (time.as_micros() as u64).clamp(1, MICROS_MAX)
}
