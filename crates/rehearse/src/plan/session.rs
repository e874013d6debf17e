//! What is known of a session while its units are read: its prepared statements and portals, and its transaction.

use std::collections::BTreeMap;
use std::rc::Rc;

use plimsoll_capture::event::Unit;
use plimsoll_notation::sql::fingerprint;

use super::commands::{Reading, read};
use crate::message::{Column, message, query};
use crate::skip::Reason;
use crate::sql::{Statement, statements};

/// A text with its statements.
#[derive(Debug)]
pub(crate) struct Text {
    pub bytes: Vec<u8>,
    pub statements: Vec<Statement>,
    /// The fingerprint of each statement.
    pub fingerprints: Vec<u64>,
}

impl Text {
    pub fn of(bytes: &[u8]) -> Rc<Text> {
        let statements = statements(bytes);
        let fingerprints = statements.iter().map(|one| fingerprint(&bytes[one.range.clone()])).collect();
        Rc::new(Text { bytes: bytes.to_vec(), statements, fingerprints })
    }
}

/// A prepared statement.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    pub text: Rc<Text>,
    /// The types of its parameters, as far as they are known; 0 is unknown.
    pub types: Vec<u32>,
    /// The columns of its result, once they were described.
    pub columns: Option<Rc<Vec<Column>>>,
}

/// A statement with its parameters.
#[derive(Debug, Clone)]
pub(crate) struct Portal {
    pub statement: Vec<u8>,
    pub prepared: Prepared,
    pub result_formats: Vec<u16>,
}

/// A session.
#[derive(Debug, Default)]
pub(crate) struct SessionState {
    /// Its place among the scripts.
    pub index: usize,
    /// Why none of its units is sent.
    pub unfit: Option<Reason>,
    pub statements: BTreeMap<Vec<u8>, Prepared>,
    pub portals: BTreeMap<Vec<u8>, Portal>,
    /// Texts that have set something for the session.
    pub settings: Vec<String>,
    /// When its last unit began.
    pub last_us: u64,
    /// Units before the part that is replayed.
    pub units_before: u64,
    /// Whether its transaction began before that part.
    pub is_cut: bool,
    /// Whether a transaction is open.
    pub is_open: bool,
}

impl SessionState {
    /// Reads a unit, and notes what it prepares.
    pub fn read(&mut self, unit: &Unit) -> Reading {
        read(self, unit)
    }

    /// Notes the end of a unit that is not replayed, or was planned.
    pub fn pass(&mut self, reading: &Reading, unit: &Unit) {
        for command in &reading.commands {
            let one = command.statement();
            if one.is_setting && unit.answer.error.is_none() && one.unfit.is_none() {
                let text = String::from_utf8_lossy(&command.text.bytes[one.range.clone()]).into_owned();
                if !self.settings.contains(&text) {
                    self.settings.push(text);
                }
            }
        }
        self.is_open = matches!(unit.answer.state, b'T' | b'E');
        self.is_cut &= self.is_open;
    }

    /// Notes that the part to replay has not begun.
    pub fn wait_for_begin(&mut self) {
        self.units_before += 1;
        self.is_cut = self.is_open;
    }

    /// Requests that bring a new session to this state.
    pub fn prelude(&self) -> Vec<Vec<u8>> {
        let settings = self.settings.iter().map(|text| query(text));
        let named = self.statements.iter().filter(|(name, _)| !name.is_empty());
        let statements = named.map(|(name, prepared)| parse(name, &prepared.text.bytes, &prepared.types));
        settings.chain(statements.map(|parse| [parse, message(b'S', b"")].concat())).collect()
    }
}

fn parse(name: &[u8], text: &[u8], types: &[u32]) -> Vec<u8> {
    let count = u16::try_from(types.len()).unwrap_or(0);
    let types = types.iter().take(usize::from(count)).flat_map(|oid| oid.to_be_bytes());
    let mut body = [name, b"\0", text, b"\0", &count.to_be_bytes()].concat();
    body.extend(types);
    message(b'P', &body)
}
