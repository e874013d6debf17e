//! Clients are let in and dealt out to the workers.

use std::io;
use std::time::{Duration, Instant};

use mio::Token;

use super::WorkerInbox;
use super::context::{Context, Note, Visitor};
use super::listener::{self, Listener, Peer};
use super::seat::Seat;
use super::socket::Socket;
use crate::statistics::count;

/// The tokens of listeners end at this one, that of the first.
const FIRST: usize = usize::MAX - 1;

/// More listeners than anybody has.
const LISTENERS_MAX: usize = 1 << 16;

/// Clients let in before sessions get their turn.
const ACCEPTED_MAX: usize = 64;

/// When there are no more file descriptors, or no memory, this passes before the next try.
const PAUSE: Duration = Duration::from_millis(100);

/// Connections that may be there beyond the clients that may: their cancels, the console, those to be told that there
/// are too many.
const BEYOND: usize = 200;

/// Where clients come in, and who serves them.
#[derive(Debug)]
pub(super) struct Door {
    listeners: Vec<Listener>,
    workers: Vec<WorkerInbox>,
    next: usize,
    /// Listeners at which more may wait.
    ready: Vec<usize>,
    opens_at: Option<Instant>,
}

impl Door {
    /// A door that deals out to these workers.
    pub(super) fn new(
        mut listeners: Vec<Listener>,
        workers: Vec<WorkerInbox>,
        poll: &mio::Registry,
    ) -> io::Result<Self> {
        for (place, listener) in listeners.iter_mut().enumerate() {
            listener.register(poll, Token(FIRST - place))?;
        }
        Ok(Door { listeners, workers, next: 0, ready: Vec::new(), opens_at: None })
    }

    /// Whether a token is a listener's.
    pub(super) fn is_its(token: Token) -> bool {
        (FIRST - LISTENERS_MAX..=FIRST).contains(&token.0)
    }

    /// When it should be looked at again though nothing was told.
    pub(super) fn opens_at(&self) -> Option<Instant> {
        self.opens_at
    }

    /// Lets in who waits at a listener, or at those at which somebody may still wait; returns those who are the caller's.
    pub(super) fn accept(&mut self, token: Option<Token>, context: &Context, now: Instant) -> Vec<Visitor> {
        if let Some(Token(token)) = token
            && !self.ready.contains(&(FIRST - token))
        {
            self.ready.push(FIRST - token);
        }
        let mut own = Vec::new();
        if self.opens_at.is_some_and(|at| at > now) {
            return own;
        }
        self.opens_at = None;
        for _ in 0..ACCEPTED_MAX {
            let Some(place) = self.ready.first().copied() else { return own };
            match self.listeners.get(place).map(Listener::accept) {
                None => drop(self.ready.remove(0)),
                Some(Ok((socket, peer))) => own.extend(self.deal(socket, peer, context)),
                Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => drop(self.ready.remove(0)),
                Some(Err(error)) if listener::is_out_of_room(&error) => {
                    tracing::error!("clients cannot be let in: {error}; trying again in {PAUSE:?}");
                    self.opens_at = Some(now + PAUSE);
                    return own;
                }
                // A client that went before it was let in.
                Some(Err(_)) => {}
            }
        }
        // The others' turn; there may be more.
        self.opens_at = Some(now);
        own
    }

    /// Gives a client to the next worker; returns it if that is the one who asks.
    fn deal(&mut self, socket: Socket, peer: Peer, context: &Context) -> Option<Visitor> {
        count(&context.governor.statistics.clients);
        let clients_max = context.governor.settings().listen.clients_max as usize;
        let Some(seat) = Seat::take(&context.shared.connections, clients_max + BEYOND) else {
            count(&context.governor.statistics.clients_refused);
            return None;
        };
        let visitor = Visitor { socket, peer, seat };
        self.next = (self.next + 1) % self.workers.len();
        if self.next == context.worker {
            return Some(visitor);
        }
        let worker = &self.workers[self.next];
        if worker.notes.send(Note::Client(visitor)).is_ok() {
            let _ = worker.waker.wake();
        }
        None
    }
}
