//! Turns to log in at the server, for clients of pools that log in there themselves.
//!
//! Such a login costs a server process until the client is in, even if its pool has connections enough. Without a limit,
//! as many processes as clients that come at once would be started.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::WorkerInbox;
use super::context::Note;

/// The logins that are under way, and the clients that wait for their turn, first come first served.
#[derive(Debug, Default)]
pub(super) struct LoginTurns(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// As many may be under way, by the settings of the client that came last.
    max: u32,
    under_way: u32,
    /// The pairs that wait, and their workers, by ticket. While there is one, at least one login is under way.
    waiting: BTreeMap<u64, (u64, WorkerInbox)>,
    last_ticket: u64,
}

/// A turn, or a place in the queue for one, until this is dropped.
#[derive(Debug)]
pub(super) struct LoginTurn {
    turns: Arc<LoginTurns>,
    ticket: u64,
}

impl LoginTurns {
    /// Takes a turn, or a place in the queue while `max` logins are under way; returns whether the turn has come.
    /// Otherwise the pair is notified when it comes ([`Note::LoginTurn`]).
    pub(super) fn enter(self: &Arc<Self>, max: u32, pair: u64, inbox: &WorkerInbox) -> (LoginTurn, bool) {
        let mut state = self.0.lock();
        state.max = max;
        state.last_ticket += 1;
        let ticket = state.last_ticket;
        let has_come = state.under_way < max && state.waiting.is_empty();
        if has_come {
            state.under_way += 1;
        } else {
            state.waiting.insert(ticket, (pair, inbox.clone()));
        }
        (LoginTurn { turns: Arc::clone(self), ticket }, has_come)
    }
}

impl Drop for LoginTurn {
    fn drop(&mut self) {
        let mut state = self.turns.0.lock();
        if state.waiting.remove(&self.ticket).is_some() {
            return;
        }
        state.under_way -= 1;
        while state.under_way < state.max
            && let Some((_, (pair, inbox))) = state.waiting.pop_first()
        {
            state.under_way += 1;
            // A worker that has ended has dropped its pairs, and with them their turns.
            if inbox.notes.send(Note::LoginTurn(pair)).is_ok() {
                let _ = inbox.waker.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use mio::{Poll, Waker};

    use super::*;
    use crate::relay::worker::WAKER;

    #[test]
    fn turns_come_in_order_and_pass_from_those_that_leave() {
        let (notes, told) = mpsc::channel();
        let poll = Poll::new().unwrap();
        let inbox = WorkerInbox { notes, waker: Arc::new(Waker::new(poll.registry(), WAKER).unwrap()) };
        let told = || match told.try_recv() {
            Ok(Note::LoginTurn(pair)) => Some(pair),
            _ => None,
        };
        let turns = Arc::new(LoginTurns::default());
        let enter = |max, pair| turns.enter(max, pair, &inbox);
        let (first, second) = (enter(2, 1), enter(2, 2));
        let (third, fourth, fifth) = (enter(2, 3), enter(2, 4), enter(2, 5));
        assert_eq!(
            [&first, &second, &third, &fourth, &fifth].map(|(_, has_come)| *has_come),
            [true, true, false, false, false]
        );
        drop(third);
        assert_eq!(told(), None, "it was not its turn");
        drop(first);
        assert_eq!((told(), told()), (Some(4), None));
        drop(fourth);
        assert_eq!((told(), told()), (Some(5), None));
        // A smaller limit: two are under way, and one may be.
        let sixth = enter(1, 6);
        drop(second);
        assert_eq!((sixth.1, told()), (false, None));
        drop(fifth);
        assert_eq!(told(), Some(6));
        drop(sixth);
        assert_eq!(turns.0.lock().under_way, 0);
    }
}
