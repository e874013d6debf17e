//! Whether the last attempt to connect to the server succeeded, for health checks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The outcome of the last attempt to reach the server.
#[derive(Debug, Default)]
pub struct Reach {
    /// Lets logins skip the lock.
    has_failed: AtomicBool,
    failure: Mutex<Option<Failure>>,
}

#[derive(Debug)]
struct Failure {
    why: String,
    /// When it failed, or when a caller last took on a new check.
    at: Instant,
}

impl Reach {
    /// The server answered.
    pub fn succeeded(&self) {
        // Relaxed: a caller that asks a moment later sees it.
        if self.has_failed.swap(false, Ordering::Relaxed) {
            *self.failure.lock() = None;
        }
    }

    /// The attempt failed for the given reason.
    pub fn failed(&self, why: &str) {
        *self.failure.lock() = Some(Failure { why: why.to_owned(), at: Instant::now() });
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// Why the last attempt failed; `None` if it succeeded, or no attempt was made.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().as_ref().map(|failure| failure.why.clone())
    }

    /// Whether the failure is older than `after`, so that the caller should check again; no other caller is asked to
    /// within that time.
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
