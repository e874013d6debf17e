//! How an inquiry asks: which parts the next question has, and their values.

use std::collections::BTreeSet;

use plimsoll_pg::connection::SUPPORTED;

use super::names::{array_of, array_of_numbers};
use super::question::{self, Part, Values};
use super::{Inquiry, Next, Objects, Purpose, Question, QuestionSubject};

impl Inquiry {
    pub(super) fn ask(&mut self, step: QuestionSubject) -> Next<'_> {
        (self.step, self.questions) = (step, self.questions + 1);
        let version = self.server_version_num;
        let parameters;
        (self.sql, parameters) = match step {
            QuestionSubject::Prepared => {
                self.executed_asked = std::mem::take(&mut self.executed);
                let names = array_of(self.executed_asked.iter().map(Vec::as_slice), self.rules.encoding);
                (question::PREPARED.to_owned(), vec![names])
            }
            QuestionSubject::Cursors => (question::CURSORS.to_owned(), Vec::new()),
            QuestionSubject::Unchanged => {
                let known = self.known.as_ref().expect("it is asked about what is known");
                question::question(&known.parts, true, version, &known.values)
            }
            QuestionSubject::Named => {
                let parts = self.parts_of_names();
                question::question(&parts, false, version, &self.values_of_names())
            }
            QuestionSubject::Details => {
                let (parts, values) = self.new_objects();
                question::question(&parts, false, version, &values)
            }
        };
        Next::Ask(Question { sql: &self.sql, parameters })
    }

    /// The parts of a question about names. All names are asked for each time: a new one may be that of a schema.
    fn parts_of_names(&mut self) -> Vec<Part> {
        let mut parts = vec![Part::Ground, Part::Names];
        if self.found.is_ddl && !std::mem::replace(&mut self.has_asked_events, self.found.is_ddl) {
            parts.push(Part::Events);
        }
        if self.asks_temporary {
            parts.push(Part::Temporary);
        }
        let calls = std::mem::take(&mut self.found.calls);
        if self.asks_about_calls() && calls.iter().any(|call| !self.calls.contains(call)) {
            parts.push(Part::Calls);
        }
        self.calls.extend(calls);
        self.names.append(&mut self.found.names);
        self.operators.append(&mut self.found.operators);
        self.has_asked_names = true;
        parts
    }

    /// Whether the server's own functions matter: they may have values that differ, or be unknown.
    pub(super) fn asks_about_calls(&self) -> bool {
        self.is_version_new() || self.purpose == Purpose::Replay && !self.generates()
    }

    /// Whether the server is newer than this governor.
    pub(super) fn is_version_new(&self) -> bool {
        self.server_version_num / 10_000 > *SUPPORTED.end()
    }

    pub(super) fn values_of_names(&self) -> Values {
        let array = |names: &BTreeSet<Vec<u8>>| array_of(names.iter().map(Vec::as_slice), self.rules.encoding);
        Values {
            names: array(&self.names),
            calls: array(&self.calls),
            operators: array(&self.operators),
            any_schema: if self.found.any_schema { b"t".to_vec() } else { b"f".to_vec() },
            ..Values::default()
        }
    }

    /// The parts and values of a question about the objects that were not asked about.
    fn new_objects(&mut self) -> (Vec<Part>, Values) {
        let mut parts = Vec::new();
        let mut take = |objects: &mut Objects, part| {
            if !objects.new.is_empty() {
                parts.push(part);
            }
            array_of_numbers(&std::mem::take(&mut objects.new))
        };
        let values = Values {
            relations: take(&mut self.relations, Part::Relations),
            written: take(&mut self.written, Part::Written),
            functions: take(&mut self.functions, Part::Functions),
            types: take(&mut self.types, Part::Types),
            numbers: take(&mut self.numbers, Part::Numbers),
            ..Values::default()
        };
        (parts, values)
    }
}
