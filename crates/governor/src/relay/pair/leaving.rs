//! Clients that leave. What they sent before is passed on, as far as a server would have run it.
//!
//! A client that closes its connection, or one direction of it, cannot be told from one that waits for its answers: both
//! end with the same packet. PostgreSQL runs everything that arrived before the end, and so does the governor: it passes
//! on all bytes, then the end, and the answers as long as the client takes them. Whatever happens to the client's connection
//! after that happens to the server's.
//!
//! There are two exceptions, for the sake of those who wait for locks or for admission:
//!
//! - A statement within a block whose end the client has not sent will be rolled back in any case. If the client reads
//!   no more, the statement is cancelled at once.
//! - A transaction that waits for admission leaves the queue if the client has reset the connection, or if the
//!   transaction is such a block and its client reads no more.

use std::time::Instant;

use super::{HELD_MAX, Pair, Phase, READ_MAX};
use crate::relay::context::Context;
use crate::relay::side::Side;

/// How much the server knows of the end of its client.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// It has received all bytes, and their end.
    is_passed_on: bool,
    /// It will roll back everything that its session has not committed.
    leaves_nothing: bool,
    /// Bytes were sent to the client that make its system tell whether it still reads.
    is_sounded_out: bool,
}

/// What to do about a client that leaves.
enum Fate {
    Waits,
    Ends,
    /// The statement in flight is cancelled.
    EndsAtOnce,
    /// The client is asked whether it still reads.
    SoundsOut,
}

impl Pair {
    /// All bytes of the client were read.
    pub(super) fn on_client_end(&mut self) {
        match &self.phase {
            // The requested cancel continues.
            Phase::Cancel { .. } => self.client = None,
            Phase::Dialling(dial) if !dial.is_for_session() => self.client = None,
            Phase::Closing { .. } => self.client = None,
            Phase::Session(_) | Phase::Raw | Phase::Gate(_) | Phase::Dialling(_) | Phase::Login(..) => {}
            _ => (self.client, self.phase) = (None, Phase::Over),
        }
    }

    /// The client has closed its direction, or the connection.
    pub(super) fn on_client_leaving(&mut self, context: &mut Context, now: Instant) {
        let fate = match &self.phase {
            Phase::Session(_) => self.fate_of_session(context),
            Phase::Raw => self.fate_of_raw(),
            _ => self.fate_of_login(),
        };
        match fate {
            Fate::Waits => {}
            Fate::Ends => self.close(context, now),
            Fate::EndsAtOnce => {
                context.cancel_for_the_gone(self.card.as_ref());
                self.close(context, now);
            }
            Fate::SoundsOut => {
                let Phase::Session(session) = &self.phase else { return };
                let mut out = Pair::session_out(&mut self.client, &mut self.server, &mut self.pooled, context);
                self.leaving.is_sounded_out = session.sound_out(&mut out);
                out.finish();
            }
        }
    }

    fn fate_of_session(&mut self, context: &mut Context) -> Fate {
        if self.waits_for_connection() {
            // Its server would run what it has sent.
            return if self.client.as_ref().is_none_or(Side::is_lost) { Fate::Ends } else { Fate::Waits };
        }
        if self.pooled.as_ref().is_some_and(|pooled| pooled.link.awaits_own_answer()) {
            // Then the connection can serve another client.
            return Fate::Waits;
        }
        let is_pooled = self.pooled.is_some();
        if is_pooled && self.server.is_none() {
            return match &self.client {
                Some(client) if !client.is_lost() && (!client.is_at_end || client.is_blocked) => Fate::Waits,
                _ => Fate::Ends,
            };
        }
        let (Phase::Session(session), Some(client), Some(server)) =
            (&mut self.phase, &mut self.client, &mut self.server)
        else {
            return Fate::Ends;
        };
        let is_closed = client.is_closed || client.is_lost();
        let Leaving { is_sounded_out, .. } = self.leaving;
        let of_block = match (is_closed, is_sounded_out) {
            (true, _) => Fate::EndsAtOnce,
            (false, false) => Fate::SoundsOut,
            (false, true) => Fate::Waits,
        };
        if session.is_queued() {
            if client.is_lost() {
                return Fate::Ends;
            }
            let is_all = client.read_ahead(&mut context.buffer[..READ_MAX], HELD_MAX, &mut context.spare);
            return if is_all && session.leaves_nothing(&client.held) { of_block } else { Fate::Waits };
        }
        if !self.leaving.is_passed_on {
            if !client.is_at_end || client.is_blocked || !server.is_flushed() {
                return Fate::Waits;
            }
            self.leaving.leaves_nothing = session.leaves_nothing(b"");
            if !session.end_client() {
                return Fate::Waits;
            }
            if !is_pooled {
                server.wire().finish();
            }
            self.leaving.is_passed_on = true;
        }
        match () {
            () if session.is_answered() => Fate::Ends,
            () if self.leaving.leaves_nothing => of_block,
            // The server would have noticed it when it was done.
            () if is_pooled => Fate::Waits,
            // The server notices it as it would without a governor.
            () if is_closed => Fate::Ends,
            () => Fate::Waits,
        }
    }

    fn fate_of_raw(&mut self) -> Fate {
        let (Some(client), Some(server)) = (&self.client, &mut self.server) else { return Fate::Ends };
        if !client.is_at_end || !server.is_flushed() {
            return Fate::Waits;
        }
        if !std::mem::replace(&mut self.leaving.is_passed_on, true) {
            server.wire().finish();
        }
        if client.is_closed || client.is_lost() { Fate::Ends } else { Fate::Waits }
    }

    /// A client that leaves while it logs in, and has sent nothing for the session.
    fn fate_of_login(&mut self) -> Fate {
        let is_for_session = !matches!(&self.phase, Phase::Dialling(dial) if !dial.is_for_session());
        let Some(client) = self.client.as_ref().filter(|_| is_for_session) else { return Fate::Waits };
        let is_over = client.is_at_end || matches!(self.phase, Phase::Dialling(_));
        if client.is_lost() || is_over && client.held.is_empty() { Fate::Ends } else { Fate::Waits }
    }
}
