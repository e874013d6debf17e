//! What stands between a session and the server connection that serves it at the moment. A state machine without
//! sockets.
//!
//! The session's bytes come in through [`Link::take`] and go on to the connection, or wait until there is one
//! ([`Link::wants`]). The server's bytes are offered to [`Link::scan`], which says how many of them the session is to
//! see. Answers of the link's own ([`Link::answers`]) come between the two in their order.
//!
//! `client` reads the session's messages, `server` the server's, `expected` has what is still to be answered.

mod asking;
mod client;
mod expected;
mod naming;
mod refusal;
mod server;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use expected::{Effect, Expected, What, Whose};
pub use server::Step;

use super::connection::PooledConnection;
use super::settings::{self, Reports, SessionSettings};
use super::statements::{PreparedText, PreparedTextRegistry};
use crate::session::{message_of, parameter_status};
use crate::statement::name::stored;

/// The status of a server outside of a block, and within one that has not failed.
const IDLE: u8 = b'I';
const IN_BLOCK: u8 = b'T';

/// What a session needs from the server, and what follows it from connection to connection.
#[derive(Debug)]
pub struct Link {
    /// The number of the session.
    session: u64,
    registry: Arc<PreparedTextRegistry>,
    prepared_max: usize,
    connection: Option<Box<PooledConnection>>,
    /// The session's bytes that were not sent: all while there is no connection, otherwise an incomplete message.
    unsent: Vec<u8>,
    /// The session's next message names a statement of which an unanswered unit decides whether the client has it.
    is_stalled: bool,
    /// How much of a message of the session is still to pass as it is.
    streaming: usize,
    /// Messages that go before, or in place of, the session's message.
    scratch: Vec<u8>,
    /// The client's prepared statements, as far as the server has confirmed them.
    texts: HashMap<Box<[u8]>, Arc<PreparedText>>,
    /// The `Parse` of its unnamed statement.
    unnamed: Option<Vec<u8>>,
    /// The connection's unnamed statement is the client's, or both have none.
    has_own_unnamed: bool,
    expected: VecDeque<Expected>,
    /// The server ignores everything up to a `Sync`.
    is_skipping: bool,
    is_copying_in: bool,
    /// The session has sent rows of a copy, and not its end.
    has_sent_rows: bool,
    /// How many `Sync` it has sent behind rows of the copy under way. If the copy fails, only the server knows which of
    /// them it answers.
    syncs_behind_rows: usize,
    /// The session has begun a unit of the extended protocol, and not ended it.
    is_in_unit: bool,
    /// The statement that the client's unnamed statement closes.
    unnamed_closes: Option<Box<[u8]>>,
    /// The portal that was bound last, if it closes a statement, and which.
    closing_portal: Option<ClosingPortal>,
    /// The transaction status that the connection has reported last.
    status: u8,
    /// The server's message that is passing: how much of it is still to come, and whether the session sees it.
    left: usize,
    is_passed: bool,
    /// How many bytes the session was offered and has not taken.
    untaken: usize,
    answers: Vec<u8>,
    /// The settings that follow the client.
    settings: Arc<SessionSettings>,
    /// The settings with which it began.
    base: Arc<SessionSettings>,
    /// The reports that the client has heard.
    heard: Arc<Reports>,
    pin: Option<String>,
    /// The answer to the question for the values of settings.
    asked: Option<Vec<SettingValue>>,
    /// How much of a message of the session is still to be dropped.
    dropping: usize,
    /// The error that answers what the session sends, for it waited in vain.
    refusal: Option<refusal::Refused>,
    /// The client has said goodbye.
    has_left: bool,
    /// Everything of the session was discarded.
    has_discarded: bool,
    /// Nothing has run on the connection that could have changed a setting.
    is_fresh: bool,
    /// The application has the name with which the connection began.
    has_lost_its_name: bool,
    broken: Option<String>,
}

/// A portal that closes a statement when it runs: its name, and that of the statement.
type ClosingPortal = (Box<[u8]>, Box<[u8]>);

