//! The names of statements: the client's, and those that the connection has for the same texts.

use super::Link;
use super::client::Fate;
use super::expected::{Effect, Expected, What};
use crate::effects::PREPARED;
use crate::pool::connection::Has;
use crate::pool::settings::{literal, may_follow};
use crate::pool::statements::{PREFIX, PreparedText, close, name_of};
use crate::session::message_of;
use crate::statement::name::stored;

/// The number of a statement without a text, whose name is taken.
pub(super) const TAKEN: u64 = 0;

/// What of a statement is to be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decides {
    /// Whether it is closed.
    Removal,
    /// Whether it is prepared, or closed.
    Either,
}

impl Link {
    /// Whether an earlier unit, which is not answered and may fail before it comes to that, decides about the client's
    /// statement of that name. What is in the same unit is skipped together.
    pub(super) fn is_undecided(&self, name: &[u8], decides: Decides) -> bool {
        let Some(name) = stored(name) else { return false };
        let mut is_of_this_unit = true;
        self.expected.iter().rev().any(|expected| {
            is_of_this_unit &= !matches!(expected.what, What::Sync | What::Query);
            let is_about = match &expected.then {
                Effect::Prepares(of, _) => decides == Decides::Either && **of == *name,
                Effect::Closes(of) | Effect::ClosesByText(of) | Effect::Deallocates(of, _) => **of == *name,
                Effect::DiscardsTexts => self.texts.contains_key(name),
                _ => false,
            };
            is_about && !is_of_this_unit
        })
    }

    /// A message that names the unnamed statement: the connection must have that of the client, or none.
    pub(super) fn with_unnamed(&mut self, what: What) -> Fate {
        let is_there = std::mem::replace(&mut self.has_own_unnamed, true);
        if !is_there {
            match &self.unnamed {
                Some(parse) => {
                    self.scratch.extend_from_slice(parse);
                    self.expected.push_back(Expected::ours(What::Parse, Effect::None));
                }
                None => {
                    self.scratch.extend(close(b""));
                    self.expected.push_back(Expected::ours(What::Close, Effect::None));
                }
            }
            if let Some(connection) = &mut self.connection {
                connection.has_unnamed = self.unnamed.is_some();
            }
        }
        self.expected.push_back(Expected::theirs(what));
        if is_there { Fate::Passes } else { Fate::FollowsScratch }
    }

    /// The connection's name for the client's statement, which the connection then has. A name that the client has not
    /// given goes on as it is, unless it is one of ours.
    pub(super) fn renamed(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        match self.text_of(name) {
            Some(text) => {
                // If the client's own Parse is on its way, the connection has the text, or the server is to say that it
                // does not exist.
                let is_asked = |expected: &Expected| matches!(&expected.then, Effect::Prepares(of, _) if **of == *name);
                if !self.expected.iter().any(is_asked) {
                    self.ensure(&text);
                }
                Some(text.name())
            }
            None => name.starts_with(PREFIX).then(|| [name, b"?"].concat()),
        }
    }

    /// Sees to it that the connection has a text before the next message.
    pub(super) fn ensure(&mut self, prepared: &PreparedText) {
        match self.has(prepared.number) {
            Has::Yes => return self.uses(prepared.number),
            Has::Perhaps => self.close_ours(prepared.number),
            Has::No => {}
        }
        self.make_room();
        self.scratch.extend(prepared.parse());
        self.expected.push_back(Expected::ours(What::Parse, Effect::Has(prepared.number)));
    }

    pub(super) fn make_room(&mut self) {
        let surplus =
            self.connection.as_ref().and_then(|there| there.prepared.surplus(self.prepared_max.saturating_sub(1)));
        if let Some(old) = surplus {
            self.close_ours(old);
        }
    }

    pub(super) fn close_ours(&mut self, number: u64) {
        self.scratch.extend(close(&name_of(number)));
        self.expected.push_back(Expected::ours(What::Close, Effect::Lacks(number)));
    }

    /// Whether the connection has a text by the time at which it reads the next message. What an earlier unit prepares, and
    /// is not answered, may fail.
    pub(super) fn has(&self, number: u64) -> Has {
        let mut is_of_this_unit = true;
        for expected in self.expected.iter().rev() {
            is_of_this_unit &= !matches!(expected.what, What::Sync | What::Query);
            let then = match &expected.then {
                Effect::Has(of) if *of == number => Has::Yes,
                Effect::Prepares(_, text) if text.number == number => Has::Yes,
                Effect::Lacks(of) | Effect::Deallocates(_, of) if *of == number => Has::No,
                Effect::DiscardsTexts => Has::No,
                _ => continue,
            };
            return if is_of_this_unit { then } else { Has::Perhaps };
        }
        self.connection.as_ref().map_or(Has::No, |connection| connection.prepared.has(number))
    }

    pub(super) fn uses(&mut self, number: u64) {
        if let Some(connection) = &mut self.connection {
            connection.prepared.uses(number);
        }
    }

    /// The question for the texts of prepared statements, with the client's names for those of the connection.
    pub(super) fn question_by_own_names(&self) -> Vec<u8> {
        let mut sql = b"select n.own, p.statement from pg_catalog.pg_prepared_statements p join (values ".to_vec();
        let names = self.texts.iter().filter(|(name, _)| may_follow(name));
        for (at, (name, text)) in names.enumerate() {
            sql.extend_from_slice(if at == 0 { b"(" } else { b"),(" });
            literal(name, &mut sql);
            sql.push(b',');
            literal(&text.name(), &mut sql);
        }
        sql.extend_from_slice(b")) n (own, there) on p.name operator(pg_catalog.=) n.there ");
        sql.extend_from_slice(b"where n.own operator(pg_catalog.=) any ($1::pg_catalog.text[]) union all ");
        sql.extend_from_slice(PREPARED.as_bytes());
        sql
    }

    /// Sees to it that the connection has a statement without a text.
    pub(super) fn take_name(&mut self) {
        self.close_ours(TAKEN);
        self.scratch.extend(message_of(b'P', &[&name_of(TAKEN), b"\0\0\0\0"]));
        self.expected.push_back(Expected::ours(What::Parse, Effect::Has(TAKEN)));
    }
}
