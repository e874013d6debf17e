//! Knows before a rollback whether a replay can give the same answers.
//!
//! The texts that a transaction runs are looked up in the shared [`Foresight`](crate::effects::Foresight). A text that no
//! session has asked about makes the transaction unknown. When the transaction has ended, the session asks the server about such
//! texts over its own connection, where names mean what they mean to its client; the client's next message waits
//! for the few milliseconds (`Flow::Learning`).
//!
//! A key stands for a text without its values, and for everything that its names depend on, as far as texts show it: the
//! database, the user, the last `SET` of the search path and of the role, and whether the session has made temporary
//! objects, which names may then mean. Functions that change these settings are not noticed; the inquiry after the
//! rollback is what counts.

mod forecast;

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

pub(super) use forecast::Forecast;
use plimsoll_notation::sql::normalise;
use plimsoll_policy::Unsafe;

use super::answers::END_ANSWERS;
use super::frames::{Backend, Status};
use super::inquiring::Inquiring;
use super::message::begins;
use super::prepared::Note;
use super::transaction::Transaction;
use super::{Flow, Gate, Outbox, Session, Unit};
use crate::effects::{Foresight, Inquiry, KnownText, Next, Outlook, Purpose, TextKey};
use crate::registry::SessionCard;
use crate::statement::{TextRules, has_ignoring_case};

/// How many texts wait to be asked about, and how many bytes they have together.
const UNKNOWN_MAX: usize = 20;
const UNKNOWN_BYTES_MAX: usize = 64 * 1024;

/// How many texts of the transaction are forgotten if their outlook proves wrong.
const RAN_MAX: usize = 100;

/// After this time at rest no further question is begun: the client may have sent its next message.
const LEARN_FOR: Duration = Duration::from_millis(5);

/// A session's part of the knowledge.
#[derive(Debug, Default)]
pub(super) struct Texts {
    /// Identifies the user, the database, and the parameters with which the session began.
    pub role: u64,
    /// What names depend on besides: hashes of the last texts that have changed it.
    path: u64,
    acts_as: u64,
    /// The same within the transaction.
    local: u64,
    /// How many statements were prepared or dropped by SQL: EXECUTE may mean another one.
    prepares: u64,
    unknown: VecDeque<(TextKey, Asked)>,
    unknown_bytes: usize,
    /// Texts of the transaction that have an outlook.
    ran: Vec<TextKey>,
    at_rest_since: Option<Instant>,
}

/// A text to ask about.
#[derive(Debug)]
pub(super) enum Asked {
    Text(Box<[u8]>),
    /// The server has the text of a prepared statement.
    Prepared(Box<[u8]>),
}

/// An inquiry at rest.
#[derive(Debug)]
pub(super) struct Learning {
    key: TextKey,
    purpose: Purpose,
    /// Whether the text may return rows.
    returns: bool,
    inquiring: Inquiring,
    /// The number of answers still to come.
    left: usize,
}

impl Learning {
    fn new(key: TextKey, returns: bool, inquiry: Inquiry, since: Instant) -> Self {
        Learning { key, purpose: Purpose::Replay, returns, inquiring: Inquiring::new(inquiry, since), left: 0 }
    }

    /// An inquiry into what a text leaves in the session.
    pub(super) fn of_residue(key: TextKey, inquiry: Inquiry, since: Instant) -> Self {
        Learning { purpose: Purpose::Residue, ..Learning::new(key, false, inquiry, since) }
    }

    /// Receives the server's answer.
    pub(super) fn hears(&mut self, answer: Backend, body: &[u8]) {
        self.inquiring.hears(answer, body);
    }
}

impl Texts {
    pub(super) fn new(foresight: &Foresight, card: &SessionCard) -> Self {
        let (login, parameters) = (&card.login, card.parameters.get());
        let role = hashed(foresight, |hash| (&login.user, &login.database, parameters).hash(hash));
        Texts { role, ..Texts::default() }
    }

    fn key(&self, sql: &[u8], rules: TextRules, foresight: &Foresight, of_session: u64) -> TextKey {
        hashed(foresight, |hash| {
            (self.role, self.path, self.acts_as, self.local, of_session).hash(hash);
            match rules == TextRules::default() {
                // A literal such as 'now' has another value each time.
                true => normalise(sql, |part| hash.write(part)).hash(hash),
                // The normal form assumes these rules.
                false => hash.write(sql),
            }
        })
    }

