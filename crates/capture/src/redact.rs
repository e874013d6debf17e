//! What is kept of values: nothing of secrets, and with redaction nothing of any.
//!
//! In reading order: [`secrets`] finds statements that may contain a password, [`values`] has the keyed hash of a value in
//! the same type, `texts` applies both to the text of a statement, `binary` to a value in binary form, `copy` to copied
//! data. The redactor applies them to the messages of a unit and to the kept part of its answer.

mod binary;
mod copy;
pub mod secrets;
#[cfg(test)]
mod tests;
mod texts;
pub mod values;

use std::collections::HashMap;

use plimsoll_notation::sql::TextRules;

use crate::description::Values;
use crate::event::{Event, Opened, SessionId, Unit};
use crate::messages::{Bind, Body, Message, Messages, Parse, format_at, put};
use copy::CopyRedaction;
pub use secrets::SECRET;
use secrets::mentions_secret;
pub use values::Key;

/// The most statements of a session that are remembered; a client that prepares more has its values treated as of unknown
/// type, and as secrets.
const STATEMENTS_MAX: usize = 10_000;

/// Removes what is not to be kept from events, before anything is written.
#[derive(Debug)]
pub(crate) struct Redactor {
    key: Key,
    /// Whether all values are replaced, not only those of statements that may contain a secret.
    is_for_all: bool,
    sessions: HashMap<SessionId, Statements>,
}

/// The prepared statements of a session that must be known.
#[derive(Debug, Default)]
struct Statements {
    by_name: HashMap<Box<[u8]>, Statement>,
    copy: CopyRedaction,
    is_full: bool,
}

/// What is known about a prepared statement.
#[derive(Debug, Clone, Default)]
struct Statement {
    /// Its text may contain a secret, and so may its values.
    is_secret: bool,
    /// The types of its parameters, as far as they are known.
    types: Vec<u32>,
}

/// What happens to values.
#[derive(Debug, Clone, Copy)]
enum Treatment<'k> {
    /// They are kept.
    Keep,
    /// They are removed.
    Remove,
    /// They are replaced by their hashes.
    Hash(&'k Key),
}

impl Redactor {
    /// Replaces values by their hashes with that key, or only removes secrets.
    pub(crate) fn new(key: Key, values: Values) -> Self {
        Redactor { key, is_for_all: values == Values::Redacted, sessions: HashMap::new() }
    }

    /// Removes from an event what is not to be kept.
    pub(crate) fn apply(&mut self, event: &mut Event, rules: TextRules) {
        match event {
            Event::Opened(opened) => self.apply_opened(opened),
            Event::Unit(unit) => self.apply_unit(unit, rules),
            Event::Closed(closed) => drop(self.sessions.remove(&closed.session)),
            Event::Lost(_) => {}
        }
    }

    /// `options` may set parameters of extensions.
    fn apply_opened(&self, opened: &mut Opened) {
        for (name, value) in &mut opened.parameters {
            if mentions_secret(name.as_bytes()) || mentions_secret(value.as_bytes()) {
                SECRET.clone_into(value);
            }
        }
    }

    fn apply_unit(&mut self, unit: &mut Unit, rules: TextRules) {
        let is_known = self.sessions.contains_key(&unit.session);
        if !self.is_for_all && !is_known && !has_secret_text(&unit.request) {
            return;
        }
        let mut statements = self.sessions.remove(&unit.session).unwrap_or_default();
        let (request, is_secret) = statements.redacted(&unit.request, &self.key, self.is_for_all, rules);
        unit.request = request.unwrap_or_else(|| std::mem::take(&mut unit.request));
        statements.learn_types(&unit.request, &unit.answer.begin);
        if is_secret {
            (unit.answer.begin, unit.answer.checksum) = (Vec::new(), 0);
        } else if self.is_for_all {
            // The checksum is of the values, and values can be guessed from a hash without a key.
            unit.answer.checksum = 0;
            unit.answer.begin = redacted_answer(&unit.answer.begin, &self.key);
        }
        if self.is_for_all || statements.is_worth_keeping() {
            self.sessions.insert(unit.session, statements);
        }
    }
}

/// Whether a message runs or prepares a text that may contain a secret.
fn has_secret_text(request: &[u8]) -> bool {
    Messages(request).any(|message| sql_of(message).is_some_and(mentions_secret))
}

/// The text of the statement that a message runs or prepares.
fn sql_of<'a>(message: Message<'a>) -> Option<&'a [u8]> {
    match message.tag {
        b'Q' => Some(Body(message.body).text().unwrap_or(message.body)),
        b'P' => {
            let mut body = Body(message.body);
            body.text().and_then(|_name| body.text())
        }
        _ => None,
    }
}

