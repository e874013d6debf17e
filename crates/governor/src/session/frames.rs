//! Where one message ends and the next begins.

use super::ProtocolError;

/// Messages up to this length are read whole where needed; longer ones are streamed unread.
pub const INSPECT_MAX: usize = 64 * 1024;

/// The tag and the length of a message.
pub const HEAD_BYTES: usize = 5;

/// PostgreSQL accepts no longer ones (`PQ_LARGE_MESSAGE_LIMIT`, `MaxAllocSize`).
const MESSAGE_MAX: usize = 0x3fff_ffff;

/// The kind of a client's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frontend {
    Query,
    /// Prepares a statement.
    Parse,
    /// Creates a portal from a prepared statement.
    Bind,
    /// Asks what a statement or a portal returns.
    Describe,
    /// Runs a portal.
    Execute,
    /// Closes a statement or a portal.
    Close,
    /// Asks for the answers so far.
    Flush,
    /// Ends a unit of the extended protocol.
    Sync,
    /// Calls a function by its object ID.
    FunctionCall,
    /// The end of copied data, or of a copy that failed.
    CopyEnd,
    /// The client leaves.
    Terminate,
    /// Copied data, and messages that no client should send.
    Other,
}

impl Frontend {
    pub fn of(tag: u8) -> Frontend {
        match tag {
            b'Q' => Frontend::Query,
            b'P' => Frontend::Parse,
            b'B' => Frontend::Bind,
            b'D' => Frontend::Describe,
            b'E' => Frontend::Execute,
            b'C' => Frontend::Close,
            b'H' => Frontend::Flush,
            b'S' => Frontend::Sync,
            b'F' => Frontend::FunctionCall,
            b'c' | b'f' => Frontend::CopyEnd,
            b'X' => Frontend::Terminate,
            _ => Frontend::Other,
        }
    }

    /// Whether it belongs to a unit, unlike copied data.
    pub(crate) fn is_of_unit(self) -> bool {
        !matches!(self, Frontend::CopyEnd | Frontend::Terminate | Frontend::Other)
    }

    /// Whether a `ReadyForQuery` answers it.
    pub(crate) fn ends_unit(self) -> bool {
        matches!(self, Frontend::Query | Frontend::FunctionCall | Frontend::Sync)
    }

    /// Whether its body contains facts about the statement to run.
    pub(crate) fn is_read(self) -> bool {
        matches!(self, Frontend::Query | Frontend::Parse | Frontend::Bind | Frontend::Execute | Frontend::Close)
    }
}

/// The kind of a server's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// The server is ready for the next unit, and reports the transaction status.
    Ready,
    /// A statement has failed, or the session ends.
    Error,
    /// A warning or notice, at any time.
    Notice,
    /// A notification of another session, at any time.
    Notification,
    /// A setting has a new value.
    Parameter,
    /// A statement was prepared.
    ParseComplete,
    /// A statement or a portal was closed.
    CloseComplete,
    DataRow,
    /// A statement was carried out.
    CommandComplete,
    /// A portal has returned as many rows as were asked for, and may have more.
    Suspended,
    /// Data may be copied in, or both ways.
    CopyIn,
    /// Data will be copied out.
    CopyOut,
    /// Rows, their description, and everything else.
    Other,
}

impl Backend {
    pub fn of(tag: u8) -> Backend {
        match tag {
            b'Z' => Backend::Ready,
            b'E' => Backend::Error,
            b'N' => Backend::Notice,
            b'A' => Backend::Notification,
            b'S' => Backend::Parameter,
            b'1' => Backend::ParseComplete,
            b'3' => Backend::CloseComplete,
            b'D' => Backend::DataRow,
            b'C' => Backend::CommandComplete,
            b's' => Backend::Suspended,
            b'G' | b'W' => Backend::CopyIn,
            b'H' => Backend::CopyOut,
            _ => Backend::Other,
        }
    }

    /// Whether it is part of the answer to a unit, and not asynchronous or a transaction status.
    pub(crate) fn is_of_unit(self) -> bool {
        !matches!(self, Backend::Ready | Backend::Notice | Backend::Notification | Backend::Parameter)
    }
}

/// The transaction status that a server reports with each `ReadyForQuery`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// No transaction is open.
    Idle,
    /// A block is open.
    Block,
    /// A failed block is open.
    Failed,
}

impl Status {
    pub fn of(byte: u8) -> Option<Status> {
        match byte {
            b'I' => Some(Status::Idle),
            b'T' => Some(Status::Block),
            b'E' => Some(Status::Failed),
            _ => None,
        }
    }

    pub fn byte(self) -> u8 {
        match self {
            Status::Idle => b'I',
            Status::Block => b'T',
            Status::Failed => b'E',
        }
    }
}

/// The head of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The message type.
    pub tag: u8,
    /// The length in bytes, including tag and length field.
    pub bytes: usize,
}

impl Head {
    /// Reads the head at the start of `bytes`; `None` if it is incomplete.
    pub fn read(bytes: &[u8]) -> Result<Option<Head>, ProtocolError> {
        let Some(&[tag, a, b, c, d]) = bytes.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if !(4..=MESSAGE_MAX).contains(&length) {
            let told = length as u32 as i32;
            return Err(ProtocolError(format!("a message of type {:?} declares {told} bytes", char::from(tag))));
        }
        Ok(Some(Head { tag, bytes: length + 1 }))
    }
}

/// The text at the start of `body`, up to its terminating zero, and the rest.
pub fn text(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(0, body)?;
    Some((&body[..end], &body[end + 1..]))
}

/// The statement's text in the body of a `Query`, or after the name in a `Parse`.
pub(super) fn sql_of(body: &[u8]) -> &[u8] {
    text(body).map_or(body, |(sql, _)| sql)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_when_complete_and_lengths_are_believed_only_if_possible() {
        let check = |bytes: &[u8], expect: Result<Option<(u8, usize)>, &str>| {
            let found = Head::read(bytes).map(|head| head.map(|head| (head.tag, head.bytes)));
            assert_eq!(found.as_ref().map_err(|error| error.0.as_str()), expect.as_ref().map_err(|text| *text));
        };
        check(b"", Ok(None));
        check(b"Q\0\0\0", Ok(None));
        check(b"S\0\0\0\x04", Ok(Some((b'S', 5))));
        check(b"Q\0\0\0\x06x\0rest", Ok(Some((b'Q', 7))));
        check(b"Q\0\0\0\x03", Err("a message of type 'Q' declares 3 bytes"));
        check(b"Q\xff\xff\xff\xff", Err("a message of type 'Q' declares -1 bytes"));
        check(b"d\x40\0\0\0", Err("a message of type 'd' declares 1073741824 bytes"));
    }
}
