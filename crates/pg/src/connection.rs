//! One session of a server: messages out, messages in, blocking, with a buffer each way.
//!
//! For each statement, a client's thread sends once and receives once. Nothing is allocated for that once buffers have
//! grown to the largest statement and answer. Rare messages (errors, notices, descriptions) are read by
//! `postgres-protocol`.
//!
//! After [`WireError::Server`] and [`WireError::Refused`] the connection remains usable. After [`WireError::Lost`] it
//! is not: every further call returns the same reason, including the server's last error if there was one.

mod cancel;
mod copy;
mod error;
mod input;
mod open_connections;
mod prepared;
mod refusal;
mod relay;
mod start;
mod stream;
mod tls;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::ops::Range;
use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::message::backend::{Message, ParameterStatusBody};
use postgres_protocol::message::frontend;

pub use cancel::Cancel;
pub use copy::CopyIn;
pub use error::{ServerError, WireError};
use input::{HEAD_BYTES, Input};
use open_connections::Listed;
pub use open_connections::OpenConnections;
pub use prepared::{Column, Prepared};
pub use start::SUPPORTED;
use stream::Stream;
pub use tls::{PROTOCOL, check_protocol, client_tls, is_version_1, tls_remedy};

use crate::url::ServerUrl;
use crate::values::fields::Fields;

/// The most notices that are kept until a caller takes them.
const NOTICES_MAX: usize = 20;

/// A session of a server. See the module.
pub struct Connection {
    stream: Stream,
    input: Input,
    output: BytesMut,
    state: TransactionState,
    /// Why the connection can no longer be used.
    lost: Option<String>,
    process_id: i32,
    secret_key: i32,
    version: u32,
    parameters: BTreeMap<String, String>,
    notices: Vec<ServerError>,
    url: ServerUrl,
    /// Its place in a list of open connections, if it is in one.
    listed: Option<Listed>,
}

/// The state of the session's transaction, as the server reports it when it is ready for the next statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionState {
    /// No transaction is open.
    Idle,
    /// A transaction is open.
    Open,
    /// A transaction is open and has failed: the server accepts only a rollback.
    Failed,
}

impl Connection {
    /// Opens a session.
    pub fn open(url: &ServerUrl) -> Result<Self, WireError> {
        start::start(url, &[("client_encoding", "UTF8")])
    }

    /// Opens a session in which an unqualified name refers to the server's own catalog: `search_path` is empty from the
    /// beginning, regardless of the role's and the database's settings. For callers that have more privileges than
    /// other users who may create objects in that database.
    ///
    /// Texts arrive as the server holds them. Names and statements of other databases may be in other encodings, and a
    /// single one that cannot be converted would cost the whole answer. [`text_rows`](Connection::text_rows) and its
    /// relatives replace what is not UTF-8. The session may compare texts of other databases, but not cut or search
    /// them: functions on characters fail where bytes are not valid in the encoding of its own database. Statements
    /// cut the bytes (`textsend`), which [`bytea`](crate::values::bytea) reads.
    pub fn open_isolated(url: &ServerUrl) -> Result<Self, WireError> {
        start::start(url, &[("client_encoding", "SQL_ASCII"), ("search_path", "")])
    }

    /// Opens a session of a pooler's console, such as pgbouncer's. It understands whole texts of one command, and
    /// nothing prepared; its version is unknown (0).
    pub fn open_console(url: &ServerUrl) -> Result<Self, WireError> {
        start::start_console(url)
    }

    /// The server's version: 150018 is 15.18.
    pub fn server_version_num(&self) -> u32 {
        self.version
    }

    /// The id of the process that serves this session, on the server's machine.
    pub fn process_id(&self) -> i32 {
        self.process_id
    }

    /// The secret that, with the id of the process, cancels this session's statements: see [`Cancel::by_key`].
    pub fn secret_key(&self) -> [u8; 4] {
        self.secret_key.to_be_bytes()
    }

