//! Messages of the session.

use std::sync::Arc;

use super::expected::{Effect, Expected, What, Whose};
use super::naming::{Decides, TAKEN};
use super::refusal::ready;
use super::{IDLE, IN_BLOCK, Link};
use crate::effects::PREPARED;
use crate::pool::connection::Has;
use crate::pool::settings::{self, APPLICATION_NAME, SessionSettings};
use crate::pool::statements::{PREFIX, PreparedText, close, name_of};
use crate::session::{OWN_STATEMENT, message_of};
use crate::statement::name::stored;
use crate::statement::{TextRules, discards_statements, single_deallocate};

/// The longest `Parse` that follows a client; a longer one pins the session.
const PARSE_MAX: usize = 1 << 20;

/// The longest `Query`, `Describe`, `Close` or `Execute` that is read whole.
const WHOLE_MAX: usize = 64 << 10;

/// What happens to a message of the session.
pub(super) enum Fate {
    /// It goes on as it is.
    Passes,
    /// It goes on behind `scratch`.
    FollowsScratch,
    /// `scratch` goes in the place of its first bytes.
    Begins(usize),
    /// More of it must arrive.
    Waits,
}

impl Link {
    /// Takes bytes of the session: `send` passes on what the connection is to have.
    pub fn take(&mut self, bytes: &[u8], send: &mut impl FnMut(&[u8])) {
        if !self.unsent.is_empty() {
            self.unsent.extend_from_slice(bytes);
            return self.pump(send);
        }
        let used = self.use_bytes(bytes, send);
        self.unsent.extend_from_slice(&bytes[used..]);
    }

    /// Sends what has waited, as far as it can be sent.
    pub(super) fn pump(&mut self, send: &mut impl FnMut(&[u8])) {
        let mut unsent = std::mem::take(&mut self.unsent);
        let used = self.use_bytes(&unsent, send);
        unsent.drain(..used);
        self.unsent = unsent;
    }

    /// The server has answered something: sends what has waited for that.
    pub fn go_on(&mut self, send: &mut impl FnMut(&[u8])) {
        if std::mem::take(&mut self.is_stalled) {
            self.pump(send);
        }
    }

    fn use_bytes(&mut self, bytes: &[u8], send: &mut impl FnMut(&[u8])) -> usize {
        let dropped = self.drop_unit(bytes);
        dropped
            + match self.connection.is_some() {
                true => self.forward(&bytes[dropped..], send),
                false => self.go_without(&bytes[dropped..]),
            }
    }

    /// Answers what needs no connection: a client closes statements at any time, and a session that waits for admission
    /// is kept alive by a `Sync`.
    fn go_without(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while let Some((tag, length)) = head(&bytes[at..]) {
            let Some(message) = bytes.get(at..at + length) else { break };
            match (tag, &message[5..]) {
                (b'S', _) => self.answers.extend_from_slice(&ready(IDLE)),
                (b'H', _) => {}
                (b'X', _) => self.has_left = true,
                (b'C', [b'S', name @ ..]) => {
                    let name = name.strip_suffix(b"\0").unwrap_or(name);
                    stored(name).map(|name| self.texts.remove(name));
                    self.unnamed.take_if(|_| name.is_empty());
                    self.answers.extend(message_of(b'3', &[]));
                }
                (b'P', body) if self.prepares_here(body) => self.answers.extend(message_of(b'1', &[])),
                (b'C', [b'P', ..]) => self.answers.extend(message_of(b'3', &[])),
                _ => break,
            }
            at += length;
        }
        at
    }

    /// Whether a named statement is prepared without a connection: another client of the pool has prepared the same text
    /// with the settings with which both began. Clients may prepare within a thread that serves others as well, which hold
    /// the connections.
    fn prepares_here(&mut self, body: &[u8]) -> bool {
        let Some((name, rest)) = text(body) else { return false };
        let Some(name) = stored(name).filter(|name| !name.is_empty() && *name != OWN_STATEMENT) else { return false };
        if self.text_of(name).is_some() || self.settings != self.base {
            return false;
        }
        let prepared = self.registry.find(rest).filter(|prepared| prepared.is_sound());
        prepared.map(|prepared| self.texts.insert(name.into(), prepared)).is_some()
    }

