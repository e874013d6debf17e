//! A client that sends what a driver could, and knows which answers are permitted.

mod say;

use std::collections::VecDeque;

use super::server::Line;

/// What a statement means to its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StatementKind {
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

#[derive(Debug, Clone)]
struct Sent {
    kind: StatementKind,
    sql: String,
}

/// The messages that one `ReadyForQuery` answers.
#[derive(Debug)]
struct Unit {
    statements: VecDeque<Sent>,
    /// Whether it consists only of Parse, Bind and Execute.
    is_extended: bool,
    /// The position among all units of the session.
    number: usize,
    /// The last row, if its `CommandComplete` has not arrived.
    row: Option<String>,
    /// The number of `ParseComplete` and `BindComplete`.
    steps: usize,
    has_failed: bool,
}

/// The outcome of a transaction, as far as its client knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionOutcome {
    /// It was committed.
    Acknowledged,
    /// It was not committed.
    Refused,
    /// Its session was lost after its end was requested, so it may have been committed.
    Unknown,
}

/// A transaction whose outcome its client knows.
#[derive(Debug)]
pub struct Known {
    /// Its statements with their answers; of a refused one also statements without an answer.
    pub lines: Vec<Line>,
    pub fate: TransactionOutcome,
}

/// The part that makes a statement unique: its condition.
pub fn key(sql: &str) -> String {
    sql[sql.find("WHERE").expect("a condition")..].to_owned()
}

#[derive(Debug)]
pub struct Client {
    /// Whether it may be rolled back for others.
    is_low: bool,
    /// Bytes sent, and not yet accepted by the governor.
    pub outbox: Vec<u8>,
    /// Bytes received, and not yet parsed.
    pub inbox: Vec<u8>,
    units: VecDeque<Unit>,
    unit_count: usize,
    /// The status in the last `ReadyForQuery`.
    status: u8,
    /// The status when all units have been answered without an error.
    expected: u8,
    lines: Vec<Line>,
    has_savepoint: bool,
    /// Whether it has received an error for a rollback or a cancel since the transaction began.
    was_rolled_back: bool,
    /// Whether the unnamed statement, and the one named `s`, exist.
    prepared: [bool; 2],
    next_line: usize,
    /// The client's own cancels may have hit any unit before this one.
    cancelled_up_to: usize,
    pub known: Vec<Known>,
}

impl Client {
    /// A client whose session begins. Its lines are numbered from `first_line`.
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

    /// Whether it waits for no answer.
    pub fn is_idle(&self) -> bool {
        self.units.is_empty()
    }

    pub fn status(&self) -> u8 {
        self.status
    }

    /// It requests the cancel of all units that it has sent.
    pub fn cancels(&mut self) {
        self.cancelled_up_to = self.unit_count;
    }

