//! What a pooled session may have left in its server connection since the connection was last known to be clean.
//!
//! Each text that runs adds what it shows itself ([`residue_of`]) and what the server's catalogs show of the code that it runs,
//! which the shared [`Foresight`] knows or the session asks about when it is at rest. While a text is unknown, or what is known
//! is due, the session counts as pinned ([`Pin::Unasked`]): an answer that is older than a minute, or than a change of code that
//! has passed through the governor, does not count before it was asked again. Code that is changed past the governor can go
//! unnoticed for that minute.
//!
//! An answer holds for a database, a user, the parameters of the start-up packet, and for the values of `search_path` and
//! `role` that the pooler has reported ([`Session::knows_settings`]). While these are not known, or are others within a
//! transaction, names may reach any schema.
//!
//! Sessions that are not pooled pay nothing.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_notation::sql::normalise;

use super::foresight::{Learning, hashed};
use super::frames::Frontend;
use super::message::Message;
use super::prepared::Note;
use super::{Flow, Outbox, Session};
use crate::effects::{Foresight, Inquiry, TextKey};
use crate::statement::TextRules;
use crate::statement::residue::{Pin, Residue, has_body, residue_of, runs_no_code};

/// How many texts wait to be asked about, and how many bytes they have together.
const UNKNOWN_MAX: usize = 100;
const UNKNOWN_BYTES_MAX: usize = 256 << 10;

/// When to try again if the server may not be asked now, or could not be.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The key of an inquiry that is not about a text.
const NO_TEXT: TextKey = 0;

/// Of a session that is not pooled.
static NOTHING: Residue = Residue::NOTHING;

/// Of a session that is only relayed.
static UNGOVERNED: Residue = Residue::pinned_by(Some(Pin::Ungoverned));

/// What running a prepared statement leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Leaves {
    shown: Residue,
    /// What the catalogs are asked about; `None` if the text shows all.
    asked: Option<AskedText>,
}

impl Leaves {
    /// One of two statements: which of them is not known.
    pub(super) fn either(one: Option<Arc<Leaves>>, other: Option<&Arc<Leaves>>) -> Option<Arc<Leaves>> {
        let Some(other) = other.filter(|other| one.as_ref() != Some(*other)) else { return one };
        let mut shown = other.shown.clone();
        one.iter().for_each(|one| shown.add(&one.shown));
        let asked = one.as_ref().and_then(|one| one.asked.clone());
        if asked.is_some() && other.asked.is_some() {
            shown.pins(Pin::Unread);
        }
        Some(Arc::new(Leaves { shown, asked: asked.or(other.asked.clone()) }))
    }

    /// Bytes that it takes, with its text as if no other session kept it.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Leaves>() + self.asked.as_ref().map_or(0, |asked| asked.sql.len())
    }
}

/// A text, and a hash of it that does not depend on its values.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AskedText {
    hash: u64,
    sql: Arc<[u8]>,
}

/// A text that the server is to be asked about.
#[derive(Debug)]
struct Unknown {
    key: TextKey,
    sql: Arc<[u8]>,
    /// What names meant when it ran.
    names: Names,
}

/// What names depend on besides the session's login.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Names {
    /// A hash of the values of `search_path` and `role`.
    path: u64,
    /// They may be others.
    is_open: bool,
}

impl Names {
    /// They may mean anything.
    const OPEN: Names = Names { path: 0, is_open: true };
}

/// What a pooled session may have left.
#[derive(Debug, Default)]
pub(super) struct Trail {
    left: Residue,
    unknown: VecDeque<Unknown>,
    unknown_bytes: usize,
    path: u64,
    /// `search_path` or `role` may have changed since the pooler reported them; the same within the transaction.
    is_path_open: bool,
    is_path_local: bool,
    /// The last unit that may have changed how texts are read.
    rules_changed_in: Option<u64>,
    /// The transaction may have changed code.
    has_changed_code: bool,
    /// Functions that the operator declares to leave nothing, and a hash of them.
    clean: Arc<[String]>,
    clean_hash: u64,
    /// Before this time the server is not asked.
    again_at: Option<Instant>,
}

