//! Facts about prepared statements: the class that their text asks for, and the effects of running them.
//!
//! A statement is prepared when the server confirms it, not when its client asks: the server refuses a `Parse` of an
//! existing name, and the older statement is unchanged. Until the answer arrives, a statement of that name counts as
//! the worse of both.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use plimsoll_policy::{ClassIndex, Unsafe};

use super::Session;
use super::frames::text;
use super::message::Message;
use super::residue::Leaves;
use crate::effects::TextKey;
use crate::registry::ChosenBy;
use crate::statement::name::stored;
use crate::statement::strong_lock::StrongLock;
use crate::statement::{self, End};

/// How many bytes of statements are remembered; the worst is assumed of all others.
const NOTES_BYTES_MAX: usize = 256 << 10;

/// The same of a pooled session, which keeps the texts, most of them shared with other sessions.
const POOLED_BYTES_MAX: usize = 4 << 20;

/// How many bytes of changes may be waiting for confirmation.
const PENDING_BYTES_MAX: usize = 2 << 20;

/// What running a statement means for its transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Note {
    /// The class that its text asks for, if a transaction begins with it.
    pub class: Option<(ClassIndex, ChosenBy)>,
    /// Its text has a tag that gave it no class.
    pub has_refused_tag: bool,
    pub begins: bool,
    /// It is only a BEGIN.
    pub is_bare_begin: bool,
    /// It ends the transaction, or may: see `is_unread`.
    pub may_end: bool,
    /// It may end the transaction only because its text is not known; the server's answer will tell.
    pub is_unread: bool,
    /// How it ends the transaction, if it is one statement that does nothing else.
    pub ends: Option<End>,
    /// It ends the transaction and begins another like it.
    pub chains: bool,
    /// It rolls back to a savepoint, or releases one.
    pub uses_savepoint: bool,
    /// It may change the code that later statements run.
    pub changes_code: bool,
    /// It may change how long the server waits for its client.
    pub changes_patience: bool,
    /// It may change how later texts are read.
    pub changes_rules: bool,
    /// Why it may not be run twice.
    pub unsafe_because: Option<Unsafe>,
    /// It takes or releases an advisory lock.
    pub takes_advisory_lock: bool,
    /// It needs a lock that stops readers or writers.
    pub(crate) strong_lock: Option<StrongLock>,
    /// Cursors and prepared statements that it names.
    pub names: Option<Arc<Names>>,
    /// What is foreseen of its text, if that may be looked up.
    pub key: Option<TextKey>,
    /// What it leaves in a pooled session.
    pub(super) leaves: Option<Arc<Leaves>>,
}

/// Cursors and prepared statements that a statement names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    pub declares: Vec<Box<[u8]>>,
    /// Cursors that it moves or closes.
    pub moves: Vec<Box<[u8]>>,
    pub executes: Vec<Box<[u8]>>,
}

impl Note {
    /// Assumed of a statement whose text was not read.
    pub(crate) const UNREAD: &'static Note = &Note {
        class: None,
        has_refused_tag: false,
        begins: false,
        is_bare_begin: false,
        may_end: true,
        is_unread: true,
        ends: None,
        chains: false,
        uses_savepoint: false,
        changes_code: true,
        changes_patience: false,
        changes_rules: true,
        unsafe_because: Some(Unsafe::Unread),
        takes_advisory_lock: false,
        strong_lock: None,
        names: None,
        key: None,
        leaves: None,
    };

    /// Whether it only rolls its transaction back.
    pub fn rolls_back(&self) -> bool {
        self.ends == Some(End::Rollback)
    }

    fn ends_for_sure(&self) -> bool {
        self.may_end && !self.is_unread
    }

    fn bytes(&self) -> usize {
        let of = |names: &[Box<[u8]>]| names.iter().map(|name| size_of::<Box<[u8]>>() + name.len()).sum::<usize>();
        let names = self.names.as_ref().map(|names| of(&names.declares) + of(&names.moves) + of(&names.executes));
        let leaves = self.leaves.as_ref().map_or(0, |leaves| leaves.bytes());
        size_of::<Note>() + names.unwrap_or(0) + leaves
    }

    /// The worse of both.
    fn or(self, other: &Note) -> Note {
        Note {
            class: self.class,
            has_refused_tag: self.has_refused_tag,
            begins: self.begins || other.begins,
            is_bare_begin: self.is_bare_begin && other.is_bare_begin,
            may_end: self.may_end || other.may_end,
            is_unread: (self.is_unread || other.is_unread) && !self.ends_for_sure() && !other.ends_for_sure(),
            ends: self.ends.filter(|ends| other.ends == Some(*ends)),
            chains: self.chains && other.chains,
            uses_savepoint: self.uses_savepoint || other.uses_savepoint,
            changes_code: self.changes_code || other.changes_code,
            changes_patience: self.changes_patience || other.changes_patience,
            changes_rules: self.changes_rules || other.changes_rules,
            unsafe_because: self.unsafe_because.or(other.unsafe_because),
            takes_advisory_lock: self.takes_advisory_lock || other.takes_advisory_lock,
            strong_lock: self.strong_lock.filter(|strong| other.strong_lock == Some(*strong)),
            names: match (self.names, &other.names) {
                (None, names) => names.clone(),
                (names, None) => names,
                (Some(mine), Some(others)) => Some(Arc::new(Names {
                    declares: [&mine.declares[..], &others.declares].concat(),
                    moves: [&mine.moves[..], &others.moves].concat(),
                    executes: [&mine.executes[..], &others.executes].concat(),
                })),
            },
            key: self.key.filter(|key| other.key == Some(*key)),
            leaves: Leaves::either(self.leaves, other.leaves.as_ref()),
        }
    }
}

