//! The restore journal: how every change that is in force is undone, on disk before the change is made.
//!
//! A file of JSON lines. The first says which process, of which boot, writes it; every other line is a change of one
//! control. Changes are undone from the last to the first. If a kill has torn a line, its change was never made. Undone
//! changes are removed by writing the rest to a new file, which replaces the old one. A kill in between only means that
//! a change is undone twice, which does no harm. The file is removed when no changes remain.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::lock::StateLock;
use super::undo::{Undone, undo};
use super::{LimiterError, Restored};
use crate::control::{ControlError, Undo, UndoNotes};
use crate::host::Host;

/// The first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Header {
    /// The writing process; its number is part of the names of its groups.
    process: u32,
    /// The boot; no change outlives it. `None` where the kernel does not report it.
    boot: Option<String>,
}

/// Every other line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Note {
    control: String,
    undo: Undo,
}

#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    header: Header,
    notes: Vec<Note>,
    /// Open while there are notes.
    file: Option<File>,
}

/// The part of the journal that belongs to one control.
pub(crate) struct Notes<'a> {
    journal: &'a mut Journal,
    control: &'a str,
}

impl UndoNotes for Notes<'_> {
    fn note(&mut self, undo: Undo) -> Result<(), ControlError> {
        let noted = self.journal.note(self.control, undo);
        noted.map_err(|error| ControlError::refused("note how to undo a change in", self.journal.path.display(), error))
    }
}

fn path_in(state: &Path) -> PathBuf {
    state.join("restore.jsonl")
}

impl Journal {
    /// An empty journal, which has no file yet.
    pub fn new(host: &Host, state: &Path) -> Journal {
        let header = Header { process: std::process::id(), boot: host.text("/proc/sys/kernel/random/boot_id") };
        Journal { path: path_in(state), header, notes: Vec::new(), file: None }
    }

    pub(crate) fn is_in(state: &Path) -> bool {
        path_in(state).exists()
    }

