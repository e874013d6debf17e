//! Messages of the server.

use std::sync::Arc;

use super::Link;
use super::client::{head, text};
use super::expected::{Effect, What, Whose};
use crate::pool::settings::{APPLICATION_NAME, SessionSettings, may_follow};
use crate::pool::statements::PREFIX;
use crate::session::{columns, is_fatal, message_of, parameter_status, sqlstate};

/// The longest message that is read whole.
const READ_MAX: usize = 64 << 10;

/// Why a session cannot go on whose copy has failed before or behind a `Sync`.
const UNTOLD_SYNCS: &str = "a copy has failed among whose rows the client had sent Sync messages, and which of them the \
     server answers cannot be known";

/// What becomes of bytes of the server: first some that the session is offered, then some that it never sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Step {
    /// How many the session is offered.
    pub pass: usize,
    /// How many behind them are dropped.
    pub drop: usize,
}

/// What happens to a message.
enum Heard {
    Passes,
    Drops,
    /// More of it must arrive.
    Waits,
}

impl Link {
    /// Reads bytes of the server, beginning with those that the session has left. After a step, and before the next, the
    /// session gets the [answers](Link::answers).
    pub fn scan(&mut self, bytes: &[u8]) -> Step {
        let mut at = std::mem::take(&mut self.untaken).min(bytes.len());
        loop {
            let rest = self.left.min(bytes.len() - at);
            self.left -= rest;
            if !self.is_passed && rest > 0 {
                return Step { pass: at, drop: rest };
            }
            at += rest;
            if self.left > 0 || !self.answers.is_empty() {
                break;
            }
            let Some((tag, length)) = head(&bytes[at..]) else { break };
            let is_passed = match self.hear(tag, bytes.get(at + 5..at + length), length) {
                Heard::Passes => true,
                Heard::Drops => false,
                Heard::Waits => break,
            };
            (self.left, self.is_passed) = (length, is_passed);
        }
        Step { pass: at, drop: 0 }
    }

    fn is_ours(&self) -> bool {
        self.expected.front().is_some_and(|front| front.whose == Whose::Ours)
    }

    fn hear(&mut self, tag: u8, body: Option<&[u8]>, length: usize) -> Heard {
        if body.is_none() && length <= READ_MAX && matches!(tag, b'S' | b'E' | b'Z' | b'C' | b'D') && self.reads(tag) {
            return Heard::Waits;
        }
        let is_ours = self.is_ours();
        match (tag, body) {
            (b'S', Some(body)) => return self.hear_report(body, is_ours),
            (b'A', _) => return Heard::Passes,
            (b'N', _) => return if is_ours { Heard::Drops } else { Heard::Passes },
            (b'E', body) => return self.hear_error(body.unwrap_or_default(), is_ours),
            (b'Z', Some([status])) => self.hear_ready(*status),
            (b'D', Some(body)) if is_ours => self.hear_setting(body),
            (b'C', Some(body)) => self.hear_command(body),
            (b'G' | b'W', _) => self.begin_copy(),
            _ => {}
        }
        if self.expected.front().is_some_and(|front| front.ends_with(tag)) {
            self.pop();
        }
        if is_ours { Heard::Drops } else { Heard::Passes }
    }

    fn hear_ready(&mut self, status: u8) {
        self.status = status;
        if self.expected.is_empty() {
            // A copy that failed as it began has not swallowed its Sync.
            self.is_skipping = false;
        }
    }

    /// Whether the body of such a message is read.
    fn reads(&self, tag: u8) -> bool {
        tag != b'D' || self.is_ours()
    }

    /// The front is answered.
    fn pop(&mut self) {
        let Some(front) = self.expected.pop_front() else { return };
        match front.has_failed {
            true => self.fails(front.then),
            false => self.succeeds(front.then),
        }
        self.answer_in_turn();
    }

    /// Answers what comes next and is ours to answer.
    pub(super) fn answer_in_turn(&mut self) {
        while let Some(front) = self.expected.pop_front_if(|front| front.is_ours_to_answer()) {
            if front.what == What::CloseHere {
                self.answers.extend(message_of(b'3', &[]));
            }
            self.succeeds(front.then);
        }
    }

    fn succeeds(&mut self, effect: Effect) {
        match effect {
            Effect::Prepares(name, text) => {
                if self.is_fresh && self.settings == self.base {
                    text.proves_sound();
                }
                self.has_text(text.number);
                self.texts.insert(name, text);
            }
            Effect::Closes(name) | Effect::ClosesByText(name) => _ = self.texts.remove(&name),
            Effect::Deallocates(name, number) => {
                self.texts.remove(&name);
                self.lacks(number);
            }
            Effect::Applies => {
                if let Some(connection) = &mut self.connection {
                    connection.settings = Arc::clone(&self.settings);
                }
                self.tell_reports();
            }
            Effect::Settles => self.settle(),
            Effect::Has(number) => self.has_text(number),
            Effect::Lacks(number) => self.lacks(number),
            // The command's tag shows it as well, whatever the text was.
            Effect::None | Effect::PreparesUnnamed | Effect::DiscardsTexts => {}
        }
    }

