//! Copied data with other values.
//!
//! The format of a copy is not part of its data, except that binary data begin with a signature. Of texts and CSV, each run
//! of characters between delimiters, quotes and escapes is a value. A value that a client has cut between two messages is
//! hashed in two parts.

use super::values::{BYTES, Key, hashed};

const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

/// Where in its data a copy is.
#[derive(Debug, Default, Clone)]
pub(super) struct CopyRedaction {
    has_begun: bool,
    binary: Option<Binary>,
}

/// The place within binary data.
#[derive(Debug, Clone)]
struct Binary {
    /// The bytes of the field that is arriving: a length or a count, not yet complete.
    head: Vec<u8>,
    next: Next,
}

#[derive(Debug, Clone, Copy)]
enum Next {
    /// So many bytes that stay: the signature and the flags.
    Skip(usize),
    /// The length of the extension of the header.
    Extension,
    /// The count of fields of a row.
    Count,
    /// The length of a field; this many fields are still to come.
    Length(usize),
    /// The rest of a field in bytes, and the number of fields behind it.
    Value(usize, usize),
}

impl CopyRedaction {
    /// The data of a message with other values, of the same length.
    pub(super) fn redacted(&mut self, data: &[u8], key: &Key) -> Vec<u8> {
        if !self.has_begun && data.starts_with(SIGNATURE) {
            self.binary = Some(Binary { head: Vec::new(), next: Next::Skip(SIGNATURE.len() + 4) });
        }
        self.has_begun = true;
        match &mut self.binary {
            Some(binary) => binary.redacted(data, key),
            None => redacted_text(data, key),
        }
    }
}

fn redacted_text(data: &[u8], key: &Key) -> Vec<u8> {
    let is_mark = |byte: u8| matches!(byte, b'\t' | b'\n' | b'\r' | b',' | b';' | b'|' | b'"' | b'\\');
    let mut redacted = Vec::with_capacity(data.len());
    while let Some(&first) = data.get(redacted.len()) {
        let rest = &data[redacted.len()..];
        if first == b'\\' {
            // `\N`, and escapes.
            redacted.extend_from_slice(&rest[..rest.len().min(2)]);
        } else if is_mark(first) {
            redacted.push(first);
        } else {
            let length = rest.iter().position(|byte| is_mark(*byte)).unwrap_or(rest.len());
            redacted.extend(hashed(&rest[..length], key));
        }
    }
    redacted
}

impl Binary {
    fn redacted(&mut self, mut data: &[u8], key: &Key) -> Vec<u8> {
        let mut redacted = Vec::with_capacity(data.len());
        while !data.is_empty() {
            match self.next {
                Next::Skip(left) => {
                    let (part, rest) = data.split_at(left.min(data.len()));
                    redacted.extend_from_slice(part);
                    data = rest;
                    self.next = if part.len() == left { Next::Extension } else { Next::Skip(left - part.len()) };
                }
                Next::Value(left, behind) => {
                    let (part, rest) = data.split_at(left.min(data.len()));
                    let mut value = vec![0; part.len()];
                    key.stream(BYTES, part).fill(&mut value);
                    // Letters: bytes that are valid in any text and any number.
                    redacted.extend(value.iter().map(|byte| b'a' + byte % 16));
                    data = rest;
                    self.next = match left - part.len() {
                        0 => after_value(behind),
                        left => Next::Value(left, behind),
                    };
                }
                _ => data = self.head(data, &mut redacted),
            }
        }
        redacted
    }

    /// Reads a count or a length, which stays.
    fn head<'a>(&mut self, data: &'a [u8], redacted: &mut Vec<u8>) -> &'a [u8] {
        let wanted = if matches!(self.next, Next::Count) { 2 } else { 4 };
        let (part, rest) = data.split_at((wanted - self.head.len()).min(data.len()));
        redacted.extend_from_slice(part);
        self.head.extend_from_slice(part);
        if self.head.len() == wanted {
            let number = self.head.drain(..).fold(0u32, |number, byte| number << 8 | u32::from(byte));
            self.next = match self.next {
                Next::Count => after_value(if number == 0xffff { 0 } else { number as usize }),
                Next::Length(behind) if number as i32 <= 0 => after_value(behind - 1),
                Next::Length(behind) => Next::Value(number as usize, behind - 1),
                _ if number == 0 => Next::Count,
                // The extension of a header that no program writes.
                _ => Next::Value(number as usize, 0),
            };
        }
        rest
    }
}

fn after_value(behind: usize) -> Next {
    if behind == 0 { Next::Count } else { Next::Length(behind) }
}
