//! The sessions that a server shows, as cards of the registry.
//!
//! A session is the same as long as its process, the process's start time, and its login are the same. An application
//! that changes its name begins another session here. A transaction is identified by the time at which it began. Two
//! looks can therefore tell whether the transaction is still the same, but not how many lay in between.
//!
//! The first statement seen of a transaction decides its class by its tag or fingerprint, as the first one sent does in
//! the connection path. A session that the role may not see has a card without a process: it is listed, but never acted
//! on.
//!
//! A process that a pooler uses serves another client with each transaction. Its transaction has the class of its client
//! once that is certain ([`Links::are_of`]), and until then nothing is rolled back for it, nor is it itself. Between
//! transactions, and while the client is not certain, the process has the CPU share of the most important class that may
//! use it, so that important work does not begin with the share of a report.

mod pooled;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use plimsoll_notation::sql::fingerprint;
use plimsoll_policy::{ClassIndex, Matched, Priority, Unsafe};

use super::links::{Links, Span};
use super::sight::{Doing, Row, Sight};
use crate::awake::HOLD;
use crate::governor::Governor;
use crate::registry::{BackendKey, CardState, ChosenBy, Immunity, NO_WORKER, Observed, Phase, SessionCard};
use crate::settings::Settings;
use crate::statement::{Statement, read};
use crate::watch::late::present_priority;
use pooled::UseOf;

/// The known sessions, by their processes.
#[derive(Debug)]
pub(super) struct Cards {
    pub(super) governor: Arc<Governor>,
    pub(super) known: BTreeMap<i32, Known>,
    /// The open transactions of each class at the last look.
    inside: BTreeMap<ClassIndex, u64>,
    /// What the poolers have shown; `None` for one that does not answer.
    links: Vec<Option<Arc<Links>>>,
    /// The most important class of the clients of each of their databases, and for which answers and settings.
    most_important: BTreeMap<String, ClassIndex>,
    judged_for: (Vec<Option<Span>>, u64),
}

/// A session.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) card: Arc<SessionCard>,
    process_began: i64,
    is_seen: bool,
    /// The class that rules give its login, and the number of the settings with these rules.
    of_login: Matched,
    generation: u64,
    /// Whether the class of its transaction is final.
    is_class_decided: bool,
    /// The reason why its statement must not be cancelled, in any class.
    immune: Option<Immunity>,
    /// The start of the idle time for which its end was requested.
    pub(super) asked_to_end: Option<i64>,
    /// When a look had first shown the process.
    appeared: Instant,
    /// When a look had first shown its transaction.
    transaction_appeared: Instant,
    use_of: UseOf,
}

/// The findings of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Noticed {
    /// Whether a session above the lowest priority waits for a lock.
    pub is_anybody_late: bool,
    /// Sessions that the role may not see.
    pub unseen: usize,
}

impl Cards {
    pub(super) fn new(governor: Arc<Governor>) -> Self {
        Cards {
            governor,
            known: BTreeMap::new(),
            inside: BTreeMap::new(),
            links: Vec::new(),
            most_important: BTreeMap::new(),
            judged_for: (Vec::new(), 0),
        }
    }

    /// No sessions are visible any more.
    pub(super) fn clear(&mut self) {
        for known in std::mem::take(&mut self.known).into_values() {
            self.governor.registry.remove(known.card.id);
        }
        self.count_inside();
    }

    /// Updates every card from what was seen. `own` is the process of the governor's connection; `can_signal` returns
    /// whether processes of that user can be signalled.
    pub(super) fn see(
        &mut self,
        sight: &Sight,
        settings: &Settings,
        own: i32,
        can_signal: impl Fn(&str) -> bool,
        look: Span,
    ) -> Noticed {
        let now = look.began;
        self.judge_clients(settings);
        let generation = self.governor.generation();
        let mut noticed = Noticed { is_anybody_late: false, unseen: 0 };
        let (mut present, mut are_shares_new) = (BTreeSet::new(), false);
        // While a client logs in to the governor, its process is not known yet and may have a card here for a moment.
        let relayed = self.governor.registry.relayed_processes();
        for row in &sight.rows {
            let is_ours = row.process == own || row.place_of_governor().is_some() || relayed.contains(&row.process);
            if is_ours || settings.break_glass.contains(&row.login.user) {
                continue;
            }
            present.insert(row.process);
            noticed.unseen += usize::from(row.doing == Doing::Unseen);
            if !self.known.get(&row.process).is_some_and(|known| known.is_of(row)) {
                self.begin(row, settings, look);
                are_shares_new = true;
            }
            let known = self.known.get_mut(&row.process).expect("it is there, or was just begun");
            if known.generation != generation {
                let login = if let UseOf::Pooler(Some(client)) = &known.use_of { client } else { &known.card.login };
                (known.of_login, known.generation) = (settings.rules.of_login(login), generation);
                (known.is_class_decided, are_shares_new) = (false, true);
            }
            let can_cancel = can_signal(&row.login.user);
            known.note_transaction(row, look);
            known.find_user(row, &self.links, &self.most_important, settings, look);
            are_shares_new |= known.update(row, sight.at, settings, can_cancel, now);
            noticed.is_anybody_late |= known.is_late(settings);
            if known.was_at_work(settings, now) {
                self.governor.awake.touch(now);
            }
        }
        let gone: Vec<i32> = self.known.keys().copied().filter(|process| !present.contains(process)).collect();
        for known in gone.iter().filter_map(|process| self.known.remove(process)) {
            self.governor.registry.remove(known.card.id);
        }
        self.count_inside();
        if are_shares_new {
            self.governor.change_shares();
        }
        noticed
    }