    fn has_text(&mut self, number: u64) {
        if let Some(connection) = &mut self.connection {
            connection.prepared.uses(number);
        }
    }

    fn fails(&mut self, effect: Effect) {
        match effect {
            Effect::Prepares(_, text) => self.doubts(text.number),
            Effect::Has(number) | Effect::Lacks(number) => self.doubts(number),
            // The server has discarded the one before.
            Effect::PreparesUnnamed => self.unnamed = None,
            Effect::Applies => {
                let why = "the settings of the session cannot be restored on another server connection";
                self.broken.get_or_insert(why.to_owned());
            }
            Effect::Settles => self.settle_in_vain(),
            Effect::ClosesByText(_) => {
                self.pin_because("a statement that it closes may be left on the connection".to_owned());
            }
            Effect::None | Effect::Closes(_) | Effect::Deallocates(..) | Effect::DiscardsTexts => {}
        }
    }

    fn doubts(&mut self, number: u64) {
        if let Some(connection) = &mut self.connection {
            connection.prepared.doubts(number);
        }
    }

    fn lacks(&mut self, number: u64) {
        if let Some(connection) = &mut self.connection {
            connection.prepared.forget(number);
        }
    }

    /// A reported parameter: the client hears of it unless it knows the value.
    fn hear_report(&mut self, body: &[u8], is_ours: bool) -> Heard {
        let Some((name, value)) = text(body).and_then(|(name, rest)| Some((name, text(rest)?.0))) else {
            return Heard::Passes;
        };
        let Some(connection) = &mut self.connection else { return Heard::Passes };
        if connection.reports.get(name).is_none_or(|known| **known != *value) {
            Arc::make_mut(&mut connection.reports).insert(name.into(), value.into());
        }
        if is_ours || self.hears_of_its_own_name(name, value) {
            return Heard::Drops;
        }
        if self.heard.get(name).is_some_and(|known| **known == *value) {
            return Heard::Drops;
        }
        if name == APPLICATION_NAME && std::mem::take(&mut self.has_lost_its_name) {
            // The reset was rolled back.
            let there = self.connection.as_mut().map(|connection| &mut connection.settings);
            for settings in there.into_iter().chain([&mut self.settings]) {
                Arc::make_mut(settings).insert(name.into(), value.into());
            }
        }
        Arc::make_mut(&mut self.heard).insert(name.into(), value.into());
        if let Some(connection) = self.connection.as_ref().filter(|connection| *self.heard == *connection.reports) {
            self.heard = Arc::clone(&connection.reports);
        }
        Heard::Passes
    }

    /// The client has reset its application's name, which is now that with which the connection began, perhaps by another
    /// client. It hears of its own, which is set before its next transaction.
    fn hears_of_its_own_name(&mut self, name: &[u8], value: &[u8]) -> bool {
        let (Some(connection), Some(own)) = (&mut self.connection, self.base.get(name)) else { return false };
        let is_reset = connection.base.get(name).is_some_and(|base| **base == *value) && **own != *value;
        if name != APPLICATION_NAME || !is_reset {
            return false;
        }
        Arc::make_mut(&mut connection.settings).insert(name.into(), value.into());
        Arc::make_mut(&mut self.settings).insert(name.into(), own.clone());
        self.has_lost_its_name = true;
        if self.heard.get(name) != Some(own) {
            let (name, own) = (String::from_utf8_lossy(name), String::from_utf8_lossy(own));
            self.answers.extend(parameter_status(&name, &own));
            Arc::make_mut(&mut self.heard).insert(APPLICATION_NAME.into(), own.as_bytes().into());
        }
        true
    }

    fn hear_error(&mut self, body: &[u8], is_ours: bool) -> Heard {
        if is_fatal(body) {
            return Heard::Passes;
        }
        (self.is_copying_in, self.has_sent_rows) = (false, false);
        if std::mem::take(&mut self.syncs_behind_rows) > 0 {
            self.broken.get_or_insert(UNTOLD_SYNCS.to_owned());
        }
        let Some(front) = self.expected.front_mut() else { return Heard::Passes };
        front.has_failed = true;
        let named = front.named.take();
        let is_own_query = is_ours && front.what == What::Query;
        if matches!(front.then, Effect::Applies)
            && let Some(why) = reason(body)
        {
            let why = format!("the settings of the session cannot be restored on another server connection: {why}");
            self.broken.get_or_insert(why);
        }
        if !matches!(front.what, What::Query | What::Sync) {
            self.skip();
        }
        // An error of ours within a unit of the client's stands for the one that its message would have had.
        let is_own_unit = is_own_query || self.expected.front().is_some_and(|sync| sync.whose == Whose::Ours);
        if is_ours && is_own_unit {
            return Heard::Drops;
        }
        match self.with_names_of_the_client(body, named) {
            Some(error) => {
                self.answers.extend(error);
                Heard::Drops
            }
            None => Heard::Passes,
        }
    }

