//! Beside a server: the sessions that applications open there themselves become cards, filled from the server's views.
//!
//! One statement (`sight`) reads all of them. It is repeated every few milliseconds while an important session waits
//! for a lock, and otherwise as often as 2 % of the time allows. `cards` derives the facts that the rest of the
//! governor knows about any session: its class, its state, its process. `act` cancels statements and ends sessions,
//! after the server has checked in the same statement that the session is still in the state by which it was judged.
//!
//! Where applications come through a pooler, `poolers` asks it which client each of its server connections serves, and
//! `links` says for which transactions that is certain.
//!
//! Only one governor is active beside a server. [`plimsoll_policy::stands_by_for`] decides which one; the others stand by.

mod act;
mod cards;
mod links;
mod poolers;
mod sight;
mod work;

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_pg::connection::{Connection, Prepared, WireError};
use plimsoll_policy::{GovernorAtServer, GovernorPlace, stands_by_for};

use super::control::{Control, Signals, Up};
use super::{levers, statements};
use crate::governor::Governor;
use crate::settings::Settings;
pub(super) use act::cancel;
use cards::{Cards, Noticed};
use links::Span;
use poolers::Poolers;
use sight::Sight;
use work::DirectWork;

/// The shortest and the longest time between two looks while no important session waits.
const EVERY: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));

/// After a look the server has this many times as long without one; fewer while an important session waits.
const REST_FACTOR: u32 = 50;
const REST_FACTOR_LATE: u32 = 4;

/// How long a new governor only observes: one that started a moment before may not show yet.
const SETTLES: Duration = Duration::from_secs(1);

/// The time between two looks of a governor that only observes.
const LOOKS_ON_EVERY: Duration = Duration::from_millis(200);

/// The control connection's state beside a server.
#[derive(Debug)]
pub(super) struct Observing {
    sessions: Prepared,
    cancel: Prepared,
    end: Prepared,
    /// Whether the role may see what sessions of other roles do.
    sees_all: bool,
    /// Whether the server records what sessions do.
    keeps_account: bool,
    /// A text of this many bytes may have been cut.
    cut_bytes: usize,
}

impl Observing {
    /// Prepares an isolated session for observing.
    pub(super) fn on(connection: &mut Connection) -> Result<Observing, WireError> {
        connection.run(statements::OPENING_BESIDE)?;
        // Without the server's limit, any text may have been cut.
        let (mut sees_all, mut keeps_account, mut cut_bytes) = (false, false, 0);
        connection.text_rows(statements::SIGHT_RIGHTS, &mut |row| {
            sees_all = row.first() == Some(&Some("t"));
            keeps_account = row.get(1) == Some(&Some("on"));
            cut_bytes = row.get(2).copied().flatten().and_then(|bytes| bytes.parse().ok()).map_or(0, cut_bytes_of);
        })?;
        Ok(Observing {
            sessions: connection.prepare_text("sessions", statements::SESSIONS)?,
            cancel: connection.prepare_text("cancel_observed", statements::CANCEL_OBSERVED)?,
            end: connection.prepare_text("end_observed", statements::END_OBSERVED)?,
            sees_all,
            keeps_account,
            cut_bytes,
        })
    }

    /// Reads the server's sessions.
    pub(super) fn sight(&self, connection: &mut Connection) -> Result<Sight, WireError> {
        Sight::of(connection, &self.sessions, self.cut_bytes)
    }
}

/// The length from which a text may have been cut, given `track_activity_query_size`: the server keeps one byte less,
/// and as few as three bytes less than that where the limit falls in the middle of a character.
fn cut_bytes_of(size: usize) -> usize {
    (size.saturating_sub(1)).min(statements::TEXT_BYTES_MAX).saturating_sub(3)
}

/// Whether this governor is the active one.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Standing {
    /// It has observed since then, and does nothing yet.
    Settling(Instant),
    /// Another governor is active; the text says why this one is not.
    StandsBy(String),
    /// It is active.
    Works,
}