    fn forward(&mut self, bytes: &[u8], send: &mut impl FnMut(&[u8])) -> usize {
        self.rename_application(send);
        let (mut at, mut sent) = (0, 0);
        loop {
            let streamed = self.streaming.min(bytes.len() - at);
            self.streaming -= streamed;
            at += streamed;
            let Some((tag, length)) = head(&bytes[at..]) else { break };
            let there = &bytes[at..bytes.len().min(at + length)];
            self.scratch.clear();
            let skipped = match self.fate_of(tag, length, there) {
                Fate::Passes => None,
                Fate::FollowsScratch => Some(0),
                Fate::Begins(skipped) => Some(skipped),
                Fate::Waits => break,
            };
            self.is_in_unit = match tag {
                b'P' | b'B' | b'D' | b'C' | b'E' => true,
                b'Q' | b'F' | b'S' => false,
                _ => self.is_in_unit,
            };
            if let Some(skipped) = skipped {
                pass(&bytes[sent..at], send);
                pass(&self.scratch, send);
                at += skipped;
                sent = at;
            }
            self.streaming = length - skipped.unwrap_or(0);
        }
        pass(&bytes[sent..at], send);
        at
    }

    fn fate_of(&mut self, tag: u8, length: usize, there: &[u8]) -> Fate {
        let is_whole = there.len() == length;
        if self.is_skipping && tag != b'S' && tag != b'X' {
            // The server ignores it.
            return Fate::Passes;
        }
        match tag {
            b'Q' if !is_whole && length <= WHOLE_MAX => Fate::Waits,
            b'Q' => {
                self.has_sent_rows = false;
                self.forward_query(there)
            }
            b'P' if !is_whole && length <= PARSE_MAX => Fate::Waits,
            b'P' => {
                self.has_sent_rows = false;
                self.forward_parse(there, is_whole)
            }
            b'B' => self.forward_bind(length, there),
            b'D' | b'C' if !is_whole && length <= WHOLE_MAX => Fate::Waits,
            b'D' => self.forward_describe(there),
            b'C' => self.forward_close(there),
            b'E' if !is_whole && length <= WHOLE_MAX && self.closing_portal.is_some() => Fate::Waits,
            b'E' => self.forward_execute(there),
            b'F' => {
                self.is_fresh = false;
                self.expects(Expected::theirs(What::Query))
            }
            b'S' if self.is_copying_in => {
                self.syncs_behind_rows += usize::from(self.has_sent_rows);
                Fate::Passes
            }
            b'S' => {
                self.is_skipping = false;
                self.expects(Expected { is_behind_rows: self.has_sent_rows, ..Expected::theirs(What::Sync) })
            }
            b'd' => {
                self.has_sent_rows = true;
                Fate::Passes
            }
            b'c' | b'f' => {
                self.has_sent_rows = false;
                match std::mem::take(&mut self.is_copying_in) || self.expected.is_empty() {
                    true => Fate::Passes,
                    false => self.expects(Expected::theirs(What::CopyEnd)),
                }
            }
            b'X' => {
                self.has_left = true;
                Fate::Begins(length)
            }
            _ => Fate::Passes,
        }
    }

    /// Gives the application its own name again, before the next unit. A block that is rolled back takes that back, too.
    fn rename_application(&mut self, send: &mut impl FnMut(&[u8])) {
        // What is not answered yet may fail, and its block with it.
        let is_between_units = self.awaits_only_ours() && !self.is_in_unit && self.streaming == 0 && !self.is_skipping;
        if !self.has_lost_its_name || !is_between_units || !matches!(self.status, IDLE | IN_BLOCK) {
            return;
        }
        let own = self.base.get(APPLICATION_NAME).map(|own| (Box::from(APPLICATION_NAME), own.clone()));
        let change = settings::change(&SessionSettings::new(), &own.into_iter().collect());
        if let Some(sql) = change {
            self.has_lost_its_name = false;
            // A Query discards the unnamed statement.
            self.has_own_unnamed = self.unnamed.is_none();
            if let Some(connection) = &mut self.connection {
                connection.has_unnamed = false;
            }
            send(&message_of(b'Q', &[&sql, b"\0"]));
            self.expected.push_back(Expected::query(Whose::Ours, Effect::Applies));
        }
    }

    fn stalls(&mut self) -> Fate {
        self.is_stalled = true;
        Fate::Waits
    }

    fn expects(&mut self, expected: Expected) -> Fate {
        self.expected.push_back(expected);
        Fate::Passes
    }

    /// The statement that a text closes, if it does nothing else.
    fn deallocated(&self, sql: &[u8]) -> Option<Box<[u8]>> {
        single_deallocate(sql, TextRules::default())
    }