    pub(crate) fn restore_old(host: &Host, state: &Path) -> Result<Restored, LimiterError> {
        let path = path_in(state);
        let failed = |error| LimiterError::State { path: path.clone(), error };
        let text = match std::fs::read(&path) {
            // The last line may be torn within a character.
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Restored::default()),
            Err(error) => return Err(failed(error)),
        };
        let now = Journal::new(host, state);
        let (header, notes, unreadable) = read(&text);
        let forget = |told: Vec<String>| {
            std::fs::remove_file(&path).map_err(failed)?;
            Ok(Restored { undone: told, failed: Vec::new() })
        };
        // After a torn first line no change was made.
        if !text.contains('\n') {
            return forget(Vec::new());
        }
        let (Some(header), true) = (header, unreadable.is_empty()) else {
            let failed = vec![format!("lines {unreadable:?} of {} cannot be read", path.display())];
            return Err(LimiterError::NotRestored { failed, journal: path });
        };
        if notes.is_empty() {
            return forget(Vec::new());
        }
        if header.boot != now.header.boot {
            return forget(vec!["the machine was booted since, and nothing is left to undo".to_owned()]);
        }
        Journal { header, notes, ..now }.undo_all(host)
    }

    /// Takes the lock of a state folder, undoes the changes in its old journal, and begins a new one.
    pub(crate) fn begin(host: &Host, state: &Path) -> Result<(StateLock, Journal, Restored), LimiterError> {
        let lock = StateLock::take(state)?;
        let left = Journal::restore_old(host, state)?;
        let journal = Journal::new(host, state);
        let left = journal.all_of(left)?;
        Ok((lock, journal, left))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `restored`, or an error if some changes could not be undone, which remain in the journal.
    pub(crate) fn all_of(&self, restored: Restored) -> Result<Restored, LimiterError> {
        if restored.failed.is_empty() {
            return Ok(restored);
        }
        Err(LimiterError::NotRestored { failed: restored.failed, journal: self.path.clone() })
    }

    /// The part of the journal that belongs to this control.
    pub(crate) fn notes_of<'a>(&'a mut self, control: &'a str) -> Notes<'a> {
        Notes { journal: self, control }
    }

    /// Records a change of a control that is about to be made.
    ///
    /// If a control has made the same change before, its first note stays, because it has the original state. A group
    /// that another control has made is noted as that control did, which knew the origins of its members.
    pub fn note(&mut self, control: &str, mut undo: Undo) -> io::Result<()> {
        let same = |note: &&Note| note.undo.is_about_the_same(&undo);
        if self.notes.iter().filter(same).any(|note| note.control == control) {
            return Ok(());
        }
        if undo.group().is_some()
            && let Some(first) = self.notes.iter().find(same)
        {
            undo = first.undo.clone();
        }
        let note = Note { control: control.to_owned(), undo };
        let mut line = json(&note)?;
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(create(&self.path)?),
        };
        let end = file.metadata()?.len();
        if end == 0 {
            line = format!("{}{line}", json(&self.header)?);
        }
        if let Err(error) = file.write_all(line.as_bytes()).and_then(|()| file.sync_data()) {
            // The disk may be full: half a line would hide the lines after it.
            let _ = file.set_len(end);
            return Err(error);
        }
        self.notes.push(note);
        Ok(())
    }

    /// Whether undoing a control's notes lifts its limit. It does not if the control has no notes, or shares a group
    /// and has no notes within that group: its limit is then part of another control's change.
    pub(crate) fn can_be_lifted_alone(&self, control: &str) -> bool {
        let ours = || self.notes.iter().filter(|note| note.control == control);
        let within = |folder: &str| {
            ours().any(|note| matches!(&note.undo, Undo::WriteFile { path, .. } if Path::new(path).starts_with(folder)))
        };
        ours().next().is_some()
            && ours()
                .all(|note| note.undo.group().is_none_or(|folder| !self.is_shared(control, folder) || within(folder)))
    }

    fn is_shared(&self, control: &str, folder: &str) -> bool {
        self.notes.iter().any(|note| note.control != control && note.undo.group() == Some(folder))
    }

    /// Undoes the changes of one control; groups that other controls use stay.
    pub(crate) fn undo_control(&mut self, host: &Host, control: &str) -> Result<Restored, LimiterError> {
        let shared: Vec<String> = self
            .notes
            .iter()
            .filter_map(|note| note.undo.group())
            .filter(|folder| self.is_shared(control, folder))
            .map(str::to_owned)
            .collect();
        let (others, ours): (Vec<Note>, Vec<Note>) =
            std::mem::take(&mut self.notes).into_iter().partition(|note| note.control != control);
        let is_shared =
            |note: &Note| note.undo.group().is_some_and(|folder| shared.iter().any(|other| other == folder));
        let (restored, left) = self.undo(host, ours.into_iter().filter(|note| !is_shared(note)).collect());
        self.notes = others;
        self.notes.extend(left);
        self.rewrite()?;
        Ok(restored)
    }

    /// Forgets the changes of one control, because another process has since overwritten them.
    pub fn forget(&mut self, control: &str) -> Result<(), LimiterError> {
        self.notes.retain(|note| note.control != control);
        self.rewrite()
    }

    pub(crate) fn undo_all(&mut self, host: &Host) -> Result<Restored, LimiterError> {
        if self.notes.is_empty() && self.file.is_none() {
            return Ok(Restored::default());
        }
        let notes = std::mem::take(&mut self.notes);
        let (restored, left) = self.undo(host, notes);
        self.notes = left;
        self.rewrite()?;
        Ok(restored)
    }

    /// Undoes notes from the last to the first; also returns the remaining ones, in their order.
    fn undo(&self, host: &Host, notes: Vec<Note>) -> (Restored, Vec<Note>) {
        let (mut restored, mut left) = (Restored::default(), Vec::new());
        for note in notes.into_iter().rev() {
            match undo(host, &note.undo, self.header.process) {
                Undone::Nothing => {}
                Undone::Done(told) => restored.undone.push(told),
                Undone::Failed(told) => {
                    restored.failed.push(told);
                    left.push(note);
                }
            }
        }
        left.reverse();
        (restored, left)
    }

    /// Rewrites the file with the remaining notes.
    fn rewrite(&mut self) -> Result<(), LimiterError> {
        self.file = None;
        let written = || -> io::Result<Option<File>> {
            if self.notes.is_empty() {
                return match std::fs::remove_file(&self.path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                    _ => Ok(None),
                };
            }
            let mut text = json(&self.header)?;
            for note in &self.notes {
                text += &json(note)?;
            }
            let new = self.path.with_extension("new");
            let mut file = create(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_data()?;
            std::fs::rename(&new, &self.path)?;
            Ok(Some(file))
        };
        self.file = written().map_err(|error| LimiterError::State { path: self.path.clone(), error })?;
        Ok(())
    }
}

fn json(value: &impl Serialize) -> io::Result<String> {
    Ok(serde_json::to_string(value)? + "\n")
}

/// A new file that only we may read and write; it replaces any existing file.
fn create(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)
}

/// Header, notes, and the numbers of lines that are neither. A last line without a line end is torn and is ignored.
fn read(text: &str) -> (Option<Header>, Vec<Note>, Vec<usize>) {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut lines = whole.lines().enumerate();
    let header = lines.next().and_then(|(_, line)| serde_json::from_str(line).ok());
    let (mut notes, mut unreadable) = (Vec::new(), Vec::new());
    if header.is_none() {
        unreadable.push(1);
    }
    for (at, line) in lines {
        match serde_json::from_str(line) {
            Ok(note) => notes.push(note),
            Err(_) => unreadable.push(at + 1),
        }
    }
    (header, notes, unreadable)
}
