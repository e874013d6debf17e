//! Messages of PostgreSQL's protocol, read and written as a server does.

/// Limit for a message before login, in bytes: the longest, a SCRAM proof, has a few hundred.
pub(crate) const MESSAGE_BYTES_BEFORE_LOGIN: usize = 2048;
/// Limit for a message after login, in bytes; a statement for the console has a few hundred, too.
pub(crate) const MESSAGE_BYTES: usize = 32 << 10;

/// A message of the client: its tag, and its contents after the length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    pub tag: u8,
    pub body: &'a [u8],
}

/// The first message in some bytes, and its length; `None` while it is incomplete. An error if its length is invalid or
/// above `most`.
pub(crate) fn first_message(bytes: &[u8], most: usize) -> Result<Option<(Message<'_>, usize)>, String> {
    let [tag, length @ ..] = bytes else { return Ok(None) };
    let Some(length) = length.first_chunk::<4>() else { return Ok(None) };
    // The length counts its own four bytes.
    let length = u32::from_be_bytes(*length) as usize;
    if !(4..=most).contains(&length) {
        return Err(format!("invalid message length {length}, where 4 to {most} are expected"));
    }
    Ok(bytes.get(5..length + 1).map(|body| (Message { tag: *tag, body }, length + 1)))
}

/// A message's contents, field by field. A field is `None` after the end.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// A text that ends with a zero byte.
    pub fn text(&mut self) -> Option<&'a str> {
        let end = memchr::memchr(0, self.0)?;
        let (text, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        std::str::from_utf8(text).ok()
    }

    pub fn byte(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    /// A non-negative number of two bytes.
    pub fn count(&mut self) -> Option<usize> {
        let bytes = self.bytes(2)?;
        usize::try_from(i16::from_be_bytes([bytes[0], bytes[1]])).ok()
    }

    /// A number of four bytes.
    pub fn int(&mut self) -> Option<i32> {
        self.bytes(4).map(|bytes| i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }
}

/// Messages to the client that have not been sent yet.
#[derive(Debug, Default)]
pub struct Answers(Vec<u8>);

impl Answers {
    /// Takes all messages.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }

    /// Appends a message; `fill` writes its contents.
    pub fn message(&mut self, tag: u8, fill: impl FnOnce(&mut Vec<u8>)) {
        self.0.push(tag);
        let at = self.0.len();
        self.0.extend([0; 4]);
        fill(&mut self.0);
        let length = u32::try_from(self.0.len() - at).expect("an answer of ours has less than 4 GiB");
        self.0[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// Appends a message without contents.
    pub fn bare(&mut self, tag: u8) {
        self.message(tag, |_| {});
    }

    /// Appends an authentication request or answer of that kind.
    pub fn authentication(&mut self, kind: i32, data: &[u8]) {
        self.message(b'R', |body| {
            body.extend(kind.to_be_bytes());
            body.extend(data);
        });
    }

    pub fn parameter(&mut self, name: &str, value: &str) {
        self.message(b'S', |body| texts(body, &[name, value]));
    }

    /// Appends ReadyForQuery: `I` outside a transaction, `T` within one, `E` within one that has failed.
    pub fn ready(&mut self, status: u8) {
        self.message(b'Z', |body| body.push(status));
    }

    /// Appends CommandComplete, the end of a statement's answer.
    pub fn complete(&mut self, tag: &str) {
        self.message(b'C', |body| texts(body, &[tag]));
    }

    /// Appends an error (`ERROR`, `FATAL`) or, with tag `N`, a notice.
    pub fn report(&mut self, tag: u8, severity: &str, code: &str, message: &str, hint: Option<&str>) {
        self.message(tag, |body| {
            for (field, text) in [(b'S', severity), (b'V', severity), (b'C', code), (b'M', message)] {
                body.push(field);
                texts(body, &[text]);
            }
            if let Some(hint) = hint {
                body.push(b'H');
                texts(body, &[hint]);
            }
            body.push(0);
        });
    }
}

/// Appends texts, each terminated by a zero byte; zero bytes within are dropped.
pub fn texts(body: &mut Vec<u8>, texts: &[&str]) {
    for text in texts {
        body.extend(text.bytes().filter(|byte| *byte != 0));
        body.push(0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_are_bounded_before_they_are_waited_for() {
        assert_eq!(first_message(b"", 100), Ok(None));
        assert_eq!(first_message(b"Q\0\0\0", 100), Ok(None));
        assert_eq!(first_message(b"Q\0\0\0\x08ab", 100), Ok(None));
        assert_eq!(first_message(b"Q\0\0\0\x06abX", 100), Ok(Some((Message { tag: b'Q', body: b"ab" }, 7))));
        for wrong in [b"p\0\0\0\x03", b"p\xff\xff\xff\xff", b"p\x7f\xff\xff\xff", b"p\0\0\0\x65"] {
            assert!(first_message(wrong, 100).is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..64), most in 4usize..100) {
            if let Ok(Some((message, length))) = first_message(&bytes, most) {
                prop_assert!(length <= bytes.len() && message.body.len() + 5 == length);
                let mut fields = Fields(message.body);
                while fields.text().is_some() && fields.count().is_some() && fields.int().is_some() {}
            }
        }
    }
}