    fn forward_query(&mut self, message: &[u8]) -> Fate {
        let closes = self.deallocated(message.get(5..).unwrap_or_default());
        if closes.as_ref().is_some_and(|name| self.is_undecided(name, Decides::Either)) {
            return self.stalls();
        }
        self.is_fresh = false;
        // It discards the unnamed statement, even if it fails.
        (self.unnamed, self.has_own_unnamed) = (None, true);
        if let Some(connection) = &mut self.connection {
            connection.has_unnamed = false;
        }
        let text = closes.and_then(|name| Some((self.text_of(&name)?, name)));
        let is_open = self.expected.back().is_some_and(|last| !matches!(last.what, What::Query | What::Sync));
        let Some((_, name)) = text.filter(|_| !is_open) else {
            let discards = discards_statements(message.get(5..).unwrap_or_default(), TextRules::default());
            let then = if discards { Effect::DiscardsTexts } else { Effect::None };
            return self.expects(Expected::theirs(What::Query).then(then));
        };
        // A unit of its own, before the query. Other clients keep the text: one that no client needs is closed.
        self.take_name();
        self.scratch.extend(message_of(b'S', &[]));
        self.expected.push_back(Expected::ours(What::Sync, Effect::None));
        let sql = [b"DEALLOCATE \"", &*name_of(TAKEN), b"\"\0"].concat();
        self.scratch.extend(message_of(b'Q', &[&sql]));
        self.expected.push_back(Expected::theirs(What::Query).then(Effect::Deallocates(name, TAKEN)));
        Fate::Begins(message.len())
    }

    fn forward_parse(&mut self, message: &[u8], is_whole: bool) -> Fate {
        let Some((name, rest)) = text(message.get(5..).unwrap_or_default()) else {
            return self.expects(Expected::theirs(What::Parse));
        };
        if name == OWN_STATEMENT {
            return self.forward_own_parse(rest, message.len());
        }
        if name.is_empty() {
            self.has_own_unnamed = true;
            if let Some(connection) = &mut self.connection {
                connection.has_unnamed = true;
            }
            self.unnamed_closes = self.deallocated(rest);
            self.unnamed = is_whole.then(|| message.to_vec());
            if !is_whole {
                self.pin_because("it has prepared a statement of more than 1 MiB".to_owned());
            }
            return self.expects(Expected::theirs(What::Parse).then(Effect::PreparesUnnamed));
        }
        if !is_whole {
            self.pin_because("it has prepared a statement that cannot follow it".to_owned());
            return self.expects(Expected::theirs(What::Parse));
        }
        let given = name;
        let Some(name) = stored(name) else {
            self.pin_because("it has given a statement a name that the server may cut anywhere".to_owned());
            return self.expects(Expected::theirs(What::Parse));
        };
        if self.is_undecided(name, Decides::Either) {
            return self.stalls();
        }
        if self.text_of(name).is_some() {
            // The server refuses a name that is taken, if nothing else is wrong: this one is taken.
            self.take_name();
            self.scratch.extend(message_of(b'P', &[&name_of(TAKEN), b"\0", rest]));
            self.expected.push_back(Expected::theirs(What::Parse).named(given));
            return Fate::Begins(message.len());
        }
        self.parse_named(name.into(), self.registry.of(rest), message.len())
    }

    /// A question of the session's own. One for the texts of prepared statements has the client's names, and the
    /// connection has those statements by others.
    fn forward_own_parse(&mut self, rest: &[u8], length: usize) -> Fate {
        let types =
            rest.strip_prefix(PREPARED.as_bytes()).filter(|_| self.texts.keys().any(|name| settings::may_follow(name)));
        if let Some(types) = types {
            let sql = self.question_by_own_names();
            self.scratch.extend(message_of(b'P', &[OWN_STATEMENT, b"\0", &sql, types]));
        }
        self.expected.push_back(Expected::theirs(What::Parse));
        if types.is_some() { Fate::Begins(length) } else { Fate::Passes }
    }

    /// A client prepares a text under a new name.
    fn parse_named(&mut self, name: Box<[u8]>, prepared: Arc<PreparedText>, length: usize) -> Fate {
        let then = Effect::Prepares(name, Arc::clone(&prepared));
        if self.has(prepared.number) != Has::No {
            // Whether the text is one now, with the settings of the moment, only the server can say.
            self.close_ours(prepared.number);
        }
        self.make_room();
        self.scratch.extend(prepared.parse());
        self.expected.push_back(Expected::theirs(What::Parse).then(then));
        Fate::Begins(length)
    }