/// The sessions of a server beside which the governor works.
pub(super) struct Beside {
    governor: Arc<Governor>,
    cards: Cards,
    poolers: Poolers,
    work: DirectWork,
    next: Instant,
    standing: Standing,
    /// The process of the connection on which `standing` was determined.
    connection: Option<i32>,
    /// Whether the last look showed an important session that waits for a lock, and this was not yet reported.
    is_anybody_late: bool,
    /// The facts for which the levers' state was last reported: the settings' number, and the sessions that cannot be
    /// seen.
    told: Option<(u64, usize)>,
    /// Whether the log is yet to report which levers work, once the state of all of them is known.
    is_new_at_work: bool,
}

impl Beside {
    pub(super) fn new(governor: Arc<Governor>) -> Self {
        Beside {
            cards: Cards::new(governor.clone()),
            poolers: Poolers::default(),
            work: DirectWork::new(Instant::now()),
            governor,
            next: Instant::now(),
            standing: Standing::Settling(Instant::now()),
            connection: None,
            is_anybody_late: false,
            told: None,
            is_new_at_work: false,
        }
    }

    /// When the next look is due; `None` if the sessions at the server do not matter.
    pub(super) fn due(&self, now: Instant) -> Option<Duration> {
        let observes = self.governor.settings().observes();
        observes.then(|| self.next.saturating_duration_since(now))
    }

    /// Whether an important session waits for a lock since the last look; reported once for each look.
    pub(super) fn take_late(&mut self) -> bool {
        std::mem::take(&mut self.is_anybody_late)
    }

    /// Why this governor does nothing; `None` if it is active, as one in the connection path always is.
    pub(super) fn idle_because(&self) -> Option<&str> {
        self.passive_because().filter(|_| self.governor.settings().is_beside)
    }

    /// Why the sessions at the server are not governed; `None` if they are.
    fn passive_because(&self) -> Option<&str> {
        match &self.standing {
            Standing::Settling(_) => Some("the governor looks for other governors of this server for a second"),
            Standing::StandsBy(why) => Some(why),
            Standing::Works => None,
        }
    }

    /// Looks, if that is due. Returns whether this governor has become active or has ceased to be.
    pub(super) fn tend(&mut self, control: &mut Control, settings: &Settings, now: Instant) -> bool {
        if !settings.observes() {
            levers::blind(&self.governor, None);
        }
        if !settings.observes() || now < self.next {
            return false;
        }
        let Some(up) = control.connection() else {
            // Sessions that cannot be seen are not governed.
            self.cards.clear();
            self.next = now + EVERY.1;
            return false;
        };
        let began = Instant::now();
        let before = self.standing.clone();
        let looked = self.look(up, settings, now);
        let took = began.elapsed();
        self.next = now
            + match (&self.standing, self.is_anybody_late) {
                (Standing::Works, true) => settings.preemption.look_interval.max(took * REST_FACTOR_LATE),
                (Standing::Works, false) => (took * REST_FACTOR).clamp(EVERY.0, EVERY.1),
                _ => LOOKS_ON_EVERY,
            };
        if let Err(error) = &looked {
            // What sessions did a while ago says nothing about now.
            self.cards.clear();
            (self.told, self.is_anybody_late) = (None, false);
            control.lost_or_refused(error);
        }
        levers::blind(&self.governor, looked.err().map(|error| error.to_string()).as_deref());
        let works = |standing: &Standing| *standing == Standing::Works;
        works(&before) != works(&self.standing)
    }