    fn begin(&mut self, row: &Row, settings: &Settings, look: Span) {
        let registry = &self.governor.registry;
        let (mut appeared, mut use_of) = (look.ended, UseOf::Undecided);
        if let Some(before) = self.known.remove(&row.process) {
            registry.remove(before.card.id);
            // Poolers change the application's name with the client.
            if before.process_began == row.process_began {
                appeared = before.appeared;
                use_of = if before.is_pooled() { UseOf::Pooler(None) } else { before.use_of };
            }
        }
        let of_login = settings.rules.of_login(&row.login);
        let peer = row.address.clone().unwrap_or_else(|| "local".to_owned());
        let card = SessionCard::new(registry.next_id(), NO_WORKER, peer, row.login.clone(), of_login.class, look.began);
        let is_seen = row.doing != Doing::Unseen;
        if is_seen {
            let key = BackendKey { process: row.process, secret: Box::default() };
            card.key.set(key).expect("the card is new");
        }
        let card = Arc::new(card);
        registry.insert(card.clone());
        let known = Known {
            card,
            process_began: row.process_began,
            is_seen,
            of_login,
            generation: self.governor.generation(),
            is_class_decided: false,
            immune: None,
            asked_to_end: None,
            appeared,
            transaction_appeared: look.ended,
            use_of,
        };
        self.known.insert(row.process, known);
    }

    /// How many transactions above that priority are open, and how many others.
    pub(super) fn at_work(&self, settings: &Settings, lowest: Priority) -> (u64, u64) {
        let is_above = |class: &ClassIndex| settings.class(*class).limits.priority > lowest;
        let all: u64 = self.inside.values().sum();
        let above = self.inside.iter().filter(|(class, _)| is_above(class)).map(|(_, count)| count).sum();
        (above, all - above)
    }

    /// Counts the open transactions of each class. Sessions in the connection path count their own.
    fn count_inside(&mut self) {
        let mut inside: BTreeMap<ClassIndex, u64> = BTreeMap::new();
        for known in self.known.values() {
            let state = known.card.state();
            if state.phase.is_inside() {
                *inside.entry(state.class).or_default() += 1;
            }
        }
        for (class, statistics) in (0..).map(ClassIndex).zip(self.governor.statistics.classes()) {
            let of = |inside: &BTreeMap<ClassIndex, u64>| inside.get(&class).copied().unwrap_or(0);
            // Addition wraps, so that this also subtracts. Relaxed: a gauge for operators, and a hint for the agent.
            statistics.inside.fetch_add(of(&inside).wrapping_sub(of(&self.inside)), Ordering::Relaxed);
        }
        self.inside = inside;
    }
}

impl Known {
    /// Whether a row is of this session.
    fn is_of(&self, row: &Row) -> bool {
        let is_seen = row.doing != Doing::Unseen;
        (self.process_began, self.is_seen, &self.card.login) == (row.process_began, is_seen, &row.login)
    }

    /// Whether it is important and waits for a lock.
    fn is_late(&self, settings: &Settings) -> bool {
        let state = self.card.state();
        let waits = state.observed.is_some_and(|observed| observed.waits_for_lock);
        waits && present_priority(settings, &state) > Priority::LOW
    }

    /// Whether it is important and has begun or ended a statement a moment ago.
    fn was_at_work(&self, settings: &Settings, now: Instant) -> bool {
        let state = self.card.state();
        let is_important = settings.class(state.served).limits.priority > Priority::LOW;
        is_important && self.is_seen && now.saturating_duration_since(state.since) < HOLD
    }

