//! Admission by time, and what sessions ask of the thread that guards.

use std::time::{Duration, Instant};

use plimsoll_policy::{ClassIndex, Pace, Paced, Ticket};

use super::{Governor, Heard, SessionCommand};
use crate::pool::pools::PoolKey;
use crate::registry::{Phase, SessionId};

impl Governor {
    /// Admits transactions of sessions that keep their connections of exhausted pools. Those who wait for such a connection
    /// are admitted already, and would otherwise wait for those who wait for them.
    pub(crate) fn let_borrowers_in(&self) {
        let exhausted = self.pools.exhausted();
        if exhausted.is_empty() {
            return;
        }
        for card in self.registry.all() {
            let is_queued = card.state().phase == Phase::Queued;
            if is_queued && card.server_key().is_some() && exhausted.contains(&PoolKey::of(&card)) {
                self.let_in(card.id);
            }
        }
    }

    /// Admits a session's transaction beyond the limits, because others wait for what the session holds. Returns whether
    /// it waited for admission.
    pub fn let_in(&self, session: SessionId) -> bool {
        let is_admitted = self.admission.lock().let_in(Ticket(session.0));
        self.tell_admitted(is_admitted.then_some(Ticket(session.0)));
        is_admitted
    }

    /// Notifies the sessions that have waited too long, and returns when the next wait expires.
    pub fn expire_waiting(&self, now: Instant) -> Option<Duration> {
        let (expired, admitted, next) = {
            let (mut admission, now) = (self.admission.lock(), self.clock(now));
            let (expired, admitted) = (admission.expire(now), admission.keep_pace(now));
            let moment = admission.next_moment().filter(|at| *at > now);
            (expired, admitted, admission.next_expiry().into_iter().chain(moment).min())
        };
        self.tell_admitted(admitted);
        for ticket in expired {
            self.tell_ticket(ticket, SessionCommand::TimedOut);
        }
        next
    }

    /// A statement may exceed a limit of its class.
    pub(crate) fn look_for_runaways(&self) {
        self.bell.wake(Heard::Shares);
    }

    /// A transaction of a class with that pace begins; returns whether it would have waited if the pace were enforced.
    pub(crate) fn is_beyond(&self, class: ClassIndex, pace: Pace, now: Instant) -> bool {
        let now = self.clock(now);
        let mut budgets = self.budgets.lock();
        let paced = budgets.entry(class).or_insert_with(|| Paced::new(pace));
        paced.change(pace);
        !paced.takes(now)
    }

    /// Admits transactions whose moment has come.
    pub(crate) fn keep_pace(&self, now: Instant) {
        let admitted = self.admission.lock().keep_pace(self.clock(now));
        self.tell_admitted(admitted);
    }

    /// The time until the next moment of a waiting transaction.
    pub(crate) fn pace_due(&self, now: Instant) -> Option<Duration> {
        let now = self.clock(now);
        // Where the total MPL is full, the moment has passed, and a transaction that leaves lets others in.
        let moment = self.admission.lock().next_moment().filter(|at| *at > now);
        moment.map(|at| at - now)
    }
}
