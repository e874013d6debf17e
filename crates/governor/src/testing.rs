//! What tests of several modules begin with: a session, a preemption, and what the live page shows of such.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use plimsoll_policy::{ClassIndex, Login};

use crate::governor::{EventId, Governor, Outcome, PreemptionEvent};
use crate::page::state::{Preempted, Queued};
use crate::registry::{BackendKey, Phase, SessionCard, SessionId};

/// A session with that server process, which works for its first unit.
pub(crate) fn session(governor: &Governor, process: i32, class: ClassIndex, now: Instant) -> Arc<SessionCard> {
    let login = Login { user: "ann".to_owned(), database: "shop".to_owned(), application_name: String::new() };
    let card = Arc::new(SessionCard::new(governor.registry.next_id(), 0, "here".to_owned(), login, class, now));
    card.key.set(BackendKey { process, secret: Box::default() }).expect("set once");
    (card.state().phase, card.state().transaction, card.state().unit) = (Phase::Active, 1, 1);
    governor.registry.insert(card.clone());
    card
}

/// A preemption of session 11 for session 12.
pub(crate) fn preemption() -> PreemptionEvent {
    PreemptionEvent {
        id: EventId(0),
        at: SystemTime::UNIX_EPOCH,
        victim: (SessionId(11), 111),
        victim_class: "low".to_owned(),
        waiter: (SessionId(12), 112),
        waiter_class: "high".to_owned(),
        lever: "pow".to_owned(),
        waited: Duration::from_millis(3),
        victim_was: "waited for a lock",
        done: "cancelled",
        outcome: Outcome::Pending,
        stake: None,
    }
}

/// A preemption as the live page has it.
pub(crate) fn preempted() -> Preempted {
    Preempted {
        at: "2026-01-02T03:04:04.123Z".to_owned(),
        victim: 11,
        victim_class: "low".to_owned(),
        victim_was: "waited for its client".to_owned(),
        waiter: 8,
        waiter_class: "high".to_owned(),
        waited_s: 0.0416,
        lever: "pow".to_owned(),
        done: "rolled back".to_owned(),
        outcome: "40001: answer 12 differed".to_owned(),
        lost_s: Some(0.012),
        won_s: None,
    }
}

/// A transaction in the queue as the live page has it.
pub(crate) fn queued() -> Queued {
    Queued {
        session: 12,
        user: Some("report".to_owned()),
        database: Some("shop".to_owned()),
        class: "low".to_owned(),
        waited_s: 1.25,
        why: "class mpl 4 is full".to_owned(),
    }
}
