//! A small server: counters that transactions change, sessions that speak the protocol, and a list of committed
//! transactions.
//!
//! It knows the statements of [`client`](super::client) and of the governor. It has no locks: a cancel may come at any
//! time, as if the running statement waited for one. A read sees committed values, and the changes of its own
//! transaction.

use std::collections::{BTreeMap, VecDeque};

pub const COUNTERS: usize = 2;

/// The first words of statements that it understands.
const WORDS: [&str; 8] = ["begin", "commit", "rollback", "savepoint", "update", "select", "set", "with"];

/// A statement with its parameter, and the answer.
pub type Line = (String, String);

/// The state that all sessions share.
#[derive(Debug, Default)]
pub struct Database {
    counters: [i64; COUNTERS],
    /// The statements of each committed transaction, in commit order.
    pub committed: Vec<Vec<Line>>,
}

#[derive(Debug, Default)]
struct Open {
    changes: [i64; COUNTERS],
    lines: Vec<Line>,
    savepoints: Vec<(String, [i64; COUNTERS])>,
    is_block: bool,
    has_failed: bool,
}

/// The unfinished part of a message.
#[derive(Debug)]
struct Work {
    statements: VecDeque<String>,
    /// Whether it is a simple query: `ReadyForQuery` follows it.
    is_simple: bool,
    /// Whether the first statement has begun, so that a cancel hits it.
    has_begun: bool,
}

/// A session of the server.
#[derive(Debug, Default)]
pub struct Backend {
    inbox: VecDeque<u8>,
    /// Answers that have not been read yet.
    pub answers: Vec<u8>,
    work: Option<Work>,
    open: Option<Open>,
    /// After an error, everything up to Sync is skipped.
    is_skipping: bool,
    prepared: BTreeMap<String, String>,
    portal: Option<String>,
    /// A cancel has hit the statement under way.
    is_cancelled: bool,
    has_ended: bool,
}

