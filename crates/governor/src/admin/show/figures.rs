//! The figures of pools, in pgbouncer's terms. Each has one function, whatever serves the sessions.
//!
//! Without pooling each client has a server connection while it is connected: a "pool" is the sessions of one user in
//! one database, every client is linked, and no server connection is spare.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use plimsoll_policy::ClassIndex;

use crate::governor::{Closed, Governor};
use crate::registry::{CardState, Phase, SessionCard};

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
    pub(super) fn is_linked(&self, card: &SessionCard, _state: &CardState) -> bool {
        card.process().is_some()
    }

    /// The mode in pgbouncer's word.
    pub(super) fn mode(&self) -> &'static str {
        "session"
    }

    /// Server connections that serve no client, of a user in a database.
    pub(super) fn servers_idle(&self, _database: &str, _user: &str) -> u64 {
        0
    }

    /// How many server connections a pool may have.
    pub(super) fn pool_size(&self) -> u32 {
        self.governor.settings().listen.clients_max
    }

    /// How many it keeps, at least.
    pub(super) fn pool_size_min(&self) -> u32 {
        0
    }

    /// After which age a server connection is closed, in seconds; 0 for never.
    pub(super) fn server_lifetime_s(&self) -> u64 {
        0
    }

    /// Whether new clients of a database have to wait or are refused.
    pub(super) fn is_paused(&self, database: &str) -> bool {
        let are_all_paused = self.governor.settings().classes.iter().all(|class| class.is_paused);
        are_all_paused || self.governor.doors.is_closed(database, Closed::Killed)
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
                Phase::Queued => {
                    pool.clients_waiting += 1;
                    let waited = now.saturating_duration_since(state.since);
                    pool.waited_longest = pool.waited_longest.max(waited);
                }
                Phase::Active | Phase::IdleInTransaction | Phase::Ungoverned => pool.admitted += 1,
                Phase::Preempted => pool.preempted += 1,
                Phase::Idle => {}
            }
            pool.clients_active += u64::from(state.phase != Phase::Queued);
            let is_served = state.phase != Phase::Starting && self.is_linked(&card, &state);
            pool.servers_active += u64::from(is_served);
            if !pool.classes.contains(&state.class) {
                pool.classes.push(state.class);
            }
        }
        for ((database, user), pool) in &mut pools {
            pool.servers_idle = self.servers_idle(database, user);
            pool.classes.sort_unstable();
        }
        pools
    }
}

/// A client's state in pgbouncer's words.
pub(super) fn client_state(figures: &Figures<'_>, card: &SessionCard, state: &CardState) -> &'static str {
    match state.phase {
        Phase::Queued => "waiting",
        _ if figures.is_linked(card, state) => "active",
        _ => "idle",
    }
}

/// A server connection's state in pgbouncer's words.
pub(super) fn server_state(figures: &Figures<'_>, card: &SessionCard, state: &CardState) -> &'static str {
    match state.phase {
        Phase::Starting => "new",
        _ if state.cancels.in_flight > 0 => "being_canceled",
        _ if figures.is_linked(card, state) => "active",
        _ => "idle",
    }
}
