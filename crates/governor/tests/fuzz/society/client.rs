//! A client that says what a driver could, and knows what it may be told.

use std::collections::VecDeque;

use super::super::choices::Choices;
use super::server::{COUNTERS, Line};

/// What a statement means to its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Begin,
    Commit,
    Rollback,
    Savepoint,
    RollbackTo,
    Touch,
    Fail,
    SetClass,
    Parse,
}

/// A statement that was sent.
#[derive(Debug, Clone)]
struct Sent {
    kind: Kind,
    sql: String,
}

/// What is answered by one `ReadyForQuery`.
#[derive(Debug)]
struct Unit {
    statements: VecDeque<Sent>,
    /// Whether there is nothing but Parse, Bind and Execute in it.
    is_extended: bool,
    /// The position among all units of the session.
    number: usize,
    /// The last row that came and has no `CommandComplete` yet.
    row: Option<String>,
    /// `ParseComplete` and `BindComplete`.
    steps: usize,
    has_failed: bool,
}

/// What became of a transaction, as far as its client knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is there.
    Acknowledged,
    /// It is not.
    Refused,
    /// Its session was lost after its end had been asked for, so it may be there.
    Unknown,
}

/// A transaction of which a client knows what became.
#[derive(Debug)]
pub struct Known {
    /// What was said in it; of a refused one also what was sent and not answered.
    pub lines: Vec<Line>,
    /// What became of it.
    pub fate: Fate,
}

/// What tells a statement from all others: its condition.
pub fn key(sql: &str) -> String {
    sql[sql.find("WHERE").expect("a condition")..].to_owned()
}

/// A client and its connection to the governor.
#[derive(Debug)]
pub struct Client {
    /// Whether it may be rolled back for others.
    is_low: bool,
    /// Sent, and not taken by the governor.
    pub outbox: Vec<u8>,
    /// Received, and not understood.
    pub inbox: Vec<u8>,
    units: VecDeque<Unit>,
    unit_count: usize,
    /// As the last `ReadyForQuery` said.
    status: u8,
    /// As it will be when all has been answered without an error.
    expected: u8,
    lines: Vec<Line>,
    has_savepoint: bool,
    /// Whether it was told since the transaction began that it was rolled back or cancelled.
    was_rolled_back: bool,
    /// Whether the unnamed statement, and the one named `s`, are there.
    prepared: [bool; 2],
    next_line: usize,
    /// Up to this unit a statement may have been met by a cancel that it has asked for.
    cancelled_up_to: usize,
    /// Transactions of which it knows what became.
    pub known: Vec<Known>,
}

impl Client {
    /// One whose session begins. Its lines are numbered from `first_line`.
    pub fn new(is_low: bool, first_line: usize) -> Client {
        Client {
            is_low,
            outbox: Vec::new(),
            inbox: Vec::new(),
            units: VecDeque::new(),
            unit_count: 0,
            status: b'I',
            expected: b'I',
            lines: Vec::new(),
            has_savepoint: false,
            was_rolled_back: false,
            prepared: [false; 2],
            next_line: first_line,
            cancelled_up_to: 0,
            known: Vec::new(),
        }
    }

    /// Whether it waits for nothing.
    pub fn is_idle(&self) -> bool {
        self.units.is_empty()
    }

    /// The transaction's status as it was told last.
    pub fn status(&self) -> u8 {
        self.status
    }

    /// It asks that whatever it has sent be cancelled.
    pub fn cancels(&mut self) {
        self.cancelled_up_to = self.unit_count;
    }

    /// Asks for the end of the transaction, if one is open and nothing else is being done; whether it did.
    pub fn finish(&mut self) -> bool {
        let speaks = self.units.is_empty() && self.status != b'I';
        if speaks {
            self.query(&[(Kind::Commit, "COMMIT")]);
        }
        speaks
    }

