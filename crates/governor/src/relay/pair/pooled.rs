//! Sessions of a pool: each has a connection on loan while it needs one.

use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use plimsoll_policy::{Claim, ClassIndex, Ticket};

use super::{Conduct, Moving, Pair, Phase};
use crate::governor::Repeated;
use crate::pool::connection::PooledConnection;
use crate::pool::link::Link;
use crate::pool::pools::PoolKey;
use crate::pool::settings::Reports;
use crate::registry::{BackendKey, SessionCard};
use crate::relay::context::{Context, Lending};
use crate::relay::refusal::Refusal;
use crate::session::{Notice, Reported, error_response};
use crate::settings::{CpuShare, PoolMode, Settings};
use crate::statement::residue::Pin;
use crate::statistics::count;

/// A session of a pool.
#[derive(Debug)]
pub(super) struct Pooled {
    pub(super) link: Link,
    key: PoolKey,
    loan: Option<Loan>,
    /// Since when it waits for a connection.
    waits_since: Option<Instant>,
    /// When it waits no longer.
    gives_up_at: Option<Instant>,
    /// The unit after which the server was asked for the values of settings.
    asked_after: Option<u64>,
    /// It has read values of sequences by `currval` or `lastval`.
    reads_sequences: bool,
    /// Cancels wait until its connection is prepared.
    is_being_prepared: bool,
}

impl Pooled {
    /// Cancels wait while the server runs statements of the link's own, and are sent when it has run them.
    fn prepares(&mut self, card: &Arc<SessionCard>, context: &mut Context) {
        let is_being_prepared = self.link.runs_own_query();
        if mem::replace(&mut self.is_being_prepared, is_being_prepared) == is_being_prepared {
            return;
        }
        let is_due = {
            let mut state = card.state();
            state.is_being_prepared = is_being_prepared;
            !is_being_prepared && mem::take(&mut state.cancels.is_deferred)
        };
        if is_due {
            context.cancel_for(card);
        }
    }
}

/// A connection on loan.
#[derive(Debug, Clone, Copy)]
struct Loan {
    home: u64,
    class: ClassIndex,
}

/// How a new session is treated.
pub(super) fn conduct_of(is_raw: bool, settings: &Settings) -> Conduct {
    match (is_raw, settings.pool.mode) {
        (true, _) => Conduct::Raw,
        (false, PoolMode::Session) => Conduct::Governed,
        (false, PoolMode::Transaction) => Conduct::Pooled,
    }
}

/// A key that no server has made: the client of a pool cancels by it at the governor.
pub(super) fn made_up_key() -> BackendKey {
    let process = (rand::random::<u32>() >> 1) as i32;
    BackendKey { process: process.max(1), secret: rand::random::<[u8; 4]>().into() }
}

impl Pair {
    /// The pool of the client.
    pub(super) fn pool_key(&self) -> Option<PoolKey> {
        self.card.as_deref().map(PoolKey::of)
    }

    /// A client of a pool has been let in: over a connection of its own with that key, which now belongs to the pool, or
    /// by the governor.
    pub(super) fn begin_pooled(
        &mut self,
        (key, reported, reports): (Option<BackendKey>, Reported, Reports),
        context: &mut Context,
    ) {
        let (Some(card), Some(pool)) = (self.card.clone(), self.pool_key()) else { return };
        let Phase::Session(session) = &mut self.phase else { return };
        let settings = context.governor.settings();
        session.set_pooled(true);
        session.set_clean_functions(settings.pool.clean_functions.clone().into());
        // With no key it is not a connection that could serve a client, but its settings are those of the client.
        let connection =
            PooledConnection::new(key.clone().unwrap_or_else(made_up_key), reported, Arc::new(reports), card.opened);
        let texts = context.governor.pools.texts(&pool, (&settings, context.governor.generation()));
        let prepared_max = settings.pool.prepared_max as usize;
        let (base, heard) = (Arc::clone(&connection.base), Arc::clone(&connection.reports));
        let link = Link::new(card.id.0, texts, prepared_max, base, heard);
        card.is_served_by(None);
        let key = pool.clone();
        self.pooled = Some(Box::new(Pooled {
            link,
            key,
            loan: None,
            waits_since: None,
            gives_up_at: None,
            asked_after: None,
            reads_sequences: false,
            is_being_prepared: false,
        }));
        let turn = self.login_turn.take();
        if let Some(side) = self.server.take() {
            let moving = Moving { side, connection: Box::new(connection), key: pool, share: CpuShare::Untouched };
            context.lending.push_back(Lending::Joins(moving, turn));
        }
    }

