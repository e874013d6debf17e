//! The bytes received from the server, cut into messages in place.

use std::io::{self, ErrorKind, Read};
use std::ops::Range;

use postgres_protocol::message::backend::Header;

/// The initial size of the buffer, enough for the answers of most statements; libpq uses the same.
const BYTES_AT_FIRST: usize = 16 << 10;

/// The longest valid message: nothing in PostgreSQL is longer than a gigabyte.
const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// The bytes of tag and length before each message's body.
pub(super) const HEAD_BYTES: usize = 5;

/// Received bytes that are not yet consumed.
#[derive(Debug)]
pub(super) struct Input {
    bytes: Vec<u8>,
    /// The bytes from `start` to `end` are not yet consumed.
    start: usize,
    end: usize,
}

impl Input {
    pub(super) fn new() -> Self {
        Input { bytes: vec![0; BYTES_AT_FIRST], start: 0, end: 0 }
    }

    /// The next message, head included, as a range of [`bytes`](Input::bytes) that is valid until the next call.
    ///
    /// Memory grows with the received bytes, not with the length that a message claims.
    pub(super) fn message(&mut self, stream: &mut impl Read) -> io::Result<Range<usize>> {
        loop {
            let there = &self.bytes[self.start..self.end];
            if let Some(head) = Header::parse(there)? {
                let length = head.len() as usize + 1;
                if length > MESSAGE_BYTES_MAX {
                    let what = format!("a message of {length} bytes, tag {:?}", char::from(head.tag()));
                    return Err(io::Error::new(ErrorKind::InvalidData, what));
                }
                if there.len() >= length {
                    let message = self.start..self.start + length;
                    self.start += length;
                    return Ok(message);
                }
            }
            self.fill(stream)?;
        }
    }

    /// The bytes that ranges refer to.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Reads once, as many bytes as are available.
    fn fill(&mut self, stream: &mut impl Read) -> io::Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.bytes.len() && self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.bytes.len() {
            self.bytes.resize(self.bytes.len() * 2, 0);
        }
        loop {
            match stream.read(&mut self.bytes[self.end..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.end += count;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Hands out bytes in pieces.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.0.len().min(self.1).min(buffer.len());
            let (now, later) = self.0.split_at(count);
            buffer[..count].copy_from_slice(now);
            self.0 = later;
            Ok(count)
        }
    }

    proptest! {
        #[test]
        fn messages_are_the_same_however_they_are_cut(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9_000), 1..12), piece in 1_usize..20_000,
        ) {
            let mut sent = Vec::new();
            for body in &bodies {
                sent.push(b'D');
                sent.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
                sent.extend_from_slice(body);
            }
            let (mut input, mut stream) = (Input::new(), Pieces(&sent, piece));
            for body in &bodies {
                let message = input.message(&mut stream).expect("it was sent");
                prop_assert_eq!(&input.bytes()[message][HEAD_BYTES..], body.as_slice());
            }
            prop_assert_eq!(input.start, input.end);
            prop_assert_eq!(input.message(&mut stream).expect_err("no more").kind(), ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn lengths_that_cannot_be_are_refused_before_memory_is_taken() {
        for length in [0_u32, 3, 1 << 30, u32::MAX] {
            let mut bytes = vec![b'D'];
            bytes.extend_from_slice(&length.to_be_bytes());
            let mut input = Input::new();
            let error = input.message(&mut Pieces(&bytes, 100)).expect_err("impossible");
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{length}: {error}");
            assert_eq!(input.bytes.len(), BYTES_AT_FIRST);
        }
    }
}
