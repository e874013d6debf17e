//! A client's cancel on its way to the server.
//!
//! PostgreSQL carries a cancel out before it closes the connection that brought it. Until then the session sends
//! nothing, so that no later statement is hit, and the client's own connection stays open, because libpq waits for its
//! end.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::dial::{Dial, Purpose};
use super::{Pair, Phase};
use crate::governor::{Governor, SessionCommand};
use crate::registry::{BackendKey, SessionCard};
use crate::relay::context::Context;
use crate::relay::listener::Peer;
use crate::statistics::count;

/// How long a session waits for a cancel to arrive.
pub(super) const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

/// A session that waits for a cancel. Dropping this notifies the session in every case.
#[derive(Debug)]
pub(in crate::relay) struct Aimed {
    governor: Arc<Governor>,
    card: Arc<SessionCard>,
    /// What identifies the session to the server.
    key: Option<BackendKey>,
    was_sent: bool,
    /// The connection of a client that cancels at another governor: it is closed when the cancel has arrived.
    _client: Option<OwnedFd>,
}

impl Aimed {
    /// Aims at the session's current unit; `None` if the session is idle. `client` is the connection of a client that
    /// cancels at another governor.
    pub(in crate::relay) fn at(
        governor: &Arc<Governor>,
        card: Arc<SessionCard>,
        client: Option<OwnedFd>,
    ) -> Option<Self> {
        // A cancel in flight keeps a session of a pool at its server process, so the key is read after the aim.
        card.aim_client_cancel()?;
        let aimed =
            Aimed { governor: Arc::clone(governor), key: card.server_key(), card, was_sent: false, _client: client };
        // Without a key the server cannot identify the session.
        aimed.key.as_ref()?;
        count(&governor.statistics.client_cancels);
        Some(aimed)
    }

    /// The server may carry it out when no client waits for it any more.
    pub(super) fn may_still_arrive(&self) {
        self.card.state().cancels.is_lost = true;
    }

    fn request(&self) -> Vec<u8> {
        let key = self.key.as_ref().expect("it was there when the cancel was aimed");
        let mut request = (12 + key.secret.len() as u32).to_be_bytes().to_vec();
        request.extend_from_slice(&[0x04, 0xd2, 0x16, 0x2e]);
        request.extend_from_slice(&key.process.to_be_bytes());
        request.extend_from_slice(&key.secret);
        request
    }
}

impl Drop for Aimed {
    fn drop(&mut self) {
        self.card.cancel_arrived(self.was_sent, false);
        self.governor.tell(self.card.worker, self.card.id, SessionCommand::CancelArrived);
    }
}

impl Pair {
    /// A cancel for a session whose client has disconnected.
    pub(in crate::relay) fn cancelling(id: u64, aimed: Aimed, context: &mut Context, now: Instant) -> Self {
        let mut pair = Pair::empty(id, Peer::Local);
        let settings = context.governor.settings();
        pair.dial(Dial::new(settings, Purpose::Cancel(aimed), now), context, now);
        pair
    }

    /// The server is connected, and receives the cancel.
    pub(super) fn send_cancel(&mut self, mut aimed: Aimed, context: &mut Context, now: Instant) {
        if let Some(server) = &mut self.server {
            server.send(&aimed.request(), &mut context.spare);
        }
        aimed.was_sent = true;
        self.deadline = Some(now + CANCEL_TIMEOUT);
        self.phase = Phase::Cancel { held: aimed };
    }
}