    /// The server ignores everything up to the next `Sync`.
    fn skip(&mut self) {
        while let Some(skipped) = self.expected.pop_front_if(|front| front.what != What::Sync) {
            self.fails(match skipped.then {
                // It did not arrive at it.
                Effect::PreparesUnnamed | Effect::ClosesByText(_) if !skipped.has_failed => Effect::None,
                Effect::Settles => Effect::None,
                then => then,
            });
        }
        match self.expected.front_mut() {
            Some(sync) => sync.has_failed |= matches!(sync.then, Effect::Settles),
            None => self.is_skipping = true,
        }
    }

    /// An error that names a statement by the name that connections have for it, with the client's own name.
    fn with_names_of_the_client(&self, body: &[u8], named: Option<Box<[u8]>>) -> Option<Vec<u8>> {
        let at = memchr::memmem::find(body, PREFIX)?;
        let digits = &body[at + PREFIX.len()..];
        let end = digits.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(digits.len());
        let number = u64::from_str_radix(std::str::from_utf8(&digits[..end]).ok()?, 16).ok()?;
        let known = || self.texts.iter().find(|(_, text)| text.number == number).map(|(name, _)| name);
        let name = named.as_ref().or_else(known)?;
        Some(message_of(b'E', &[&body[..at], name, &digits[end..]]))
    }

    /// A statement has been carried out, and its tag says what it discards.
    fn hear_command(&mut self, tag: &[u8]) {
        // A copy that ends well has swallowed them.
        self.syncs_behind_rows = 0;
        match tag {
            b"DISCARD ALL\0" => self.discarded(),
            b"DEALLOCATE ALL\0" => {
                self.texts.clear();
                if let Some(connection) = &mut self.connection {
                    connection.prepared.clear();
                }
            }
            _ => {}
        }
    }

    /// The server takes in a copy: it ignores every `Sync` up to the copy's end.
    fn begin_copy(&mut self) {
        let end = self.expected.iter().position(|expected| expected.what == What::CopyEnd);
        let (mut place, mut behind_rows) = (0, 0);
        let last = end.unwrap_or(usize::MAX);
        self.expected.retain(|expected| {
            let is_lost = (expected.what == What::Sync && place > 0 && place < last) || place == last;
            behind_rows += usize::from(is_lost && expected.is_behind_rows);
            place += 1;
            !is_lost
        });
        self.syncs_behind_rows = behind_rows;
        self.is_copying_in = end.is_none();
    }

    fn hear_setting(&mut self, body: &[u8]) {
        let Some(values) = &mut self.asked else { return };
        if let Some(&[Some(name), value, is_own]) = columns(body).as_deref() {
            values.push((name.into(), value.map(Into::into), is_own.map(|is_own| is_own == b"true")));
        }
    }

    /// The server has said which values the settings have.
    fn settle(&mut self) {
        let (Some(values), Some(connection)) = (self.asked.take(), &mut self.connection) else { return };
        let (mut wanted, mut there) = ((*self.settings).clone(), (*connection.settings).clone());
        let mut lost = None;
        for (name, value, is_own) in values {
            let is_own = is_own.unwrap_or(value.as_ref().is_some_and(|value| !value.is_empty() && **value != *b"none"));
            match value {
                Some(value) if is_own && !may_follow(&value) => {
                    lost = Some(format!("it has set {} to a value beyond ASCII", String::from_utf8_lossy(&name)));
                }
                Some(value) if is_own => {
                    there.insert(name.clone(), value.clone());
                    wanted.insert(name, value);
                }
                value => unset(name, value, (&mut wanted, &mut there), &self.base),
            }
        }
        let is_same = wanted == there;
        self.settings = if wanted == *self.settings { Arc::clone(&self.settings) } else { Arc::new(wanted) };
        connection.settings = if is_same { Arc::clone(&self.settings) } else { Arc::new(there) };
        if let Some(why) = lost {
            self.pin_because(why);
        }
    }

    fn settle_in_vain(&mut self) {
        self.asked = None;
        self.pin_because("the server did not say what it has set".to_owned());
    }
}

/// The session has no value of its own for a setting.
fn unset(
    name: Box<[u8]>,
    value: Option<Box<[u8]>>,
    (wanted, there): (&mut SessionSettings, &mut SessionSettings),
    base: &SessionSettings,
) {
    there.remove(&name);
    wanted.remove(&name);
    if *name == *APPLICATION_NAME {
        // It has the value with which the connection began, which may be another client's.
        wanted.extend(base.get(&name).map(|value| (name.clone(), value.clone())));
        there.extend(value.map(|value| (name, value)));
    }
}

/// The code and the text of an error.
fn reason(body: &[u8]) -> Option<String> {
    let state = String::from_utf8_lossy(sqlstate(body)?).into_owned();
    let mut fields = body.split(|byte| *byte == 0);
    let message = fields.find_map(|field| field.strip_prefix(b"M"))?;
    Some(format!("{} ({state})", String::from_utf8_lossy(message)))
}
