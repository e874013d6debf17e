//! Time-outs and timers of a pair.

use std::time::Instant;

use super::{Pair, Phase};
use crate::capture::follower::Followed;
use crate::relay::context::Context;
use crate::relay::refusal::Refusal;
use crate::session::Outbox;

impl Pair {
    /// Handles a timer, which may be obsolete.
    pub(in crate::relay) fn on_time(&mut self, context: &mut Context, now: Instant) {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            return self.on_deadline(context, now);
        }
        self.expire_wait(context, now);
        match &mut self.phase {
            Phase::Session(session) if session.wakes_at().is_some_and(|at| at <= now) => {
                let out = Pair::session_out(&mut self.client, &mut self.server, &mut self.pooled, context);
                let mut out = Followed::new(out, self.follower.as_deref_mut(), now);
                session.on_time(now, &mut out);
                out.into_inner().finish();
            }
            Phase::Dialling(dial) if dial.next_attempt_at().is_some_and(|at| at <= now) => {
                self.on_attempt_timeout(context, now)
            }
            Phase::Console(console) => {
                let mut out = Pair::out(&mut self.client, &mut self.server, context);
                console.on_time(now, &mut |bytes| out.to_client(bytes));
                out.finish();
                // What the client has sent meanwhile is offered again.
                if let Some(client) = &mut self.client {
                    client.is_blocked |= !client.held.is_empty() && console.wakes_at().is_none();
                }
            }
            _ => {}
        }
    }

    fn on_deadline(&mut self, context: &mut Context, now: Instant) {
        match &self.phase {
            Phase::Dialling(_) => self.on_dial_deadline(context, now),
            Phase::Login(..) | Phase::Gate(_) | Phase::Console(_) => {
                let what = "canceling authentication due to timeout";
                self.refuse(&Refusal::new("57014", what), context, now);
            }
            Phase::Cancel { held } => {
                held.may_still_arrive();
                self.phase = Phase::Over;
            }
            _ => self.phase = Phase::Over,
        }
    }

    /// When [`on_time`](Self::on_time) must be called if no event comes before.
    pub(in crate::relay) fn wakes_at(&self) -> Option<Instant> {
        let own = match &self.phase {
            Phase::Session(session) => session.wakes_at(),
            Phase::Dialling(dial) => dial.next_attempt_at(),
            Phase::Console(console) => console.wakes_at(),
            _ => None,
        };
        own.into_iter().chain(self.deadline).chain(self.gives_up_at()).min()
    }
}