impl Statements {
    fn is_worth_keeping(&self) -> bool {
        self.is_full || self.by_name.values().any(|statement| statement.is_secret)
    }

    /// The request without what is not to be kept; `None` if that is the same. Also whether a secret is in it.
    fn redacted(&mut self, request: &[u8], key: &Key, is_for_all: bool, rules: TextRules) -> (Option<Vec<u8>>, bool) {
        let mut redacted = Vec::with_capacity(request.len());
        let (mut is_changed, mut is_secret) = (is_for_all, false);
        let plain = if is_for_all { Treatment::Hash(key) } else { Treatment::Keep };
        for message in Messages(request) {
            let of_text = sql_of(message).is_some_and(mentions_secret);
            let of_bind = message.tag == b'B' && self.of_bind(message.body).is_secret;
            is_secret |= of_text || of_bind;
            is_changed |= of_text || of_bind;
            let treatment = if of_text || of_bind { Treatment::Remove } else { plain };
            if message.tag == b'Q' || message.tag == b'P' {
                self.copy = CopyRedaction::default();
            }
            match (message.tag, treatment) {
                (b'Q', treatment) => {
                    let sql = sql_of(message).unwrap_or_default();
                    let text = [&texts::redacted(sql, treatment, rules)[..], b"\0"].concat();
                    put(b'Q', &text, &mut redacted);
                }
                (b'P', treatment) => self.parse(message, treatment, rules, &mut redacted),
                // The data of a copy into a table of passwords.
                (b'd', _) if is_secret => put(b'd', &self.copy.redacted(message.body, key), &mut redacted),
                (_, Treatment::Keep) => put(message.tag, message.body, &mut redacted),
                (b'B', treatment) => self.bind(message, treatment, &mut redacted),
                (b'd', Treatment::Hash(key)) => put(b'd', &self.copy.redacted(message.body, key), &mut redacted),
                (b'F', treatment) => put(b'F', &function_call(message.body, treatment), &mut redacted),
                (b'f', _) => put(b'f', b"\0", &mut redacted),
                _ => put(message.tag, message.body, &mut redacted),
            }
        }
        (is_changed.then_some(redacted), is_secret)
    }

    fn parse(&mut self, message: Message<'_>, treatment: Treatment<'_>, rules: TextRules, to: &mut Vec<u8>) {
        let Some(parse) = Parse::read(message.body) else { return };
        let is_secret = matches!(treatment, Treatment::Remove);
        let sql = texts::redacted(parse.sql, treatment, rules);
        let types = (parse.types.len() as u16).to_be_bytes().into_iter();
        let types: Vec<u8> = types.chain(parse.types.iter().flat_map(|oid| oid.to_be_bytes())).collect();
        put(b'P', &[parse.name, b"\0", &sql, b"\0", &types].concat(), to);
        if is_secret || matches!(treatment, Treatment::Hash(_)) {
            self.remember(parse.name, Statement { is_secret, types: parse.types });
        } else {
            self.by_name.remove(parse.name);
        }
    }

    fn remember(&mut self, name: &[u8], statement: Statement) {
        if self.by_name.len() < STATEMENTS_MAX || self.by_name.contains_key(name) {
            self.by_name.insert(name.into(), statement);
        } else {
            self.is_full = true;
        }
    }

    fn of_bind(&self, body: &[u8]) -> Statement {
        let mut body = Body(body);
        let name = body.text().and_then(|_portal| body.text()).unwrap_or_default();
        let unknown = Statement { is_secret: self.is_full, types: Vec::new() };
        self.by_name.get(name).cloned().unwrap_or(unknown)
    }

    fn bind(&self, message: Message<'_>, treatment: Treatment<'_>, to: &mut Vec<u8>) {
        // One that cannot be read is refused by the server, too.
        let Some(bind) = Bind::read(message.body) else { return put(b'B', b"\0\0\0\0\0\0\0\0", to) };
        let types = self.of_bind(message.body).types;
        let value = |(place, value): (usize, &Option<&[u8]>)| {
            let value = (*value)?;
            let oid = types.get(place).copied().unwrap_or(0);
            Some(match treatment {
                Treatment::Keep => value.to_vec(),
                Treatment::Remove => removed(value, oid, bind.is_binary(place)),
                Treatment::Hash(key) if bind.is_binary(place) => binary::hashed(value, oid, key),
                Treatment::Hash(key) => values::hashed(value, key),
            })
        };
        let values: Vec<Option<Vec<u8>>> = bind.values.iter().enumerate().map(value).collect();
        let mut body = [bind.portal, b"\0", bind.statement, b"\0"].concat();
        put_counts(&bind.formats, &mut body);
        put_values(values.iter().map(Option::as_deref), &mut body);
        put_counts(&bind.answers, &mut body);
        put(b'B', &body, to);
    }