    /// A text is about to run that may change what names mean.
    fn changes_names(&mut self, sql: &[u8], foresight: &Foresight) {
        let change = || hashed(foresight, |hash| hash.write(sql));
        match Change::of(sql) {
            Change::None => {}
            Change::Path => self.path = change(),
            Change::Role => self.acts_as = change(),
            Change::All => (self.path, self.acts_as) = (change(), change()),
            Change::Local => self.local = self.local.rotate_left(1) ^ change(),
        }
    }

    fn wants(&mut self, key: TextKey, asked: Asked) {
        let bytes = asked.bytes();
        let is_there = self.unknown.iter().any(|(known, _)| *known == key);
        if !is_there && self.unknown.len() < UNKNOWN_MAX && self.unknown_bytes + bytes <= UNKNOWN_BYTES_MAX {
            self.unknown_bytes += bytes;
            self.unknown.push_back((key, asked));
        }
    }

    pub(super) fn next_unknown(&mut self) -> Option<(TextKey, Asked)> {
        let (key, asked) = self.unknown.pop_front()?;
        self.unknown_bytes -= asked.bytes();
        Some((key, asked))
    }

    /// Nothing more can be sent to the server.
    pub(super) fn asks_no_more(&mut self) {
        self.unknown.clear();
        self.unknown_bytes = 0;
    }

    /// After the rollback the transaction was found unsafe: its texts are not what they were.
    pub(super) fn forget_outlooks(&mut self, foresight: &Foresight) {
        self.ran.drain(..).for_each(|key| foresight.forget(key));
    }

    /// The transaction has ended.
    pub(super) fn end_transaction(&mut self, now: Instant) {
        self.local = 0;
        self.ran.clear();
        self.at_rest_since = Some(now);
    }
}

impl Asked {
    fn bytes(&self) -> usize {
        match self {
            Asked::Text(bytes) | Asked::Prepared(bytes) => bytes.len(),
        }
    }
}

pub(super) fn hashed(foresight: &Foresight, write: impl FnOnce(&mut DefaultHasher)) -> u64 {
    let mut hash = foresight.hasher();
    write(&mut hash);
    hash.finish()
}

/// How a text changes what names mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    None,
    Path,
    Role,
    All,
    /// Within the transaction, or it is not known for how long.
    Local,
}

impl Change {
    fn of(sql: &[u8]) -> Change {
        let sql = sql.trim_ascii_start();
        if !begins(sql, &[b"set", b"reset", b"discard"]) {
            return if memchr::memmem::find(sql, b"set_config").is_some() { Change::Local } else { Change::None };
        }
        let has = |words: [&[u8]; 2]| words.iter().any(|word| has_ignoring_case(sql, word));
        let (path, role) = (has([b"search_path", b"schema"]), has([b"role", b"authorization"]));
        let all = !begins(sql, &[b"set"]) && has([b"all", b"all"]) || memchr::memchr(b';', sql).is_some();
        match (path, role) {
            _ if all => Change::All,
            (false, false) => Change::None,
            _ if has([b"local", b"local"]) => Change::Local,
            (true, _) => Change::Path,
            (false, true) => Change::Role,
        }
    }
}

/// Whether a text may return rows, as far as it shows. With NOWAIT it may return an error instead.
fn returns_rows(sql: &[u8], rules: TextRules) -> bool {
    use plimsoll_notation::sql::{Lexer, TokenKind};
    const SILENT: [&str; 12] = [
        "alter", "create", "declare", "delete", "drop", "insert", "lock", "merge", "reset", "set", "truncate", "update",
    ];
    let mut tokens = Lexer::new(sql, rules).filter(|token| token.kind != TokenKind::Comment).peekable();
    let is_silent = tokens.peek().is_some_and(|first| SILENT.iter().any(|word| first.is_word(word)));
    !is_silent || tokens.any(|token| token.is_word("returning") || token.is_word("nowait") || token.is_mark(b';'))
}

impl Session {
    /// Whether texts are looked up: the transaction, or what is about to become one, may be rolled back for others, or it is
    /// to be known whether it may catch errors.
    fn foresees(&self) -> bool {
        self.transaction.as_ref().is_some_and(|inside| inside.is_watched || inside.is_foreseen)
    }

    /// A text is run.
    pub(super) fn foresee_text(&mut self, sql: &[u8], note: &Note) {
        self.texts.changes_names(sql, &self.governor.foresight);
        self.note_prepares(note);
        if !self.foresees() || is_judged_by_text(sql, note) {
            return;
        }
        let is_executed = note.names.as_ref().is_some_and(|names| !names.executes.is_empty());
        // Another session may mean another statement.
        let of_session = if is_executed { self.card.id.0 + 1 + (self.texts.prepares << 32) } else { 0 };
        let key = self.texts.key(sql, self.reported.text_rules, &self.governor.foresight, of_session);
        self.foresee(key, || Asked::Text(sql.into()));
    }