/// A change that was requested and that the server has not confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// `Parse`: the statement's name, what running it means, and the message's position in the transaction's recording.
    Prepare {
        /// As the server keeps it; empty for the unnamed one.
        name: Box<[u8]>,
        note: Note,
        /// The message's position among the recorded bytes.
        recorded: Range<usize>,
    },
    /// `Parse` or `Close` of a name that is not known: too long to be read, or cut by the server we do not know where.
    PrepareUnknown,
    /// `Close` of a statement.
    Close {
        /// As the server keeps it; empty for the unnamed one.
        name: Box<[u8]>,
    },
    /// `Close` of a portal.
    ClosePortal,
}

impl Change {
    /// The change that a `Close` with that body requests.
    pub(super) fn of_close(body: Option<&[u8]>) -> Change {
        match body.and_then(|body| body.split_first()) {
            Some((b'S', rest)) => match text(rest).and_then(|(name, _)| stored(name)) {
                Some(name) => Change::Close { name: name.into() },
                None => Change::PrepareUnknown,
            },
            _ => Change::ClosePortal,
        }
    }

    fn bytes(&self) -> usize {
        let more = match self {
            Change::Prepare { name, note, .. } => name.len() + note.bytes(),
            Change::Close { name } => name.len(),
            Change::PrepareUnknown | Change::ClosePortal => 0,
        };
        size_of::<(u64, Change)>() + more
    }
}

/// The prepared statements of a session that have a note.
#[derive(Debug, Default)]
pub struct PreparedNotes {
    named: HashMap<Box<[u8]>, Note>,
    unnamed: Note,
    is_overfull: bool,
    /// More changes were waiting for confirmation than can be tracked.
    is_lost: bool,
    /// Requested by units that are not completely answered, oldest first, each with its unit.
    pending: VecDeque<(u64, Change)>,
    /// The bytes of the statements that are remembered, and of the changes that are not confirmed.
    named_bytes: usize,
    pending_bytes: usize,
    /// How many of them the server has confirmed.
    confirmed: usize,
}

impl PreparedNotes {
    /// The given unit requests a change.
    pub fn ask(&mut self, unit: u64, change: Change) {
        self.pending_bytes += change.bytes();
        if self.pending_bytes <= PENDING_BYTES_MAX {
            self.pending.push_back((unit, change));
        } else {
            // From now on it is unknown which change the server confirms, so every statement may be any.
            self.is_lost = true;
            self.named.clear();
            self.pending.clear();
            (self.confirmed, self.named_bytes, self.pending_bytes) = (0, 0, 0);
        }
    }

    /// A `Query` is requested: it discards the unnamed statement, even if it fails.
    pub fn query(&mut self) {
        self.unnamed = Note::UNREAD.clone();
        for (_, change) in self.pending.iter_mut() {
            if let Change::Prepare { name, note, .. } = change
                && name.is_empty()
            {
                self.pending_bytes -= note.bytes();
                *note = Note::UNREAD.clone();
                self.pending_bytes += note.bytes();
            }
        }
    }

