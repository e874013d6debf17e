//! What must be remembered of prepared statements: the class that their text asks for, and what running them means.

use std::collections::HashMap;

use plimsoll_policy::{ClassIndex, Unsafe};

use crate::registry::ChosenBy;

/// How many statements are remembered; all others are then taken for the worst.
const NOTES_MAX: usize = 1000;

/// What running a statement means for its transaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Note {
    /// The class that its text asks for, a transaction that begins with it.
    pub class: Option<(ClassIndex, ChosenBy)>,
    /// It begins a transaction block.
    pub begins: bool,
    /// It ends the transaction, or its text is not known.
    pub may_end: bool,
    /// It ends it by ROLLBACK and by nothing else.
    pub rolls_back: bool,
    /// Why it may not be run twice.
    pub unsafe_because: Option<Unsafe>,
}

impl Note {
    /// What is assumed of a statement whose text nobody has read.
    pub const UNREAD: Note =
        Note { class: None, begins: false, may_end: true, rolls_back: false, unsafe_because: Some(Unsafe::Unread) };

    fn says_nothing(&self) -> bool {
        *self == Note::default()
    }
}

/// The prepared statements of a session that are worth a note.
#[derive(Debug, Default)]
pub struct PreparedNotes {
    named: HashMap<Box<[u8]>, Note>,
    unnamed: Note,
    is_overfull: bool,
}

impl PreparedNotes {
    /// A statement was prepared; the unnamed one has an empty name.
    pub fn prepare(&mut self, name: &[u8], note: Note) {
        if name.is_empty() {
            self.unnamed = note;
        } else if note.says_nothing() {
            self.named.remove(name);
        } else if self.named.len() < NOTES_MAX {
            self.named.insert(name.into(), note);
        } else {
            self.is_overfull = true;
        }
    }

    /// A statement was prepared of which not even the name is known.
    pub fn prepare_unknown(&mut self) {
        self.is_overfull = true;
        self.unnamed = Note::UNREAD;
    }

    /// A statement was closed.
    pub fn close(&mut self, name: &[u8]) {
        if name.is_empty() {
            self.unnamed = Note::default();
        } else {
            self.named.remove(name);
        }
    }

    /// What is known of it.
    pub fn of(&self, name: &[u8]) -> Note {
        if name.is_empty() {
            return self.unnamed;
        }
        let unknown = if self.is_overfull { Note::UNREAD } else { Note::default() };
        self.named.get(name).copied().unwrap_or(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_kept_by_name_and_never_without_bound() {
        let commit = Note { may_end: true, ..Note::default() };
        let mut notes = PreparedNotes::default();
        notes.prepare(b"", commit);
        notes.prepare(b"c", commit);
        assert_eq!((notes.of(b""), notes.of(b"c"), notes.of(b"d")), (commit, commit, Note::default()));
        notes.close(b"c");
        notes.prepare(b"", Note::default());
        assert_eq!((notes.of(b""), notes.of(b"c")), (Note::default(), Note::default()));
        for name in 0..=NOTES_MAX {
            notes.prepare(name.to_string().as_bytes(), commit);
        }
        assert_eq!(notes.named.len(), NOTES_MAX);
        assert_eq!(notes.of(b"another"), Note::UNREAD);
    }
}
