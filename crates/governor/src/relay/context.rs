//! What the pairs of one worker share.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use plimsoll_pg::connection::client_tls;
use plimsoll_policy::ClassIndex;
use rustls::ClientConfig;

use super::listener::Peer;
use super::pair::{Aimed, HELD_MAX, Moving, READ_MAX};
use super::side::{Joined, Side, Spare};
use super::silent::SilentPlace;
use super::socket::Socket;
use super::turns::LoginTurn;
use super::{Shared, WorkerInbox};
use crate::credentials::Known;
use crate::governor::Governor;
use crate::pool::pools::{Place, PoolKey, Welcome};
use crate::registry::{SessionCard, SessionId};
use crate::settings::Settings;

/// A message to a worker from another thread of the relay.
#[derive(Debug)]
pub(super) enum Note {
    /// A client that the worker must serve.
    Client(Visitor),
    /// The silent client with this place number must be closed, to make room for a new one.
    GiveWay(u64),
    /// The server's addresses, for the given pair.
    Addresses(u64, io::Result<Vec<SocketAddr>>),
    /// The connection in that home is for that client, of that class, which another worker serves.
    Fetch { home: u64, key: PoolKey, client: Place, class: ClassIndex },
    /// A connection from another worker, for that pair.
    Connection { moving: Moving, pair: u64, class: ClassIndex },
    /// The connection that was to come to that pair, of that class, has ended.
    Lost { key: PoolKey, client: u64, class: ClassIndex },
    /// That pair waits for a connection in vain.
    Strands(u64),
    /// It is that pair's turn to log in at the server.
    LoginTurn(u64),
    /// What is known of the password of that pair's client.
    Known(u64, Known),
    /// That pair's client can learn what its server says of itself, or why it has none.
    Welcome(u64, Result<Welcome, Unwelcome>),
}

/// Why no connection could be opened: for people, and the server's own error if there was one.
pub(super) type Unwelcome = (String, Option<Box<[u8]>>);

/// What is to happen to the connections of pools after a step.
#[derive(Debug)]
pub(super) enum Lending {
    /// That pair's session wants a connection.
    Wants(u64),
    /// A connection goes back to its home; a transaction of that class had it.
    Returns { home: u64, moving: Moving, class: ClassIndex },
    /// A connection is new: a client has logged in, in its turn, or the governor itself has.
    Joins(Moving, Option<LoginTurn>),
    /// A login is given up: its turn ends when the server has ended the connection.
    Abandons(Side, LoginTurn),
    /// A connection of that pool is needed.
    Opens(PoolKey),
    /// A connection that was begun then could not be opened: why, and the server's own error if there was one.
    OpenFailed { key: PoolKey, began: Instant, why: String, error: Option<Box<[u8]>> },
    /// A connection on loan has ended, or must serve no other client.
    Gone { home: u64, key: PoolKey, class: ClassIndex },
    /// An idle connection of that pool has ended.
    Ended(PoolKey),
}

/// A client that has just connected.
#[derive(Debug)]
pub(super) struct Visitor {
    pub(super) socket: Socket,
    pub(super) peer: Peer,
    /// Its place among the silent connections.
    pub(super) place: SilentPlace,
}

/// What the pairs of one worker share.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) governor: Arc<Governor>,
    pub(super) shared: Arc<Shared>,
    pub(super) worker: usize,
    /// Registers sockets for events.
    pub(super) poll: mio::Registry,
    pub(super) inbox: WorkerInbox,
    /// The read buffer. The reader takes it out and puts it back.
    pub(super) buffer: Box<[u8]>,
    pub(super) joined: Joined,
    pub(super) spare: Spare,
    /// The pair of each session.
    pub(super) sessions: HashMap<SessionId, u64>,
    /// Cancels to be sent for sessions whose clients have disconnected.
    pub(super) cancels: Vec<Aimed>,
    /// What is to happen to the connections of pools after this step.
    pub(super) lending: VecDeque<Lending>,
    /// A session waits, perhaps for admission: the worker must check for time-outs.
    pub(super) may_expire: bool,
    /// The governor is being stopped.
    pub(super) is_draining: bool,
    /// Another governor accepts new clients; existing clients are served until they leave.
    pub(super) is_retiring: bool,
    /// The TLS configuration for the server in the given settings.
    tls: Option<(Arc<Settings>, Arc<ClientConfig>)>,
}

impl Context {
    pub(super) fn new(shared: Arc<Shared>, worker: usize, poll: mio::Registry, inbox: WorkerInbox) -> Self {
        Context {
            governor: Arc::clone(&shared.governor),
            shared,
            worker,
            poll,
            inbox,
            buffer: buffer(),
            joined: Joined::default(),
            spare: Spare::default(),
            sessions: HashMap::new(),
            cancels: Vec::new(),
            lending: VecDeque::new(),
            may_expire: false,
            is_draining: false,
            is_retiring: false,
            tls: None,
        }
    }

    /// Discards the state of a step that panicked.
    pub(super) fn restore(&mut self) {
        self.joined.clear();
        if self.buffer.is_empty() {
            self.buffer = buffer();
        }
    }

    /// Cancels the statement of a session whose client has disconnected.
    pub(super) fn cancel_for_the_gone(&mut self, card: Option<&Arc<SessionCard>>) {
        let Some(card) = card else { return };
        // Its connection serves no other client: whatever it runs may be cancelled.
        card.state().is_being_prepared = false;
        self.cancel_for(card);
    }

    /// Cancels the statement of a session. No client waits for the cancel itself.
    pub(super) fn cancel_for(&mut self, card: &Arc<SessionCard>) {
        self.cancels.extend(Aimed::at(&self.governor, Arc::clone(card), None));
    }

    /// Looks up a name; the pair receives the addresses.
    pub(super) fn resolve(&self, pair: u64, host: &str, port: u16) {
        let WorkerInbox { notes, waker } = self.inbox.clone();
        self.shared.resolver.ask(host, port, move |addresses| {
            // A worker that has ended has no waiting pairs.
            if notes.send(Note::Addresses(pair, addresses)).is_ok() {
                let _ = waker.wake();
            }
        });
    }

    /// The TLS configuration for the server; it is built once for each version of the settings, because that reads
    /// files.
    pub(super) fn client_tls(&mut self, settings: &Arc<Settings>) -> io::Result<Arc<ClientConfig>> {
        match &self.tls {
            Some((known, tls)) if Arc::ptr_eq(known, settings) => Ok(Arc::clone(tls)),
            _ => {
                let tls = Arc::new(client_tls(&settings.server)?);
                self.tls = Some((Arc::clone(settings), Arc::clone(&tls)));
                Ok(tls)
            }
        }
    }
}

fn buffer() -> Box<[u8]> {
    vec![0; HELD_MAX + READ_MAX].into()
}
