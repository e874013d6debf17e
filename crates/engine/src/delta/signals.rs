//! Signals between propagation threads and the rest of the engine: requests to fold, and their completion.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The state that propagation threads and their callers share.
#[derive(Debug)]
pub(super) struct Signals {
    state: Mutex<SignalState>,
    /// Propagation threads sleep here.
    work: Condvar,
    /// Callers wait here for the end of a round.
    done: Condvar,
}

#[derive(Debug, Default)]
struct SignalState {
    /// The number of rounds requested.
    asked: u64,
    /// For each thread, the last round that it has ended.
    ended: Vec<u64>,
    /// Counts the moments at which the delta became long enough to fold.
    presses: u64,
    is_closing: bool,
    failure: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Fold the chunks that are due.
    Look,
    /// Fold everything, for this round and all earlier ones.
    Round(u64),
    /// End the thread.
    End,
}

impl Signals {
    pub(super) fn new(threads: usize) -> Self {
        let state = SignalState { ended: vec![0; threads], ..SignalState::default() };
        Signals { state: Mutex::new(state), work: Condvar::new(), done: Condvar::new() }
    }

    /// Sleeps until there is work, for at most `sleep_max`; without a bound until a signal comes.
    pub(super) fn next(&self, thread: usize, presses_seen: &mut u64, sleep_max: Option<Duration>) -> Order {
        let mut state = self.state.lock();
        loop {
            if state.is_closing || state.failure.is_some() {
                return Order::End;
            }
            if state.asked > state.ended[thread] {
                return Order::Round(state.asked);
            }
            if state.presses > *presses_seen {
                *presses_seen = state.presses;
                return Order::Look;
            }
            match sleep_max {
                None => self.work.wait(&mut state),
                Some(time) => {
                    if self.work.wait_for(&mut state, time).timed_out() {
                        return Order::Look;
                    }
                }
            }
        }
    }

    /// A thread has ended a round.
    pub(super) fn end_round(&self, thread: usize, round: u64) {
        self.state.lock().ended[thread] = round;
        self.done.notify_all();
    }

    /// Makes all threads fold everything that was published before this call, and waits for that.
    pub(super) fn round(&self) -> Result<(), String> {
        let mut state = self.state.lock();
        state.asked += 1;
        let round = state.asked;
        self.work.notify_all();
        while state.ended.iter().any(|&ended| ended < round) {
            if let Some(reason) = &state.failure {
                return Err(reason.clone());
            }
            if state.is_closing {
                return Err("the tables are gone".to_owned());
            }
            self.done.wait(&mut state);
        }
        Ok(())
    }

    /// Makes all threads fold the chunks that are due.
    pub(super) fn press(&self) {
        self.state.lock().presses += 1;
        self.work.notify_all();
    }

    /// Ends all threads and all waits for them.
    pub(super) fn close(&self) {
        self.state.lock().is_closing = true;
        self.work.notify_all();
        self.done.notify_all();
    }

    /// Records that propagation has failed. The first reason stays.
    pub(super) fn fail(&self, reason: String) {
        self.state.lock().failure.get_or_insert(reason);
        self.work.notify_all();
        self.done.notify_all();
    }

    /// The reason why propagation has failed; `None` if it has not.
    pub(super) fn failure(&self) -> Option<String> {
        self.state.lock().failure.clone()
    }
}