    fn forward_bind(&mut self, length: usize, there: &[u8]) -> Fate {
        let names = text(there.get(5..).unwrap_or_default()).and_then(|(portal, rest)| Some((portal, text(rest)?.0)));
        let Some((portal, name)) = names else {
            let is_hopeless = there.len() == length || there.len() > PARSE_MAX;
            return if is_hopeless { self.expects(Expected::theirs(What::Bind)) } else { Fate::Waits };
        };
        if name == OWN_STATEMENT {
            return self.expects(Expected::theirs(What::Bind));
        }
        if self.is_undecided(name, Decides::Removal) {
            return self.stalls();
        }
        let closes = match name {
            b"" => self.unnamed_closes.clone(),
            _ => self.text_of(name).and_then(|text| text.closes.clone()),
        };
        self.closing_portal = closes.map(|closes| (portal.into(), closes));
        if name.is_empty() {
            return self.with_unnamed(What::Bind);
        }
        let skipped = 5 + portal.len() + name.len() + 2;
        let renamed = self.renamed(name);
        self.expected.push_back(Expected::theirs(What::Bind).named(name));
        let Some(renamed) = renamed else {
            return if self.scratch.is_empty() { Fate::Passes } else { Fate::FollowsScratch };
        };
        let whole = length - skipped + 5 + portal.len() + renamed.len() + 2;
        self.scratch.push(b'B');
        self.scratch.extend_from_slice(&(whole as u32 - 1).to_be_bytes());
        [portal, b"\0", &renamed, b"\0"].into_iter().for_each(|part| self.scratch.extend_from_slice(part));
        Fate::Begins(skipped)
    }

    /// A statement that closes another one finds it by the client's name, which the connection does not know: there it
    /// becomes a statement without a text.
    fn forward_execute(&mut self, there: &[u8]) -> Fate {
        self.is_fresh = false;
        let portal = text(there.get(5..).unwrap_or_default()).map_or(&b""[..], |(portal, _)| portal);
        let closes = self.closing_portal.take_if(|(of, _)| **of == *portal).map(|(_, closes)| closes);
        let Some(name) = closes.filter(|name| self.text_of(name).is_some()) else {
            return self.expects(Expected::theirs(What::Execute));
        };
        self.scratch.extend(close(&name));
        self.expected.push_back(Expected::ours(What::Close, Effect::None));
        self.scratch.extend(message_of(b'P', &[&name, b"\0\0\0\0"]));
        self.expected.push_back(Expected::ours(What::Parse, Effect::None));
        self.expected.push_back(Expected::theirs(What::Execute).then(Effect::ClosesByText(name)));
        Fate::FollowsScratch
    }

    fn forward_describe(&mut self, message: &[u8]) -> Fate {
        let name = match message.get(5..) {
            Some([b'S', name @ ..]) => name.strip_suffix(b"\0").unwrap_or(name),
            _ => return self.expects(Expected::theirs(What::Describe)),
        };
        if name == OWN_STATEMENT {
            return self.expects(Expected::theirs(What::Describe));
        }
        if name.is_empty() {
            return self.with_unnamed(What::Describe);
        }
        if self.is_undecided(name, Decides::Removal) {
            return self.stalls();
        }
        let renamed = self.renamed(name);
        self.expected.push_back(Expected::theirs(What::Describe).named(name));
        let Some(renamed) = renamed else {
            return if self.scratch.is_empty() { Fate::Passes } else { Fate::FollowsScratch };
        };
        self.scratch.extend(message_of(b'D', &[b"S", &renamed, b"\0"]));
        Fate::Begins(message.len())
    }

    fn forward_close(&mut self, message: &[u8]) -> Fate {
        let name = match message.get(5..) {
            Some([b'S', name @ ..]) => name.strip_suffix(b"\0").unwrap_or(name),
            _ => return self.expects(Expected::theirs(What::Close)),
        };
        if name.is_empty() {
            (self.unnamed, self.has_own_unnamed) = (None, true);
            return self.expects(Expected::theirs(What::Close));
        }
        if self.is_undecided(name, Decides::Either) {
            return self.stalls();
        }
        let known = stored(name).filter(|name| *name != OWN_STATEMENT);
        let known = known.filter(|name| self.text_of(name).is_some() || name.starts_with(PREFIX));
        let Some(known) = known else { return self.expects(Expected::theirs(What::Close)) };
        // The connection keeps the text for other clients.
        let then = Effect::Closes(known.into());
        self.expected.push_back(Expected::theirs(What::CloseHere).then(then));
        self.answer_in_turn();
        Fate::Begins(message.len())
    }
}

fn pass(bytes: &[u8], send: &mut impl FnMut(&[u8])) {
    if !bytes.is_empty() {
        send(bytes);
    }
}

/// The tag and the length of a message, the tag included. The session has checked the length.
pub(super) fn head(bytes: &[u8]) -> Option<(u8, usize)> {
    let (head, _) = bytes.split_first_chunk::<5>()?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    Some((head[0], length.max(4) + 1))
}

/// The text up to a zero, and what follows.
pub(super) fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(0, bytes)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}
