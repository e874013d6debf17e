//! Clients are let in and dealt out to the workers.

use std::fs::File;
use std::io::{self, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use mio::Token;

use super::WorkerInbox;
use super::context::{Context, Note, Visitor};
use super::listener::{self, Listener, Peer};
use super::refusal::no_files;
use super::silent::GivesWay;
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

/// How often the log says that there is no room.
const COMPLAINTS_EVERY: Duration = Duration::from_secs(10);

/// Where clients come in, and who serves them.
#[derive(Debug)]
pub(super) struct Door {
    listeners: Vec<Listener>,
    workers: Vec<WorkerInbox>,
    next: usize,
    /// Listeners at which more may wait.
    ready: Vec<usize>,
    opens_at: Option<Instant>,
    /// A file that can be given up for a client that is turned away.
    kept: Option<File>,
    /// When it was logged last that there is no room.
    complained_at: Option<Instant>,
}

/// `None` if there is none to be had.
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

    /// Closes it. Who still waits is let in by the governor that has the same sockets: that is why they have to be taken from what is
    /// watched, which closing them does not do.
    pub(super) fn close(mut self, poll: &mio::Registry) {
        for listener in &mut self.listeners {
            if let Err(error) = listener.deregister(poll) {
                tracing::warn!("an address cannot be given up: {error}");
            }
        }
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
                    self.complain(&error, now);
                    let (was_there, visitor) = self.turn_away(place, context);
                    own.extend(visitor);
                    if !was_there {
                        self.opens_at = Some(now + PAUSE);
                        return own;
                    }
                }
                // A client that went before it was let in.
                Some(Err(_)) => {}
            }
        }
        // The others' turn; there may be more.
        self.opens_at = Some(now);
        own
    }

    fn complain(&mut self, error: &io::Error, now: Instant) {
        if self.complained_at.is_none_or(|at| now >= at + COMPLAINTS_EVERY) {
            self.complained_at = Some(now);
            tracing::error!("clients are refused: {error}; raise the limit of open files (LimitNOFILE)");
        }
    }

    /// Gives a client to the next worker; returns it if that is the one who asks.
    fn deal(&mut self, socket: Socket, peer: Peer, context: &Context) -> Option<Visitor> {
        count(&context.governor.statistics.clients);
        self.next = (self.next + 1) % self.workers.len();
        let (place, gives_way) = context.shared.silent.enter(self.next);
        if let Some(GivesWay { worker, number }) = gives_way {
            count(&context.governor.statistics.clients_refused);
            self.tell(worker, Note::GiveWay(number));
        }
        let visitor = Visitor { socket, peer, place };
        if self.next == context.worker {
            return Some(visitor);
        }
        self.tell(self.next, Note::Client(visitor));
        None
    }

    fn tell(&self, worker: usize, note: Note) {
        let worker = &self.workers[worker];
        // A worker that has ended serves nobody.
        if worker.notes.send(note).is_ok() {
            let _ = worker.waker.wake();
        }
    }

    /// No file is left for a client. One is kept for this: it takes the client's connection for as long as it takes to tell the
    /// client so. Whether there was a client, and who of them is the caller's: if files have come free meanwhile, it is let in.
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
        // Into the empty buffer of a new connection, which takes it all or is gone.
        let _ = socket.write(&no_files().bytes());
        socket.shut_down(Shutdown::Write);
        drop(socket);
        self.kept = keep_a_file();
        (true, None)
    }
}
