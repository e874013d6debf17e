//! The console: a virtual database in which operators inspect and change the governor, with psql or any driver.
//!
//! [`Console`] serves one client: bytes in, bytes out, without socket or clock. [`command::COMMANDS`] lists its
//! commands; each command has a file in `show` or `change`. Console users have their own passwords ([`scram`]), not
//! those of the server. For read-only users, one place refuses every command that changes something
//! (`query::Statement::run`).

mod answer;
pub(crate) mod change;
pub mod command;
mod compatible;
mod login;
mod query;
pub(crate) mod show;
#[cfg(test)]
mod tests;
pub(crate) mod wire;
pub(crate) mod words;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub use plimsoll_pg::scram::server as scram;

use answer::{Refusal, WaitsFor, describe, put_row};
use command::Call;
use compatible::PARAMETERS;
use login::{Login, Progress};
use query::{Portal, Prepared, Statement};
use wire::{Answers, Fields, MESSAGE_BYTES, MESSAGE_BYTES_BEFORE_LOGIN, Message, first_message};

use crate::governor::{Governor, Repeated};
use crate::statistics::count;

/// A client of the console.
#[derive(Debug)]
pub struct Console {
    governor: Arc<Governor>,
    user: String,
    peer: String,
    phase: Phase,
    prepared: Prepared,
    /// `I` outside transactions, `T` within one, `E` within one that has failed: drivers check it.
    status: u8,
    /// Whether everything up to the next Sync is skipped because of an earlier error.
    skips: bool,
    /// The statement that has not ended yet; until then no message is taken.
    waiting: Option<Waiting>,
    answers: Answers,
}

/// A statement that waits for sessions or connections to end.
#[derive(Debug)]
struct Waiting {
    waits_for: WaitsFor,
    tag: String,
    /// The statements after it in the same text.
    rest: Vec<Statement>,
    /// Whether it came as a text, so that the client then expects to hear that the console is ready.
    is_simple: bool,
    looks_again_at: Instant,
}

/// How often a waiting statement looks whether it is over.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

#[derive(Debug)]
enum Phase {
    Login(Box<Login>),
    In,
    Ended,
}

/// The error for a message with missing fields.
const TOO_SHORT: &str = "a message is shorter than its fields";

impl Console {
    /// A client whose start-up message names the console. `peer` is its address, for the log.
    pub fn new(governor: Arc<Governor>, user: &str, peer: &str) -> Self {
        let mut answers = Answers::default();
        let login = Login::begin(user, &governor.settings().admin, &mut answers);
        Console {
            governor,
            user: user.to_owned(),
            peer: peer.to_owned(),
            phase: Phase::Login(Box::new(login)),
            prepared: Prepared::default(),
            status: b'I',
            skips: false,
            waiting: None,
            answers,
        }
    }

    /// Takes bytes from the client (none on the first call) and answers. Returns how many bytes were taken; the rest is
    /// an incomplete message, to be offered again with more. A client that violates the protocol gets an error, and its
    /// session ends.
    pub fn on_client(&mut self, bytes: &[u8], now: Instant, out: &mut dyn FnMut(&[u8])) -> usize {
        let mut taken = 0;
        while !self.has_ended() && self.waiting.is_none() {
            let most = if self.is_let_in() { MESSAGE_BYTES } else { MESSAGE_BYTES_BEFORE_LOGIN };
            match first_message(&bytes[taken..], most) {
                Ok(None) => break,
                Ok(Some((message, length))) => {
                    taken += length;
                    if let Err(what) = self.take(message, now) {
                        self.end("08P01", &what);
                    }
                }
                Err(what) => self.end("08P01", &what),
            }
        }
        let answers = self.answers.take();
        if !answers.is_empty() {
            out(&answers);
        }
        if self.has_ended() { bytes.len() } else { taken }
    }

    /// When [`on_time`](Self::on_time) must be called; `None` unless a statement waits.
    pub fn wakes_at(&self) -> Option<Instant> {
        self.waiting.as_ref().map(|waiting| waiting.looks_again_at)
    }

    /// Ends a statement that waited, if it is over. Bytes that were not taken are then to be offered again.
    pub fn on_time(&mut self, now: Instant, out: &mut dyn FnMut(&[u8])) {
        let Some(mut waiting) = self.waiting.take_if(|waiting| waiting.looks_again_at <= now) else { return };
        if !waiting.waits_for.is_over(&self.governor) {
            waiting.looks_again_at = now + LOOK_AGAIN;
            self.waiting = Some(waiting);
            return;
        }
        self.answers.complete(&waiting.tag);
        if waiting.is_simple {
            let outcome = self.run_all(waiting.rest, now);
            self.end_of_text(outcome);
        }
        out(&self.answers.take());
    }

