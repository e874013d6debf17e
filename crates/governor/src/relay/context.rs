//! What the pairs of one worker share.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use plimsoll_postgres::connection::client_tls;
use rustls::ClientConfig;

use super::listener::Peer;
use super::pair::{Aimed, HELD_MAX, READ_MAX};
use super::side::{Joined, Spare};
use super::silent::SilentPlace;
use super::socket::Socket;
use super::{Shared, WorkerInbox};
use crate::governor::Governor;
use crate::registry::{SessionCard, SessionId};
use crate::settings::Settings;

/// Something for a worker from another thread of the relay.
#[derive(Debug)]
pub(super) enum Note {
    /// A client that it is to serve.
    Client(Visitor),
    /// A client that has said nothing gives way to a newcomer: the number of its place.
    GiveWay(u64),
    /// The addresses of the server, for that pair.
    Addresses(u64, io::Result<Vec<SocketAddr>>),
}

/// A client that has just come.
#[derive(Debug)]
pub(super) struct Visitor {
    pub(super) socket: Socket,
    pub(super) peer: Peer,
    /// It is one of the silent connections that there may be.
    pub(super) place: SilentPlace,
}

/// What the pairs of one worker share.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) governor: Arc<Governor>,
    pub(super) shared: Arc<Shared>,
    pub(super) worker: usize,
    /// Where sockets are watched.
    pub(super) poll: mio::Registry,
    pub(super) inbox: WorkerInbox,
    /// What is read; taken out by whoever reads, and put back.
    pub(super) buffer: Box<[u8]>,
    pub(super) joined: Joined,
    pub(super) spare: Spare,
    /// Which pair a session is.
    pub(super) sessions: HashMap<SessionId, u64>,
    /// Cancels for sessions whose clients have gone, to be sent.
    pub(super) cancels: Vec<Aimed>,
    /// A session waits, perhaps for admission: somebody should look when that has taken too long.
    pub(super) may_expire: bool,
    /// The governor is being stopped.
    pub(super) is_draining: bool,
    /// Another governor takes clients; those who are in are served until they leave.
    pub(super) is_retiring: bool,
    /// How TLS is spoken with the server of those settings.
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
            may_expire: false,
            is_draining: false,
            is_retiring: false,
            tls: None,
        }
    }

    /// After a step that came to no end: nothing of it is left for others.
    pub(super) fn restore(&mut self) {
        self.joined.clear();
        if self.buffer.is_empty() {
            self.buffer = buffer();
        }
    }

    /// Ends what a session does whose client has gone.
    pub(super) fn cancel_for_the_gone(&mut self, card: Option<&Arc<SessionCard>>) {
        self.cancels.extend(card.and_then(|card| Aimed::at(&self.governor, Arc::clone(card), None)));
    }

    /// Looks up a name; the pair is told.
    pub(super) fn resolve(&self, pair: u64, host: &str, port: u16) {
        let WorkerInbox { notes, waker } = self.inbox.clone();
        self.shared.resolver.ask(host, port, move |addresses| {
            // A worker that has ended has no pairs that wait.
            if notes.send(Note::Addresses(pair, addresses)).is_ok() {
                let _ = waker.wake();
            }
        });
    }

    /// How TLS is spoken with the server; made once for each state of the settings, for files are read for it.
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
