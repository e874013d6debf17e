//! A PostgreSQL server as the other side of a replay.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;
use plimsoll_pg::connection::{Cancel, Connection, TransactionState};
use plimsoll_pg::url::ServerUrl;
use plimsoll_postgres::load::Exchange;

use crate::plan::Script;
use crate::replay::{Peer, Server};

/// How many requests to cancel are sent at the same time: each is a connection.
const AT_ONCE_MAX: usize = 16;

/// A server, as one role and in one database.
#[derive(Debug)]
pub struct PostgresServer {
    url: ServerUrl,
    /// Whether sessions begin with transactions that only read, so that a write which no text shows fails.
    read_only: bool,
    open: Arc<Mutex<OpenSessions>>,
}

#[derive(Debug, Default)]
struct OpenSessions {
    next: u64,
    cancels: BTreeMap<u64, Cancel>,
}

impl PostgresServer {
    /// A server by its URL.
    pub fn new(url: ServerUrl, read_only: bool) -> Self {
        PostgresServer { url, read_only, open: Arc::default() }
    }
}

/// The recorded parameters of a session, without those that name what the URL names.
pub(crate) fn startup(parameters: &[(String, String)], read_only: bool) -> Vec<(&str, &str)> {
    let ours = ["user", "database", "replication"];
    let kept = parameters.iter().filter(|(name, _)| !ours.contains(&name.as_str()) && !name.starts_with("_pq_."));
    let mut all: Vec<(&str, &str)> = kept.map(|(name, value)| (name.as_str(), value.as_str())).collect();
    if read_only {
        all.push(("default_transaction_read_only", "on"));
    }
    all
}

impl Server for PostgresServer {
    fn open(&self, script: &Script) -> Result<Box<dyn Peer>, String> {
        let connection = Connection::open_with(&self.url, &startup(&script.parameters, self.read_only));
        let connection = connection.map_err(|error| error.to_string())?;
        let mut open = self.open.lock();
        let number = open.next;
        open.next += 1;
        open.cancels.insert(number, connection.canceller());
        drop(open);
        Ok(Box::new(Session { connection, number, open: self.open.clone() }))
    }

    fn cancel_all(&self) {
        let all: Vec<Cancel> = self.open.lock().cancels.values().cloned().collect();
        thread::scope(|scope| {
            for part in all.chunks(all.len().div_ceil(AT_ONCE_MAX).max(1)) {
                scope.spawn(|| part.iter().for_each(|one| drop(one.send())));
            }
        });
    }
}

struct Session {
    connection: Connection,
    number: u64,
    open: Arc<Mutex<OpenSessions>>,
}

impl Peer for Connection {
    fn is_idle(&self) -> bool {
        self.transaction_state() == TransactionState::Idle
    }
}

impl Exchange for Session {
    fn exchange(&mut self, request: &[u8], on: &mut dyn FnMut(u8, &[u8])) -> Result<(), String> {
        self.connection.exchange(request, on)
    }
}

impl Peer for Session {
    fn is_idle(&self) -> bool {
        self.connection.is_idle()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.open.lock().cancels.remove(&self.number);
    }
}
