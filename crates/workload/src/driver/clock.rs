//! The one clock of a run.

use std::thread;
use std::time::{Duration, Instant};

/// Nanoseconds since the run's clock was made.
pub(super) type Nanos = u64;

/// A clock that clients read and sleep by. A value, so that a test can let it jump.
pub(super) trait Clock: Sync {
    /// The time.
    fn now(&self) -> Nanos;

    /// Sleeps until about `deadline`, or a shorter time: the caller reads the clock again. Unparking the thread wakes
    /// it.
    fn doze_until(&self, deadline: Nanos);
}

/// The machine's monotonic clock.
#[derive(Debug)]
pub(super) struct MonotonicClock {
    origin: Instant,
}

impl MonotonicClock {
    /// A clock that reads 0 now.
    pub(super) fn start() -> Self {
        MonotonicClock { origin: Instant::now() }
    }
}

impl Clock for MonotonicClock {
    fn now(&self) -> Nanos {
        // 64 bits of nanoseconds last 584 years.
        self.origin.elapsed().as_nanos() as Nanos
    }

    fn doze_until(&self, deadline: Nanos) {
        let left = deadline.saturating_sub(self.now());
        if left > 0 {
            thread::park_timeout(Duration::from_nanos(left));
        }
    }
}