    fn look(&mut self, up: &mut Up, settings: &Settings, now: Instant) -> Result<(), WireError> {
        let own = up.connection.process_id();
        let Some(observing) = &up.observing else { return Ok(()) };
        let began = Instant::now();
        let rights = (observing.sees_all, observing.keeps_account);
        let sight = observing.sight(&mut up.connection);
        let look = Span { began, ended: Instant::now() };
        self.governor.statistics.count_look(began.elapsed());
        let sight = sight?;
        if self.connection.replace(own) != Some(own) {
            (self.standing, self.told) = (Standing::Settling(now), None);
        }
        self.stand(&sight, own, now);
        let stands_by = settings.is_beside && matches!(self.standing, Standing::StandsBy(_));
        self.governor.health.lock().stands_by = stands_by;
        up.note_commits(&self.governor, sight.commits_wait, now);
        if let Some(why) = self.passive_because().map(str::to_owned) {
            self.cards.clear();
            (self.told, self.is_anybody_late) = (None, false);
            match settings.is_beside {
                true => levers::all_off(&self.governor, &why),
                false => levers::no_sessions(&self.governor, why),
            }
            return Ok(());
        }
        if settings.is_beside && self.told.is_some() && std::mem::take(&mut self.is_new_at_work) {
            for lever in self.governor.levers() {
                let (name, works, why) = (lever.name, lever.is_on, lever.why);
                tracing::info!(lever = name, works, "{why}");
            }
        }
        let can_signal =
            |user: &str| (up.signals == Signals::ByRight || user == up.role) && !up.unsignallable.contains(user);
        let are_others = self.poolers.ask(&settings.pgbouncers);
        let shown = self.poolers.shown();
        self.cards.show_links(shown.iter().map(|(_, shown)| shown.clone().ok()).collect(), are_others);
        let noticed = self.cards.see(&sight, settings, own, can_signal, look);
        self.note_poolers(&shown);
        let Noticed { is_anybody_late, unseen } = noticed;
        self.is_anybody_late = is_anybody_late;
        let told = (self.governor.generation(), unseen);
        if self.told.replace(told) != Some(told) {
            levers::sessions(&self.governor, rights, unseen, &up.role);
            if settings.is_beside {
                levers::preemption(&self.governor, up.signals, &up.role);
                levers::idle_bound(&self.governor, up.signals, &up.role);
            }
        }
        match settings.is_beside {
            true => self.cards.end_idle(up, settings, now),
            false => self.work.note(up, &self.cards, &noticed, settings, now),
        }
    }

    /// Reports what is known from each pooler.
    fn note_poolers(&self, shown: &[(String, poolers::Shown)]) {
        let line = |(address, shown): &(String, poolers::Shown)| match shown {
            Ok(links) => {
                let (found, all) = (self.cards.found(links), links.pooled.len());
                format!("{address}: {found} of its {all} server connections are sessions of this server")
            }
            Err(why) => format!("{address}: its clients are not known: {why}"),
        };
        self.governor.health.lock().poolers = shown.iter().map(line).collect();
    }

    /// Determines whether this governor is the active one.
    fn stand(&mut self, sight: &Sight, own: i32, now: Instant) {
        let governors: Vec<GovernorAtServer> = sight.governors().collect();
        let Some(me) = governors.iter().copied().find(|governor| governor.process == own) else { return };
        let others: Vec<GovernorAtServer> = governors.into_iter().filter(|other| other.process != own).collect();
        self.standing = match stands_by_for(me, &others) {
            Some(other) => {
                let place = if other.place == GovernorPlace::InPath { "in the connection path of" } else { "beside" };
                let does = match me.place {
                    GovernorPlace::Beside => "this one stands by",
                    GovernorPlace::InPath => {
                        "its sessions cannot be told from those of applications at the server, which are left alone"
                    }
                };
                let why = format!(
                    "another governor works {place} this server (its connection is process {}): {does}",
                    other.process
                );
                if self.standing != Standing::StandsBy(why.clone()) {
                    tracing::warn!("{why}");
                }
                Standing::StandsBy(why)
            }
            None => match self.standing {
                Standing::Works => Standing::Works,
                Standing::Settling(since) if now.saturating_duration_since(since) < SETTLES => {
                    Standing::Settling(since)
                }
                _ => {
                    self.is_new_at_work = true;
                    tracing::info!("sessions that applications have opened at the server are governed from now on");
                    Standing::Works
                }
            },
        };
    }
}
