//! Whether the server could be reached when it was last tried, for those who ask whether the governor is of any use.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The outcome of the last attempt to reach the server.
#[derive(Debug, Default)]
pub struct Reach {
    /// Spares each login the lock.
    has_failed: AtomicBool,
    failure: Mutex<Option<Failure>>,
}

#[derive(Debug)]
struct Failure {
    why: String,
    /// When it was seen, or somebody went to look again.
    at: Instant,
}

impl Reach {
    /// The server answered.
    pub fn succeeded(&self) {
        // Relaxed: whoever asks a moment later sees it.
        if self.has_failed.swap(false, Ordering::Relaxed) {
            *self.failure.lock() = None;
        }
    }

    /// It did not, and why.
    pub fn failed(&self, why: &str) {
        *self.failure.lock() = Some(Failure { why: why.to_owned(), at: Instant::now() });
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// Why the last attempt failed; `None` if it did not, or there was none.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().as_ref().map(|failure| failure.why.clone())
    }

    /// Whether the failure is that old, so that somebody should look again; whoever asks does, and nobody else for that long.
    pub fn is_due(&self, after: Duration) -> bool {
        let mut failure = self.failure.lock();
        let due = failure.as_mut().filter(|failure| failure.at.elapsed() >= after);
        due.map(|failure| failure.at = Instant::now()).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_attempt_counts() {
        let reach = Reach::default();
        assert_eq!(reach.failure(), None);
        assert!(!reach.is_due(Duration::ZERO));
        reach.failed("refused");
        assert_eq!(reach.failure().as_deref(), Some("refused"));
        assert!(reach.is_due(Duration::ZERO) && !reach.is_due(Duration::from_secs(600)));
        reach.succeeded();
        assert_eq!(reach.failure(), None);
    }
}
