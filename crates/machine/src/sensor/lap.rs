//! The time between two readings.

use std::time::{Duration, Instant};

/// The sample that was taken last, and when.
#[derive(Debug)]
pub(super) struct Lap<S> {
    last: Option<(S, Instant)>,
}

impl<S> Lap<S> {
    pub(super) fn new() -> Lap<S> {
        Lap { last: None }
    }

    /// Takes a sample that was just read. Returns the result of `between` for it, the previous sample and the time
    /// between them; `None` if there is no previous sample, or no time has passed.
    pub(super) fn next<T>(&mut self, sample: S, between: impl FnOnce(&S, &S, Duration) -> T) -> Option<T> {
        let now = Instant::now();
        let (earlier, at) = self.last.replace((sample, now))?;
        let (sample, window) = (&self.last.as_ref()?.0, now - at);
        (!window.is_zero()).then(|| between(sample, &earlier, window))
    }
}
