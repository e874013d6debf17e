//! Messages that the governor itself sends.

use super::frames::Status;

/// Severity, SQLSTATE and texts of a message for a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice<'a> {
    /// `ERROR`, `FATAL` or `NOTICE`.
    pub severity: &'static str,
    /// Five characters.
    pub sqlstate: &'static str,
    /// The primary message.
    pub message: &'a str,
    /// The detail.
    pub detail: Option<&'a str>,
    /// The hint.
    pub hint: Option<&'a str>,
}

impl<'a> Notice<'a> {
    /// A message without detail or hint.
    pub(crate) fn new(severity: &'static str, sqlstate: &'static str, message: &'a str) -> Self {
        Notice { severity, sqlstate, message, detail: None, hint: None }
    }
}

pub(crate) fn error_response(notice: &Notice<'_>) -> Vec<u8> {
    fields(b'E', notice)
}

/// An `ErrorResponse` with the body of another.
pub(crate) fn error_with_body(body: &[u8]) -> Vec<u8> {
    message(b'E', &[body])
}

pub(crate) fn notice_response(notice: &Notice<'_>) -> Vec<u8> {
    fields(b'N', notice)
}

pub(crate) fn parameter_status(name: &str, value: &str) -> Vec<u8> {
    message(b'S', &[name.as_bytes(), b"\0", value.as_bytes(), b"\0"])
}

pub(crate) fn ready_for_query(status: Status) -> [u8; 6] {
    [b'Z', 0, 0, 0, 5, status.byte()]
}

/// The name of the statements that the governor briefly prepares in a client's session. A client would use this name
/// only with intent, and harms only itself: the statement is refused and its session ended.
pub(crate) const OWN_STATEMENT: &[u8] = b"\x01plimsoll";

/// A text that no server can parse: parsing it makes the transaction fail and has no other effect. The text names its
/// purpose, because it appears in the server's log.
const NONSENSE: &str = "preempted_by_plimsoll";

/// Runs a statement with parameters in text form. Unlike a `Query` it preserves the client's unnamed statement. Part of
/// a unit that ends with [`end`].
pub fn run(sql: &str, parameters: &[Vec<u8>]) -> Vec<u8> {
    // A cancelled unit may have left a statement of that name.
    let mut bytes = close_statement(OWN_STATEMENT);
    bytes.extend(message(b'P', &[OWN_STATEMENT, b"\0", sql.as_bytes(), b"\0\0\0"]));
    let count = (parameters.len() as u16).to_be_bytes();
    let mut bind = [&b"\0"[..], OWN_STATEMENT, b"\0\0\0", &count].concat();
    for parameter in parameters {
        bind.extend_from_slice(&(parameter.len() as u32).to_be_bytes());
        bind.extend_from_slice(parameter);
    }
    bind.extend_from_slice(b"\0\0");
    bytes.extend(message(b'B', &[&bind]));
    bytes.extend(message(b'E', &[b"\0\0\0\0\0"]));
    bytes
}

/// Makes the transaction fail. Part of a unit that ends with [`end`].
pub(crate) fn make_fail() -> Vec<u8> {
    let mut bytes = close_statement(OWN_STATEMENT);
    bytes.extend(message(b'P', &[OWN_STATEMENT, b"\0", NONSENSE.as_bytes(), b"\0\0\0"]));
    bytes
}

/// Ends a unit of our own, and closes its statement in a second unit, which is carried out even if the first failed.
/// The server sends [`END_ANSWERS`] `ReadyForQuery` messages.
pub fn end() -> Vec<u8> {
    [&SYNC[..], &close_statement(OWN_STATEMENT), &SYNC].concat()
}

/// How many `ReadyForQuery` messages answer [`end`].
pub const END_ANSWERS: usize = 2;

pub(crate) fn close_statement(name: &[u8]) -> Vec<u8> {
    message(b'C', &[b"S", name, b"\0"])
}

pub(crate) const SYNC: [u8; 5] = [b'S', 0, 0, 0, 4];

