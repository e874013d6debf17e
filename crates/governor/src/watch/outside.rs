//! Sessions that wait for admission although admitted ones wait for a lock that they hold.
//!
//! A session may hold locks between its transactions: advisory ones. If all admitted transactions wait for such a lock,
//! none of them ends, and the transaction that would release it is never admitted. It is therefore admitted beyond the
//! limits.
//!
//! The same holds for a snapshot. `pg_dump --jobs` and others like it export one in an admitted transaction, which stays
//! open until several more sessions have imported it and done all the work. While that transaction waits for its client,
//! sessions with the same login are admitted beyond the limits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_pg::connection::WireError;
use plimsoll_policy::{ClassIndex, Login};

use super::control::Up;
use super::late::cards_of;
use super::look::{Looked, look};
use crate::governor::{Governor, Repeated};
use crate::registry::{Phase, SessionCard};
use crate::settings::Settings;
use crate::statistics::count;

/// How long a session must wait for admission, and an admitted one for its unit, before the server is asked; also the
/// first pause before it is asked again.
pub(super) const ASKED_AFTER: Duration = Duration::from_millis(100);

/// The longest pause between two questions. If limits are reached all the time, some session always waits.
const PAUSE_MAX: Duration = Duration::from_millis(1600);

/// When the server is asked next.
#[derive(Debug)]
pub(super) struct Outside {
    pause: Duration,
    next: Instant,
}

impl Outside {
    pub(super) fn new(now: Instant) -> Self {
        Outside { pause: ASKED_AFTER, next: now }
    }

    /// The time until the next question; `None` if no session can have to wait for admission.
    pub(super) fn due(&self, settings: &Settings, now: Instant) -> Option<Duration> {
        is_anything_limited(settings).then(|| self.next.saturating_duration_since(now))
    }

    /// The processes to begin a look with, if one is due.
    pub(super) fn begin(&mut self, governor: &Governor, settings: &Settings, now: Instant) -> Option<Vec<i32>> {
        if now < self.next || !is_anything_limited(settings) {
            return None;
        }
        let (mut queued, mut inside, mut exporters) = (Vec::new(), Vec::new(), Vec::new());
        for card in governor.registry.all() {
            let (phase, since, exports_snapshot) = {
                let state = card.state();
                (state.phase, state.since, state.exports_snapshot)
            };
            if now.saturating_duration_since(since) < ASKED_AFTER {
                continue;
            }
            match phase {
                Phase::Queued => queued.push(card),
                Phase::Active | Phase::Preempted => inside.extend(card.process()),
                Phase::IdleInTransaction if exports_snapshot => exporters.push(card.login.clone()),
                _ => {}
            }
        }
        let has_admitted = admit_importers(governor, settings, &queued, &exporters);
        let is_due = !queued.is_empty() && !inside.is_empty();
        self.pause = if is_due && !has_admitted { (self.pause * 2).min(PAUSE_MAX) } else { ASKED_AFTER };
        self.next = now + self.pause;
        is_due.then_some(inside)
    }

    /// Asks the server which sessions block the admitted ones, and admits those that wait for admission.
    pub(super) fn go(&mut self, up: &mut Up, governor: &Governor, inside: &[i32]) -> Result<(), WireError> {
        let began = Instant::now();
        let looked = look(up, inside);
        governor.statistics.count_look(began.elapsed());
        if admit_holders(governor, &looked?, began) {
            (self.pause, self.next) = (ASKED_AFTER, Instant::now() + ASKED_AFTER);
        }
        Ok(())
    }
}

fn is_anything_limited(settings: &Settings) -> bool {
    settings.indexed().any(|(class, _)| settings.is_limited(class))
}

/// Admits sessions whose client thinks in another session, which has exported a snapshot for them. Returns whether any
/// were admitted.
fn admit_importers(governor: &Governor, settings: &Settings, queued: &[Arc<SessionCard>], exporters: &[Login]) -> bool {
    let mut has_admitted = false;
    for card in queued.iter().filter(|card| exporters.contains(&card.login)) {
        let class = card.state().class;
        let why = "its client has exported a snapshot in another session, and may wait for it";
        has_admitted |= !settings.class(class).is_paused && admit(governor, settings, card, class, why);
    }
    has_admitted
}

/// Admits all sessions that block others while they wait for admission themselves, and did so before the look began: a
/// session that has ended its transaction since then no longer blocks any other. Returns whether any were admitted.
pub(super) fn admit_holders(governor: &Governor, looked: &Looked, began: Instant) -> bool {
    let mut blockers: Vec<i32> = looked.waits.values().flatten().copied().collect();
    blockers.sort_unstable();
    blockers.dedup();
    let (settings, mut has_admitted) = (governor.settings(), false);
    for (_, card) in cards_of(governor, &blockers) {
        let (waited, class) = {
            let state = card.state();
            (state.phase == Phase::Queued && state.since <= began, state.class)
        };
        has_admitted |=
            waited && admit(governor, &settings, &card, class, "others wait for a lock that this session holds");
    }
    has_admitted
}

/// Admits a queued session beyond the limits; returns whether it was still queued.
fn admit(governor: &Governor, settings: &Settings, card: &SessionCard, class: ClassIndex, why: &str) -> bool {
    let is_admitted = governor.let_in(card.id);
    if is_admitted {
        count(&governor.statistics.class(class).let_in);
        if governor.logs(Repeated::AdmittedBeyond) {
            let (process, class) = (card.process(), &settings.class(class).name);
            tracing::info!(session = card.id.0, process, class, "admitted beyond the limits: {why}");
        }
    }
    is_admitted
}
