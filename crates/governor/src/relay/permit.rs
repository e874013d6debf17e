//! Permits: a bounded number of something, each given back when it is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A permit that is taken.
#[derive(Debug)]
pub(super) struct Permit(Arc<AtomicUsize>);

impl Permit {
    /// Takes a permit, if fewer than `max` are taken.
    pub(super) fn take(taken: &Arc<AtomicUsize>, max: usize) -> Option<Self> {
        // Relaxed: the count orders nothing else.
        let before = taken.fetch_add(1, Ordering::Relaxed);
        let permit = Permit(Arc::clone(taken));
        (before < max).then_some(permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_bounded_and_given_back() {
        let taken = Arc::default();
        let (first, second) = (Permit::take(&taken, 2), Permit::take(&taken, 2));
        assert!(first.is_some() && second.is_some() && Permit::take(&taken, 2).is_none());
        drop(first);
        assert!(Permit::take(&taken, 2).is_some());
        assert!(Permit::take(&taken, usize::MAX).is_some());
    }
}