pub(crate) fn message(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body: usize = parts.iter().map(|part| part.len()).sum();
    let mut bytes = Vec::with_capacity(body + 5);
    bytes.push(tag);
    bytes.extend_from_slice(&(body as u32 + 4).to_be_bytes());
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

fn fields(tag: u8, notice: &Notice<'_>) -> Vec<u8> {
    let mut body = Vec::new();
    let mut field = |kind: u8, text: &str| {
        body.push(kind);
        // A zero byte would end the field early.
        body.extend(text.bytes().filter(|byte| *byte != 0));
        body.push(0);
    };
    field(b'S', notice.severity);
    field(b'V', notice.severity);
    field(b'C', notice.sqlstate);
    field(b'M', notice.message);
    if let Some(detail) = notice.detail {
        field(b'D', detail);
    }
    if let Some(hint) = notice.hint {
        field(b'H', hint);
    }
    message(tag, &[&body, b"\0"])
}

/// The SQLSTATE in the body of an `ErrorResponse`, or in its beginning.
pub(crate) fn sqlstate(body: &[u8]) -> Option<&[u8]> {
    field_of(body, b'C')
}

/// The function of the server that reported an error or a notice, which is never translated.
pub(super) fn routine(body: &[u8]) -> Option<&[u8]> {
    field_of(body, b'R')
}

/// Whether the body of an `ErrorResponse`, or its beginning, says that the session ends.
pub fn is_fatal(body: &[u8]) -> bool {
    matches!(field_of(body, b'V'), Some(b"FATAL" | b"PANIC"))
}

/// Whether a notice announces that the server ends the session, as it does before it stops at once or after a crash:
/// no message follows.
pub fn is_farewell(body: &[u8]) -> bool {
    matches!(sqlstate(body), Some(b"57P01" | b"57P02"))
}

/// Whether an `ErrorResponse` was raised by code of an application in a procedural language, and not by the server.
pub(crate) fn is_raised(body: &[u8]) -> bool {
    const FILES: [&[u8]; 4] = [b"pl_exec.c", b"plpy_elog.c", b"plperl.c", b"pltcl.c"];
    field_of(body, b'F').is_some_and(|file| FILES.iter().any(|known| file.ends_with(known)))
}

fn field_of(body: &[u8], wanted: u8) -> Option<&[u8]> {
    let mut rest = body;
    while let [kind, after @ ..] = rest {
        let (text, more) = super::frames::text(after)?;
        if *kind == wanted {
            return Some(text);
        }
        rest = more;
    }
    None
}

/// The columns of a `DataRow`'s body; `None` if it is malformed or incomplete.
pub fn columns(body: &[u8]) -> Option<Vec<Option<&[u8]>>> {
    let (count, mut rest) = body.split_first_chunk::<2>()?;
    let mut columns = Vec::with_capacity(usize::from(u16::from_be_bytes(*count)).min(16));
    for _ in 0..u16::from_be_bytes(*count) {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let length = i32::from_be_bytes(*length);
        if length < 0 {
            columns.push(None);
            rest = after;
            continue;
        }
        let (value, after) = after.split_at_checked(length as usize)?;
        columns.push(Some(value));
        rest = after;
    }
    Some(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_can_be_read_by_drivers() {
        use postgres_protocol::message::backend::Message;
        let notice = Notice {
            severity: "ERROR",
            sqlstate: "40001",
            message: "a\0b",
            detail: Some("because"),
            hint: Some("try again"),
        };
        let bytes = error_response(&notice);
        assert_eq!(sqlstate(&bytes[5..]), Some(&b"40001"[..]));
        let mut buffer = bytes::BytesMut::from(&bytes[..]);
        let Ok(Some(Message::ErrorResponse(body))) = Message::parse(&mut buffer) else { panic!("no error response") };
        use fallible_iterator::FallibleIterator;
        let read: Vec<(u8, String)> = body
            .fields()
            .map(|field| Ok((field.type_(), String::from_utf8_lossy(field.value_bytes()).into_owned())))
            .collect()
            .expect("fields");
        let text: Vec<String> = read.iter().map(|(kind, text)| format!("{}={text}", char::from(*kind))).collect();
        assert_eq!(text.join(" "), "S=ERROR V=ERROR C=40001 M=ab D=because H=try again");
        assert!(buffer.is_empty());
    }

    #[test]
    fn an_error_without_a_state_or_an_end_has_none() {
        for body in [&b""[..], b"\0", b"Mtext", b"Mtext\0\0", b"C40001"] {
            assert_eq!(sqlstate(body), None, "{body:?}");
        }
    }
}