    /// What the session's pool must know before it can have a connection.
    pub(in crate::relay) fn claim(&self) -> Option<(PoolKey, Claim)> {
        let (pooled, card) = (self.pooled.as_ref()?, self.card.as_ref()?);
        pooled.waits_since?;
        Some((pooled.key.clone(), card.claim(card.state().class)))
    }

    /// Whether it has asked its pool for a connection, and has none yet.
    pub(in crate::relay) fn awaits_connection(&self) -> bool {
        self.pooled.as_ref().is_some_and(|pooled| pooled.waits_since.is_some())
    }

    /// A connection is there for what the session has sent.
    pub(in crate::relay) fn attach(&mut self, (moving, home, class): (Moving, u64, ClassIndex), context: &mut Context) {
        let (Some(pooled), Some(card)) = (&mut self.pooled, &self.card) else { return };
        let share = context.governor.settings().share_of(class);
        card.is_served_by(Some(Arc::clone(&moving.connection.key)));
        card.state().waits_for_connection = None;
        (pooled.waits_since, pooled.gives_up_at) = (None, None);
        pooled.loan = Some(Loan { home, class });
        let server = self.server.insert(moving.side);
        server.is_blocked = !server.held.is_empty();
        let mut out = Vec::new();
        pooled.link.attach(moving.connection, &mut |bytes| out.extend_from_slice(bytes));
        pooled.prepares(card, context);
        server.send(&out, &mut context.spare);
        if moving.share != share {
            context.governor.change_shares();
        }
    }

    /// The session cannot have a connection, now or ever.
    pub(in crate::relay) fn is_stranded(&mut self, context: &mut Context, now: Instant) {
        if self.awaits_connection() {
            let what = "terminating connection: its pool has lost its server connections, and the governor has no \
                        credentials to open others";
            let hint =
                "Connect again. With `users_file` or `auth_query` in [login] the governor opens connections itself.";
            self.refuse(&Refusal::new("57P01", what).hint(hint), context, now);
        }
    }

    /// Whether the session waits for a connection.
    pub(super) fn waits_for_connection(&self) -> bool {
        self.pooled.as_ref().is_some_and(|pooled| pooled.link.wants())
    }

    /// When its wait for a connection is over.
    pub(super) fn gives_up_at(&self) -> Option<Instant> {
        self.pooled.as_ref()?.gives_up_at
    }

    /// The session no longer waits for a connection: its unit is answered with an error.
    pub(super) fn stop_waiting(&mut self, sqlstate: &'static str, why: &str, context: &mut Context) {
        let (Some(pooled), Some(card)) = (&mut self.pooled, &self.card) else { return };
        let settings = context.governor.settings();
        let of = (&*settings, context.governor.generation());
        // Otherwise a connection is on its way.
        if pooled.waits_since.is_some() && context.governor.pools.abandon(&pooled.key, Ticket(card.id.0), of) {
            (pooled.waits_since, pooled.gives_up_at) = (None, None);
            card.state().waits_for_connection = None;
            if let Phase::Session(session) = &mut self.phase {
                session.runs_nothing();
            }
            pooled.link.refuse(error_response(&Notice::new("ERROR", sqlstate, why)));
        }
    }

    /// Gives up a wait that has lasted for too long.
    pub(super) fn expire_wait(&mut self, context: &mut Context, now: Instant) {
        if self.gives_up_at().is_none_or(|at| at > now) {
            return;
        }
        let since = self.pooled.as_ref().and_then(|pooled| pooled.waits_since).unwrap_or(now);
        let waited = now.saturating_duration_since(since);
        let why = format!("no server connection has come free: this transaction has waited {waited:.0?} for one");
        self.stop_waiting("53300", &why, context);
    }

