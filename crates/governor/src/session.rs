//! The state machine of one session: bytes in, bytes out. See `session/README.md`.

use std::sync::Arc;
use std::time::Instant;

use crate::governor::{Governor, SessionCommand};
use crate::registry::SessionCard;

/// Where a session puts what it sends. Bytes that cannot be sent at once are kept by whoever implements this.
pub trait Outbox {
    /// To the server.
    fn to_server(&mut self, bytes: &[u8]);
    /// To the client.
    fn to_client(&mut self, bytes: &[u8]);
}

/// A session from its client's start-up message on, authentication included.
#[derive(Debug)]
pub struct Session {
    governor: Arc<Governor>,
    card: Arc<SessionCard>,
}

/// Why a session cannot go on: somebody does not speak the protocol. Its client is told, if it is still there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProtocolError(pub String);

impl Session {
    /// A session whose start-up message has been passed on to the server.
    pub fn new(governor: Arc<Governor>, card: Arc<SessionCard>) -> Self {
        Session { governor, card }
    }

    /// Offers bytes that the client has sent, those not taken before first; returns how many are taken. What is not taken is
    /// an incomplete message of at most 64 KiB, or all of it while [`takes_client_bytes`](Self::takes_client_bytes) is false.
    pub fn on_client(&mut self, bytes: &[u8], now: Instant, out: &mut impl Outbox) -> Result<usize, ProtocolError> {
        todo!()
    }

    /// As [`on_client`](Self::on_client), for what the server has sent.
    pub fn on_server(&mut self, bytes: &[u8], now: Instant, out: &mut impl Outbox) -> Result<usize, ProtocolError> {
        todo!()
    }

    /// Whether more of the client's bytes can be taken now. While not, they should not be read either; it can become true
    /// with any call of any other method.
    pub fn takes_client_bytes(&self) -> bool {
        todo!()
    }

    /// Something that another thread asks.
    pub fn on_command(&mut self, command: SessionCommand, now: Instant, out: &mut impl Outbox) {
        todo!()
    }

    /// When [`on_time`](Self::on_time) is to be called next; `None` for not at all. Asked after every other call.
    pub fn wakes_at(&self) -> Option<Instant> {
        todo!()
    }

    /// The time has come.
    pub fn on_time(&mut self, now: Instant, out: &mut impl Outbox) {
        todo!()
    }

    /// Whether it waits between transactions, so that a governor that is being stopped may end it.
    pub fn is_idle(&self) -> bool {
        todo!()
    }

    /// Whether it has asked to be ended: what was put out is to be sent, then both connections are closed.
    pub fn has_ended(&self) -> bool {
        todo!()
    }

    /// One of the two connections is gone: it leaves queues and registry.
    pub fn close(&mut self, now: Instant) {
        todo!()
    }
}
