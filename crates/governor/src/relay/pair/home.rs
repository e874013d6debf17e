//! The home of a connection of a pool: the pair that has it while it serves no client.
//!
//! The number of the home is in the socket's token. While the connection is on loan, its socket is with the client's pair,
//! and the worker passes its events on.

use std::sync::Arc;
use std::time::Instant;

use super::{End, Pair, Phase, token};
use crate::pool::connection::PooledConnection;
use crate::pool::pools::{Idle, Place, PoolKey};
use crate::relay::context::{Context, Lending};
use crate::relay::listener::Peer;
use crate::relay::side::Side;
use crate::settings::CpuShare;

/// A connection that serves no client, or whose socket is with a client's pair.
#[derive(Debug)]
pub(in crate::relay) struct Home {
    pub(in crate::relay) key: PoolKey,
    connection: Option<Box<PooledConnection>>,
    lent_to: Option<u64>,
    /// When the connection was made.
    made: Instant,
    /// The share of the cores that its process has.
    share: CpuShare,
}

/// A connection, its socket included, on its way from one pair to another.
#[derive(Debug)]
pub(in crate::relay) struct Moving {
    pub(in crate::relay) side: Side,
    pub(in crate::relay) connection: Box<PooledConnection>,
    pub(in crate::relay) key: PoolKey,
    pub(in crate::relay) share: CpuShare,
}

impl Pair {
    /// The home of a connection.
    pub(in crate::relay) fn home(id: u64, moving: Moving) -> Self {
        let Moving { side, connection, key, share } = moving;
        let made = connection.since;
        let home = Home { key, connection: Some(connection), lent_to: None, made, share };
        Pair { server: Some(side), phase: Phase::Home(Box::new(home)), ..Pair::empty(id, Peer::Local) }
    }

    /// When the connection of a home was made.
    pub(in crate::relay) fn made(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Home(home) => Some(home.made),
            _ => None,
        }
    }

    /// The connection in a home, for its pool.
    pub(in crate::relay) fn idle(&self, place: Place, now: Instant) -> Option<(PoolKey, Idle)> {
        let Phase::Home(home) = &self.phase else { return None };
        let process = home.connection.as_ref()?.key.process;
        Some((home.key.clone(), Idle { place, share: home.share, process, made: home.made, since: now }))
    }

    /// The pair that its connection is on loan to.
    pub(in crate::relay) fn borrower(&self) -> Option<u64> {
        match &self.phase {
            Phase::Home(home) => home.lent_to,
            _ => None,
        }
    }

    /// Takes the connection out of its home, for the given pair or for another worker.
    pub(in crate::relay) fn lend(&mut self, to: Option<u64>) -> Option<Moving> {
        let Phase::Home(home) = &mut self.phase else { return None };
        let (side, connection) = (self.server.take()?, home.connection.take()?);
        home.lent_to = to;
        let moving = Moving { side, connection, key: home.key.clone(), share: home.share };
        if to.is_none() {
            self.phase = Phase::Over;
        }
        Some(moving)
    }

    /// Puts a connection back into its home.
    pub(in crate::relay) fn take_back(&mut self, moving: Moving) {
        if let Phase::Home(home) = &mut self.phase {
            (home.connection, home.lent_to, home.share) = (Some(moving.connection), None, moving.share);
            self.server = Some(moving.side);
        }
    }

    /// Bytes of a server that serves no client: it says that it ends, or reports a parameter.
    pub(super) fn on_idle_server(&mut self, bytes: &[u8], context: &mut Context) -> usize {
        let mut at = 0;
        while let (Phase::Home(home), Some((tag, body, length))) = (&mut self.phase, message(&bytes[at..])) {
            at += length;
            match (tag, &mut home.connection) {
                (b'N', _) => {}
                (b'S', Some(connection)) => {
                    let mut texts = body.split(|byte| *byte == 0);
                    if let (Some(name), Some(value)) = (texts.next(), texts.next()) {
                        Arc::make_mut(&mut connection.reports).insert(name.into(), value.into());
                    }
                }
                // It ends, or it is not known what it is doing.
                _ => self.phase = self.over(context),
            }
        }
        at
    }

    /// The phase of a pair that is over. A home tells its pool.
    pub(super) fn over(&mut self, context: &mut Context) -> Phase {
        if let Phase::Home(home) = &self.phase {
            Pair::leave_home(home, Place { worker: context.worker, pair: self.id }, context);
        }
        Phase::Over
    }

    /// A pair leaves that is the home of an idle connection.
    pub(super) fn leave_home(home: &Home, place: Place, context: &mut Context) {
        let settings = context.governor.settings();
        let of = (&*settings, context.governor.generation());
        if context.governor.pools.ended(&home.key, place, of) {
            context.lending.push_back(Lending::Ended(home.key.clone()));
        }
    }
}

/// A whole message: its tag, its body and its length.
fn message(bytes: &[u8]) -> Option<(u8, &[u8], usize)> {
    let (head, _) = bytes.split_first_chunk::<5>()?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize + 1;
    Some((head[0], bytes.get(5..length.max(5))?, length.max(5)))
}

/// A token of the connection in the home with that number.
pub(in crate::relay) fn home_token(home: u64) -> mio::Token {
    token(home, End::Server)
}
