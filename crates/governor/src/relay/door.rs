//! Accepts clients and distributes them among the workers.

use std::fs::File;
use std::io::{self, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use mio::Token;

use super::WorkerInbox;
use super::context::{Context, Note, Visitor};
use super::listener::{self, Listener, Peer};
use super::refusal::no_files;
use super::silent::{GivesWay, silent_max};
use super::socket::Socket;
use crate::statistics::count;

/// The token of the first listener; the others count down from it.
const FIRST: usize = usize::MAX - 1;

/// More listeners than any configuration has.
const LISTENERS_MAX: usize = 1 << 16;

/// How many clients are accepted before sessions are served again, and before silent clients that must give way to
/// them are closed.
const ACCEPTED_MAX: usize = 16;

/// How long to wait before the next attempt when file descriptors or memory are exhausted.
const PAUSE: Duration = Duration::from_millis(100);

/// How often exhausted resources are logged at most.
const COMPLAINTS_EVERY: Duration = Duration::from_secs(10);

/// The listeners, and the workers that serve the clients.
#[derive(Debug)]
pub(super) struct Door {
    listeners: Vec<Listener>,
    workers: Vec<WorkerInbox>,
    next: usize,
    /// Listeners that may have more waiting clients.
    ready: Vec<usize>,
    opens_at: Option<Instant>,
    /// A spare file, closed to make room for a client that is turned away.
    kept: Option<File>,
    /// When exhausted resources were logged last.
    complained_at: Option<Instant>,
}

/// `None` if no file descriptor is free.
fn keep_a_file() -> Option<File> {
    File::open("/dev/null").ok()
}

impl Door {
    pub(super) fn new(
        mut listeners: Vec<Listener>,
        workers: Vec<WorkerInbox>,
        poll: &mio::Registry,
    ) -> io::Result<Self> {
        for (place, listener) in listeners.iter_mut().enumerate() {
            listener.register(poll, Token(FIRST - place))?;
        }
        Ok(Door {
            listeners,
            workers,
            next: 0,
            ready: Vec::new(),
            opens_at: None,
            kept: keep_a_file(),
            complained_at: None,
        })
    }

    /// Closes it. Another governor with the same sockets accepts the waiting clients. The sockets must therefore be
    /// deregistered: closing our descriptors does not stop the events.
    pub(super) fn close(mut self, poll: &mio::Registry) {
        for listener in &mut self.listeners {
            if let Err(error) = listener.deregister(poll) {
                tracing::warn!("an address cannot be given up: {error}");
            }
        }
    }

    /// Whether a token belongs to a listener.
    pub(super) fn is_its(token: Token) -> bool {
        (FIRST - LISTENERS_MAX..=FIRST).contains(&token.0)
    }

    /// When to call [`accept`](Self::accept) again without an event.
    pub(super) fn opens_at(&self) -> Option<Instant> {
        self.opens_at
    }

    /// Accepts clients of the listener, and of those that may have more; returns the clients that the calling worker
    /// serves.
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
                    self.complain(&error, now);
                    let (was_there, visitor) = self.turn_away(place, context);
                    own.extend(visitor);
                    if !was_there {
                        self.opens_at = Some(now + PAUSE);
                        return own;
                    }
                }
                // A client that disconnected before it was accepted.
                Some(Err(_)) => {}
            }
        }
        // Sessions are served first; more clients may be waiting.
        self.opens_at = Some(now);
        own
    }

    fn complain(&mut self, error: &io::Error, now: Instant) {
        if self.complained_at.is_none_or(|at| now >= at + COMPLAINTS_EVERY) {
            self.complained_at = Some(now);
            tracing::error!("clients are refused: {error}; raise the limit of open files (LimitNOFILE)");
        }
    }

    /// Gives a client to the next worker; returns it if that is the calling worker.
    fn deal(&mut self, socket: Socket, peer: Peer, context: &Context) -> Option<Visitor> {
        count(&context.governor.statistics.clients);
        self.next = (self.next + 1) % self.workers.len();
        let (place, gives_way) = context.shared.silent.enter(self.next, silent_max());
        self.close_silent(gives_way, context);
        let visitor = Visitor { socket, peer, place };
        if self.next == context.worker {
            return Some(visitor);
        }
        self.tell(self.next, Note::Client(visitor));
        None
    }

    fn close_silent(&self, gives_way: Option<GivesWay>, context: &Context) {
        if let Some(GivesWay { worker, number }) = gives_way {
            count(&context.governor.statistics.clients_refused);
            self.tell(worker, Note::GiveWay(number));
        }
    }

    fn tell(&self, worker: usize, note: Note) {
        let worker = &self.workers[worker];
        // A worker that has ended serves no clients.
        if worker.notes.send(note).is_ok() {
            let _ = worker.waker.wake();
        }
    }

    /// No file descriptor is left for a client. A spare file is closed, and the client receives the error on the
    /// descriptor that this frees. Returns whether a client was waiting, and the client if the calling worker serves
    /// it: it is accepted if another descriptor became free.
    fn turn_away(&mut self, place: usize, context: &Context) -> (bool, Option<Visitor>) {
        drop(self.kept.take());
        let Some(Ok((mut socket, peer))) = self.listeners.get(place).map(Listener::accept) else {
            self.kept = keep_a_file();
            return (false, None);
        };
        self.kept = keep_a_file();
        if self.kept.is_some() {
            return (true, self.deal(socket, peer, context));
        }
        count(&context.governor.statistics.clients);
        count(&context.governor.statistics.clients_refused);
        tracing::debug!(%peer, "client refused: no file is left for it");
        // The next one shall find room.
        self.close_silent(context.shared.silent.oldest(), context);
        // The buffer of a new connection is empty: it accepts the whole message, or the client is gone.
        let _ = socket.write(&no_files().bytes());
        socket.shut_down(Shutdown::Write);
        drop(socket);
        self.kept = keep_a_file();
        (true, None)
    }
}