    /// Says something more; mostly after an answer, sometimes before it.
    pub fn speak(&mut self, choices: &mut Choices<'_>) {
        if self.units.len() > 3 || (!self.units.is_empty() && !choices.once_in(8)) {
            return;
        }
        // What is said before an answer must be right whatever the answer is.
        let status = if self.units.is_empty() { self.status } else { self.expected };
        match status {
            b'E' => match choices.below(4) {
                0 => self.query(&[(Kind::Rollback, "ROLLBACK")]),
                1 => self.query(&[(Kind::Commit, "COMMIT")]),
                2 if self.has_savepoint && self.units.is_empty() => {
                    self.query(&[(Kind::RollbackTo, "ROLLBACK TO SAVEPOINT mine")]);
                }
                _ => self.touch(choices),
            },
            b'T' => match choices.below(16) {
                0..3 => self.query(&[(Kind::Commit, "COMMIT")]),
                3 => self.query(&[(Kind::Rollback, "ROLLBACK")]),
                4 => self.query(&[(Kind::Savepoint, "SAVEPOINT mine")]),
                5 if self.has_savepoint && self.units.is_empty() => {
                    self.query(&[(Kind::RollbackTo, "ROLLBACK TO SAVEPOINT mine")]);
                }
                6 => self.query(&[(Kind::Fail, "FAIL")]),
                7 => self.query(&[(Kind::SetClass, "SET plimsoll.class = 'unknown'")]),
                8 => self.extended(&[(Kind::Commit, "COMMIT")]),
                _ => self.touch(choices),
            },
            _ => match choices.below(10) {
                0..4 => self.query(&[(Kind::Begin, "BEGIN")]),
                4 => self.extended(&[(Kind::Begin, "BEGIN")]),
                5 => self.whole_transaction(choices),
                6 => self.query(&[(Kind::SetClass, "SET plimsoll.class = 'unknown'")]),
                _ => self.touch(choices),
            },
        }
    }

    /// Reads or changes counters, in one of the ways there are.
    fn touch(&mut self, choices: &mut Choices<'_>) {
        let way = choices.below(8);
        let mut line = || self.line(choices);
        match way {
            0..3 => {
                let line = line();
                self.query(&[(Kind::Touch, &line)]);
            }
            3 => {
                let lines = [line(), line()];
                self.query(&lines.each_ref().map(|line| (Kind::Touch, line.as_str())));
            }
            4 => {
                let lines = [line(), line()];
                self.extended(&lines.each_ref().map(|line| (Kind::Touch, line.as_str())));
            }
            5 => self.prepare(choices),
            6 => self.run_prepared(choices),
            _ => {
                let line = line();
                self.extended(&[(Kind::Touch, &line)]);
            }
        }
    }

    /// A statement that no other is like.
    fn line(&mut self, choices: &mut Choices<'_>) -> String {
        self.next_line += 1;
        let (number, counter) = (self.next_line, choices.below(COUNTERS));
        match choices.below(2) {
            0 => format!("UPDATE counters SET counter_{counter} = counter_{counter} + 1 WHERE {number} = {number}"),
            _ => format!("SELECT counter_{counter} FROM counters WHERE {number} = {number}"),
        }
    }

    /// A block of which every unit is sent before any answer.
    fn whole_transaction(&mut self, choices: &mut Choices<'_>) {
        if !self.units.is_empty() {
            return;
        }
        let line = self.line(choices);
        self.query(&[(Kind::Begin, "BEGIN")]);
        self.query(&[(Kind::Touch, &line)]);
        self.query(&[(Kind::Commit, "COMMIT")]);
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
        self.expect(&[(Kind::Parse, ["", "s"][name])], true);
        if self.status != b'E' {
            self.prepared[name] = true;
        }
    }