/// A setting, as the server has answered: its name, its value, and whether the session has set it, if that is known.
type SettingValue = (Box<[u8]>, Option<Box<[u8]>>, Option<bool>);

impl Link {
    /// The link of a client that has just logged in, with those settings, and that has heard those reports.
    pub fn new(
        session: u64,
        registry: Arc<PreparedTextRegistry>,
        prepared_max: usize,
        base: Arc<SessionSettings>,
        heard: Arc<Reports>,
    ) -> Self {
        Link {
            session,
            registry,
            prepared_max,
            connection: None,
            unsent: Vec::new(),
            is_stalled: false,
            streaming: 0,
            scratch: Vec::new(),
            texts: HashMap::new(),
            unnamed: None,
            has_own_unnamed: false,
            expected: VecDeque::new(),
            is_skipping: false,
            is_copying_in: false,
            has_sent_rows: false,
            syncs_behind_rows: 0,
            is_in_unit: false,
            unnamed_closes: None,
            closing_portal: None,
            status: IDLE,
            left: 0,
            is_passed: true,
            untaken: 0,
            answers: Vec::new(),
            settings: Arc::clone(&base),
            base,
            heard,
            pin: None,
            asked: None,
            dropping: 0,
            refusal: None,
            has_left: false,
            has_discarded: false,
            is_fresh: false,
            has_lost_its_name: false,
            broken: None,
        }
    }

    /// Whether the session waits for a connection.
    pub fn wants(&self) -> bool {
        self.connection.is_none() && !self.unsent.is_empty() && self.refusal.is_none()
    }

    /// Whether it has a connection.
    pub fn is_attached(&self) -> bool {
        self.connection.is_some()
    }

    /// The connection.
    pub fn connection(&self) -> Option<&PooledConnection> {
        self.connection.as_deref()
    }

    /// Whether the connection owes nothing, is in no block, and nothing pins it. The session must be at rest, too.
    pub fn is_free(&self) -> bool {
        self.owes_nothing() && self.pin.is_none()
    }

    /// The same, whether or not something pins it.
    pub fn owes_nothing(&self) -> bool {
        let Some(connection) = &self.connection else { return false };
        self.is_answered() && self.status == IDLE && !self.is_skipping && !connection.is_spoilt
    }

    /// Whether the session is served, and only a question of the link's own is still to be answered.
    pub fn awaits_own_answer(&self) -> bool {
        !self.expected.is_empty() && self.awaits_only_ours()
    }

    fn awaits_only_ours(&self) -> bool {
        self.expected.iter().all(|expected| expected.whose == Whose::Ours)
    }

    /// Why the session keeps its connection, if it does.
    pub fn pin(&self) -> Option<&str> {
        self.pin.as_deref()
    }

    /// From now on the session keeps its connection, until it ends or discards everything.
    pub fn pin_because(&mut self, why: String) {
        self.pin.get_or_insert(why);
    }

    /// Whether everything of the session was discarded since this was asked last.
    pub fn has_discarded(&mut self) -> bool {
        std::mem::take(&mut self.has_discarded)
    }

    /// The value of a setting that follows the client.
    pub fn setting(&self, name: &[u8]) -> Option<&[u8]> {
        self.settings.get(name).map(|value| &**value)
    }

    /// The names of the settings that follow the client.
    pub fn names_of_settings(&self) -> impl Iterator<Item = Box<[u8]>> {
        self.settings.keys().cloned()
    }

    /// Whether its client has said goodbye, and everything before that is answered.
    pub fn is_over(&self) -> bool {
        self.has_left && self.is_answered()
    }

    /// Whether all that the session has sent is answered, the link's own questions too, and the session has the answers.
    fn is_answered(&self) -> bool {
        let is_sent = self.unsent.is_empty() && self.streaming == 0;
        let is_heard = self.left == 0 && self.untaken == 0 && self.answers.is_empty();
        is_sent && self.expected.is_empty() && self.asked.is_none() && is_heard
    }

