//! What outlasts a transaction in the server's session: the same walk through the catalogs as for a replay, judged by it.
//!
//! A pooler asks this before it gives a connection to another client. A text shows what its own statements leave (see
//! `statement/residue.rs`); this inquiry finds what the functions, triggers, views, rules, defaults, policies and operators
//! leave that they run: settings by SET and `set_config`, locks of the session, LISTEN, temporary tables, and so on. What
//! matters only to another run, such as random numbers, copies, foreign tables, VACUUM or a commit in a procedure, leaves
//! nothing.
//!
//! A function leaves anything ([`Pin::Unknown`]) if it puts SQL together (EXECUTE in PL/pgSQL), if it is written in a language
//! other than SQL, PL/pgSQL and C, or if it is a volatile C function that `known` does not list, unless the operator lists it in
//! `clean_functions`.

use std::collections::HashSet;

use plimsoll_policy::Unsafe;

use super::body::Language;
use super::known::{self, Function, Leaves};
use super::{Inquiry, Verdict};
use crate::statement::residue::{Block, Pin, Residue, blocks_of, left_by_name, residue_of_body};
use crate::statement::{self, TextRules, has_ignoring_case};

/// The numbers of `nextval` and `setval`, and of `currval` and `lastval`.
const TAKING: [u32; 3] = [1574, 1576, 1765];
const READING: [u32; 2] = [1575, 2559];

/// What is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Whether a transaction may run twice.
    Replay,
    /// What a text may leave in the session.
    Residue,
}

impl Inquiry {
    /// Begins an inquiry into what a text may leave in its session besides what it shows itself.
    ///
    /// With `any_schema`, names may reach any schema: the answer holds for every `search_path` and role, and also if the text
    /// changes them itself. `clean` lists functions that the operator declares to leave nothing.
    pub fn of_residue(
        text: &[u8],
        rules: TextRules,
        any_schema: bool,
        clean: &[String],
        server_version_num: u32,
    ) -> Self {
        let mut inquiry = Inquiry::empty(Purpose::Residue, rules, clean, server_version_num);
        inquiry.found.any_schema = any_schema;
        inquiry.read_for_residue(text);
        inquiry
    }

    /// Begins an inquiry into whether the session has temporary objects.
    pub fn of_temporary(rules: TextRules, server_version_num: u32) -> Self {
        let mut inquiry = Inquiry::empty(Purpose::Residue, rules, &[], server_version_num);
        inquiry.asks_temporary = true;
        inquiry
    }

    #[cfg(test)]
    pub(crate) fn skipping_triggers(mut self, foresight: &super::Foresight) -> Self {
        self.skips_triggers = foresight.skips_triggers.load(std::sync::atomic::Ordering::Relaxed);
        self
    }

    fn read_for_residue(&mut self, sql: &[u8]) {
        self.count_bytes(sql.len());
        self.found.is_ddl |= statement::read_with(sql, self.rules).is_ddl;
        if self.read_body(sql, Language::Expression).is_err() {
            self.pins(Pin::UnreadName);
        }
        for block in blocks_of(sql, self.rules) {
            let read = match block {
                Block::Plpgsql(body) => self.read_body(&body, Language::Plpgsql).map_err(|_| Pin::UnreadName),
                Block::Unread => Err(Pin::Unknown("DO".into())),
            };
            if let Err(pin) = read {
                self.pins(pin);
            }
        }
        self.judge_calls();
    }

    /// The server's functions that run a text are known by name only.
    fn judge_calls(&mut self) {
        let is_found = |name: &&Vec<u8>| known::runs_texts(name) && !known::is_allowed(name, &self.allowed);
        if let Some(name) = self.found.calls.iter().find(is_found) {
            let pin = Pin::Unknown(String::from_utf8_lossy(name).into());
            self.pins(pin);
        }
    }

    /// What was found, once the verdict is known.
    pub fn residue(&self) -> Residue {
        let mut residue = self.residue.clone();
        let (calls, defaults) = (&self.values.calls, &self.values.default_calls);
        let is_called = |known: &[u32]| {
            let has = |calls: &HashSet<u32>| known.iter().any(|number| calls.contains(number));
            has(calls) || self.found.inserts && has(defaults)
        };
        residue.sequences |= is_called(&TAKING) || self.found.inserts && self.values.has_identity;
        residue.reads_sequences |= is_called(&READING);
        if matches!(self.verdict, Some(Verdict::Unsafe(_)) | None) {
            residue.pins(Pin::MuchCode);
        }
        residue
    }

    /// The session must keep its connection, which ends the inquiry.
    pub(super) fn pins(&mut self, pin: Pin) -> Unsafe {
        self.residue.pins(pin);
        self.is_unsafe(Unsafe::Function)
    }

    /// Judges a function by what it leaves, or reads its body.
    pub(super) fn judge_leftovers(&mut self, function: &Function<'_>, settings: &[u8]) -> Result<(), Unsafe> {
        match known::leaves(function, &self.allowed) {
            Leaves::Nothing => return Ok(()),
            Leaves::ByName => {
                left_by_name(function.name, &mut self.residue);
                return self.goes_on();
            }
            Leaves::Setting => return Err(self.pins(Pin::ComputedSetting)),
            Leaves::Unknown => return Err(self.pins(unknown(function))),
            Leaves::Read(language) => {
                let mut left = residue_of_body(function.body, self.rules, language == Language::Plpgsql);
                if left.pin == Some(Pin::Dynamic) {
                    left.pin = Some(unknown(function));
                }
                if left.creates && has_ignoring_case(settings, b"pg_temp") {
                    left.pins(Pin::Temporary);
                }
                self.found.any_schema |= left.moves_path;
                self.residue.add(&left);
                self.goes_on()?;
                self.read_body(function.body, language).map_err(|_| self.pins(Pin::UnreadName))?;
                self.judge_calls();
                self.goes_on()?;
            }
            Leaves::ReadParsed => function.parsed.into_iter().for_each(|tree| self.read_tree(tree, false)),
        }
        self.reach_schemas(settings)
    }

    /// Goes on unless the connection is pinned.
    fn goes_on(&mut self) -> Result<(), Unsafe> {
        if self.residue.pin.is_some() { Err(self.is_unsafe(Unsafe::Function)) } else { Ok(()) }
    }
}

fn unknown(function: &Function<'_>) -> Pin {
    Pin::Unknown(String::from_utf8_lossy(function.name).into())
}
