//! A governor that stops: which pairs end now, and which a drain waits for.

use std::time::Instant;

use super::{Pair, Phase};
use crate::governor::SessionCommand;
use crate::relay::context::Context;
use crate::relay::refusal::Refusal;

impl Pair {
    /// The governor is stopping: idle and connecting sessions are ended now, working ones when their transactions end.
    pub(in crate::relay) fn drain(&mut self, context: &mut Context, now: Instant) {
        let what = "the governor is shutting down";
        match &mut self.phase {
            Phase::Session(session) if session.is_idle() && !session.has_ended() => {
                self.on_command(SessionCommand::End { why: what.to_owned() }, context, now);
            }
            Phase::Dialling(dial) if !dial.is_for_session() => {}
            Phase::Dialling(_) | Phase::Login(..) | Phase::Gate(_) => {
                self.refuse(&Refusal::new("57P03", what), context, now);
            }
            // Operators may still connect, to see what the drain waits for.
            Phase::Greeting(_) | Phase::Console(_) => {}
            // The ends of their transactions are unknown here, and no drain waits for those that are not governed.
            Phase::Session(_)
            | Phase::Raw
            | Phase::Home(_)
            | Phase::OwnLogin
            | Phase::Ending
            | Phase::Cancel { .. }
            | Phase::Closing { .. }
            | Phase::Over => {}
        }
    }

    /// Whether a stopping governor waits for it.
    pub(in crate::relay) fn is_waited_for(&self) -> bool {
        match &self.phase {
            Phase::Greeting(_) | Phase::Console(_) | Phase::Raw | Phase::Home(_) | Phase::OwnLogin | Phase::Ending => {
                false
            }
            Phase::Session(session) => !session.is_ungoverned(),
            _ => true,
        }
    }
}
