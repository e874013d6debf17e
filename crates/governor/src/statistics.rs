//! Counts and times by class.

mod aborts;
mod class_counters;
mod databases;
mod histogram;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use plimsoll_policy::ClassIndex;

pub use aborts::{AbortCause, AbortOutcome, Aborts};
pub use class_counters::{ClassCounter, ClassStatistics, ClassTotals};
pub(crate) use databases::{DatabaseCount, DatabaseCounts, DatabaseStatistics, Databases};
pub use histogram::{Counts, Histogram};

use crate::registry::Stake;
use crate::settings::CLASSES_MAX;

/// Counts and times of all classes.
#[derive(Debug)]
pub struct Statistics {
    // A reload appends classes while other threads count: a place is written once, and read without a lock.
    classes: Box<[OnceLock<ClassStatistics>; CLASSES_MAX]>,
    /// Counts by database.
    pub(crate) databases: Databases,
    /// Clients that connected, including refused ones.
    pub clients: AtomicU64,
    /// Clients that were refused or violated the protocol before they had logged in.
    pub clients_refused: AtomicU64,
    /// Looks at the server's locks.
    pub looks: AtomicU64,
    /// The time that these took, in nanoseconds.
    pub look_nanos: AtomicU64,
    /// CPU time of the watcher's thread, in nanoseconds.
    pub watch_cpu_nanos: AtomicU64,
    /// A moving mean of the time that a rollback takes, in nanoseconds: from the start of the look that decides it
    /// until the victim's server has reported it. 0 before the first.
    pub rollback_takes_nanos: AtomicU64,
    /// Clients' own cancels that were forwarded.
    pub client_cancels: AtomicU64,
    /// Users of the console that gave a wrong password, or none.
    pub console_refused: AtomicU64,
    /// Reloads of the settings that succeeded.
    pub reloads: AtomicU64,
    /// Reloads that were refused; the earlier settings stay in force.
    pub reloads_failed: AtomicU64,
    /// Sessions that are ungoverned because the server sent an answer to no request.
    pub desyncs: AtomicU64,
    /// Sessions that keep their connection of a pool.
    pub pinned: AtomicU64,
}

/// Times of one class.
#[derive(Debug, Default)]
pub struct Times {
    /// From a transaction's first byte until the server was idle again, waiting for admission included.
    pub transaction: Histogram,
    /// From a unit's first byte until its answer was complete.
    pub unit: Histogram,
    /// Time in the queue, of transactions that were queued.
    pub queue: Histogram,
}

impl Statistics {
    /// Zero counts for classes of these names.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let zero = AtomicU64::default;
        let statistics = Statistics {
            classes: Box::new([const { OnceLock::new() }; CLASSES_MAX]),
            databases: Databases::default(),
            clients: zero(),
            clients_refused: zero(),
            looks: zero(),
            look_nanos: zero(),
            watch_cpu_nanos: zero(),
            rollback_takes_nanos: zero(),
            client_cancels: zero(),
            console_refused: zero(),
            reloads: zero(),
            reloads_failed: zero(),
            desyncs: zero(),
            pinned: zero(),
        };
        statistics.extend(names);
        statistics
    }

    /// A look at the server's locks has taken that long.
    pub(crate) fn count_look(&self, took: Duration) {
        count(&self.looks);
        // Relaxed: a counter for operators.
        self.look_nanos.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    /// A transaction of a class has been rolled back, and its server has just reported it.
    pub(crate) fn count_stake(&self, victim: ClassIndex, stake: &Stake, now: Instant) {
        // Relaxed: counters for operators, and a mean for which a lost update does no harm.
        let add =
            |counter: &AtomicU64, length: Duration| counter.fetch_add(length.as_nanos() as u64, Ordering::Relaxed);
        add(&self.class(victim).rollback_lost_nanos, stake.lost);
        if let Some(won) = stake.won {
            add(&self.class(stake.waiter).rollback_won_nanos, won);
        }
        let took = now.saturating_duration_since(stake.looked).as_nanos() as u64;
        let before = self.rollback_takes_nanos.load(Ordering::Relaxed);
        let mean = if before == 0 { took } else { before - before / 8 + took / 8 };
        self.rollback_takes_nanos.store(mean, Ordering::Relaxed);
    }

    /// The mean time that a rollback takes; `None` before the first.
    pub(crate) fn rollback_takes(&self) -> Option<Duration> {
        let nanos = self.rollback_takes_nanos.load(Ordering::Relaxed);
        (nanos > 0).then(|| Duration::from_nanos(nanos))
    }

    /// Makes room for classes of these names; the existing ones come first.
    pub fn extend(&self, names: impl IntoIterator<Item = String>) {
        for (place, name) in self.classes.iter().zip(names) {
            place.get_or_init(|| ClassStatistics::new(name));
        }
    }

    pub fn class(&self, class: ClassIndex) -> &ClassStatistics {
        self.classes[usize::from(class.0)].get().expect("a class has statistics before a session can be in it")
    }

    /// How many transactions of all classes are inside now.
    pub fn inside(&self) -> u64 {
        // Relaxed: a transaction that enters a moment later is counted the next time.
        self.classes().map(|class| class.inside.load(Ordering::Relaxed)).sum()
    }

    /// The statistics of every class, in the order of the settings.
    pub fn classes(&self) -> impl Iterator<Item = &ClassStatistics> {
        self.classes.iter().map_while(OnceLock::get)
    }
}

/// A number to two significant digits: percentiles are accurate to a few percent, and more digits would claim more.
pub(crate) fn two_digits(number: f64) -> f64 {
    if number == 0.0 || !number.is_finite() {
        return number;
    }
    let scale = 10f64.powi(number.abs().log10().floor() as i32 - 1);
    // By division and multiplication with whole powers: 0.12 must not become 0.12000000000000001.
    if scale < 1.0 { (number / scale).round() / (1.0 / scale).round() } else { (number / scale).round() * scale }
}

pub fn count(counter: &AtomicU64) {
    // Relaxed: counters are read by operators, and order nothing.
    counter.fetch_add(1, Ordering::Relaxed);
}