    /// Whether the session is over: once the output has been sent, the connection is to be closed.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// Whether the client has proved that it knows the password.
    pub fn is_let_in(&self) -> bool {
        matches!(self.phase, Phase::In)
    }

    fn end(&mut self, code: &str, message: &str) {
        self.answers.report(b'E', "FATAL", code, message, None);
        self.phase = Phase::Ended;
    }

    /// An error ends the session of a client that violates the protocol.
    fn take(&mut self, message: Message<'_>, now: Instant) -> Result<(), String> {
        match &mut self.phase {
            Phase::Login(login) => match login.take(message, &mut self.answers) {
                Progress::Goes => {}
                Progress::In => self.welcome(),
                Progress::Refused(why) => {
                    count(&self.governor.statistics.console_refused);
                    if self.governor.logs(Repeated::ConsoleRefused) {
                        tracing::warn!(user = self.user, peer = self.peer, why, "console: a login was refused");
                    }
                    let message = format!("password authentication failed for user \"{}\"", self.user);
                    self.end("28P01", &message);
                }
                Progress::Nonsense(what) => return Err(what.into()),
            },
            Phase::In => self.take_statement(message, now)?,
            Phase::Ended => {}
        }
        Ok(())
    }

    fn welcome(&mut self) {
        self.phase = Phase::In;
        if self.governor.logs(Repeated::ConsoleLogin) {
            tracing::info!(user = self.user, peer = self.peer, "console: a user has come");
        }
        for (name, value) in PARAMETERS {
            self.answers.parameter(name, value);
        }
        // Clients expect a cancel key. No command here runs long enough to be cancelled, and no session has this key.
        self.answers.message(b'K', |body| body.extend([0; 8]));
        self.answers.ready(self.status);
    }

    fn take_statement(&mut self, message: Message<'_>, now: Instant) -> Result<(), String> {
        let mut fields = Fields(message.body);
        if self.skips && !matches!(message.tag, b'S' | b'X') {
            return Ok(());
        }
        let outcome = match message.tag {
            b'Q' => {
                let text = fields.text().ok_or(TOO_SHORT)?;
                let outcome = self.simple(text, now);
                self.end_of_text(outcome);
                return Ok(());
            }
            b'P' => self.parse(fields)?,
            b'B' => self.bind(fields)?,
            b'D' => self.describe(fields)?,
            b'E' => {
                let name = fields.text().ok_or(TOO_SHORT)?;
                let most = usize::try_from(fields.int().ok_or(TOO_SHORT)?).unwrap_or(0);
                self.fetch(name, most, now)
            }
            b'C' => {
                let kind = fields.byte().ok_or(TOO_SHORT)?;
                self.prepared.forget(kind, fields.text().ok_or(TOO_SHORT)?);
                self.answers.bare(b'3');
                Ok(())
            }
            b'S' => {
                self.sync();
                return Ok(());
            }
            // Everything is sent at once anyway. Data of a COPY that never began are skipped, as a server does.
            b'H' | b'd' | b'c' | b'f' => return Ok(()),
            b'F' => {
                self.report(Err(Refusal::new("0A000", "this console has no functions")));
                self.sync();
                return Ok(());
            }
            b'X' => {
                self.phase = Phase::Ended;
                return Ok(());
            }
            tag => return Err(format!("invalid frontend message type {tag}")),
        };
        self.skips = outcome.is_err();
        self.report(outcome);
        Ok(())
    }

    fn sync(&mut self) {
        self.skips = false;
        if self.status == b'I' {
            self.prepared.forget_portals();
        }
        self.answers.ready(self.status);
    }

    fn report(&mut self, outcome: Result<(), Refusal>) {
        if let Err(Refusal { code, message, hint }) = outcome {
            self.answers.report(b'E', "ERROR", code, &message, hint.as_deref());
            if self.status == b'T' {
                self.status = b'E';
            }
        }
    }

    /// Runs the statements of a text until one is refused.
    fn simple(&mut self, text: &str, now: Instant) -> Result<(), Refusal> {
        let statements = Statement::all(text)?;
        if statements.is_empty() {
            self.answers.bare(b'I');
        }
        self.run_all(statements, now)
    }

    /// The statements of a text have ended, unless one waits.
    fn end_of_text(&mut self, outcome: Result<(), Refusal>) {
        self.report(outcome);
        if self.waiting.is_none() {
            self.sync();
        }
    }

