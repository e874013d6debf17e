//! How propagation threads are told what to do, and say that they have done it.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Between propagation threads and whoever needs them.
#[derive(Debug)]
pub(super) struct Signals {
    state: Mutex<State>,
    /// Propagation threads sleep here.
    work: Condvar,
    /// Whoever waits for a round to end.
    done: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// How many rounds were asked for.
    asked: u64,
    /// For each thread the last of these rounds that it has ended.
    ended: Vec<u64>,
    /// The delta has come so far that it should be folded.
    presses: u64,
    is_closing: bool,
    failure: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// A look at what is due.
    Look,
    /// Everything, for the sake of this round and all before.
    Round(u64),
    /// Nothing any more.
    End,
}

impl Signals {
    pub(super) fn new(threads: usize) -> Self {
        let state = State { ended: vec![0; threads], ..State::default() };
        Signals { state: Mutex::new(state), work: Condvar::new(), done: Condvar::new() }
    }

    /// Sleeps until there is something to do, at most so long; without a bound until somebody says so.
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

    /// Has all threads fold everything that was published before this call, and waits for it.
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

    /// Has all threads look at what is due.
    pub(super) fn press(&self) {
        self.state.lock().presses += 1;
        self.work.notify_all();
    }

    /// Lets all threads end, and nobody wait for them any more.
    pub(super) fn close(&self) {
        self.state.lock().is_closing = true;
        self.work.notify_all();
        self.done.notify_all();
    }

    /// Propagation has failed. The first reason stays.
    pub(super) fn fail(&self, reason: String) {
        self.state.lock().failure.get_or_insert(reason);
        self.work.notify_all();
        self.done.notify_all();
    }

    /// Why propagation has failed; `None` if it has not.
    pub(super) fn failure(&self) -> Option<String> {
        self.state.lock().failure.clone()
    }
}
