//! Where one message ends and the next begins.

use super::ProtocolError;

/// Messages up to this length are looked at whole where that is needed; longer ones stream through unread.
pub const INSPECT_MAX: usize = 64 * 1024;

/// The tag and the length of a message.
pub const HEAD_BYTES: usize = 5;

/// PostgreSQL takes no longer ones (`PQ_LARGE_MESSAGE_LIMIT`, `MaxAllocSize`).
const MESSAGE_MAX: usize = 0x3fff_ffff;

/// The head of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// What kind it is.
    pub tag: u8,
    /// How long it is, tag and length included.
    pub bytes: usize,
}

impl Head {
    /// Reads the head that `bytes` begins with; `None` if it is not complete.
    pub fn read(bytes: &[u8]) -> Result<Option<Head>, ProtocolError> {
        let Some(&[tag, a, b, c, d]) = bytes.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if !(4..=MESSAGE_MAX).contains(&length) {
            let told = length as u32 as i32;
            return Err(ProtocolError(format!("a message of type {:?} says it is {told} bytes long", char::from(tag))));
        }
        Ok(Some(Head { tag, bytes: length + 1 }))
    }
}

/// The text that `body` begins with, up to its terminating zero, and what comes after it.
pub fn text(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(0, body)?;
    Some((&body[..end], &body[end + 1..]))
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
        check(b"Q\0\0\0\x03", Err("a message of type 'Q' says it is 3 bytes long"));
        check(b"Q\xff\xff\xff\xff", Err("a message of type 'Q' says it is -1 bytes long"));
        check(b"d\x40\0\0\0", Err("a message of type 'd' says it is 1073741824 bytes long"));
    }
}