/// An error with only an SQLSTATE.
struct Wrong(&'static str);

impl Backend {
    pub fn described(&self) -> String {
        let inbox = self.inbox.iter().copied().collect::<Vec<u8>>();
        let (status, inbox) = (char::from(self.status()), inbox.escape_ascii());
        format!("{status} {inbox} {:?}", self.work)
    }

    pub fn take(&mut self, bytes: &[u8]) {
        self.inbox.extend(bytes);
    }

    /// The transaction status: `I`, `T` or `E`.
    pub fn status(&self) -> u8 {
        match &self.open {
            Some(open) if open.has_failed => b'E',
            Some(open) if open.is_block => b'T',
            _ => b'I',
        }
    }

    pub fn is_idle(&self) -> bool {
        self.work.is_none() && self.inbox.is_empty()
    }

    /// A signal to cancel; ignored unless a statement is under way.
    pub fn cancel(&mut self) {
        self.is_cancelled |= self.work.as_ref().is_some_and(|work| work.has_begun || work.is_simple);
    }

    /// Its client has disconnected: it runs the messages that it has received, and rolls back.
    pub fn hang_up(&mut self, database: &mut Database) {
        while !self.has_ended && self.step(database) {}
        self.open = None;
    }

    /// Begins or finishes a statement, or reads a message; returns whether there was work.
    pub fn step(&mut self, database: &mut Database) -> bool {
        match &mut self.work {
            Some(work) if !work.has_begun && !work.statements.is_empty() => work.has_begun = true,
            Some(_) => self.finish_statement(database),
            None => return self.take_message(database),
        }
        true
    }

    fn take_message(&mut self, database: &mut Database) -> bool {
        let head: Vec<u8> = self.inbox.iter().copied().take(5).collect();
        let Some(length) = head.get(1..5) else { return false };
        let length = 1 + u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        if self.inbox.len() < length {
            return false;
        }
        let message: Vec<u8> = self.inbox.drain(..length).collect();
        let (tag, body) = (message[0], &message[5..]);
        if self.is_skipping && tag != b'S' {
            return true;
        }
        let mut texts = body.split(|&byte| byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
        let mut text = || texts.next().unwrap_or_default();
        match tag {
            b'Q' => {
                // The unnamed statement ends with any simple query.
                self.prepared.remove("");
                let statements =
                    text().split(';').map(str::trim).filter(|sql| !sql.is_empty()).map(str::to_owned).collect();
                self.work = Some(Work { statements, is_simple: true, has_begun: false });
            }
            b'P' => {
                let (name, sql) = (text(), text());
                self.prepare(name, sql);
            }
            b'B' => {
                let (_portal, name) = (text(), text());
                // The parameter follows formats (0), a count (1) and a length.
                let parameter = body.get(name.len() + 2 + 8..body.len() - 2).map(String::from_utf8_lossy);
                match self.prepared.get(&name).cloned() {
                    Some(sql) => match self.check_failed(&sql) {
                        Ok(()) => {
                            self.portal = Some(sql.replace("$1", &parameter.unwrap_or_default()));
                            self.say(b'2', b"");
                        }
                        Err(wrong) => self.refuse(&wrong),
                    },
                    None => self.refuse(&Wrong("26000")),
                }
            }
            b'E' => match self.portal.take() {
                Some(sql) => self.work = Some(Work { statements: [sql].into(), is_simple: false, has_begun: false }),
                None => self.refuse(&Wrong("34000")),
            },
            b'C' => {
                self.prepared.remove(text().trim_start_matches('S'));
                self.say(b'3', b"");
            }
            b'S' => {
                self.is_skipping = false;
                self.finish_unit(database);
            }
            b'X' => self.has_ended = true,
            b'D' => self.say(b'n', b""),
            b'H' => {}
            _ => panic!("the governor sent {message:?}"),
        }
        true
    }

    fn prepare(&mut self, name: String, sql: String) {
        let is_taken = !name.is_empty() && self.prepared.contains_key(&name);
        let first = sql.split_whitespace().next().unwrap_or_default().to_lowercase();
        let wrong = match self.check_failed(&sql) {
            _ if !WORDS.contains(&first.as_str()) => Some(Wrong("42601")),
            Ok(()) if is_taken => Some(Wrong("42P05")),
            checked => checked.err(),
        };
        if let Some(wrong) = wrong {
            self.refuse(&wrong);
        } else {
            self.prepared.insert(name, sql);
            self.say(b'1', b"");
        }
    }

    fn finish_statement(&mut self, database: &mut Database) {
        let work = self.work.as_mut().expect("asked for by one");
        let is_simple = work.is_simple;
        work.has_begun = false;
        let sql = work.statements.pop_front();
        let is_over = work.statements.is_empty();
        let was_cancelled = std::mem::take(&mut self.is_cancelled);
        let outcome = match &sql {
            // Statements that begin and end transactions are over before they could be cancelled.
            Some(sql) if was_cancelled && !is_end(sql) => Err(Wrong("57014")),
            Some(sql) => self.run(sql, database),
            None => Ok(()),
        };
        if let Err(wrong) = &outcome {
            self.refuse(wrong);
        }
        if is_over || outcome.is_err() {
            self.work = None;
            if is_simple {
                self.is_skipping = false;
                self.finish_unit(database);
            }
        }
    }

    /// A transaction outside a block ends with its unit.
    fn finish_unit(&mut self, database: &mut Database) {
        if self.open.as_ref().is_some_and(|open| !open.is_block) {
            self.end(true, database);
        }
        self.portal = None;
        let status = self.status();
        self.say(b'Z', &[status]);
    }

    /// In a failed transaction only its end is run.
    fn check_failed(&self, sql: &str) -> Result<(), Wrong> {
        if self.status() == b'E' && !is_end(sql) { Err(Wrong("25P02")) } else { Ok(()) }
    }

    fn run(&mut self, sql: &str, database: &mut Database) -> Result<(), Wrong> {
        self.check_failed(sql)?;
        let lower = sql.to_lowercase();
        if lower.contains("pg_catalog") {
            // The governor asks about the transaction's effects: it uses no user-defined objects, and the catalogs are
            // older than it.
            if lower.contains("pg_current_snapshot") {
                self.say(b'D', &row(&[Some("g"), None, Some("200"), Some("path"), Some("1"), Some("150")]));
            }
            self.say(b'C', b"SELECT 0\0");
            return Ok(());
        }
        let mut words = lower.split_whitespace();
        let first = words.next().unwrap_or_default().to_owned();
        let last = lower.rsplit(' ').next().unwrap_or_default().to_owned();
        match first.as_str() {
            "begin" => {
                self.open.get_or_insert_default().is_block = true;
                self.say(b'C', b"BEGIN\0");
            }
            "commit" => {
                let commits = self.status() != b'E';
                self.end(commits, database);
                self.say(b'C', if commits { b"COMMIT\0" } else { b"ROLLBACK\0" });
            }
            "rollback" if lower.starts_with("rollback to") => self.roll_back_to(&last)?,
            "rollback" => {
                self.end(false, database);
                if last == "chain" {
                    self.open.get_or_insert_default().is_block = true;
                }
                self.say(b'C', b"ROLLBACK\0");
            }
            "savepoint" => {
                let open = self.open.as_mut().filter(|open| open.is_block).ok_or(Wrong("25P01"))?;
                let changes = open.changes;
                open.savepoints.push((last, changes));
                self.say(b'C', b"SAVEPOINT\0");
            }
            "update" | "select" => self.touch(sql, first == "update", database),
            "set" => self.say(b'C', b"SET\0"),
            "fail" => return Err(Wrong("42601")),
            _ => panic!("the governor sent {sql}"),
        }
        Ok(())
    }

    /// Reads or changes the counter whose digit follows `counter_` in the statement.
    fn touch(&mut self, sql: &str, changes: bool, database: &Database) {
        let place = sql.split("counter_").nth(1).and_then(|rest| rest[..1].parse::<usize>().ok()).expect("a counter");
        let open = self.open.get_or_insert_default();
        let answer = if changes {
            open.changes[place] += 1;
            "UPDATE 1".to_owned()
        } else {
            (database.counters[place] + open.changes[place]).to_string()
        };
        open.lines.push((super::client::key(sql), answer.clone()));
        if changes {
            self.say(b'C', b"UPDATE 1\0");
        } else {
            self.say(b'D', answer.as_bytes());
            self.say(b'C', b"SELECT 1\0");
        }
    }

    fn roll_back_to(&mut self, name: &str) -> Result<(), Wrong> {
        let open = self.open.as_mut().filter(|open| open.is_block).ok_or(Wrong("25P01"))?;
        let place = open.savepoints.iter().rposition(|(known, _)| known == name).ok_or(Wrong("3B001"))?;
        open.savepoints.truncate(place + 1);
        open.changes = open.savepoints[place].1;
        open.has_failed = false;
        self.say(b'C', b"ROLLBACK\0");
        Ok(())
    }

    fn end(&mut self, commits: bool, database: &mut Database) {
        let Some(open) = self.open.take() else { return };
        if commits && !open.has_failed {
            for (counter, change) in database.counters.iter_mut().zip(open.changes) {
                *counter += change;
            }
            database.committed.push(open.lines);
        }
    }

    fn refuse(&mut self, wrong: &Wrong) {
        self.say(b'E', format!("SERROR\0C{}\0Mno\0\0", wrong.0).as_bytes());
        self.is_skipping = true;
        match &mut self.open {
            Some(open) if open.is_block => open.has_failed = true,
            open => *open = None,
        }
    }

    fn say(&mut self, tag: u8, body: &[u8]) {
        self.answers.push(tag);
        self.answers.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        self.answers.extend_from_slice(body);
    }
}

/// The body of a row of columns in text form.
fn row(columns: &[Option<&str>]) -> Vec<u8> {
    let mut row = (columns.len() as u16).to_be_bytes().to_vec();
    for column in columns {
        row.extend_from_slice(&column.map_or(-1, |column| column.len() as i32).to_be_bytes());
        row.extend_from_slice(column.unwrap_or_default().as_bytes());
    }
    row
}

fn is_end(sql: &str) -> bool {
    ["begin", "commit", "rollback"].iter().any(|word| sql.to_lowercase().starts_with(word))
}