    /// Reads the governor's answers, and fails if they do not answer its requests.
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
            StatementKind::Begin => "BEGIN",
            StatementKind::Commit if self.status == b'E' => "ROLLBACK",
            StatementKind::Commit => "COMMIT",
            StatementKind::Rollback | StatementKind::RollbackTo => "ROLLBACK",
            StatementKind::Savepoint => "SAVEPOINT",
            StatementKind::Touch if row.is_some() => "SELECT 1",
            StatementKind::Touch => "UPDATE 1",
            StatementKind::SetClass => "SET",
            StatementKind::Fail | StatementKind::Parse => "nothing",
        };
        assert_eq!(tag, expected, "the answer to {sent:?}");
        match sent.kind {
            StatementKind::Touch => {
                let answer = row.unwrap_or_else(|| tag.to_owned());
                self.lines.push((key(&sent.sql), answer));
            }
            StatementKind::Begin | StatementKind::RollbackTo => self.status = b'T',
            StatementKind::Savepoint => self.has_savepoint = true,
            StatementKind::Commit if self.status == b'T' => self.end_with(TransactionOutcome::Acknowledged),
            StatementKind::Commit | StatementKind::Rollback => self.end_with(TransactionOutcome::Refused),
            StatementKind::Fail | StatementKind::SetClass | StatementKind::Parse => {}
        }
    }

    fn refused(&mut self, state: &str) {
        let unit = self.units.front().expect("an error answers a unit");
        let sent = unit.statements.front();
        let kind = sent.map(|sent| sent.kind);
        let context = format!("{state} for {sent:?} in {}: {unit:?}", char::from(self.status));
        match state {
            "42601" => assert_eq!(kind, Some(StatementKind::Fail), "{context}"),
            "25P02" => assert_eq!(self.status, b'E', "{context}"),
            "40001" => assert!(self.is_low, "{context}"),
            "57014" => assert!(unit.number < self.cancelled_up_to, "nobody has cancelled: {context}"),
            "22023" => assert_eq!(kind, Some(StatementKind::SetClass), "{context}"),
            "53300" => assert_eq!(self.status, b'I', "{context}"),
            // Its transaction no longer exists, and the savepoint with it.
            "3B001" => assert!(kind == Some(StatementKind::RollbackTo) && self.was_rolled_back, "{context}"),
            _ => panic!("{context}"),
        }
        self.was_rolled_back |= matches!(state, "40001" | "57014");
        if let Some(sent) = sent.filter(|sent| sent.kind == StatementKind::Parse) {
            let name = usize::from(sent.sql == "s");
            self.prepared[name] = false;
        }
    }

    fn ready(&mut self, status: u8) {
        let unit = self.units.pop_front().expect("looked at before");
        assert!(unit.has_failed || unit.is_extended || unit.statements.is_empty(), "ready before its end: {unit:?}");
        let is_parse = unit.statements.front().is_some_and(|sent| sent.kind == StatementKind::Parse);
        assert!(unit.has_failed || unit.statements.is_empty() || is_parse, "ready before its end: {unit:?}");
        let was = self.status;
        let last = unit.statements.front().map(|sent| sent.kind);
        let expected: &[u8] = match (unit.has_failed, last) {
            (false, _) => &[was],
            (true, Some(StatementKind::Begin)) if self.units.is_empty() => b"IE",
            // The statements sent behind it must not run outside a block.
            (true, Some(StatementKind::Begin)) => b"E",
            // The end of a transaction that could not be replayed, or was cancelled, has ended it.
            (true, Some(StatementKind::Commit | StatementKind::Rollback)) => b"I",
            (true, _) if was == b'I' => b"I",
            (true, _) => b"E",
        };
        let context = || format!("{} after {} and {unit:?}", char::from(status), char::from(was));
        assert!(expected.contains(&status), "{}", context());
        self.status = status;
        let missing = unit.statements.iter().filter(|sent| unit.has_failed && sent.kind == StatementKind::Touch);
        let missing = missing.map(|sent| (key(&sent.sql), String::new())).collect::<Vec<Line>>();
        if !missing.is_empty() {
            self.known.push(Known { lines: missing, fate: TransactionOutcome::Refused });
        }
        if status == b'I' {
            self.ends(if unit.has_failed { TransactionOutcome::Refused } else { TransactionOutcome::Acknowledged });
        }
        if self.units.is_empty() {
            self.expected = status;
        }
    }

    /// Its session is lost: the outcome of units without an answer is unknown.
    pub fn loses_session(&mut self) {
        let sent = self.units.drain(..).flat_map(|unit| unit.statements).collect::<Vec<Sent>>();
        // Statements outside a block, or before a COMMIT that was sent, may have been committed.
        let may_be_there = self.status == b'I' || sent.iter().any(|sent| sent.kind == StatementKind::Commit);
        let touched = sent.iter().filter(|sent| sent.kind == StatementKind::Touch);
        for sent in touched {
            self.known.push(Known { lines: vec![(key(&sent.sql), String::new())], fate: TransactionOutcome::Unknown });
        }
        self.ends(if may_be_there { TransactionOutcome::Unknown } else { TransactionOutcome::Refused });
    }

    fn end_with(&mut self, fate: TransactionOutcome) {
        self.ends(fate);
        self.status = b'I';
    }

    fn ends(&mut self, fate: TransactionOutcome) {
        let lines = std::mem::take(&mut self.lines);
        (self.has_savepoint, self.was_rolled_back) = (false, false);
        if !lines.is_empty() {
            self.known.push(Known { lines, fate });
        }
    }
}