    /// Updates the card from a row read at the server's moment `at`; returns whether its process needs another share.
    fn update(&mut self, row: &Row, at: i64, settings: &Settings, can_cancel: bool, now: Instant) -> bool {
        let card = Arc::clone(&self.card);
        let mut state = card.state();
        let before = state.observed;
        let phase = match row.doing {
            Doing::Active => Phase::Active,
            Doing::Idle => Phase::Idle,
            Doing::IdleInTransaction { .. } => Phase::IdleInTransaction,
            Doing::Unseen => Phase::Ungoverned,
        };
        let is_inside = matches!(phase, Phase::Active | Phase::IdleInTransaction);
        let since = |moment: i64| {
            // The moment is zero if the session cannot be seen or has not begun anything.
            let ago = if moment > 0 { u64::try_from(at - moment).unwrap_or_default() } else { 0 };
            let ago = Duration::from_micros(ago);
            now.checked_sub(ago).unwrap_or(now)
        };
        let began = row.transaction_began.filter(|_| is_inside);
        if began.is_some() && began != before.and_then(|before| before.transaction_began) {
            // An application that tries again does so in a new transaction.
            let was_cancelled = state.cancels.preempting.take().is_some();
            state.rollbacks = if was_cancelled { state.rollbacks + 1 } else { 0 };
            state.transaction += 1;
            state.transaction_since = since(began.unwrap_or(at));
            self.is_class_decided = false;
        }
        let was = before.map(|before| (before.statement_began, before.state_since));
        let is_other_unit = was != Some((row.statement_began, row.state_since)) || state.phase != phase;
        if is_other_unit {
            state.unit += 1;
            state.since = since(row.state_since);
            self.immune = None;
        }
        if is_inside && (is_other_unit && phase == Phase::Active || !self.is_class_decided) {
            self.read(row, settings, &mut state);
        }
        if !is_inside {
            self.is_class_decided = false;
            (state.class, state.chosen_by) = (self.of_login.class, ChosenBy::Rule(self.of_login.rule));
        }
        state.phase = phase;
        self.judge(row, settings, can_cancel, &mut state);
        // Between transactions a pooler's process may be used by anybody next.
        let is_other = state.served != state.class && (is_inside || before.is_none() || self.is_pooled());
        if is_other {
            state.served = state.class;
        }
        is_other
    }

    /// Reads its statement: for the class of its transaction, and for reasons against cancelling it.
    fn read(&mut self, row: &Row, settings: &Settings, state: &mut CardState) {
        let statement = read(&row.text);
        // The end of a text that was cut is unknown, and may be a COMMIT.
        self.immune = if row.is_cut { Some(Immunity::MayHaveEnded) } else { immunity(&statement) };
        if self.is_class_decided {
            return;
        }
        let rules = &settings.rules;
        let print = rules.needs_fingerprints().then(|| fingerprint(&row.text));
        let login = if let UseOf::Pooler(Some(client)) = &self.use_of { client } else { &self.card.login };
        let chosen = rules.of_statement(login, self.of_login.class, statement.tag.as_deref(), print);
        let chosen_by = match (chosen, self.of_login.rule) {
            (Some(Matched { rule: None, .. }), _) => ChosenBy::Tag,
            (Some(matched), _) => ChosenBy::Rule(matched.rule),
            (None, rule) => ChosenBy::Rule(rule),
        };
        (state.class, state.chosen_by) = (chosen.unwrap_or(self.of_login).class, chosen_by);
        // Drivers send a bare BEGIN, and the tag with the statement after it.
        self.is_class_decided = !statement.is_bare_begin || statement.tag.is_some();
    }

    /// Whether its transaction may be rolled back, and whether it could be if its class opted in.
    fn judge(&self, row: &Row, settings: &Settings, can_cancel: bool, state: &mut CardState) {
        let immune = match row.doing {
            Doing::IdleInTransaction { has_failed: true } => Some(Immunity::Failed),
            _ => self.immune,
        };
        let class = settings.class(state.class);
        // A cancel has no effect on a session whose client thinks.
        let is_within_reach = row.doing == Doing::Active && immune.is_none();
        // Through the governor, clients of a class that retries are promised 40001, which no cancel gives.
        state.is_class_certain = self.is_class_certain(settings);
        let may_be_cancelled = settings.is_beside && class.preemptible && state.is_class_certain;
        let is_tracked = may_be_cancelled && is_within_reach && row.transaction_began.is_some();
        state.preemptible = match settings.preemption.policy.acts() {
            true => is_tracked && class.retries && can_cancel,
            false => is_tracked,
        };
        state.immune = immune.filter(|_| class.preemptible);
        state.is_awaited = row.doing == Doing::Active;
        state.observed = Some(Observed {
            process_began: row.process_began,
            transaction_began: row.transaction_began,
            statement_began: row.statement_began,
            state_since: row.state_since,
            waits_for_lock: row.waits_for_lock && row.doing == Doing::Active,
            is_tracked,
        });
    }
}

/// Why a statement must not be cancelled, in any class: it may have committed a part of its work.
fn immunity(statement: &Statement<'_>) -> Option<Immunity> {
    match statement.unreplayable {
        _ if statement.ends.is_some() => Some(Immunity::MayHaveEnded),
        Some(Unsafe::OutsideEffect | Unsafe::FunctionCall) => Some(Immunity::OutsideBlock),
        _ if statement.copy => Some(Immunity::Copy),
        _ => None,
    }
}
