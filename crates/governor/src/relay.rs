//! Sockets: accepts clients, connects to the server for each, and moves bytes between the two through a session.
//!
//! In reading order: [`start`] opens the listening sockets and starts the workers, each a `worker` with a loop of its
//! own. A `door` accepts clients and distributes them among the workers. A `pair` is one client and its connection to
//! the server; `startup` and `login` handle the messages before a session exists, `wire` is a connection with or
//! without TLS, `side` holds the bytes still to be sent on it. `silent`, `logins` and `permit` limit the number of
//! clients before and after login.
//!
//! Sockets are read and written when epoll reports that they are ready.
//!
//! A worker reads into buffers that all its sessions share, so an idle session has none. Bytes that a peer does not
//! accept are kept; above a limit the other peer is not read.

mod certificate_name;
mod context;
mod door;
mod fallback;
mod lending;
mod listener;
mod login;
mod logins;
mod pair;
mod permit;
mod proxy_protocol;
mod refusal;
mod resolver;
mod side;
mod silent;
mod socket;
mod startup;
mod timers;
mod turns;
mod wire;
mod worker;

pub(crate) use startup::FORWARDED_CANCEL;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use mio::{Poll, Waker};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use context::{Context, Note};
use door::Door;
use fallback::Fallbacks;
use logins::Logins;
use resolver::Resolver;
use silent::Silent;
use turns::LoginTurns;
use worker::Worker;

use crate::governor::{Governor, WorkerCommand, WorkerHandle};
use crate::handover::{Inherited, SocketRole};
use crate::settings::Address;

/// Why the relay was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No listening address is configured.
    #[error("there is no address to listen at; give one with `addresses` or `socket_folders` in [listen]")]
    NoAddress,
    /// An address is in use, or not available.
    #[error("cannot listen at {0}: {1}")]
    Listen(Address, #[source] io::Error),
    /// The system lacks a resource.
    #[error("the relay cannot be started: {0}")]
    System(#[from] io::Error),
}

/// State that all workers share.
#[derive(Debug)]
struct Shared {
    governor: Arc<Governor>,
    resolver: Resolver,
    /// Clients that hold one of the `clients_max` places.
    clients: Arc<AtomicUsize>,
    /// Connections whose clients are no longer silent, accepted or not.
    connections: Arc<AtomicUsize>,
    /// Silent clients.
    silent: Arc<Silent>,
    /// Clients that are logging in.
    logins: Arc<Logins>,
    /// Clients of pools that are logging in at the server itself.
    login_turns: Arc<LoginTurns>,
    fallbacks: Fallbacks,
    /// How workers reach each other.
    inboxes: Vec<WorkerInbox>,
}

/// How the relay's threads reach a worker.
#[derive(Debug, Clone)]
struct WorkerInbox {
    notes: Sender<Note>,
    waker: Arc<Waker>,
}

/// A running relay. Dropping it stops it.
#[derive(Debug)]
pub struct Running {
    governor: Arc<Governor>,
    addresses: Vec<Address>,
    /// Duplicates of the sockets for a successor, if the settings allow a handover.
    places: Vec<(SocketRole, OwnedFd)>,
    /// Whether this process must remove the socket files.
    owns_files: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// Opens the addresses in the settings and starts the workers.
pub fn start(governor: Arc<Governor>) -> Result<Running, StartError> {
    start_with(governor, &mut Inherited::default())
}

/// As [`start`], except that sockets from another governor are not opened again.
pub(crate) fn start_with(governor: Arc<Governor>, inherited: &mut Inherited) -> Result<Running, StartError> {
    raise_descriptor_limit();
    let settings = governor.settings();
    let owns_files = Arc::new(AtomicBool::new(!inherited.has_predecessor()));
    let listeners = listener::open(&settings.listen, inherited, &owns_files)?;
    let places = listeners.iter().filter(|_| settings.listen.handover.is_some()).map(listener::Listener::place);
    let places = places.collect::<io::Result<Vec<_>>>()?;
    let addresses = listeners.iter().map(listener::Listener::address).collect();
    let parts = (0..settings.listen.workers.max(1)).map(|_| WorkerParts::new()).collect::<io::Result<Vec<_>>>()?;
    let inboxes: Vec<WorkerInbox> = parts.iter().map(|part| part.inbox.clone()).collect();
    let shared = Arc::new(Shared {
        governor: Arc::clone(&governor),
        resolver: Resolver::start()?,
        clients: Arc::default(),
        connections: Arc::default(),
        silent: Arc::default(),
        logins: Arc::default(),
        login_turns: Arc::default(),
        fallbacks: Fallbacks::default(),
        inboxes: inboxes.clone(),
    });
    governor.set_workers(parts.iter().map(WorkerParts::handle).collect());
    let mut door = Some(Door::new(listeners, inboxes, parts[0].poll.registry())?);
    let mut running = Running { governor, addresses, places, owns_files, threads: Vec::new() };
    for (place, part) in parts.into_iter().enumerate() {
        let poll = part.poll.registry().try_clone()?;
        let context = Context::new(Arc::clone(&shared), place, poll, part.inbox);
        let worker = Worker::new(part.poll, context, door.take(), part.commands, part.notes);
        let thread = thread::Builder::new().name(format!("relay-{place}"));
        // If one fails to start, dropping `running` ends the others.
        running.threads.push(thread.spawn(move || worker.run())?);
    }
    Ok(running)
}

/// The parts of a worker, before other threads know it.
struct WorkerParts {
    poll: Poll,
    inbox: WorkerInbox,
    notes: Receiver<Note>,
    sender: Sender<WorkerCommand>,
    commands: Receiver<WorkerCommand>,
}

impl WorkerParts {
    fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), worker::WAKER)?);
        let (sender, commands) = mpsc::channel();
        let (note_sender, notes) = mpsc::channel();
        Ok(WorkerParts { poll, inbox: WorkerInbox { notes: note_sender, waker }, notes, sender, commands })
    }

    fn handle(&self) -> WorkerHandle {
        WorkerHandle { sender: self.sender.clone(), waker: Arc::clone(&self.inbox.waker) }
    }
}

/// A session has two sockets, so the usual limit of 1024 files allows 500 clients.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        tracing::warn!("the limit of open files stays at {:?}: {error}", limit.current);
    }
}

impl Running {
    /// The listening addresses.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Accepts only operators at the console from now on, and ends each session as soon as it is idle. Ungoverned
    /// sessions continue until they end, or until [`stop`](Self::stop). A drain does not wait for consoles.
    pub fn drain(&self) {
        self.governor.is_draining.store(true, Ordering::Relaxed);
        self.governor.tell_all(|| WorkerCommand::Drain);
    }

    /// Ends all sessions now.
    pub fn stop(&self) {
        self.governor.tell_all(|| WorkerCommand::Stop);
    }

    /// Takes the sockets for a successor; empty from the second call on.
    pub(crate) fn take_places(&mut self) -> Vec<(SocketRole, OwnedFd)> {
        std::mem::take(&mut self.places)
    }

    /// Whether the socket files are removed when the sockets are closed.
    pub(crate) fn owns_files(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.owns_files)
    }

    /// Waits until all sessions have ended, after [`drain`](Self::drain) or [`stop`](Self::stop).
    pub fn join(mut self) {
        self.wait();
    }

    fn wait(&mut self) {
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a worker of the relay has panicked");
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
        self.wait();
    }
}