    /// Delivers the link's own answers, asks for a connection, or gives it back. Returns whether anything has happened.
    pub(super) fn settle_link(&mut self, context: &mut Context, now: Instant) -> bool {
        if self.pooled.is_none() {
            return false;
        }
        let has_answered = self.hear_answers(context, now);
        let Phase::Session(session) = &mut self.phase else { return has_answered };
        let Some(pooled) = &mut self.pooled else { return has_answered };
        if let Some(card) = &self.card {
            pooled.prepares(card, context);
        }
        if let Some(server) = &mut self.server {
            pooled.link.go_on(&mut |bytes| server.send(bytes, &mut context.spare));
        }
        if let Some(why) = pooled.link.broken() {
            let why = why.to_owned();
            self.refuse(&Refusal::new("08006", why), context, now);
            return true;
        }
        if pooled.link.is_over() {
            // A server closes the connection, and some clients wait for that.
            self.close(context, now);
            return true;
        }
        if pooled.link.wants() {
            if pooled.waits_since.is_none() {
                pooled.waits_since = Some(now);
                if let Some(card) = &self.card {
                    let mut state = card.state();
                    state.waits_for_connection = Some(now);
                    let timeout = context.governor.settings().class(state.class).limits.timeout;
                    pooled.gives_up_at = timeout.map(|timeout| now + timeout);
                }
                context.lending.push_back(Lending::Wants(self.id));
            }
            return has_answered;
        }
        let is_at_rest = session.is_between_transactions() && session.owes_its_connection_nothing();
        if pooled.link.is_attached() && pooled.link.owes_nothing() && is_at_rest {
            return self.clear_up(context, now) || has_answered;
        }
        has_answered
    }

    /// The session is at rest: the connection goes back, unless something of the session is left in it. Returns whether
    /// the server was asked for it.
    fn clear_up(&mut self, context: &mut Context, now: Instant) -> bool {
        let (Phase::Session(session), Some(pooled), Some(card)) = (&mut self.phase, &mut self.pooled, &self.card)
        else {
            return false;
        };
        if pooled.link.has_discarded() {
            session.clear_residue();
            session.knows_settings(b"", b"");
            pooled.asked_after = None;
            card.state().pinned = None;
        }
        let residue = session.residue();
        pooled.reads_sequences |= residue.reads_sequences;
        if residue.sequences && pooled.reads_sequences {
            pooled.link.pin_because("it reads the values that it takes of sequences".to_owned());
        }
        let because = residue.pin.as_ref().map(ToString::to_string).or_else(|| pooled.link.pin().map(str::to_owned));
        if let Some(because) = because {
            if residue.pin != Some(Pin::Unasked) {
                note_pin(card, because, context);
            }
            return false;
        }
        let asks = residue.all_settings || !residue.settings.is_empty();
        if asks && pooled.asked_after != Some(session.unit_number()) {
            pooled.asked_after = Some(session.unit_number());
            let named = residue.settings.iter().cloned();
            let own = pooled.link.names_of_settings().filter(|_| residue.all_settings);
            let names: BTreeSet<Box<[u8]>> = named.chain(own).collect();
            let mut out = Vec::new();
            pooled.link.ask_settings(names.into_iter(), &mut |bytes| out.extend_from_slice(bytes));
            if let Some(server) = &mut self.server {
                server.send(&out, &mut context.spare);
            }
            return true;
        }
        if asks {
            let value = |name: &[u8]| pooled.link.setting(name).unwrap_or_default().to_vec();
            let path = value(b"search_path");
            session.knows_settings(&path, &value(b"role"));
            if memchr::memmem::find(&path, b"pg_temp").is_some() {
                let because = "its search_path names the schema of its temporary objects".to_owned();
                pooled.link.pin_because(because.clone());
                note_pin(card, because, context);
                return false;
            }
        }
        self.give_back(context, now);
        false
    }

    fn hear_answers(&mut self, context: &mut Context, now: Instant) -> bool {
        let mut has_answered = false;
        while let Some(answers) = self.pooled.as_mut().map(|pooled| pooled.link.answers()).filter(|it| !it.is_empty()) {
            has_answered = true;
            self.session_hears(&answers, context, now);
        }
        has_answered
    }