    fn run_all(&mut self, statements: Vec<Statement>, now: Instant) -> Result<(), Refusal> {
        let mut statements = statements.into_iter();
        while let Some(statement) = statements.next() {
            let (answer, tag) = self.run(&statement, now)?;
            if let Some(waits_for) = answer.waits {
                let rest = statements.collect();
                self.waiting = Some(Waiting { waits_for, tag, rest, is_simple: true, looks_again_at: now });
                return Ok(());
            }
            if statement.has_rows() {
                describe(statement.columns(), &[], &mut self.answers);
            }
            answer.rows.iter().for_each(|row| put_row(row, &[], &mut self.answers));
            self.answers.complete(&tag);
        }
        Ok(())
    }

    /// Runs a statement and sends its notices.
    fn run(&mut self, statement: &Statement, now: Instant) -> Result<(answer::Answer, String), Refusal> {
        let settings = self.governor.settings();
        // Looked up each time: a reload may have removed the privilege, or the user.
        let user = settings.admin.users.iter().find(|user| user.name == self.user);
        let user = user.ok_or_else(|| Refusal::new("28000", "this user of the console is no longer there"))?;
        let call = Call { governor: &self.governor, user: &self.user, now, arguments: &[] };
        let (answer, tag, status) = statement.run(&call, user.may_change)?;
        for notice in &answer.notices {
            self.answers.report(b'N', "NOTICE", "00000", notice, None);
        }
        self.status = status.unwrap_or(self.status);
        Ok((answer, tag))
    }

    fn parse(&mut self, mut fields: Fields<'_>) -> Result<Result<(), Refusal>, String> {
        let (name, text) = (fields.text().ok_or(TOO_SHORT)?, fields.text().ok_or(TOO_SHORT)?);
        let kept = Statement::one(text).and_then(|statement| self.prepared.keep_statement(name, statement));
        Ok(kept.map(|()| self.answers.bare(b'1')))
    }

    fn bind(&mut self, mut fields: Fields<'_>) -> Result<Result<(), Refusal>, String> {
        let (portal, statement) = (fields.text().ok_or(TOO_SHORT)?, fields.text().ok_or(TOO_SHORT)?);
        let formats = fields.count().ok_or(TOO_SHORT)?;
        fields.bytes(2 * formats).ok_or(TOO_SHORT)?;
        if fields.count().ok_or(TOO_SHORT)? > 0 {
            return Ok(Err(Refusal::new("08P01", "statements of this console take no parameters")));
        }
        let count = fields.count().ok_or(TOO_SHORT)?;
        let formats: Option<Vec<bool>> = (0..count).map(|_| Some(fields.count()? == 1)).collect();
        let formats = formats.ok_or(TOO_SHORT)?;
        let bound = self.prepared.statement(statement).cloned();
        let kept =
            bound.and_then(|statement| self.prepared.keep_portal(portal, Portal { statement, formats, rest: None }));
        Ok(kept.map(|()| self.answers.bare(b'2')))
    }

    fn describe(&mut self, mut fields: Fields<'_>) -> Result<Result<(), Refusal>, String> {
        let (kind, name) = (fields.byte().ok_or(TOO_SHORT)?, fields.text().ok_or(TOO_SHORT)?);
        let found = match kind {
            b'S' => self.prepared.statement(name).map(|statement| (statement.clone(), Vec::new())),
            _ => self.prepared.portal(name).map(|portal| (portal.statement.clone(), portal.formats.clone())),
        };
        Ok(found.map(|(statement, formats)| {
            if kind == b'S' {
                // No parameters.
                self.answers.message(b't', |body| body.extend([0; 2]));
            }
            if statement.has_rows() {
                describe(statement.columns(), &formats, &mut self.answers);
            } else {
                self.answers.bare(b'n');
            }
        }))
    }

    /// Runs a portal's statement unless that was done before, and sends the next rows; 0 means all of them.
    fn fetch(&mut self, name: &str, most: usize, now: Instant) -> Result<(), Refusal> {
        let portal = self.prepared.portal(name)?;
        let (statement, formats, rest) = (portal.statement.clone(), portal.formats.clone(), portal.rest.take());
        if matches!(statement, Statement::Empty) {
            self.answers.bare(b'I');
            return Ok(());
        }
        let (mut answer, tag) = match rest {
            Some(rest) => rest,
            None => self.run(&statement, now)?,
        };
        if let Some(waits_for) = answer.waits.take() {
            let (rest, looks_again_at) = (Vec::new(), now);
            self.waiting = Some(Waiting { waits_for, tag, rest, is_simple: false, looks_again_at });
            return Ok(());
        }
        let sent = if most == 0 { answer.rows.len() } else { most.min(answer.rows.len()) };
        let has_more = sent < answer.rows.len();
        for row in answer.rows.drain(..sent) {
            put_row(&row, &formats, &mut self.answers);
        }
        if has_more {
            self.answers.bare(b's')
        } else {
            self.answers.complete(&tag)
        }
        self.prepared.portal(name)?.rest = Some((answer, tag));
        Ok(())
    }
}