    /// The answer to a `Describe` of a statement has the types of its parameters.
    fn learn_types(&mut self, request: &[u8], begin: &[u8]) {
        let is_described = |message: &Message<'_>| message.tag == b'D' && message.body.first() == Some(&b'S');
        let Some(describe) = Messages(request).find(is_described) else { return };
        let Some(described) = Messages(begin).find(|message| message.tag == b't') else { return };
        let name = Body(&describe.body[1..]).text().unwrap_or_default();
        let mut body = Body(described.body);
        let types: Option<Vec<u32>> = body.count().and_then(|count| (0..count).map(|_| body.number()).collect());
        if let (Some(statement), Some(types)) = (self.by_name.get_mut(name), types) {
            statement.types = types;
        }
    }
}

/// A value of a statement that may contain a secret. Numbers by their type are none.
fn removed(value: &[u8], oid: u32, is_binary: bool) -> Vec<u8> {
    match is_binary {
        _ if binary::is_number(oid) => value.to_vec(),
        // The same length, so that it stays a value of its type where that has one length.
        true => vec![b'0'; value.len()],
        false => SECRET.as_bytes().to_vec(),
    }
}

/// A function called by its number, with other arguments.
fn function_call(body: &[u8], treatment: Treatment<'_>) -> Vec<u8> {
    let read = || {
        let mut rest = Body(body);
        let (oid, formats, values) = (rest.number()?, rest.counts()?, rest.values()?);
        let mut redacted = oid.to_be_bytes().to_vec();
        put_counts(&formats, &mut redacted);
        let value = |(place, value): (usize, &Option<&[u8]>)| match (*value, treatment) {
            (Some(value), Treatment::Hash(key)) if format_at(&formats, place) == 1 => {
                Some(binary::hashed(value, 0, key))
            }
            (Some(value), Treatment::Hash(key)) => Some(values::hashed(value, key)),
            (value, _) => value.map(<[u8]>::to_vec),
        };
        let values: Vec<_> = values.iter().enumerate().map(value).collect();
        put_values(values.iter().map(Option::as_deref), &mut redacted);
        redacted.extend_from_slice(rest.0);
        Some(redacted)
    };
    read().unwrap_or_default()
}

/// The kept part of an answer with its values replaced.
fn redacted_answer(begin: &[u8], key: &Key) -> Vec<u8> {
    let mut redacted = Vec::with_capacity(begin.len());
    let mut columns: Vec<(u32, bool)> = Vec::new();
    for message in Messages(begin) {
        match message.tag {
            b'D' => {
                let Some(values) = Body(message.body).values() else { continue };
                let value = |(place, value): (usize, &Option<&[u8]>)| {
                    value.map(|value| match columns.get(place) {
                        Some((oid, true)) => binary::hashed(value, *oid, key),
                        Some((_, false)) => values::hashed(value, key),
                        None if values::is_readable(value) => values::hashed(value, key),
                        None => binary::hashed(value, 0, key),
                    })
                };
                let values: Vec<_> = values.iter().enumerate().map(value).collect();
                let mut body = Vec::new();
                put_values(values.iter().map(Option::as_deref), &mut body);
                put(b'D', &body, &mut redacted);
            }
            tag => {
                if tag == b'T' {
                    columns = columns_of(message.body);
                }
                put(tag, message.body, &mut redacted);
            }
        }
    }
    redacted
}

/// The type of each column of a `RowDescription`, and whether it is in binary form.
fn columns_of(body: &[u8]) -> Vec<(u32, bool)> {
    let mut body = Body(body);
    let count = body.count().unwrap_or(0);
    let mut column = || {
        body.text()?;
        // The table, the column's place in it, the type, its size and its modifier, the format.
        let (_table, _place, oid) = (body.number()?, body.count()?, body.number()?);
        let (_size, _modifier, format) = (body.count()?, body.number()?, body.count()?);
        Some((oid, format == 1))
    };
    (0..count).map_while(|_| column()).collect()
}

fn put_counts(counts: &[usize], to: &mut Vec<u8>) {
    to.extend_from_slice(&(counts.len() as u16).to_be_bytes());
    counts.iter().for_each(|count| to.extend_from_slice(&(*count as u16).to_be_bytes()));
}

fn put_values<'a>(values: impl ExactSizeIterator<Item = Option<&'a [u8]>>, to: &mut Vec<u8>) {
    to.extend_from_slice(&(values.len() as u16).to_be_bytes());
    for value in values {
        match value {
            Some(value) => {
                to.extend_from_slice(&(value.len() as u32).to_be_bytes());
                to.extend_from_slice(value);
            }
            None => to.extend_from_slice(&(-1i32).to_be_bytes()),
        }
    }
}
