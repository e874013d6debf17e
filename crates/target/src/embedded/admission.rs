//! Admission of queries: at most so many run at once, and the others wait in the order in which they came.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// A gate that lets a bounded number of queries in.
#[derive(Debug)]
pub(super) struct QueryGate {
    most: usize,
    state: Mutex<GateState>,
    /// Notified whenever a query may be let in.
    moved: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    running: usize,
    /// The number that the next query to come gets.
    next: u64,
    /// The number of the query that goes in next.
    turn: u64,
}

/// A query that was let in, until it is dropped.
#[derive(Debug)]
pub(super) struct Admitted(Arc<QueryGate>);

impl QueryGate {
    /// A gate for at most `most` queries at once, at least one.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(QueryGate { most: most.max(1), state: Mutex::default(), moved: Condvar::new() })
    }

    /// The most queries that run at once.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Waits until the query may run. Always ends, because queries that run end without others.
    pub(super) fn enter(self: &Arc<Self>) -> Admitted {
        let mut state = self.state.lock();
        let own = state.next;
        state.next += 1;
        while state.turn != own || state.running >= self.most {
            self.moved.wait(&mut state);
        }
        state.turn += 1;
        state.running += 1;
        drop(state);
        // The next in line may fit in, too.
        self.moved.notify_all();
        Admitted(Arc::clone(self))
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.0.state.lock().running -= 1;
        self.0.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn no_more_queries_run_than_are_admitted_and_all_of_them_run() {
        let (gate, running, peak, done) =
            (QueryGate::new(2), AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let admitted = gate.enter();
                        let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                        peak.fetch_max(now, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_micros(50));
                        running.fetch_sub(1, Ordering::SeqCst);
                        done.fetch_add(1, Ordering::SeqCst);
                        drop(admitted);
                    }
                });
            }
        });
        assert_eq!((peak.into_inner(), done.into_inner()), (2, 120));
    }

    #[test]
    fn a_query_that_fails_makes_room_too() {
        let gate = QueryGate::new(1);
        let failed = std::thread::scope(|scope| {
            let query = scope.spawn(|| {
                let _admitted = gate.enter();
                panic!("the query fails");
            });
            query.join().is_err()
        });
        assert!(failed);
        drop(gate.enter());
    }
}