impl Trail {
    fn names(&self) -> Names {
        if self.is_path_open || self.is_path_local { Names::OPEN } else { Names { path: self.path, is_open: false } }
    }

    /// Adds what a text may have left.
    fn add(&mut self, residue: &Residue) {
        if residue.moves_path {
            self.is_path_local = true;
            self.is_path_open |= residue.moves_path_of_session() || residue.pin.is_some();
        }
        self.has_changed_code |= residue.changes_code;
        let unasked = self.left.pin.take_if(|pin| *pin == Pin::Unasked);
        self.left.add(residue);
        if let Some(unasked) = unasked {
            self.left.pins(unasked);
        }
        self.settle();
    }

    /// While the server must be asked something, the session is pinned.
    fn settle(&mut self) {
        match (&self.left.pin, !self.unknown.is_empty() || self.left.creates) {
            (None, true) => self.left.pin = Some(Pin::Unasked),
            (Some(Pin::Unasked), false) => self.left.pin = None,
            _ => {}
        }
    }

    /// A pin that stays. What texts leave besides does not matter then.
    fn is_pinned(&self) -> bool {
        self.left.pin.as_ref().is_some_and(|pin| *pin != Pin::Unasked)
    }

    fn wants(&mut self, unknown: Unknown) {
        if self.unknown.iter().any(|known| (known.key, known.names) == (unknown.key, unknown.names)) {
            return;
        }
        let bytes = unknown.sql.len();
        if self.unknown.len() >= UNKNOWN_MAX || self.unknown_bytes + bytes > UNKNOWN_BYTES_MAX {
            self.forget_unknown();
            self.left.pin = Some(Pin::ManyUnasked);
            return;
        }
        self.unknown_bytes += bytes;
        self.unknown.push_back(unknown);
        self.settle();
    }

    /// The first unknown text is known now.
    fn knows_first(&mut self, residue: Option<&Residue>) {
        if let Some(known) = self.unknown.pop_front() {
            self.unknown_bytes -= known.sql.len();
        }
        if let Some(residue) = residue {
            self.add(residue);
        }
        self.settle();
    }

    fn forget_unknown(&mut self) {
        self.unknown.clear();
        self.unknown_bytes = 0;
    }
}

impl Session {
    /// From now on it is noted what the session leaves in its connection. Call it before the first message.
    pub fn set_pooled(&mut self, is_pooled: bool) {
        self.residue = is_pooled.then(Box::default);
    }

    /// Functions that the operator declares to leave nothing in their session (`clean_functions`).
    pub fn set_clean_functions(&mut self, clean: Arc<[String]>) {
        let hash = hashed(&self.governor.foresight, |hash| clean.hash(hash));
        if let Some(trail) = &mut self.residue {
            (trail.clean, trail.clean_hash) = (clean, hash);
        }
    }

    /// What the session may have left since [`clear_residue`](Self::clear_residue). It counts only when the session is at rest
    /// ([`is_idle`](Self::is_idle)), and not of a session that is not pooled.
    pub fn residue(&self) -> &Residue {
        match &self.residue {
            Some(_) if matches!(self.flow, Flow::Ungoverned) => &UNGOVERNED,
            Some(trail) => &trail.left,
            None => &NOTHING,
        }
    }

    /// The connection is clean, or another one.
    pub fn clear_residue(&mut self) {
        if let Some(trail) = &mut self.residue {
            trail.forget_unknown();
            (trail.left, trail.again_at) = (Residue::NOTHING, None);
        }
    }

    /// The values that the server reports of `search_path` and `role`, in that order: call it when both may have changed and
    /// the pooler has asked for them. Until then, names may mean anything.
    pub fn knows_settings(&mut self, search_path: &[u8], role: &[u8]) {
        let path = hashed(&self.governor.foresight, |hash| (search_path, role).hash(hash));
        if let Some(trail) = &mut self.residue {
            (trail.path, trail.is_path_open) = (path, false);
        }
    }