    /// A text is prepared by a message. Returns its key, if it may be looked up when it is run.
    ///
    /// The inquiry after a rollback reads what was prepared, whether it was run or not, and so does the forecast.
    pub(super) fn foresee_parse(&mut self, sql: &[u8], note: &Note) -> Option<TextKey> {
        self.texts.changes_names(sql, &self.governor.foresight);
        self.note_prepares(note);
        let (is_foreseen, at) = (self.foresees(), self.clock());
        let inside = self.transaction.as_mut().filter(|inside| inside.is_read())?;
        if let Some(because) = note.unsafe_because {
            inside.forecast.unsafe_because.get_or_insert(because);
        }
        // It may be run in a transaction whose texts are looked up.
        (!is_judged_by_text(sql, note)).then(|| {
            let key = self.texts.key(sql, self.reported.text_rules, &self.governor.foresight, 0);
            if is_foreseen {
                let known = self.governor.foresight.of(key, at);
                inside.foresees_prepared(known);
                if known.is_none() {
                    self.texts.wants(key, Asked::Text(sql.into()));
                }
            }
            key
        })
    }

    /// A prepared statement is run.
    pub(super) fn foresee_bind(&mut self, name: &[u8], note: &Note) {
        if !self.foresees()
            || note.is_bare_begin
            || note.ends.is_some()
            || note.uses_savepoint
            || note.unsafe_because.is_some()
        {
            return;
        }
        match (note.key, &mut self.transaction) {
            (Some(key), _) => self.foresee(key, || Asked::Prepared(name.into())),
            (None, Some(inside)) => inside.forecast.runs(None, false),
            (None, None) => {}
        }
    }

    fn note_prepares(&mut self, note: &Note) {
        self.texts.prepares += u64::from(note.unsafe_because == Some(Unsafe::PreparedStatement));
        if note.unsafe_because == Some(Unsafe::TempTable) {
            self.has_own_schema();
        }
    }

    /// From now on names may mean temporary objects of this session: what others have learned about a text does not hold here.
    fn has_own_schema(&mut self) {
        let session = self.card.id.0;
        self.texts.path = hashed(&self.governor.foresight, |hash| (session, "temporary").hash(hash));
    }

    fn foresee(&mut self, key: TextKey, asked: impl FnOnce() -> Asked) {
        let known = self.governor.foresight.of(key, self.clock());
        let is_in_block = self.status != Status::Idle;
        let Some(inside) = &mut self.transaction else { return };
        inside.foresees_prepared(known);
        inside.forecast.runs(known.map(|known| known.outlook), is_in_block);
        let makes_temporary = known.is_some_and(|known| known.outlook == Outlook::Unsafe(Unsafe::TempTable));
        // An older outlook may be of other code; nothing checks that afterwards, as it is checked before a replay.
        inside.forecast.may_catch |= known.is_none_or(|known| known.is_due);
        if known.is_none_or(|known| known.is_due) {
            self.texts.wants(key, asked());
        }
        if known.is_some() && self.texts.ran.len() < RAN_MAX {
            self.texts.ran.push(key);
        }
        if makes_temporary {
            self.has_own_schema();
        }
    }

    fn clock(&self) -> Duration {
        self.governor.clock(self.unit.since)
    }

    /// Whether the session may ask a question of its own.
    pub(super) fn may_learn(&self) -> bool {
        let is_free = matches!(self.flow, Flow::Relay) && self.gate == Gate::Open && self.from_client.left == 0;
        is_free && self.is_at_rest() && self.transaction.is_none()
    }

    /// At rest: asks about a text that the transaction has run.
    pub(super) fn learn(&mut self, now: Instant, out: &mut impl Outbox) {
        if !self.may_learn() || self.learn_residue(now, out) {
            return;
        }
        let is_soon = self.texts.at_rest_since.is_some_and(|since| now.saturating_duration_since(since) < LEARN_FOR);
        if !is_soon {
            return;
        }
        let (foresight, at) = (&self.governor.foresight, self.governor.clock(now));
        while let Some((key, asked)) = self.texts.next_unknown() {
            let known = foresight.of(key, at);
            if known.is_some_and(|known| !known.is_due) || !foresight.may_ask(key, self.texts.role, at) {
                continue;
            }
            let (text, name, returns) = match &asked {
                Asked::Text(text) => (Some(&**text), None, returns_rows(text, self.reported.text_rules)),
                Asked::Prepared(name) => {
                    let returns = known.is_none_or(|known| !matches!(known.outlook, Outlook::Safe(_, false)));
                    (None, Some(&**name), returns)
                }
            };
            let functions = &self.settings.preemption.replay_functions;
            let inquiry = Inquiry::new(text, self.reported.text_rules, name, functions, self.reported.version);
            self.flow = Flow::Learning(Learning::new(key, returns, inquiry, now));
            return self.ask_ahead(now, out);
        }
    }