    /// The server has carried out the next change, which is returned.
    pub fn confirm(&mut self) -> Option<Change> {
        let (_, change) = self.pending.get(self.confirmed)?.clone();
        self.confirmed += 1;
        match &change {
            Change::Prepare { name, note, .. } => self.prepare(name, note.clone()),
            Change::PrepareUnknown => self.is_overfull = true,
            Change::Close { name } if name.is_empty() => self.unnamed = Note::default(),
            Change::Close { name } => self.forget(name),
            Change::ClosePortal => {}
        }
        Some(change)
    }

    /// Whether a `Parse` of that name, as the server keeps it, has been sent and not confirmed.
    pub fn is_asked_to_prepare(&self, name: &[u8]) -> bool {
        let mut pending = self.pending.iter().skip(self.confirmed);
        pending.any(|(_, change)| matches!(change, Change::Prepare { name: other, .. } if **other == *name))
    }

    /// The unit in flight is sent again from its beginning.
    pub(crate) fn ask_again(&mut self) {
        self.confirmed = 0;
    }

    /// The server has answered the given unit: changes that it did not confirm did not happen.
    pub(crate) fn unit_answered(&mut self, unit: u64) {
        self.confirmed = 0;
        while let Some((_, change)) = self.pending.pop_front_if(|(of, _)| *of <= unit) {
            self.pending_bytes -= change.bytes();
        }
    }

    fn prepare(&mut self, name: &[u8], mut note: Note) {
        if name.is_empty() {
            self.unnamed = note;
            return;
        }
        self.forget(name);
        let bytes = name.len() + note.bytes();
        let bytes_max = if note.leaves.is_some() { POOLED_BYTES_MAX } else { NOTES_BYTES_MAX };
        let has_room = self.named_bytes + bytes <= bytes_max;
        // What is foreseen may be forgotten: it is asked again.
        note.key = note.key.filter(|_| has_room);
        if note == Note::default() {
            return;
        }
        if has_room {
            self.named_bytes += bytes;
            self.named.insert(name.into(), note);
        } else {
            self.is_overfull = true;
        }
    }

    fn forget(&mut self, name: &[u8]) {
        if let Some(note) = self.named.remove(name) {
            self.named_bytes -= name.len() + note.bytes();
        }
    }

    /// What running the statement means, as far as is known.
    pub fn of(&self, name: &[u8]) -> Note {
        let Some(name) = stored(name).filter(|_| !self.is_lost) else { return Note::UNREAD.clone() };
        let unconfirmed = self.pending.iter().skip(self.confirmed).rev();
        let mut pending = unconfirmed.filter_map(|(_, change)| match change {
            Change::Prepare { name: other, note, .. } if **other == *name => Some(note.clone()),
            Change::PrepareUnknown => Some(Note::UNREAD.clone()),
            _ => None,
        });
        let known = self.known(name);
        match pending.next() {
            None => known.cloned().unwrap_or_default(),
            // A `Parse` replaces or discards the unnamed statement, even if it fails.
            Some(latest) if name.is_empty() => latest,
            Some(latest) => pending.chain(known.cloned()).fold(latest, |worst, other| worst.or(&other)),
        }
    }

    fn known(&self, name: &[u8]) -> Option<&Note> {
        if name.is_empty() {
            return Some(&self.unnamed);
        }
        self.named.get(name).or(self.is_overfull.then_some(Note::UNREAD))
    }
}