    /// Runs what was prepared, if it is there.
    fn run_prepared(&mut self, choices: &mut Choices<'_>) {
        let name = choices.below(2);
        if !self.prepared[name] || !self.units.is_empty() {
            return;
        }
        self.next_line += 1;
        let number = self.next_line.to_string();
        self.bind(["", "s"][name], &number);
        self.message(b'S', &[]);
        // Which counter is of no importance to the comparison: the number tells the lines apart.
        self.expect(&[(Kind::Touch, &format!("WHERE {number} = {number}"))], true);
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

    fn query(&mut self, statements: &[(Kind, &str)]) {
        let sql = statements.iter().map(|(_, sql)| *sql).collect::<Vec<_>>().join("; ");
        self.message(b'Q', &[&sql, "\0"]);
        self.prepared[0] = false;
        self.expect(statements, false);
    }

    fn extended(&mut self, statements: &[(Kind, &str)]) {
        for (_, sql) in statements {
            self.message(b'P', &["\0", sql, "\0\0\0"]);
            self.bind("", "");
        }
        self.message(b'S', &[]);
        // It would be there, and is of no use: it has another text than the others expect.
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

    fn expect(&mut self, statements: &[(Kind, &str)], is_extended: bool) {
        for (kind, _) in statements {
            self.expected = match kind {
                Kind::Begin => b'T',
                Kind::Commit | Kind::Rollback => b'I',
                Kind::Fail | Kind::SetClass if self.expected == b'T' => b'E',
                _ => self.expected,
            };
        }
        let statements = statements.iter().map(|&(kind, sql)| Sent { kind, sql: sql.to_owned() }).collect();
        let number = self.unit_count;
        self.unit_count += 1;
        self.units.push_back(Unit { statements, is_extended, number, row: None, steps: 0, has_failed: false });
    }

    /// Takes what the governor has sent, and fails where it cannot be the answer to what was asked.
    pub fn read(&mut self) {
        while let Some(length) = self.inbox.get(1..5) {
            let length = 1 + u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
            if self.inbox.len() < length {
                return;
            }
            let message: Vec<u8> = self.inbox.drain(..length).collect();
            self.answered(message[0], &message[5..]);
        }
    }

    fn answered(&mut self, tag: u8, body: &[u8]) {
        if tag == b'N' {
            return;
        }
        let text = String::from_utf8_lossy(body.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned();
        let unit = self.units.front_mut().unwrap_or_else(|| panic!("{:?} was not asked for", char::from(tag)));
        assert!(!unit.has_failed || tag == b'Z', "{:?} after an error: {unit:?}", char::from(tag));
        match tag {
            b'1' | b'2' => {
                assert!(unit.is_extended, "{:?} of a query: {unit:?}", char::from(tag));
                unit.steps += 1;
            }
            b'D' => assert!(unit.row.replace(text).is_none(), "two rows: {unit:?}"),
            b'C' => {
                let sent = unit.statements.pop_front().unwrap_or_else(|| panic!("{text} was not asked for"));
                let row = unit.row.take();
                self.completed(&sent, &text, row);
            }
            b'E' => {
                unit.has_failed = true;
                let state = body.split(|&byte| byte == 0).find_map(|field| field.strip_prefix(b"C")).expect("a state");
                let state = String::from_utf8_lossy(state).into_owned();
                self.refused(&state);
            }
            b'Z' => self.ready(body[0]),
            _ => panic!("{:?} is no answer", char::from(tag)),
        }
    }

    fn completed(&mut self, sent: &Sent, tag: &str, row: Option<String>) {
        let expected = match sent.kind {
            Kind::Begin => "BEGIN",
            Kind::Commit if self.status == b'E' => "ROLLBACK",
            Kind::Commit => "COMMIT",
            Kind::Rollback | Kind::RollbackTo => "ROLLBACK",
            Kind::Savepoint => "SAVEPOINT",
            Kind::Touch if row.is_some() => "SELECT 1",
            Kind::Touch => "UPDATE 1",
            Kind::SetClass => "SET",
            Kind::Fail | Kind::Parse => "nothing",
        };
        assert_eq!(tag, expected, "the answer to {sent:?}");
        match sent.kind {
            Kind::Touch => {
                let answer = row.unwrap_or_else(|| tag.to_owned());
                self.lines.push((key(&sent.sql), answer));
            }
            Kind::Begin | Kind::RollbackTo => self.status = b'T',
            Kind::Savepoint => self.has_savepoint = true,
            Kind::Commit if self.status == b'T' => self.end_with(Fate::Acknowledged),
            Kind::Commit | Kind::Rollback => self.end_with(Fate::Refused),
            Kind::Fail | Kind::SetClass | Kind::Parse => {}
        }
    }

    fn refused(&mut self, state: &str) {
        let unit = self.units.front().expect("an error answers a unit");
        let sent = unit.statements.front();
        let kind = sent.map(|sent| sent.kind);
        let context = format!("{state} for {sent:?} in {}: {unit:?}", char::from(self.status));
        match state {
            "42601" => assert_eq!(kind, Some(Kind::Fail), "{context}"),
            "25P02" => assert_eq!(self.status, b'E', "{context}"),
            "40001" => assert!(self.is_low, "{context}"),
            "57014" => assert!(unit.number < self.cancelled_up_to, "nobody has cancelled: {context}"),
            "22023" => assert_eq!(kind, Some(Kind::SetClass), "{context}"),
            "53300" => assert_eq!(self.status, b'I', "{context}"),
            // Its transaction is gone, and the savepoint with it.
            "3B001" => assert!(kind == Some(Kind::RollbackTo) && self.was_rolled_back, "{context}"),
            _ => panic!("{context}"),
        }
        self.was_rolled_back |= matches!(state, "40001" | "57014");
        if let Some(sent) = sent.filter(|sent| sent.kind == Kind::Parse) {
            let name = usize::from(sent.sql == "s");
            self.prepared[name] = false;
        }
    }

    fn ready(&mut self, status: u8) {
        let unit = self.units.pop_front().expect("looked at before");
        assert!(unit.has_failed || unit.is_extended || unit.statements.is_empty(), "ready before its end: {unit:?}");
        let is_parse = unit.statements.front().is_some_and(|sent| sent.kind == Kind::Parse);
        assert!(unit.has_failed || unit.statements.is_empty() || is_parse, "ready before its end: {unit:?}");
        let was = self.status;
        let last = unit.statements.front().map(|sent| sent.kind);
        let expected: &[u8] = match (unit.has_failed, last) {
            (false, _) => &[was],
            (true, Some(Kind::Begin)) if self.units.is_empty() => b"IE",
            // What was sent behind it must not be done by itself.
            (true, Some(Kind::Begin)) => b"E",
            // The end of a transaction that could not be replayed, or was cancelled meanwhile, has ended it.
            (true, Some(Kind::Commit | Kind::Rollback)) => b"I",
            (true, _) if was == b'I' => b"I",
            (true, _) => b"E",
        };
        let context = || format!("{} after {} and {unit:?}", char::from(status), char::from(was));
        assert!(expected.contains(&status), "{}", context());
        self.status = status;
        let missing = unit.statements.iter().filter(|sent| unit.has_failed && sent.kind == Kind::Touch);
        let missing = missing.map(|sent| (key(&sent.sql), String::new())).collect::<Vec<Line>>();
        if !missing.is_empty() {
            self.known.push(Known { lines: missing, fate: Fate::Refused });
        }
        if status == b'I' {
            self.ends(if unit.has_failed { Fate::Refused } else { Fate::Acknowledged });
        }
        if self.units.is_empty() {
            self.expected = status;
        }
    }

    /// Its session is lost: of what has not been answered it knows nothing.
    pub fn loses_session(&mut self) {
        let sent = self.units.drain(..).flat_map(|unit| unit.statements).collect::<Vec<Sent>>();
        // What was sent outside of a block, or before a COMMIT that was sent, may be there.
        let may_be_there = self.status == b'I' || sent.iter().any(|sent| sent.kind == Kind::Commit);
        let touched = sent.iter().filter(|sent| sent.kind == Kind::Touch);
        for sent in touched {
            self.known.push(Known { lines: vec![(key(&sent.sql), String::new())], fate: Fate::Unknown });
        }
        self.ends(if may_be_there { Fate::Unknown } else { Fate::Refused });
    }

    fn end_with(&mut self, fate: Fate) {
        self.ends(fate);
        self.status = b'I';
    }

    fn ends(&mut self, fate: Fate) {
        let lines = std::mem::take(&mut self.lines);
        (self.has_savepoint, self.was_rolled_back) = (false, false);
        if !lines.is_empty() {
            self.known.push(Known { lines, fate });
        }
    }
}