    /// Bytes of the server: the session is offered what it is to see.
    pub(super) fn scan(&mut self, bytes: &[u8], context: &mut Context, now: Instant) -> usize {
        let mut at = 0;
        loop {
            let Some(pooled) = &mut self.pooled else { return bytes.len() };
            let step = pooled.link.scan(&bytes[at..]);
            if step.pass > 0 {
                let taken = self.session_hears(&bytes[at..at + step.pass], context, now).min(step.pass);
                at += taken;
                if let Some(pooled) = self.pooled.as_mut().filter(|_| taken < step.pass) {
                    pooled.link.leaves(step.pass - taken);
                    return at;
                }
            }
            at += step.drop;
            let has_answered = self.hear_answers(context, now);
            if step.pass == 0 && step.drop == 0 && !has_answered || at >= bytes.len() {
                return at;
            }
        }
    }

    /// Gives the connection back, or closes it if it must serve no other client.
    fn give_back(&mut self, context: &mut Context, now: Instant) {
        let (Some(pooled), Some(card)) = (&mut self.pooled, &self.card) else { return };
        if card.state().cancels.in_flight > 0 {
            // The session learns when the cancel has arrived.
            return;
        }
        let Some(loan) = pooled.loan.take() else { return };
        card.is_served_by(None);
        let (Some(mut connection), Some(side)) = (pooled.link.release(), self.server.take()) else { return };
        if let Phase::Session(session) = &mut self.phase {
            if session.residue().sequences {
                connection.sequences_of = Some(card.id.0);
            }
            if pooled.asked_after != Some(session.unit_number()) {
                // Its client has left, and it is not known the values: the next client's are set in any case.
                let unknown = session.residue().settings.iter().map(|name| (name.clone(), Box::from(&b"\0"[..])));
                let unknown: Vec<_> = unknown.collect();
                if !unknown.is_empty() {
                    Arc::make_mut(&mut connection.settings).extend(unknown);
                }
            }
            if let Some((name, value)) = session.leaves_worker_limit() {
                Arc::make_mut(&mut connection.settings).insert(name.into(), value.into_bytes().into());
            }
            session.clear_residue();
            pooled.asked_after = None;
        }
        let settings = context.governor.settings();
        let is_old =
            settings.pool.lifetime.is_some_and(|lifetime| now.saturating_duration_since(connection.since) > lifetime);
        let is_lost = mem::take(&mut card.state().cancels.is_lost);
        let has_left = side.has_left() || !side.is_flushed() || !side.held.is_empty();
        if is_old || is_lost || has_left || connection.is_spoilt {
            tracing::debug!(
                is_old,
                is_lost,
                has_left,
                connection.is_spoilt,
                held = side.held.len(),
                "a server connection is closed"
            );
            context.lending.push_back(Lending::Gone { home: loan.home, key: pooled.key.clone(), class: loan.class });
            return;
        }
        let moving = Moving { side, connection, key: pooled.key.clone(), share: settings.share_of(loan.class) };
        context.lending.push_back(Lending::Returns { home: loan.home, moving, class: loan.class });
    }

    /// The client's session ends: its connection goes back if nothing is left in it, and is closed otherwise.
    pub(super) fn leave_pool(&mut self, context: &mut Context, now: Instant) {
        let is_clean = match &self.phase {
            Phase::Session(session) => {
                session.is_between_transactions()
                    && session.owes_its_connection_nothing()
                    && session.residue().pin.is_none()
            }
            _ => false,
        };
        if self.pooled.as_ref().is_some_and(|pooled| is_clean && pooled.link.is_free()) {
            self.give_back(context, now);
        }
        let Some(pooled) = self.pooled.take() else { return };
        if let Some(card) = &self.card {
            let settings = context.governor.settings();
            let of = (&*settings, context.governor.generation());
            card.is_served_by(None);
            // If a connection is on its way, its worker finds no client and offers it again.
            context.governor.pools.abandon(&pooled.key, Ticket(card.id.0), of);
        }
        if let Some(loan) = pooled.loan {
            tracing::debug!(home = loan.home, ?pooled.link, "a server connection is closed with its client");
            self.server = None;
            context.lending.push_back(Lending::Gone { home: loan.home, key: pooled.key, class: loan.class });
        }
    }
}

/// Tells the operator why a session keeps its connection.
fn note_pin(card: &SessionCard, because: String, context: &Context) {
    let mut state = card.state();
    if state.pinned.is_none() {
        if context.governor.logs(Repeated::SessionPinned) {
            tracing::debug!(session = card.id.0, "the session keeps its server connection: {because}");
        }
        count(&context.governor.statistics.pinned);
        state.pinned = Some(because);
    }
}