impl Session {
    /// Notes the statement that a `Parse` prepares.
    pub(super) fn note_parse(&mut self, message: &Message<'_>) {
        let name = message.body.and_then(text).and_then(|(name, _)| stored(name));
        let change = match name.zip(message.sql) {
            Some((name, sql)) => {
                let mut note = message.note(self).clone();
                if !message.is_whole && statement::is_query(sql, self.reported.text_rules) {
                    // It is one statement, or the server refuses it, so its first word identifies it.
                    note.unsafe_because = note.unsafe_because.or(Some(Unsafe::Unread));
                } else if !message.is_whole {
                    note = Note::UNREAD.clone();
                }
                note.key = self.foresee_parse(sql, &note);
                note.leaves = self.leaves_of_parse(message, &note);
                if let Some(inside) = self.transaction.as_mut().filter(|_| name.is_empty()) {
                    inside.parses_unnamed();
                }
                Change::Prepare { name: name.into(), note, recorded: self.place_of(message.bytes) }
            }
            None => Change::PrepareUnknown,
        };
        self.prepared.ask(self.unit_number, change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepare(name: &[u8], note: Note) -> Change {
        Change::Prepare { name: name.into(), note, recorded: 0..0 }
    }

    fn commit() -> Note {
        Note { may_end: true, ends: Some(End::Commit), ..Note::default() }
    }

    #[test]
    fn notes_are_kept_by_name_and_never_without_bound() {
        let mut notes = PreparedNotes::default();
        for name in [&b""[..], b"c"] {
            notes.ask(1, prepare(name, commit()));
            notes.confirm();
        }
        assert_eq!((notes.of(b""), notes.of(b"c"), notes.of(b"d")), (commit(), commit(), Note::default()));
        notes.ask(1, Change::Close { name: (*b"c").into() });
        notes.ask(1, prepare(b"", Note::default()));
        notes.confirm();
        notes.confirm();
        assert_eq!((notes.of(b""), notes.of(b"c")), (Note::default(), Note::default()));
        for name in 0..=NOTES_BYTES_MAX / commit().bytes() {
            notes.ask(2, prepare(name.to_string().as_bytes(), commit()));
            notes.confirm();
            notes.unit_answered(2);
        }
        let bytes = |notes: &PreparedNotes| notes.named.iter().map(|(name, note)| name.len() + note.bytes()).sum();
        let before: usize = bytes(&notes);
        assert!(before == notes.named_bytes && before <= NOTES_BYTES_MAX && before > NOTES_BYTES_MAX / 2);
        assert_eq!(notes.of(b"another"), *Note::UNREAD);
        (0..50).for_each(|name: usize| notes.forget(name.to_string().as_bytes()));
        assert_eq!(bytes(&notes), notes.named_bytes);
    }

    /// A client that prepares endlessly and never waits for an answer must not fill the governor's memory.
    #[test]
    fn changes_that_nobody_confirms_are_bounded() {
        let mut notes = PreparedNotes::default();
        notes.ask(1, prepare(b"s", Note::default()));
        notes.confirm();
        let many = PENDING_BYTES_MAX / size_of::<Change>();
        (0..2 * many).for_each(|_| notes.ask(2, prepare(b"t", Note::default())));
        assert!(notes.pending.len() < many, "{} are pending", notes.pending.len());
        assert!(notes.of(b"s").may_end && notes.of(b"another").may_end, "each may be any statement now");
    }

    /// The texts of ten thousand statements that nobody had confirmed named a thousand cursors each.
    #[test]
    fn names_in_texts_count_towards_what_is_pending() {
        let mut notes = PreparedNotes::default();
        let names = Arc::new(Names { moves: vec![(*b"c").into(); 1000], ..Names::default() });
        let note = Note { names: Some(names), ..Note::default() };
        (0..20).for_each(|_| notes.ask(1, prepare(b"", note.clone())));
        assert_eq!(notes.pending_bytes, notes.pending.iter().map(|(_, change)| change.bytes()).sum::<usize>());
        notes.query();
        assert_eq!(notes.pending_bytes, notes.pending.iter().map(|(_, change)| change.bytes()).sum::<usize>());
        notes.unit_answered(1);
        assert_eq!(notes.pending_bytes, 0);
        (0..1000).for_each(|_| notes.ask(1, prepare(b"s", note.clone())));
        assert!(notes.is_lost);
    }

    /// A driver prepared `s` twice; the server refused the second with 42P05 and `s` stayed a COMMIT. The note of the
    /// refused text once replaced that of the statement, so the COMMIT went unseen and committed work was replayed.
    #[test]
    fn what_the_server_refuses_to_prepare_changes_nothing() {
        let mut notes = PreparedNotes::default();
        notes.ask(1, prepare(b"s", commit()));
        notes.confirm();
        notes.ask(2, prepare(b"s", Note::default()));
        assert!(notes.of(b"s").may_end, "nobody knows yet which of them it is");
        notes.unit_answered(2);
        assert_eq!(notes.of(b"s"), commit());
        notes.ask(3, Change::Close { name: (*b"s").into() });
        notes.ask(3, prepare(b"s", Note::default()));
        assert!(notes.of(b"s").may_end);
        notes.confirm();
        notes.confirm();
        assert_eq!(notes.of(b"s"), Note::default());
    }
}
