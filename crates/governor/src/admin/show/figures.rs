//! The figures of pools, in pgbouncer's terms. Each has one function, whatever serves the sessions.
//!
//! A "pool" is the sessions of one user in one database. Without pooling each client has a server connection while it is
//! connected: every client is linked, and no server connection is spare. With pooling, the connections of a user in a
//! database are added up over its clients' start-up parameters.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use plimsoll_policy::ClassIndex;

use crate::governor::{Closed, Governor};
use crate::registry::{CardState, Phase, SessionCard};
use crate::settings::PoolMode;

/// Where figures come from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figures<'a> {
    governor: &'a Governor,
}

/// The sessions of one user in one database.
#[derive(Debug, Clone, Default)]
pub(super) struct PoolFigures {
    pub clients_active: u64,
    pub clients_waiting: u64,
    pub cancels_active: u64,
    pub cancels_waiting: u64,
    pub servers_active: u64,
    pub servers_being_cancelled: u64,
    pub servers_idle: u64,
    pub servers_logging_in: u64,
    pub waited_longest: Duration,
    /// Our own: the classes of its sessions, and transactions that run or were rolled back.
    pub classes: Vec<ClassIndex>,
    pub admitted: u64,
    pub preempted: u64,
}

impl<'a> Figures<'a> {
    pub(super) fn of(governor: &'a Governor) -> Self {
        Figures { governor }
    }

    /// Whether a server connection serves the client now.
    pub(super) fn is_linked(&self, card: &SessionCard) -> bool {
        card.process().is_some()
    }

    /// The mode in pgbouncer's word.
    pub(super) fn mode(&self) -> &'static str {
        let mode = self.governor.settings().pool.mode;
        PoolMode::NAMES.iter().find(|(_, known)| *known == mode).expect("each mode has a name").0
    }

    /// How many server connections a pool may have.
    pub(super) fn pool_size(&self) -> u32 {
        let settings = self.governor.settings();
        match settings.pool.mode {
            PoolMode::Session => settings.listen.clients_max,
            PoolMode::Transaction => settings.pool.size,
        }
    }

    /// After which age a server connection is closed, in seconds; 0 for never.
    pub(super) fn server_lifetime_s(&self) -> u64 {
        let settings = self.governor.settings();
        match settings.pool.mode {
            PoolMode::Session => 0,
            PoolMode::Transaction => settings.pool.lifetime.map_or(0, |lifetime| lifetime.as_secs()),
        }
    }

    /// Whether new clients of a database have to wait or are refused.
    pub(super) fn is_paused(&self, database: &str) -> bool {
        let are_all_paused = self.governor.settings().classes.iter().all(|class| class.is_paused);
        let is_closed = self.governor.doors.is_closed(database, Closed::Killed);
        are_all_paused || is_closed || self.governor.pools.is_paused(database)
    }

    pub(super) fn is_disabled(&self, database: &str) -> bool {
        self.governor.doors.is_closed(database, Closed::Disabled)
    }

    /// Every pool, by database and user.
    pub(super) fn pools(&self, now: Instant) -> BTreeMap<(String, String), PoolFigures> {
        let mut pools: BTreeMap<(String, String), PoolFigures> = BTreeMap::new();
        for card in self.governor.registry.all() {
            let state = card.state().clone();
            let key = (card.login.database.to_string(), card.login.user.to_string());
            let pool = pools.entry(key).or_default();
            let cancels = u64::from(state.cancels.in_flight > 0);
            pool.cancels_active += cancels;
            pool.servers_being_cancelled += cancels;
            match state.phase {
                Phase::Starting => pool.servers_logging_in += 1,
                Phase::Active | Phase::IdleInTransaction | Phase::Ungoverned => pool.admitted += 1,
                Phase::Preempted => pool.preempted += 1,
                Phase::Queued | Phase::Idle => {}
            }
            pool.clients_waiting += u64::from(state.is_waiting());
            pool.clients_active += u64::from(!state.is_waiting());
            pool.waited_longest = pool.waited_longest.max(waited(&state, now));
            let is_served = state.phase != Phase::Starting && self.is_linked(&card);
            pool.servers_active += u64::from(is_served);
            if !pool.classes.contains(&state.class) {
                pool.classes.push(state.class);
            }
        }
        for view in self.governor.pools.view() {
            let pool = pools.entry((view.key.database.to_string(), view.key.user.to_string())).or_default();
            pool.servers_idle += u64::from(view.idle);
            pool.servers_logging_in += u64::from(view.opening);
        }
        pools.values_mut().for_each(|pool| pool.classes.sort_unstable());
        pools
    }
}

/// How long a client has waited for admission or for a connection.
pub(super) fn waited(state: &CardState, now: Instant) -> Duration {
    match state.phase {
        Phase::Queued => now.saturating_duration_since(state.since),
        _ => state.waits_for_connection.map_or(Duration::ZERO, |since| now.saturating_duration_since(since)),
    }
}

/// A client's state in pgbouncer's words.
pub(super) fn client_state(figures: &Figures<'_>, card: &SessionCard, state: &CardState) -> &'static str {
    match state.is_waiting() {
        true => "waiting",
        false if figures.is_linked(card) => "active",
        false => "idle",
    }
}

/// A server connection's state in pgbouncer's words.
pub(super) fn server_state(figures: &Figures<'_>, card: &SessionCard, state: &CardState) -> &'static str {
    match state.phase {
        Phase::Starting => "new",
        _ if state.cancels.in_flight > 0 => "being_canceled",
        _ if figures.is_linked(card) => "active",
        _ => "idle",
    }
}
