//! What a transaction has asked and been answered, so that it can be run again and compared.

use std::collections::BTreeMap;
use std::ops::Range;

use plimsoll_policy::Unsafe;
use sha2::{Digest, Sha256};

use super::frames::{HEAD_BYTES, Head, text};

/// Buffers that have grown beyond this are given back when a transaction ends.
const KEPT_BYTES: usize = 16 * 1024;

/// How many names of statements prepared within a transaction are kept; more make it unsafe to run again.
const NAMES_MAX: usize = 100;

/// A hash of an answer.
pub type AnswerHash = [u8; 32];

/// What a transaction has asked and been answered.
#[derive(Debug, Default)]
pub struct Recording {
    /// What the client has sent since the transaction began.
    bytes: Vec<u8>,
    /// Units that were answered, in order.
    units: Vec<RecordedUnit>,
    /// The answer to the unit in flight so far.
    answer: Sha256,
    /// How many bytes of it were hashed.
    answer_bytes: u64,
    /// Statements that were prepared by name since the transaction began.
    prepared: Vec<Box<[u8]>>,
    /// Why it may not be run again.
    pub unsafe_because: Option<Unsafe>,
    /// How much was sent, more than may be kept included.
    sent_bytes: u64,
}

/// A unit that was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RecordedUnit {
    /// Where its last byte is.
    end: usize,
    answer: AnswerHash,
    status: u8,
}

impl Recording {
    /// Forgets everything: another transaction begins.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.units.clear();
        self.prepared.clear();
        self.restart_answer();
        (self.unsafe_because, self.sent_bytes) = (None, 0);
    }

    /// Keeps what the client has sent, unless that is more than `bytes_max` in all.
    pub fn sent(&mut self, bytes: &[u8], bytes_max: usize) {
        self.sent_bytes += bytes.len() as u64;
        if self.sent_bytes > bytes_max as u64 {
            self.bytes = Vec::new();
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Something was asked that may not be asked twice; the first such thing is kept.
    pub fn is_unsafe(&mut self, because: Unsafe) {
        self.unsafe_because.get_or_insert(because);
    }

    /// A statement was prepared by name.
    pub fn prepared(&mut self, name: &[u8]) {
        if self.prepared.len() == NAMES_MAX {
            self.is_unsafe(Unsafe::PreparedStatement);
        } else {
            self.prepared.push(name.into());
        }
    }

    /// A prepared statement was closed: if it is older than the transaction it would be missing the second time.
    pub fn closed(&mut self, name: &[u8]) {
        match self.prepared.iter().position(|known| **known == *name) {
            // It stays in the list: closing what is not there is no error.
            Some(_) => {}
            None => self.is_unsafe(Unsafe::PreparedStatement),
        }
    }

    /// The statements that were prepared by name.
    pub fn prepared_names(&self) -> &[Box<[u8]>] {
        &self.prepared
    }

    /// The statements that were prepared by name and not closed since: name and `Parse`.
    pub fn parses(&self) -> BTreeMap<&[u8], &[u8]> {
        let mut parses = BTreeMap::new();
        let mut rest = &self.bytes[..];
        while let Ok(Some(head)) = Head::read(rest)
            && let Some(message) = rest.get(..head.bytes)
        {
            rest = &rest[head.bytes..];
            let body = &message[HEAD_BYTES..];
            match (head.tag, body.split_first()) {
                (b'P', _) => {
                    if let Some((name, _)) = text(body).filter(|(name, _)| !name.is_empty()) {
                        parses.insert(name, message);
                    }
                }
                (b'C', Some((b'S', rest))) => {
                    if let Some((name, _)) = text(rest) {
                        parses.remove(name);
                    }
                }
                _ => {}
            }
        }
        parses
    }

    /// Part of the answer to the unit in flight.
    pub fn answered(&mut self, bytes: &[u8]) {
        self.answer.update(bytes);
        self.answer_bytes += bytes.len() as u64;
    }

    /// The answer to the unit in flight is complete.
    pub fn unit_answered(&mut self, status: u8) {
        let answer = self.restart_answer();
        let end = self.bytes.len();
        self.units.push(RecordedUnit { end, answer, status });
    }

    /// How many units were answered.
    pub fn unit_count(&self) -> usize {
        self.units.len()
    }

    /// How many bytes were sent; none of them is kept if they are more than may be.
    pub fn len(&self) -> u64 {
        self.sent_bytes
    }

    /// Where the unit of that place lies among the bytes; the unit in flight comes after the last that was answered.
    pub fn unit_range(&self, unit: usize) -> Range<usize> {
        let begin = unit.checked_sub(1).map_or(0, |before| self.units[before].end);
        begin..self.units.get(unit).map_or(self.bytes.len(), |unit| unit.end)
    }

    /// Some of the bytes.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// What the unit's answer was, and the status after it.
    pub fn unit_answer(&self, unit: usize) -> (AnswerHash, u8) {
        (self.units[unit].answer, self.units[unit].status)
    }

    /// What has come of the answer to the unit in flight: how many bytes, and their hash.
    pub fn answer_so_far(&self) -> (u64, AnswerHash) {
        (self.answer_bytes, self.answer.clone().finalize().into())
    }

    /// Begins a new answer, and returns the hash of the one before.
    pub fn restart_answer(&mut self) -> AnswerHash {
        self.answer_bytes = 0;
        self.answer.finalize_reset().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_where_they_were_and_their_answers_what_they_were() {
        let mut recording = Recording::default();
        recording.sent(b"begin", 100);
        recording.answered(b"ok");
        recording.unit_answered(b'T');
        recording.sent(b"sel", 100);
        recording.sent(b"ect", 100);
        recording.answered(b"a ");
        recording.answered(b"row");
        recording.unit_answered(b'T');
        recording.sent(b"update", 100);
        recording.answered(b"half");
        assert_eq!(recording.unit_count(), 2);
        let texts: Vec<&[u8]> = (0..3).map(|unit| recording.bytes(recording.unit_range(unit))).collect();
        assert_eq!(texts, [&b"begin"[..], b"select", b"update"]);
        assert_eq!(recording.unit_answer(1), (Sha256::digest(b"a row").into(), b'T'));
        assert_eq!(recording.answer_so_far(), (4, Sha256::digest(b"half").into()));
    }

    #[test]
    fn what_is_too_long_is_not_kept_at_all() {
        let mut recording = Recording::default();
        recording.sent(b"12345678", 10);
        recording.sent(b"123", 10);
        assert_eq!((recording.len(), recording.bytes.len()), (11, 0));
        recording.sent(b"1", 10);
        assert_eq!((recording.len(), recording.bytes.len()), (12, 0));
        recording.clear();
        recording.sent(b"1", 10);
        assert_eq!((recording.len(), recording.bytes.len()), (1, 1));
    }

    #[test]
    fn closing_an_older_statement_is_unsafe_and_one_of_its_own_is_not() {
        let mut recording = Recording::default();
        recording.prepared(b"mine");
        recording.closed(b"mine");
        assert_eq!(recording.unsafe_because, None);
        recording.closed(b"older");
        assert_eq!(recording.unsafe_because, Some(Unsafe::PreparedStatement));
    }
}
