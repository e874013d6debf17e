//! Sockets: takes clients in, reaches the server for each, and moves bytes between the two through a session.
//!
//! In reading order: [`start`] opens what clients connect to and starts the workers, each a `worker` with a loop of its
//! own. A `door` deals clients out to them. A `pair` is one client and its connection to the server; `startup` and `login` are
//! what is said before there is a session, `wire` is a connection with or without TLS, `side` what waits to be sent to it.
//! `silent`, `logins` and `permit` bound how many clients there may be before they are let in and after.
//!
//! Sockets are called when epoll says that they are ready.
//!
//! A worker reads into buffers that all its sessions share, so a session that is idle has none. What a peer does not
//! take is kept, up to a bound above which nothing more is read from the other.

mod certificate_name;
mod context;
mod door;
mod fallback;
mod listener;
mod login;
mod logins;
mod pair;
mod permit;
mod proxy_protocol;
mod reach;
mod refusal;
mod resolver;
mod side;
mod silent;
mod socket;
mod startup;
mod timers;
mod waits;
mod wire;
mod worker;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use mio::{Poll, Waker};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub use listener::Address;
pub use reach::Reach;
pub use waits::waits_for;

use context::{Context, Note};
use door::Door;
use fallback::Fallbacks;
use logins::Logins;
use resolver::Resolver;
use silent::Silent;
use worker::Worker;

use crate::governor::{Governor, WorkerCommand, WorkerHandle};
use crate::handover::{Inherited, SocketRole};

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Nobody could connect.
    #[error("there is no address to listen at; give one with `addresses` or `socket_folders` in [listen]")]
    NoAddress,
    /// An address is taken, or cannot be had.
    #[error("cannot listen at {0}: {1}")]
    Listen(Address, #[source] io::Error),
    /// The machine has no room.
    #[error("the relay cannot be started: {0}")]
    System(#[from] io::Error),
}

/// What all workers share.
#[derive(Debug)]
struct Shared {
    governor: Arc<Governor>,
    resolver: Resolver,
    /// Clients that were let in.
    clients: Arc<AtomicUsize>,
    /// Connections of clients that have said what they want, let in or not.
    connections: Arc<AtomicUsize>,
    /// Those that have not.
    silent: Arc<Silent>,
    /// Those that are logging in.
    logins: Arc<Logins>,
    fallbacks: Fallbacks,
}

/// How the relay's threads reach a worker.
#[derive(Debug, Clone)]
struct WorkerInbox {
    notes: Sender<Note>,
    waker: Arc<Waker>,
}

/// A relay that runs. Dropping it stops it.
#[derive(Debug)]
pub struct Running {
    governor: Arc<Governor>,
    addresses: Vec<Address>,
    /// The sockets again, to be given to a successor, if the settings say how one asks.
    places: Vec<(SocketRole, OwnedFd)>,
    /// Whether the files of sockets are this process's to remove.
    owns_files: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// Opens the addresses in the settings and starts the workers.
pub fn start(governor: Arc<Governor>) -> Result<Running, StartError> {
    start_with(governor, &mut Inherited::default())
}

/// The same; what another governor hands over is not opened again.
pub(crate) fn start_with(governor: Arc<Governor>, inherited: &mut Inherited) -> Result<Running, StartError> {
    raise_descriptor_limit();
    let settings = governor.settings();
    let owns_files = Arc::new(AtomicBool::new(!inherited.has_predecessor()));
    let listeners = listener::open(&settings.listen, inherited, &owns_files)?;
    let places = listeners.iter().filter(|_| settings.listen.handover.is_some()).map(listener::Listener::place);
    let places = places.collect::<io::Result<Vec<_>>>()?;
    let addresses = listeners.iter().map(listener::Listener::address).collect();
    let shared = Arc::new(Shared {
        governor: Arc::clone(&governor),
        resolver: Resolver::start()?,
        clients: Arc::default(),
        connections: Arc::default(),
        silent: Arc::default(),
        logins: Arc::default(),
        fallbacks: Fallbacks::default(),
    });
    let parts = (0..settings.listen.workers.max(1)).map(|_| WorkerParts::new()).collect::<io::Result<Vec<_>>>()?;
    let inboxes: Vec<WorkerInbox> = parts.iter().map(|part| part.inbox.clone()).collect();
    governor.set_workers(parts.iter().map(WorkerParts::handle).collect());
    let mut door = Some(Door::new(listeners, inboxes, parts[0].poll.registry())?);
    let mut running = Running { governor, addresses, places, owns_files, threads: Vec::new() };
    for (place, part) in parts.into_iter().enumerate() {
        let poll = part.poll.registry().try_clone()?;
        let context = Context::new(Arc::clone(&shared), place, poll, part.inbox);
        let worker = Worker::new(part.poll, context, door.take(), part.commands, part.notes);
        let thread = thread::Builder::new().name(format!("relay-{place}"));
        // If one cannot be started, dropping `running` ends those that were.
        running.threads.push(thread.spawn(move || worker.run())?);
    }
    Ok(running)
}

/// What a worker is made of, before it is known to the others.
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

/// A session has two sockets; the usual limit of 1024 files is 500 clients.
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
    /// Where clients come in.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Lets nobody in any more but operators to the console, and ends each session as soon as it is idle. Sessions that pass
    /// ungoverned are left until they end, or until [`stop`](Self::stop). Consoles are not waited for.
    pub fn drain(&self) {
        self.governor.is_draining.store(true, Ordering::Relaxed);
        self.governor.tell_all(|| WorkerCommand::Drain);
    }

    /// Ends everything now.
    pub fn stop(&self) {
        self.governor.tell_all(|| WorkerCommand::Stop);
    }

    /// The sockets, to be given to a successor; once.
    pub(crate) fn take_places(&mut self) -> Vec<(SocketRole, OwnedFd)> {
        std::mem::take(&mut self.places)
    }

    /// Whether the files of sockets are removed when they are closed.
    pub(crate) fn owns_files(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.owns_files)
    }

    /// Waits until all has ended, after [`drain`](Self::drain) or [`stop`](Self::stop).
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