    /// A message is passed on that may run a text.
    pub(super) fn leaves(&mut self, message: &Message<'_>) {
        if self.residue.is_none() {
            return;
        }
        match message.ask {
            Frontend::Query => match message.sql.filter(|_| message.is_whole && !self.may_misread()) {
                Some(sql) => self.runs_text(sql),
                None => self.leaves_unread(),
            },
            Frontend::Bind => {
                let note = message.note(self);
                let (is_unread, leaves) = (note.is_unread, note.leaves.clone());
                if is_unread {
                    self.leaves_unread();
                } else if let Some(leaves) = leaves {
                    self.runs_prepared(&leaves);
                }
            }
            Frontend::FunctionCall => self.shows(&Residue::pinned_by(Some(Pin::FunctionCall))),
            _ => {}
        }
    }

    /// A text has run that was not read: it may have changed anything.
    fn leaves_unread(&mut self) {
        self.shows(&Residue { moves_path: true, ..Residue::pinned_by(Some(Pin::Unread)) });
    }

    /// Whether a message under way may change how a text must be read that follows it.
    fn may_misread(&self) -> bool {
        let changed_in = self.residue.as_ref().and_then(|trail| trail.rules_changed_in);
        let is_answered = |unit: u64| self.outstanding.oldest().is_none_or(|oldest| oldest > unit);
        changed_in.is_some_and(|unit| unit == self.unit_number || !is_answered(unit))
    }

    /// A text is run as it is.
    fn runs_text(&mut self, sql: &[u8]) {
        let rules = self.reported.text_rules;
        let shown = residue_of(sql, rules);
        if !runs_no_code(sql) && self.residue.as_ref().is_some_and(|trail| !trail.is_pinned()) {
            let hash = text_hash(&self.governor.foresight, sql, rules);
            self.looks_up(hash, &shown, || sql.into());
        }
        self.shows(&shown);
    }

    /// A prepared statement is run.
    fn runs_prepared(&mut self, leaves: &Leaves) {
        if let Some(asked) = &leaves.asked
            && self.residue.as_ref().is_some_and(|trail| !trail.is_pinned())
        {
            self.looks_up(asked.hash, &leaves.shown, || asked.sql.clone());
        }
        self.shows(&leaves.shown);
    }

    /// Adds what a text shows itself.
    fn shows(&mut self, shown: &Residue) {
        let at = self.governor.clock(self.unit.since);
        let Some(trail) = self.residue.as_mut().filter(|_| !shown.is_nothing()) else { return };
        if shown.changes_code {
            self.governor.foresight.code_changes(at);
        }
        if shown.changes_rules {
            trail.rules_changed_in = Some(self.unit_number);
        }
        trail.add(shown);
    }

    /// Adds what is known of the code that a text runs, or notes that the server must be asked.
    fn looks_up(&mut self, hash: u64, shown: &Residue, sql: impl FnOnce() -> Arc<[u8]>) {
        let at = self.governor.clock(self.unit.since);
        let Some(trail) = &mut self.residue else { return };
        // The text may move the path for its own names, depending on its values, which the hash does not have.
        let names = if shown.moves_path { Names::OPEN } else { trail.names() };
        let role = self.texts.role;
        let key =
            hashed(&self.governor.foresight, |state| ("residue", role, trail.clean_hash, names, hash).hash(state));
        match self.governor.foresight.residue_of(key, at).filter(|known| !known.is_due) {
            Some(known) => known.residue.iter().for_each(|residue| trail.add(residue)),
            None => trail.wants(Unknown { key, sql: sql(), names }),
        }
    }

    /// What running a statement leaves that a `Parse` prepares.
    pub(super) fn leaves_of_parse(&self, message: &Message<'_>, note: &Note) -> Option<Arc<Leaves>> {
        self.residue.as_ref().filter(|_| !note.is_unread)?;
        let Some(sql) = message.sql.filter(|_| message.is_whole && !self.may_misread()) else {
            let shown = Residue { moves_path: true, ..Residue::pinned_by(Some(Pin::Unread)) };
            return Some(Arc::new(Leaves { shown, asked: None }));
        };
        let (rules, foresight) = (self.reported.text_rules, &self.governor.foresight);
        let asked = (!runs_no_code(sql)).then(|| {
            let hash = text_hash(foresight, sql, rules);
            AskedText { hash, sql: foresight.shared_text(hash, sql) }
        });
        let shown = residue_of(sql, rules);
        (asked.is_some() || !shown.is_nothing()).then(|| Arc::new(Leaves { shown, asked }))
    }

