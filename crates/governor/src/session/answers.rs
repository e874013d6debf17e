//! Messages that the governor says itself.

/// Severity, SQLSTATE and words of something that a client is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice<'a> {
    /// `ERROR`, `FATAL` or `NOTICE`.
    pub severity: &'static str,
    /// Five characters.
    pub sqlstate: &'static str,
    /// What is the matter.
    pub message: &'a str,
    /// More of it.
    pub detail: Option<&'a str>,
    /// What to do.
    pub hint: Option<&'a str>,
}

/// An `ErrorResponse`.
pub fn error_response(notice: &Notice<'_>) -> Vec<u8> {
    fields(b'E', notice)
}

/// A `NoticeResponse`.
pub fn notice_response(notice: &Notice<'_>) -> Vec<u8> {
    fields(b'N', notice)
}

/// A `ReadyForQuery` with the status of the transaction.
pub fn ready_for_query(status: u8) -> [u8; 6] {
    [b'Z', 0, 0, 0, 5, status]
}

/// A `Query` message.
pub fn query(sql: &str) -> Vec<u8> {
    message(b'Q', &[sql.as_bytes(), b"\0"])
}

/// A `Close` of a prepared statement.
pub fn close_statement(name: &[u8]) -> Vec<u8> {
    message(b'C', &[b"S", name, b"\0"])
}

/// A `Sync`.
pub const SYNC: [u8; 5] = [b'S', 0, 0, 0, 4];

fn message(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
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
        // A zero would end the field early.
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

/// The SQLSTATE of an `ErrorResponse`'s body.
pub fn sqlstate(body: &[u8]) -> Option<&[u8]> {
    let mut rest = body;
    while let [kind, after @ ..] = rest {
        let (text, more) = super::frames::text(after)?;
        if *kind == b'C' {
            return Some(text);
        }
        rest = more;
    }
    None
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
