//! The messages of a client: chooses the next statement, and how it is sent.

use super::super::server::COUNTERS;
use super::{Client, Sent, StatementKind, Unit};
use crate::choices::Choices;

impl Client {
    /// Requests the end of the transaction, if one is open and no unit is outstanding; returns whether it did.
    pub fn finish(&mut self) -> bool {
        let speaks = self.units.is_empty() && self.status != b'I';
        if speaks {
            self.query(&[(StatementKind::Commit, "COMMIT")]);
        }
        speaks
    }

    /// Sends another unit, usually after an answer, sometimes before it.
    pub fn speak(&mut self, choices: &mut Choices<'_>) {
        if self.units.len() > 3 || (!self.units.is_empty() && !choices.once_in(8)) {
            return;
        }
        // A unit sent before an answer must be valid for every answer.
        let status = if self.units.is_empty() { self.status } else { self.expected };
        match status {
            b'E' => match choices.below(4) {
                0 => self.query(&[(StatementKind::Rollback, "ROLLBACK")]),
                1 => self.query(&[(StatementKind::Commit, "COMMIT")]),
                2 if self.has_savepoint && self.units.is_empty() => {
                    self.query(&[(StatementKind::RollbackTo, "ROLLBACK TO SAVEPOINT mine")]);
                }
                _ => self.touch(choices),
            },
            b'T' => match choices.below(16) {
                0..3 => self.query(&[(StatementKind::Commit, "COMMIT")]),
                3 => self.query(&[(StatementKind::Rollback, "ROLLBACK")]),
                4 => self.query(&[(StatementKind::Savepoint, "SAVEPOINT mine")]),
                5 if self.has_savepoint && self.units.is_empty() => {
                    self.query(&[(StatementKind::RollbackTo, "ROLLBACK TO SAVEPOINT mine")]);
                }
                6 => self.query(&[(StatementKind::Fail, "FAIL")]),
                7 => self.query(&[(StatementKind::SetClass, "SET plimsoll.class = 'unknown'")]),
                8 => self.extended(&[(StatementKind::Commit, "COMMIT")]),
                _ => self.touch(choices),
            },
            _ => match choices.below(10) {
                0..4 => self.query(&[(StatementKind::Begin, "BEGIN")]),
                4 => self.extended(&[(StatementKind::Begin, "BEGIN")]),
                5 => self.whole_transaction(choices),
                6 => self.query(&[(StatementKind::SetClass, "SET plimsoll.class = 'unknown'")]),
                _ => self.touch(choices),
            },
        }
    }

    /// Reads or changes counters, in one of several ways.
    fn touch(&mut self, choices: &mut Choices<'_>) {
        let way = choices.below(8);
        let mut line = || self.line(choices);
        match way {
            0..3 => {
                let line = line();
                self.query(&[(StatementKind::Touch, &line)]);
            }
            3 => {
                let lines = [line(), line()];
                self.query(&lines.each_ref().map(|line| (StatementKind::Touch, line.as_str())));
            }
            4 => {
                let lines = [line(), line()];
                self.extended(&lines.each_ref().map(|line| (StatementKind::Touch, line.as_str())));
            }
            5 => self.prepare(choices),
            6 => self.run_prepared(choices),
            _ => {
                let line = line();
                self.extended(&[(StatementKind::Touch, &line)]);
            }
        }
    }

    /// A statement that differs from all others.
    fn line(&mut self, choices: &mut Choices<'_>) -> String {
        self.next_line += 1;
        let (number, counter) = (self.next_line, choices.below(COUNTERS));
        match choices.below(2) {
            0 => format!("UPDATE counters SET counter_{counter} = counter_{counter} + 1 WHERE {number} = {number}"),
            _ => format!("SELECT counter_{counter} FROM counters WHERE {number} = {number}"),
        }
    }

    /// A block whose units are all sent before any answer.
    fn whole_transaction(&mut self, choices: &mut Choices<'_>) {
        if !self.units.is_empty() {
            return;
        }
        let line = self.line(choices);
        self.query(&[(StatementKind::Begin, "BEGIN")]);
        self.query(&[(StatementKind::Touch, &line)]);
        self.query(&[(StatementKind::Commit, "COMMIT")]);
    }

    /// Prepares a statement in a unit of its own, without a name or as `s`.
    fn prepare(&mut self, choices: &mut Choices<'_>) {
        let name = choices.below(2);
        if self.prepared[1] && name == 1 || !self.units.is_empty() {
            return;
        }
        let counter = choices.below(COUNTERS);
        let sql = format!("UPDATE counters SET counter_{counter} = counter_{counter} + 1 WHERE $1 = $1");
        self.message(b'P', &[["", "s"][name], "\0", &sql, "\0\0\0"]);
        self.message(b'S', &[]);
        self.expect(&[(StatementKind::Parse, ["", "s"][name])], true);
        if self.status != b'E' {
            self.prepared[name] = true;
        }
    }

    /// Runs a prepared statement, if it exists.
    fn run_prepared(&mut self, choices: &mut Choices<'_>) {
        let name = choices.below(2);
        if !self.prepared[name] || !self.units.is_empty() {
            return;
        }
        self.next_line += 1;
        let number = self.next_line.to_string();
        self.bind(["", "s"][name], &number);
        self.message(b'S', &[]);
        // The comparison does not depend on the counter: the number makes the lines unique.
        self.expect(&[(StatementKind::Touch, &format!("WHERE {number} = {number}"))], true);
    }

    fn bind(&mut self, name: &str, parameter: &str) {
        let mut body = ["\0", name, "\0"].concat().into_bytes();
        body.extend_from_slice(&[0, 0, 0, 1]);
        body.extend_from_slice(&(parameter.len() as u32).to_be_bytes());
        body.extend_from_slice(parameter.as_bytes());
        body.extend_from_slice(&[0, 0]);
        self.bytes(b'B', &body);
        self.bytes(b'E', &[0; 5]);
    }

    fn query(&mut self, statements: &[(StatementKind, &str)]) {
        let sql = statements.iter().map(|(_, sql)| *sql).collect::<Vec<_>>().join("; ");
        self.message(b'Q', &[&sql, "\0"]);
        self.prepared[0] = false;
        self.expect(statements, false);
    }

    fn extended(&mut self, statements: &[(StatementKind, &str)]) {
        for (_, sql) in statements {
            self.message(b'P', &["\0", sql, "\0\0\0"]);
            self.bind("", "");
        }
        self.message(b'S', &[]);
        // It would exist, but its text is not one that the other units expect.
        self.prepared[0] = false;
        self.expect(statements, true);
    }

    fn message(&mut self, tag: u8, parts: &[&str]) {
        self.bytes(tag, parts.concat().as_bytes());
    }

    fn bytes(&mut self, tag: u8, body: &[u8]) {
        self.outbox.push(tag);
        self.outbox.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        self.outbox.extend_from_slice(body);
    }

    fn expect(&mut self, statements: &[(StatementKind, &str)], is_extended: bool) {
        for (kind, _) in statements {
            self.expected = match kind {
                StatementKind::Begin => b'T',
                StatementKind::Commit | StatementKind::Rollback => b'I',
                StatementKind::Fail | StatementKind::SetClass if self.expected == b'T' => b'E',
                _ => self.expected,
            };
        }
        let statements = statements.iter().map(|&(kind, sql)| Sent { kind, sql: sql.to_owned() }).collect();
        let number = self.unit_count;
        self.unit_count += 1;
        self.units.push_back(Unit { statements, is_extended, number, row: None, steps: 0, has_failed: false });
    }
}