    /// When the server may be asked again: now, if the session came to rest where nothing could be asked.
    pub(super) fn asks_again_at(&self) -> Option<Instant> {
        let trail = self.residue.as_ref()?;
        let is_missed = || trail.left.pin == Some(Pin::Unasked) && self.may_learn();
        trail.again_at.or_else(|| is_missed().then_some(self.since))
    }

    /// The time may have come to ask again.
    pub(super) fn ask_again(&mut self, now: Instant, out: &mut impl Outbox) {
        if self.asks_again_at().is_some_and(|at| at <= now) {
            self.residue.iter_mut().for_each(|trail| trail.again_at = None);
            self.learn(now, out);
        }
    }

    /// The server could not be asked.
    pub(super) fn could_not_ask(&mut self, now: Instant) {
        if let Some(trail) = &mut self.residue {
            trail.again_at = Some(now + AGAIN_AFTER);
        }
    }

    /// At rest: asks about the next text of which it is not known what it leaves. Returns whether it asks.
    pub(super) fn learn_residue(&mut self, now: Instant, out: &mut impl Outbox) -> bool {
        let (foresight, at) = (&self.governor.foresight, self.governor.clock(now));
        let Some(trail) = &mut self.residue else { return false };
        trail.is_path_local = false;
        if std::mem::take(&mut trail.has_changed_code) {
            foresight.code_changes(at);
        }
        if trail.is_pinned() {
            trail.forget_unknown();
        }
        while let Some(first) = trail.unknown.front() {
            if let Some(known) = foresight.residue_of(first.key, at).filter(|known| !known.is_due) {
                trail.knows_first(known.residue.as_deref());
                continue;
            }
            if trail.again_at.is_some_and(|again| again > now) {
                return false;
            }
            if !foresight.may_ask_residue(at) {
                trail.again_at = Some(now + AGAIN_AFTER);
                return false;
            }
            // The question is asked with the names of now. An answer for any schema holds for each.
            let any_schema = first.names.is_open || first.names != trail.names();
            let rules = self.reported.text_rules;
            let inquiry = Inquiry::of_residue(&first.sql, rules, any_schema, &trail.clean, self.reported.version);
            #[cfg(test)]
            let inquiry = inquiry.skipping_triggers(foresight);
            self.flow = Flow::Learning(Learning::of_residue(first.key, inquiry, now));
            self.ask_ahead(now, out);
            return true;
        }
        if !trail.left.creates || trail.is_pinned() || trail.again_at.is_some_and(|again| again > now) {
            return false;
        }
        // What was created is temporary if the path began with that schema.
        let inquiry = Inquiry::of_temporary(self.reported.text_rules, self.reported.version);
        self.flow = Flow::Learning(Learning::of_residue(NO_TEXT, inquiry, now));
        self.ask_ahead(now, out);
        true
    }

    /// The server has answered what the first unknown text leaves, or whether the session has temporary objects.
    pub(super) fn learned_residue(&mut self, key: TextKey, residue: &Residue, now: Instant) {
        if key != NO_TEXT {
            self.governor.foresight.learn_residue(key, residue, self.governor.clock(now));
        }
        let Some(trail) = &mut self.residue else { return };
        if key == NO_TEXT {
            trail.left.creates = false;
            trail.add(residue);
        } else if trail.unknown.front().is_some_and(|first| first.key == key) {
            trail.knows_first(Some(residue));
        }
    }
}

/// Identifies a text without its values, unless what it runs depends on them.
fn text_hash(foresight: &Foresight, sql: &[u8], rules: TextRules) -> u64 {
    hashed(foresight, |hash| match rules == TextRules::default() && !has_body(sql, rules) {
        true => normalise(sql, |part| hash.write(part)).hash(hash),
        false => hash.write(sql),
    })
}
