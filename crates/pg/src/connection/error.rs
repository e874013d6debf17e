//! The errors of a server and of a connection, and whether the connection survives them.

use std::fmt;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::{ErrorFields, Message};

/// Why an operation on a connection failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The server refused; the connection remains usable.
    #[error("{0}")]
    Server(Box<ServerError>),
    /// There is no connection: the server could not be reached, or accepts no sessions now.
    #[error("{0}")]
    Unreachable(String),
    /// The connection is lost, or its messages made no sense; it can no longer be used.
    #[error("{0}")]
    Lost(String),
    /// Nothing was sent: the server could not have understood it.
    #[error("{0}")]
    Refused(String),
}

impl WireError {
    /// The server's error, if the server refused.
    pub fn server(&self) -> Option<&ServerError> {
        match self {
            WireError::Server(error) => Some(error),
            _ => None,
        }
    }
}

/// An error or notice of a server. Displayed in one line as in psql, with the code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerError {
    /// `ERROR`, `FATAL`, `PANIC`; `WARNING`, `NOTICE` and others for notices. Never translated.
    pub severity: String,
    /// SQLSTATE: five letters and digits (PostgreSQL, appendix A).
    pub code: String,
    /// The error in one line.
    pub message: String,
    /// Details about it.
    pub detail: Option<String>,
    /// A suggestion.
    pub hint: Option<String>,
    /// The position in the statement, in characters from 1.
    pub position: Option<u32>,
    /// The function or nested statement in which it occurred.
    pub context: Option<String>,
    /// The schema it is about.
    pub schema: Option<String>,
    /// The table it is about.
    pub table: Option<String>,
    /// The column it is about.
    pub column: Option<String>,
    /// The constraint it is about.
    pub constraint: Option<String>,
}

impl ServerError {
    /// Reads the body of an ErrorResponse or NoticeResponse, given with its head.
    pub(super) fn read(message: &[u8]) -> std::io::Result<Self> {
        match Message::parse(&mut BytesMut::from(message))? {
            Some(Message::ErrorResponse(body)) => Self::of_fields(body.fields()),
            Some(Message::NoticeResponse(body)) => Self::of_fields(body.fields()),
            _ => Err(std::io::Error::other("neither an error nor a notice")),
        }
    }

    fn of_fields(mut fields: ErrorFields<'_>) -> std::io::Result<Self> {
        let mut error = ServerError::default();
        while let Some(field) = fields.next()? {
            // Before a session has begun the server uses its own, unknown encoding.
            let text = String::from_utf8_lossy(field.value_bytes()).into_owned();
            match field.type_() {
                b'V' => error.severity = text,
                // The translated severity, for servers that do not send the untranslated one.
                b'S' if error.severity.is_empty() => error.severity = text,
                b'C' => error.code = text,
                b'M' => error.message = text,
                b'D' => error.detail = Some(text),
                b'H' => error.hint = Some(text),
                b'P' => error.position = text.parse().ok(),
                b'W' => error.context = Some(text),
                b's' => error.schema = Some(text),
                b't' => error.table = Some(text),
                b'c' => error.column = Some(text),
                b'n' => error.constraint = Some(text),
                _ => {}
            }
        }
        error.name_pooler();
        Ok(error)
    }

    /// Statements that we prepare have names of their own in their session. If one exists already (42P05) or no longer (26000), a
    /// pooler has given the session another process of the server, where its settings are missing, too.
    fn name_pooler(&mut self) {
        if matches!(self.code.as_str(), "42P05" | "26000") {
            self.hint.get_or_insert_with(|| {
                "a pooler that changes the server's process between transactions lies between; set pool_mode = session there, or \
                 name the server's own host and port in the URL"
                    .to_owned()
            });
        }
    }

    /// Whether the server ends the session after this error.
    pub fn is_fatal(&self) -> bool {
        self.severity == "FATAL" || self.severity == "PANIC"
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.severity, self.code, self.message)?;
        if let Some(position) = self.position {
            write!(f, " (at character {position})")?;
        }
        for (name, part) in [("detail", &self.detail), ("hint", &self.hint), ("in", &self.context)] {
            if let Some(part) = part {
                write!(f, "; {name}: {}", part.replace('\n', " "))?;
            }
        }
        Ok(())
    }
}