    /// Whether the server runs a statement of the link's own, which a cancel would meet.
    pub fn runs_own_query(&self) -> bool {
        self.expected.front().is_some_and(|front| front.whose == Whose::Ours && front.what == What::Query)
    }

    /// Why the session cannot go on, if so: its settings could not be restored, or the server's answers cannot be told
    /// apart.
    pub fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// A connection is there: the session's settings are put in force, and what has waited is sent.
    pub fn attach(&mut self, mut connection: Box<PooledConnection>, send: &mut impl FnMut(&[u8])) {
        let change = match settings::unite(&mut connection.settings, &mut self.settings) {
            true => None,
            false => settings::change(&connection.settings, &self.settings),
        };
        let has_unnamed = connection.has_unnamed;
        let has_sequences = connection.sequences_of.is_some_and(|session| session != self.session);
        let connection = self.connection.insert(connection);
        (self.status, self.is_fresh, self.is_in_unit) = (IDLE, true, false);
        if has_sequences {
            // Values that another client has taken are not this one's.
            send(&message_of(b'Q', &[b"DISCARD SEQUENCES\0"]));
            (connection.sequences_of, connection.has_unnamed) = (None, false);
            self.expected.push_back(Expected::query(Whose::Ours, Effect::None));
        }
        match change {
            Some(sql) => {
                send(&message_of(b'Q', &[&sql, b"\0"]));
                // A Query discards the unnamed statement.
                connection.has_unnamed = false;
                self.expected.push_back(Expected::query(Whose::Ours, Effect::Applies));
            }
            None => self.tell_reports(),
        }
        self.has_own_unnamed = self.unnamed.is_none() && (!has_unnamed || !self.expected.is_empty());
        self.pump(send);
    }

    /// Takes the connection away; the caller has seen that the link [is free](Self::is_free), or closes it.
    pub fn release(&mut self) -> Option<Box<PooledConnection>> {
        (self.has_own_unnamed, self.has_lost_its_name) = (false, false);
        self.connection.take()
    }

    /// Tells the client what the connection reports otherwise than the client has heard.
    fn tell_reports(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        if settings::unite(&mut connection.reports, &mut self.heard) {
            return;
        }
        for (name, value) in connection.reports.iter().filter(|(name, value)| self.heard.get(*name) != Some(value)) {
            let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
            self.answers.extend(parameter_status(&name, &value));
        }
        self.heard = Arc::clone(&connection.reports);
    }

    /// Messages for the session, which come before anything that the server sends from now on; empty in the middle of
    /// a message.
    pub fn answers(&mut self) -> Vec<u8> {
        match self.left {
            0 => std::mem::take(&mut self.answers),
            _ => Vec::new(),
        }
    }

    /// The session has taken only so many of the bytes of a step: the others will be offered again.
    pub fn leaves(&mut self, untaken: usize) {
        self.untaken = untaken;
    }

    /// The client's statement of that name: the one asked for last, whether or not the server has confirmed it.
    fn text_of(&self, name: &[u8]) -> Option<Arc<PreparedText>> {
        let name = stored(name)?;
        let pending = self.expected.iter().rev().find_map(|expected| match &expected.then {
            Effect::Prepares(known, text) if **known == *name => Some(Some(Arc::clone(text))),
            Effect::Closes(known) | Effect::ClosesByText(known) if **known == *name => Some(None),
            Effect::DiscardsTexts => Some(None),
            _ => None,
        });
        pending.unwrap_or_else(|| self.texts.get(name).cloned())
    }

    /// Everything was discarded: DISCARD ALL.
    fn discarded(&mut self) {
        // The server keeps an unnamed statement, unless a Query has discarded it before.
        self.texts.clear();
        (self.pin, self.has_discarded) = (None, true);
        self.settings = Arc::clone(&self.base);
        if let Some(connection) = &mut self.connection {
            connection.settings = Arc::clone(&connection.base);
            connection.prepared.clear();
        }
    }
}
