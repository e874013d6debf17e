//! The answer to a unit, as it arrives.

use plimsoll_notation::sql::TextRules;

use crate::event::{ANSWER_BEGIN_MAX, Answer};
use crate::messages::{Body, HEAD_BYTES, length};
use crate::row_checksum::RowChecksum;

/// As much is kept of a message that is read as a whole: the SQLSTATE of an error stands at its beginning.
const BODY_MAX: usize = 1024;

/// The answer that is arriving.
#[derive(Debug, Default)]
pub(super) struct Hearing {
    answer: Answer,
    /// How many copies it has begun.
    copies: u32,
    /// The message that is arriving.
    tag: u8,
    /// The beginning of its body, if it is read.
    body: Vec<u8>,
    row: RowChecksum,
    /// It is kept for the beginning of the answer.
    is_kept: bool,
    /// The beginning of the answer has ended.
    is_full: bool,
}

impl Hearing {
    pub(super) fn begin(&mut self, head: &[u8; HEAD_BYTES]) {
        let bytes = length(head).unwrap_or(HEAD_BYTES);
        self.tag = head[0];
        self.body.clear();
        if matches!(self.tag, b'N' | b'A' | b'S') {
            return;
        }
        self.answer.bytes += bytes as u64;
        if self.tag == b'D' {
            self.answer.rows += 1;
            self.row = RowChecksum::default();
        }
        self.is_kept = matches!(self.tag, b'T' | b't' | b'D') && !self.is_full;
        if self.is_kept && self.answer.begin.len() + bytes > ANSWER_BEGIN_MAX {
            (self.is_kept, self.is_full) = (false, true);
        }
        if self.is_kept {
            self.answer.begin.extend_from_slice(head);
        }
    }

    pub(super) fn hear(&mut self, body: &[u8]) {
        if self.is_kept {
            self.answer.begin.extend_from_slice(body);
        }
        match self.tag {
            b'D' => self.row.update(body),
            b'C' | b'E' | b'Z' | b'S' => {
                let room = BODY_MAX - self.body.len();
                self.body.extend_from_slice(&body[..body.len().min(room)]);
            }
            _ => {}
        }
    }

    pub(super) fn end(&mut self, tag: u8) {
        self.is_kept = false;
        match tag {
            b'D' => self.answer.checksum = self.answer.checksum.wrapping_add(self.row.finish()),
            b'C' => {
                let tag = Body(&self.body).text().unwrap_or(&self.body);
                self.answer.tags.push(String::from_utf8_lossy(tag).into_owned());
            }
            b'E' if self.answer.error.is_none() => self.answer.error = sqlstate(&self.body),
            b'Z' => self.answer.state = self.body.first().copied().unwrap_or(0),
            _ => {}
        }
    }

    /// The answer is complete, or will not be.
    pub(super) fn take(&mut self) -> Answer {
        (self.copies, self.is_full) = (0, false);
        std::mem::take(&mut self.answer)
    }

    /// The server begins to take in a copy; returns how many the answer has begun.
    pub(super) fn begin_copy(&mut self) -> u32 {
        self.copies += 1;
        self.copies
    }

    /// A parameter has a new value, which may change how texts are read.
    pub(super) fn sets(&self, rules: &mut TextRules) {
        let mut body = Body(&self.body);
        if let (Some(name), Some(value)) = (body.text(), body.text()) {
            rules.on_parameter(name, value);
        }
    }
}

/// The SQLSTATE in the body of an `ErrorResponse`.
fn sqlstate(body: &[u8]) -> Option<String> {
    let mut body = Body(body);
    loop {
        let kind = body.bytes(1)?[0];
        let text = body.text()?;
        if kind == b'C' {
            return Some(String::from_utf8_lossy(text).into_owned());
        }
    }
}
