//! The open connections of one user of a server, so that all of their statements can be cancelled together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;

use super::{Cancel, Connection, WireError};
use crate::url::ServerUrl;

/// How many requests to cancel are sent at the same time: each is a connection.
const AT_ONCE_MAX: usize = 16;

/// Opens connections, and lists them while they live.
#[derive(Debug, Clone, Default)]
pub struct OpenConnections(Arc<Mutex<List>>);

#[derive(Debug, Default)]
struct List {
    next: u64,
    open: BTreeMap<u64, Cancel>,
}

impl OpenConnections {
    /// Opens a session.
    pub fn open(&self, url: &ServerUrl) -> Result<Connection, WireError> {
        let mut connection = Connection::open(url)?;
        let mut list = self.0.lock();
        let number = list.next;
        list.next += 1;
        list.open.insert(number, connection.canceller());
        connection.listed = Some(Listed { connections: self.clone(), number });
        Ok(connection)
    }

    /// Asks the server to cancel the statement of each. A request that cannot be sent is as one that comes too late.
    pub fn cancel_all(&self) {
        let all: Vec<Cancel> = self.0.lock().open.values().cloned().collect();
        thread::scope(|scope| {
            for part in all.chunks(all.len().div_ceil(AT_ONCE_MAX).max(1)) {
                scope.spawn(|| part.iter().for_each(|one| drop(one.send())));
            }
        });
    }
}

/// A connection's place in the list, which it leaves when it is closed.
#[derive(Debug)]
pub(super) struct Listed {
    connections: OpenConnections,
    number: u64,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.connections.0.lock().open.remove(&self.number);
    }
}
