//! The requests and answers of a transaction, so that it can be run again and compared.

use std::collections::BTreeSet;
use std::ops::Range;

use sha2::{Digest, Sha256};

use super::frames::{Frontend, HEAD_BYTES, Head, Status, text};
use crate::statement::name::stored;

/// Buffers larger than this are freed when a transaction ends.
const KEPT_BYTES: usize = 16 * 1024;

/// How many names of statements prepared within a transaction are kept.
const NAMES_MAX: usize = 100;

pub type AnswerHash = [u8; 32];

/// The requests of a transaction and their answers.
#[derive(Debug, Default)]
pub struct Recording {
    /// The client's bytes since the transaction began.
    bytes: Vec<u8>,
    /// Answered units, in order.
    units: Vec<RecordedUnit>,
    /// The answer to the unit in flight so far.
    answer: Sha256,
    /// How many bytes of the answer were hashed.
    answer_bytes: u64,
    /// Statements that the server has prepared by name since the transaction began, and their messages' positions;
    /// `None` for those that were closed again.
    prepared: Vec<Prepared>,
    /// How many bytes a complete recording would have.
    size: u64,
    /// The recording exceeded its limit, or is useless: nothing more is recorded.
    is_abandoned: bool,
}

/// The name of a prepared statement and its message's position.
type Prepared = (Box<[u8]>, Option<Range<usize>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct RecordedUnit {
    /// The position of its end.
    end: usize,
    answer: AnswerHash,
    status: Status,
}

/// A prepared statement older than its transaction was closed, or more were prepared than are kept: a replay would lack
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost;

impl Recording {
    pub fn clear(&mut self) {
        self.abandon();
        (self.size, self.is_abandoned) = (0, false);
    }

    /// Discards the recording of this transaction.
    pub fn abandon(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.units.clear();
        self.units.shrink_to(KEPT_BYTES / size_of::<RecordedUnit>());
        self.prepared.clear();
        self.forget_answer();
        self.is_abandoned = true;
    }

    /// Records the client's bytes, unless the recording would exceed `size_max`.
    pub fn sent(&mut self, bytes: &[u8], size_max: usize) {
        self.grow(bytes.len(), size_max);
        if !self.is_abandoned {
            self.bytes.extend_from_slice(bytes);
        }
    }

    fn grow(&mut self, by: usize, size_max: usize) {
        self.size += by as u64;
        if self.size > size_max as u64 && !self.is_abandoned {
            self.abandon();
        }
    }

    /// How many bytes a complete recording would have.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The position of the next byte.
    pub fn end(&self) -> usize {
        self.bytes.len()
    }

    /// The server has prepared a statement by name.
    pub fn prepared(&mut self, name: &[u8], message: Range<usize>) -> Result<(), Lost> {
        if self.is_abandoned {
            return Ok(());
        }
        match self.prepared.iter().position(|(known, _)| **known == *name) {
            Some(place) => self.prepared[place].1 = Some(message),
            None if self.prepared.len() == NAMES_MAX => return Err(Lost),
            None => self.prepared.push((name.into(), Some(message))),
        }
        Ok(())
    }

    /// Whether a statement may be closed: one that is older than the transaction would be missing in a replay.
    pub fn may_close(&self, name: &[u8]) -> Result<(), Lost> {
        let is_own = self.is_abandoned || self.prepared.iter().any(|(known, _)| **known == *name);
        if is_own { Ok(()) } else { Err(Lost) }
    }

    /// The server has closed a prepared statement.
    pub fn closed(&mut self, name: &[u8]) -> Result<(), Lost> {
        if self.is_abandoned {
            return Ok(());
        }
        // It stays in the list: closing a statement that does not exist is not an error.
        let known = self.prepared.iter_mut().find(|(known, _)| **known == *name);
        known.map(|(_, place)| *place = None).ok_or(Lost)
    }

    /// The statements that the server has prepared by name, including those closed again.
    pub(crate) fn prepared_names(&self) -> impl Iterator<Item = &[u8]> {
        self.prepared.iter().map(|(name, _)| &**name)
    }

    /// The statements that the server has prepared by name and not closed since: name and `Parse`.
    pub fn parses(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let message = |place: &Option<Range<usize>>| self.bytes.get(place.clone()?);
        self.prepared.iter().filter_map(move |(name, place)| Some((&**name, message(place)?)))
    }

    /// Adds to the answer to the unit in flight.
    pub fn answered(&mut self, bytes: &[u8]) {
        if !self.is_abandoned {
            self.answer.update(bytes);
            self.answer_bytes += bytes.len() as u64;
        }
    }

    /// The answer to the unit in flight is complete.
    pub(crate) fn unit_answered(&mut self, status: Status, size_max: usize) {
        self.grow(size_of::<RecordedUnit>(), size_max);
        if !self.is_abandoned {
            let answer = self.restart_answer();
            let end = self.bytes.len();
            self.units.push(RecordedUnit { end, answer, status });
        }
    }

    pub fn unit_count(&self) -> usize {
        self.units.len()
    }

    /// The byte range of the unit with that index; the unit in flight comes after the last that was answered.
    pub(crate) fn unit_range(&self, unit: usize) -> Range<usize> {
        let begin = unit.checked_sub(1).map_or(0, |before| self.units[before].end);
        begin..self.units.get(unit).map_or(self.bytes.len(), |unit| unit.end)
    }

    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// The hash of the unit's answer, and the status after it.
    pub(crate) fn unit_answer(&self, unit: usize) -> (AnswerHash, Status) {
        (self.units[unit].answer, self.units[unit].status)
    }

    /// The answer to the unit in flight so far: its length in bytes and its hash.
    pub(crate) fn answer_so_far(&self) -> (u64, AnswerHash) {
        (self.answer_bytes, self.answer.clone().finalize().into())
    }

    /// Begins a new answer.
    fn forget_answer(&mut self) {
        if std::mem::take(&mut self.answer_bytes) > 0 {
            self.answer = Sha256::new();
        }
    }

    /// Begins a new answer, and returns the hash of the previous one.
    pub(crate) fn restart_answer(&mut self) -> AnswerHash {
        self.answer_bytes = 0;
        self.answer.finalize_reset().into()
    }

    /// The texts of all requests: of those that have run, and of the unit in flight if that has failed as a whole; otherwise it
    /// counts among the former.
    pub(crate) fn texts(&self, has_failed: bool) -> (impl Iterator<Item = &[u8]>, impl Iterator<Item = &[u8]>) {
        let answered = self.units.last().map_or(0, |unit| unit.end);
        let (run, unfinished) = self.bytes.split_at(if has_failed { answered } else { self.bytes.len() });
        (texts(run), texts(unfinished))
    }

    /// The prepared statements that were bound in this transaction and prepared before it.
    pub(crate) fn older_statements(&self) -> BTreeSet<&[u8]> {
        let is_older = |name: &[u8]| !name.is_empty() && self.prepared.iter().all(|(known, _)| **known != *name);
        let (answered, in_flight) = self.bytes.split_at(self.units.last().map_or(0, |unit| unit.end));
        let mut names: BTreeSet<&[u8]> = messages(answered).filter_map(bound).filter(|name| is_older(name)).collect();
        // What the unit in flight prepares, it prepares again: a cancel may have met the Parse.
        let mut parsed = BTreeSet::new();
        for (ask, body) in messages(in_flight) {
            if ask == Frontend::Parse {
                parsed.extend(text(body).and_then(|(name, _)| stored(name)));
            }
            names.extend(bound((ask, body)).filter(|name| is_older(name) && !parsed.contains(name)));
        }
        names
    }
}

/// The texts among recorded messages.
fn texts(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    messages(bytes).filter_map(|(ask, body)| match ask {
        Frontend::Query => Some(text(body)?.0),
        Frontend::Parse => Some(text(text(body)?.1)?.0),
        _ => None,
    })
}

/// The statement that a Bind names. The transaction that binds a name which the server may cut anywhere is unsafe already.
fn bound((ask, body): (Frontend, &[u8])) -> Option<&[u8]> {
    if ask == Frontend::Bind { stored(text(text(body)?.1)?.0) } else { None }
}

/// The recorded messages with their bodies.
fn messages(mut rest: &[u8]) -> impl Iterator<Item = (Frontend, &[u8])> {
    std::iter::from_fn(move || {
        let head = Head::read(rest).ok()??;
        let body = rest.get(HEAD_BYTES..head.bytes)?;
        rest = &rest[head.bytes..];
        Some((Frontend::of(head.tag), body))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: usize = size_of::<RecordedUnit>();

    #[test]
    fn units_are_where_they_were_and_their_answers_what_they_were() {
        let mut recording = Recording::default();
        recording.sent(b"begin", 1000);
        recording.answered(b"ok");
        recording.unit_answered(Status::Block, 1000);
        recording.sent(b"sel", 1000);
        recording.sent(b"ect", 1000);
        recording.answered(b"a ");
        recording.answered(b"row");
        recording.unit_answered(Status::Block, 1000);
        recording.sent(b"update", 1000);
        recording.answered(b"half");
        assert_eq!(recording.unit_count(), 2);
        let texts: Vec<&[u8]> = (0..3).map(|unit| recording.bytes(recording.unit_range(unit))).collect();
        assert_eq!(texts, [&b"begin"[..], b"select", b"update"]);
        assert_eq!(recording.unit_answer(1), (Sha256::digest(b"a row").into(), Status::Block));
        assert_eq!(recording.answer_so_far(), (4, Sha256::digest(b"half").into()));
    }

    #[test]
    fn what_is_too_long_is_not_kept_at_all() {
        let mut recording = Recording::default();
        recording.sent(b"12345678", 10);
        recording.sent(b"123", 10);
        assert_eq!((recording.size(), recording.bytes.len()), (11, 0));
        recording.sent(b"1", 10);
        assert_eq!((recording.size(), recording.bytes.len()), (12, 0));
        recording.clear();
        recording.sent(b"1", 10);
        assert_eq!((recording.size(), recording.bytes.len()), (1, 1));
    }

    /// A transaction of a hundred million short statements once occupied 48 bytes for each of them, regardless of
    /// `replay_bytes_max`.
    #[test]
    fn units_count_towards_what_is_kept() {
        let mut recording = Recording::default();
        (0..10).for_each(|_| recording.unit_answered(Status::Block, 10 * UNIT));
        assert_eq!(recording.unit_count(), 10);
        (0..10).for_each(|_| recording.unit_answered(Status::Block, 10 * UNIT));
        assert_eq!((recording.unit_count(), recording.size()), (0, 20 * UNIT as u64));
    }

    #[test]
    fn closing_an_older_statement_is_a_loss_and_one_of_its_own_is_not() {
        let mut recording = Recording::default();
        assert_eq!(recording.prepared(b"mine", 0..0), Ok(()));
        assert_eq!(recording.closed(b"mine"), Ok(()));
        assert_eq!(recording.closed(b"older"), Err(Lost));
        assert_eq!(recording.prepared_names().collect::<Vec<_>>(), [b"mine"]);
        assert_eq!(recording.parses().count(), 0);
    }
}
