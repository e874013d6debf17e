//! Counts and times by class.

mod aborts;
mod class_counters;
mod histogram;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use plimsoll_policy::ClassIndex;

pub use aborts::{AbortCause, AbortOutcome, Aborts};
pub use class_counters::{ClassCounter, ClassStatistics, ClassTotals};
pub use histogram::{Counts, Histogram};

use crate::registry::Stake;

/// How many classes there can be.
pub(crate) const CLASSES_MAX: usize = 64;

/// Counts and times of all classes.
#[derive(Debug)]
pub struct Statistics {
    // Classes are appended by a reload while others count: a place is written once, and read without a lock.
    classes: Box<[OnceLock<ClassStatistics>; CLASSES_MAX]>,
    /// Clients that came, those refused included.
    pub clients: AtomicU64,
    /// Clients that were refused or sent nonsense before they were let in.
    pub clients_refused: AtomicU64,
    /// Looks at who waits for whom.
    pub looks: AtomicU64,
    /// Time that these took, nanoseconds.
    pub look_nanos: AtomicU64,
    /// Processor time of the thread that watches, nanoseconds.
    pub watch_cpu_nanos: AtomicU64,
    /// What a rollback takes at present, from the beginning of the look that decides it until the victim has been told by its server,
    /// nanoseconds: a moving mean. 0 before the first.
    pub rollback_takes_nanos: AtomicU64,
    /// Clients' own cancels passed on.
    pub client_cancels: AtomicU64,
    /// Users of the console that gave a wrong password, or none.
    pub console_refused: AtomicU64,
    /// Reloads of the settings that succeeded.
    pub reloads: AtomicU64,
    /// Reloads that were refused; what was set before stays in force.
    pub reloads_failed: AtomicU64,
    /// Sessions that are let through ungoverned since the server answered what it had not been asked.
    pub desyncs: AtomicU64,
}

/// Times of one class.
#[derive(Debug, Default)]
pub struct Times {
    /// From a transaction's first byte until the server was idle again, waiting for admission included.
    pub transaction: Histogram,
    /// From a unit's first byte until its answer was complete.
    pub unit: Histogram,
    /// Waiting for admission, of those that had to.
    pub queue: Histogram,
}

impl Statistics {
    /// Nothing counted yet, for classes of these names.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let zero = AtomicU64::default;
        let statistics = Statistics {
            classes: Box::new([const { OnceLock::new() }; CLASSES_MAX]),
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
        };
        statistics.extend(names);
        statistics
    }

    /// A look at who waits for whom has taken that long.
    pub(crate) fn count_look(&self, took: Duration) {
        count(&self.looks);
        // Relaxed: a counter for people.
        self.look_nanos.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    /// A transaction of a class has been rolled back, and its server has just reported it.
    pub(crate) fn count_stake(&self, victim: ClassIndex, stake: &Stake, now: Instant) {
        // Relaxed: counters for people, and a mean of which a lost update does no harm.
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

    /// What a rollback takes at present; `None` before the first.
    pub(crate) fn rollback_takes(&self) -> Option<Duration> {
        let nanos = self.rollback_takes_nanos.load(Ordering::Relaxed);
        (nanos > 0).then(|| Duration::from_nanos(nanos))
    }

    /// Makes room for classes of these names, those that there are already first.
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
        // Relaxed: who comes a moment later is seen the next time.
        self.classes().map(|class| class.inside.load(Ordering::Relaxed)).sum()
    }

    /// Those of every class, in the order of the settings.
    pub fn classes(&self) -> impl Iterator<Item = &ClassStatistics> {
        self.classes.iter().map_while(OnceLock::get)
    }
}

/// A number to two significant digits: percentiles are known to a few percent, and more digits would claim more.
pub(crate) fn two_digits(number: f64) -> f64 {
    if number == 0.0 || !number.is_finite() {
        return number;
    }
    let scale = 10f64.powi(number.abs().log10().floor() as i32 - 1);
    // By division and multiplication with whole powers: 0.12 is not to become 0.12000000000000001.
    if scale < 1.0 { (number / scale).round() / (1.0 / scale).round() } else { (number / scale).round() * scale }
}

pub fn count(counter: &AtomicU64) {
    // Relaxed: counters are read for people, and order nothing.
    counter.fetch_add(1, Ordering::Relaxed);
}