    pub(super) fn ask_ahead(&mut self, now: Instant, out: &mut impl Outbox) {
        let Flow::Learning(learning) = &mut self.flow else { return };
        let purpose = learning.purpose;
        match learning.inquiring.inquiry.next() {
            Next::Known(_) if purpose == Purpose::Residue => {
                let (key, residue) = (learning.key, learning.inquiring.inquiry.residue());
                self.learned_residue(key, &residue, now);
                self.end_learning(now, out);
            }
            Next::Known(verdict) => {
                let outlook = match verdict {
                    Ok(safe) => Outlook::Safe(safe, learning.returns),
                    Err(because) => Outlook::Unsafe(because),
                };
                let (key, inquiry) = (learning.key, &learning.inquiring.inquiry);
                self.governor.foresight.learn(key, outlook, inquiry.newest(), self.governor.clock(now));
                self.governor.shows_horizon(&self.settings, inquiry.seen_horizon());
                if outlook == Outlook::Unsafe(Unsafe::TempTable) {
                    self.has_own_schema();
                }
                self.end_learning(now, out);
            }
            Next::Ask(asked) => {
                let Ok(number) = self.card.begin_unit(true) else {
                    // A cancel is on its way, and must not meet the question.
                    self.could_not_ask(now);
                    return self.end_learning(now, out);
                };
                let request = Inquiring::request(&asked);
                learning.left = END_ANSWERS;
                learning.inquiring.asks();
                self.unit_number = number;
                self.unit = Unit::new(now);
                (0..END_ANSWERS).for_each(|_| self.outstanding.sent(number, false));
                out.to_server(&request);
            }
        }
    }

    /// The server is ready after a question.
    pub(super) fn learning_answered(&mut self, now: Instant, out: &mut impl Outbox) {
        let Flow::Learning(learning) = &mut self.flow else { return };
        learning.left = learning.left.saturating_sub(1);
        if learning.left > 0 {
            return;
        }
        if !learning.inquiring.is_answered() {
            match learning.purpose {
                Purpose::Replay => self.governor.foresight.is_refused(self.texts.role, self.governor.clock(now)),
                Purpose::Residue => self.could_not_ask(now),
            }
            return self.end_learning(now, out);
        }
        learning.inquiring.inquiry.on_answered(true);
        self.ask_ahead(now, out);
    }

    fn end_learning(&mut self, now: Instant, out: &mut impl Outbox) {
        let Flow::Learning(learning) = std::mem::replace(&mut self.flow, Flow::Relay) else { return };
        let taken = now.saturating_duration_since(learning.inquiring.since);
        match learning.purpose {
            Purpose::Replay => self.governor.foresight.has_taken(taken),
            Purpose::Residue => self.governor.foresight.has_taken_for_residue(taken),
        }
        self.unit = Unit::new(now);
        self.forget_cancels();
        self.learn(now, out);
    }
}

impl Transaction {
    /// Notes what the inquiry after a rollback would say of a text, apart from the values that it returns if it is run.
    fn foresees_prepared(&mut self, known: Option<KnownText>) {
        self.forecast.prepares(known.map(|known| known.outlook));
        if known.is_some_and(|known| self.horizon.is_none_or(|horizon| known.newest >= horizon.number())) {
            // The inquiry could not show that this is the code that has run.
            self.forecast.unsafe_because.get_or_insert(Unsafe::ChangedCode);
        }
    }
}

/// Whether the text itself shows what must be known: it only begins or ends a transaction or a savepoint, or is unsafe.
fn is_judged_by_text(sql: &[u8], note: &Note) -> bool {
    let is_single = || memchr::memchr(b';', sql.trim_ascii_end().strip_suffix(b";").unwrap_or(sql)).is_none();
    let is_control = note.is_bare_begin || note.ends.is_some() || note.uses_savepoint && is_single();
    is_control || note.unsafe_because.is_some()
}
