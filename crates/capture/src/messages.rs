//! The messages of a unit: a byte for the kind, the length, the body.

/// The kind and the length of a message.
pub(crate) const HEAD_BYTES: usize = 5;

/// A message of a request or an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its kind, such as `Q` for a query.
    pub tag: u8,
    /// Its body, without the length.
    pub body: &'a [u8],
}

/// The whole messages in these bytes, in order. What follows the last is left out.
#[derive(Debug, Clone)]
pub struct Messages<'a>(pub &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let head = self.0.first_chunk::<HEAD_BYTES>()?;
        let (message, rest) = self.0.split_at_checked(length(head)?)?;
        self.0 = rest;
        Some(Message { tag: message[0], body: &message[HEAD_BYTES..] })
    }
}

/// The length of the message with that head, head included; `None` if it is impossible.
pub(crate) fn length(head: &[u8; HEAD_BYTES]) -> Option<usize> {
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    (4..=0x3fff_ffff).contains(&length).then_some(length + 1)
}

/// Appends a message.
pub(crate) fn put(tag: u8, body: &[u8], to: &mut Vec<u8>) {
    to.push(tag);
    to.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    to.extend_from_slice(body);
}

/// The fields of a body that have not been read.
#[derive(Debug, Clone)]
pub struct Body<'a>(pub &'a [u8]);

impl<'a> Body<'a> {
    /// A text up to its zero.
    pub fn text(&mut self) -> Option<&'a [u8]> {
        let end = memchr::memchr(0, self.0)?;
        let (text, rest) = (&self.0[..end], &self.0[end + 1..]);
        self.0 = rest;
        Some(text)
    }

    /// That many bytes.
    pub fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// A count of 16 bits.
    pub fn count(&mut self) -> Option<usize> {
        let bytes = self.bytes(2)?;
        Some(usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
    }

    /// A number of 32 bits.
    pub fn number(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.bytes(4)?.try_into().ok()?))
    }

    /// A value with its length; the inner `None` is NULL.
    pub fn value(&mut self) -> Option<Option<&'a [u8]>> {
        match self.number()? as i32 {
            length if length < 0 => Some(None),
            length => self.bytes(length as usize).map(Some),
        }
    }

    /// A list of 16-bit numbers with its count.
    pub fn counts(&mut self) -> Option<Vec<usize>> {
        let count = self.count()?;
        (0..count).map(|_| self.count()).collect()
    }

    /// A list of values with its count.
    pub fn values(&mut self) -> Option<Vec<Option<&'a [u8]>>> {
        let count = self.count()?;
        (0..count).map(|_| self.value()).collect()
    }
}

/// A `Parse`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parse<'a> {
    /// The name of the statement.
    pub name: &'a [u8],
    /// Its text.
    pub sql: &'a [u8],
    /// The types of its first parameters; 0 for one that the server is to find out.
    pub types: Vec<u32>,
}

impl<'a> Parse<'a> {
    /// Reads the body of the message.
    pub fn read(body: &'a [u8]) -> Option<Self> {
        let mut body = Body(body);
        let (name, sql) = (body.text()?, body.text()?);
        let count = body.count()?;
        let types = (0..count).map(|_| body.number()).collect::<Option<_>>()?;
        Some(Parse { name, sql, types })
    }
}

/// A `Bind`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind<'a> {
    /// The name of the portal.
    pub portal: &'a [u8],
    /// The name of the statement.
    pub statement: &'a [u8],
    /// The formats of the values: none if all are texts, one for all, or one each.
    pub formats: Vec<usize>,
    /// The values.
    pub values: Vec<Option<&'a [u8]>>,
    /// The formats of the columns of the answer.
    pub answers: Vec<usize>,
}

impl<'a> Bind<'a> {
    /// Reads the body of the message.
    pub fn read(body: &'a [u8]) -> Option<Self> {
        let mut body = Body(body);
        Some(Bind {
            portal: body.text()?,
            statement: body.text()?,
            formats: body.counts()?,
            values: body.values()?,
            answers: body.counts()?,
        })
    }

    /// Whether the value at that place is in binary form.
    pub fn is_binary(&self, place: usize) -> bool {
        format_at(&self.formats, place) == 1
    }
}

/// The format at a place of a list that may have one entry for all.
pub(crate) fn format_at(formats: &[usize], place: usize) -> usize {
    match formats {
        [] => 0,
        [all] => *all,
        _ => formats.get(place).copied().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_messages_are_read_and_their_fields() {
        let mut bytes = Vec::new();
        put(b'P', b"s\0select $1\0\0\x01\0\0\0\x17", &mut bytes);
        put(b'B', b"\0s\0\0\x01\0\x01\0\x02\0\0\0\x04\0\0\0\x07\xff\xff\xff\xff\0\0", &mut bytes);
        put(b'S', b"", &mut bytes);
        let all: Vec<Message<'_>> = Messages(&bytes).collect();
        assert_eq!(all.iter().map(|message| message.tag).collect::<Vec<_>>(), *b"PBS");
        let parse = Parse::read(all[0].body).expect("a Parse");
        assert_eq!((parse.name, parse.sql, &parse.types[..]), (&b"s"[..], &b"select $1"[..], &[23][..]));
        let bind = Bind::read(all[1].body).expect("a Bind");
        assert_eq!((bind.statement, &bind.values[..]), (&b"s"[..], &[Some(&[0, 0, 0, 7][..]), None][..]));
        assert!(bind.is_binary(1));
        assert_eq!(Messages(&bytes[..bytes.len() - 1]).count(), 2);
        assert_eq!(Messages(b"Q\0\0\0\x03").count(), 0);
        assert_eq!(Bind::read(b"\0s\0\0\x01"), None);
    }
}