    /// The id of the process that serves this session, if that is a process of this machine: a server reached by a
    /// socket or a loopback address may still number its processes in a namespace of its own, as containers do.
    pub fn server_process(&self) -> Option<i32> {
        let process = procfs::process::Process::new(self.process_id).ok()?;
        // Under another program, such as a profiler, the process has that one's name.
        let is_wrapped = || process.cmdline().is_ok_and(|words| words.iter().any(|word| word.ends_with("/postgres")));
        let is_server = process.stat().ok()?.comm.starts_with("postgres") || is_wrapped();
        (self.stream.is_local() && is_server).then_some(self.process_id)
    }

    /// Whether the server is reached without leaving this machine.
    pub fn is_local(&self) -> bool {
        self.stream.is_local()
    }

    /// Our own port of a TCP connection; `None` for a socket of this machine.
    pub fn local_port(&self) -> Option<u16> {
        self.stream.local_port()
    }

    /// The certificate that the server presented, as DER; `None` without TLS.
    pub fn server_certificate(&self) -> Option<&[u8]> {
        let Stream::Tls(stream) = &self.stream else { return None };
        stream.conn.peer_certificates()?.first().map(AsRef::as_ref)
    }

    /// A parameter that the server reports: `server_version`, `TimeZone`, …
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }

    /// The session's transaction, as of the last answer.
    pub fn transaction_state(&self) -> TransactionState {
        self.state
    }

    /// Why the connection can no longer be used; `None` while it can.
    pub fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// The notices and warnings since the last call, up to a limit.
    pub fn take_notices(&mut self) -> Vec<ServerError> {
        std::mem::take(&mut self.notices)
    }

    /// How long the server may take for the next piece of an answer; `None` for no limit. If a call waits longer, the
    /// connection is lost.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) -> Result<(), WireError> {
        self.check()?;
        self.stream.set_timeout(timeout).map_err(|error| self.lose(&describe(&error)))
    }

    /// A handle that cancels the statements of this session from another thread.
    pub fn canceller(&self) -> Cancel {
        Cancel::by_key(&self.url, self.process_id, &self.secret_key())
    }

    /// Runs statements separated by semicolons, and discards their rows.
    pub fn run(&mut self, sql: &str) -> Result<(), WireError> {
        self.text_rows(sql, &mut |_| {})
    }

    /// Runs statements separated by semicolons, and passes each of their rows to `each`, all values as text. Bytes that
    /// are not UTF-8 are replaced by U+FFFD.
    pub fn text_rows(&mut self, sql: &str, each: &mut dyn FnMut(&[Option<&str>])) -> Result<(), WireError> {
        self.check()?;
        frontend::query(sql, &mut self.output).map_err(|error| self.refused(&error))?;
        self.exchange(|tag, body| match tag {
            b'D' => text_row(Fields::of(body)?, each),
            b'T' | b'C' | b'I' => Ok(()),
            other => Err(unexpected(other)),
        })
    }

    /// As [`text_rows`](Self::text_rows), but passes the values of these columns, in this order. A column that the answer
    /// does not have is null.
    pub fn text_columns(
        &mut self,
        sql: &str,
        columns: &[&str],
        each: &mut dyn FnMut(&[Option<&str>]),
    ) -> Result<(), WireError> {
        self.check()?;
        frontend::query(sql, &mut self.output).map_err(|error| self.refused(&error))?;
        let mut places = Vec::new();
        self.exchange(|tag, body| match tag {
            b'T' => {
                let names = column_names(body)?;
                places = columns.iter().map(|column| names.iter().position(|name| name == column)).collect();
                Ok(())
            }
            b'D' => text_row(Fields::of(body)?, &mut |row| {
                let value = |place: &Option<usize>| place.and_then(|place| row.get(place).copied().flatten());
                each(&places.iter().map(value).collect::<Vec<_>>());
            }),
            b'C' | b'I' => Ok(()),
            other => Err(unexpected(other)),
        })
    }

    /// The first value of the first row of a query; `None` if it is null or there is no row.
    pub fn text(&mut self, sql: &str) -> Result<Option<String>, WireError> {
        let mut first = None;
        self.text_rows(sql, &mut |row| {
            first.get_or_insert_with(|| row.first().copied().flatten().map(str::to_owned));
        })?;
        Ok(first.flatten())
    }

    /// Sends the output buffer and receives messages until the server is ready for the next statement; `on` gets those
    /// that belong to the statement, by tag and body.
    fn exchange(&mut self, on: impl FnMut(u8, &[u8]) -> Result<(), String>) -> Result<(), WireError> {
        self.send()?;
        self.receive(b'Z', on)
    }

    /// Receives messages until one has the tag `last`; an earlier error is returned when the server is ready again.
    fn receive(&mut self, last: u8, mut on: impl FnMut(u8, &[u8]) -> Result<(), String>) -> Result<(), WireError> {
        let mut failure: Option<Box<ServerError>> = None;
        loop {
            let range = match self.next_message() {
                Ok(range) => range,
                Err(lost) => return Err(self.with_last_words(lost, failure)),
            };
            let message = &self.input.bytes()[range.clone()];
            let tag = message[0];
            match tag {
                b'Z' => {
                    self.finish_exchange(range)?;
                    return match failure {
                        Some(error) => Err(WireError::Server(error)),
                        None if last == b'Z' => Ok(()),
                        None => Err(self.disorder(&"the server is ready for more in the middle of a statement")),
                    };
                }
                b'E' | b'N' | b'S' | b'A' => self.take_rare(range, &mut failure)?,
                // Messages that were already on their way when the statement failed.
                _ if failure.is_some() => {}
                _ if tag == last => return Ok(()),
                _ => on(tag, &message[HEAD_BYTES..]).map_err(|why| self.disorder(&why))?,
            }
        }
    }

    /// The server is ready for the next statement: notes the transaction state that it reports.
    fn finish_exchange(&mut self, message: Range<usize>) -> Result<(), WireError> {
        self.state = match &self.input.bytes()[message][HEAD_BYTES..] {
            b"I" => TransactionState::Idle,
            b"T" => TransactionState::Open,
            b"E" => TransactionState::Failed,
            other => {
                let what = format!("the state of a transaction is {:?}", String::from_utf8_lossy(other));
                return Err(self.disorder(&what));
            }
        };
        Ok(())
    }

    /// Handles messages that may arrive at any time.
    fn take_rare(&mut self, range: Range<usize>, failure: &mut Option<Box<ServerError>>) -> Result<(), WireError> {
        let message = &self.input.bytes()[range];
        match message[0] {
            b'E' => {
                let error = ServerError::read(message).map_err(|error| self.disorder(&error))?;
                // Later errors are consequences of the first, except a fatal one, which ends the session.
                if failure.is_none() || error.is_fatal() {
                    *failure = Some(Box::new(error));
                }
            }
            b'N' => {
                let notice = ServerError::read(message).map_err(|error| self.disorder(&error))?;
                // Before a server ends all sessions because one of its processes has crashed, it sends a warning.
                if notice.code == "57P02" {
                    *failure = Some(Box::new(notice));
                } else if self.notices.len() < NOTICES_MAX {
                    self.notices.push(notice);
                }
            }
            b'S' => {
                let parsed = Message::parse(&mut BytesMut::from(message)).map_err(|error| self.disorder(&error))?;
                if let Some(Message::ParameterStatus(body)) = parsed {
                    self.note_parameter(&body)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn note_parameter(&mut self, body: &ParameterStatusBody) -> Result<(), WireError> {
        let name = body.name().map_err(|error| self.disorder(&error))?.to_owned();
        // A value in an unknown encoding, such as the name of a role, is not needed.
        let value = body.value().unwrap_or_default().to_owned();
        self.parameters.insert(name, value);
        Ok(())
    }

    /// Sends the output buffer. If that fails, the server may have sent the reason before it closed the connection.
    fn send(&mut self) -> Result<(), WireError> {
        self.check()?;
        let sent = self.stream.write_all(&self.output).and_then(|()| self.stream.flush());
        self.output.clear();
        let Err(error) = sent else { return Ok(()) };
        let mut failure = None;
        while let Ok(range) = self.input.message(&mut self.stream) {
            if self.take_rare(range, &mut failure).is_err() {
                break;
            }
        }
        let lost = self.lose(&describe(&error));
        Err(self.with_last_words(lost, failure))
    }

    fn next_message(&mut self) -> Result<Range<usize>, WireError> {
        match self.input.message(&mut self.stream) {
            Ok(range) => Ok(range),
            Err(error) => Err(self.lose(&describe(&error))),
        }
    }

    /// An error if the connection is lost.
    fn check(&self) -> Result<(), WireError> {
        match &self.lost {
            Some(why) => Err(WireError::Lost(why.clone())),
            None => Ok(()),
        }
    }

    /// Nothing was sent; the connection remains usable.
    fn refused(&mut self, why: &dyn fmt::Display) -> WireError {
        self.output.clear();
        WireError::Refused(why.to_string())
    }

    /// The answer makes no sense, and neither would later messages.
    fn disorder(&mut self, why: &dyn fmt::Display) -> WireError {
        self.lose(&format!("the server's answer cannot be understood: {why}"))
    }

    fn lose(&mut self, why: &str) -> WireError {
        let why = self.lost.get_or_insert_with(|| format!("{}: {why}", self.url.address())).clone();
        self.output.clear();
        WireError::Lost(why)
    }

    /// Adds the server's last error before the connection ended.
    fn with_last_words(&mut self, lost: WireError, words: Option<Box<ServerError>>) -> WireError {
        let Some(words) = words else { return lost };
        self.lost = None;
        self.lose(&words.to_string())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.lost.is_none() {
            self.output.clear();
            frontend::terminate(&mut self.output);
            // The server ends the session in either case; with this message it logs nothing.
            let _ = self.stream.write_all(&self.output).and_then(|()| self.stream.flush());
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Connection");
        shown.field("url", &self.url).field("process_id", &self.process_id).field("state", &self.state);
        shown.field("lost", &self.lost).finish_non_exhaustive()
    }
}

/// The meaning of a failed read or write.
fn describe(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => "the server closed the connection and gave no reason; did it crash?".to_owned(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "no answer in time (connect_timeout)".to_owned(),
        ErrorKind::InvalidData | ErrorKind::InvalidInput => {
            format!("the server's answer cannot be understood: {error}")
        }
        _ => format!("the server does not answer any more: {error}"),
    }
}

fn unexpected(tag: u8) -> String {
    match tag {
        b'G' => "the statement waits for data to copy; COPY … FROM STDIN cannot be run here".to_owned(),
        b'H' => "the statement sends copied data; COPY … TO STDOUT cannot be run here".to_owned(),
        other => format!("a message with the tag {:?} where none is due", char::from(other)),
    }
}

/// The names in a description of columns.
fn column_names(body: &[u8]) -> Result<Vec<String>, String> {
    /// Table, column, type, its length and modifier, and the format.
    const AFTER_NAME: usize = 18;
    let cut = || "a description of columns that ends early".to_owned();
    let (count, mut rest) = body.split_first_chunk().ok_or_else(cut)?;
    let mut name = || {
        let end = rest.iter().position(|byte| *byte == 0).ok_or_else(cut)?;
        let name = String::from_utf8_lossy(&rest[..end]).into_owned();
        rest = rest.get(end + 1 + AFTER_NAME..).ok_or_else(cut)?;
        Ok(name)
    };
    (0..u16::from_be_bytes(*count)).map(|_| name()).collect()
}

fn text_row(fields: Fields<'_>, each: &mut dyn FnMut(&[Option<&str>])) -> Result<(), String> {
    let row: Vec<Option<Cow<'_, str>>> =
        fields.map(|field| Ok(field?.map(String::from_utf8_lossy))).collect::<Result<_, String>>()?;
    each(&row.iter().map(Option::as_deref).collect::<Vec<_>>());
    Ok(())
}

#[cfg(test)]
mod tests;
