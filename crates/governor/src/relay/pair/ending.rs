//! Connections that end: each is kept until its server process has closed it.

use std::time::Instant;

use super::{Pair, Phase};
use crate::relay::context::{Context, Lending};
use crate::relay::listener::Peer;
use crate::relay::side::{FAREWELL, Side};
use crate::relay::turns::LoginTurn;

/// A `Terminate`.
const GOODBYE: [u8; 5] = [b'X', 0, 0, 0, 4];

impl Pair {
    /// The end of a login that was given up.
    pub(in crate::relay) fn abandoned(id: u64, mut server: Side, turn: LoginTurn, now: Instant) -> Self {
        server.wire().finish();
        Pair {
            server: Some(server),
            phase: Phase::Ending,
            login_turn: Some(turn),
            deadline: Some(now + FAREWELL),
            ..Pair::empty(id, Peer::Local)
        }
    }

    /// Ends an idle connection of a pool.
    pub(in crate::relay) fn say_goodbye(&mut self, context: &mut Context, now: Instant) {
        if let (Phase::Home(_), Some(server)) = (&self.phase, &mut self.server) {
            server.send(&GOODBYE, &mut context.spare);
            (self.phase, self.deadline) = (Phase::Ending, Some(now + FAREWELL));
        }
    }

    /// Keeps the turn of the client that made the connection, if the connection is ending.
    pub(in crate::relay) fn keep_turn_until_ended(&mut self, turn: Option<LoginTurn>) {
        self.login_turn = turn.filter(|_| matches!(self.phase, Phase::Ending));
    }

    /// The turn to log in is over. If a server process knows of the login, it is over when that has ended.
    pub(super) fn leave_login(&mut self, context: &mut Context) {
        let Some(turn) = self.login_turn.take() else { return };
        let is_ending = matches!(self.phase, Phase::Ending);
        if let Some(side) = self.server.take().filter(|side| !is_ending && !side.has_left()) {
            context.lending.push_back(Lending::Abandons(side, turn));
        }
    }
}
