//! The journal of a running experiment: a line of JSON for each finished run, on disk before the next one begins.
//!
//! The first line identifies the experiment. After a kill the last line may be torn; it is then cut off, and its run is
//! repeated. A journal is held by one process at a time.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::claim::first_result::Hashes;
use crate::record::RunRecord;
use crate::reproduction::origin::Origin;
use crate::results::FORMAT;
use crate::run_directory::disk::sync_folder;

/// The identity of a journal's experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JournalHeader {
    /// [`FORMAT`] of the program that began it.
    pub format: u32,
    /// Version of that program.
    pub plimsoll: String,
    /// Commit it was built from.
    pub commit: Option<String>,
    /// Hash of the settings.
    pub settings_hash: String,
    /// The machine.
    pub machine_fingerprint: String,
    /// UTC, ISO 8601, when the experiment began.
    pub started: String,
    /// Whether it was run with the file's `quick` settings.
    pub quick: bool,
    /// The runs it was restricted to, as typed.
    pub only: Option<String>,
    /// The number of cores it was sized for, if that was given.
    #[serde(default)]
    pub cores: Option<usize>,
    /// Its claims as they were when it was begun, or at their first results if those are older.
    #[serde(default)]
    pub claims: Hashes,
    /// The number of blocks up to which it continues until its claims are decided; `None` if it runs the repeats of its
    /// file.
    #[serde(default)]
    pub blocks_max: Option<u32>,
    /// The experiment and the code that it was begun with; `None` if the program that began it did not record them.
    #[serde(default)]
    pub origin: Option<Origin>,
}

/// A journal that can be added to.
#[derive(Debug)]
pub struct Journal {
    place: PathBuf,
    file: File,
    /// Bytes that are known to be whole lines.
    length: u64,
}

/// Why a journal cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The system refused.
    #[error("{}: {error}", place.display())]
    Io {
        /// The journal.
        place: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The line was not written by this program.
    #[error("{}:{line}: not a line of a journal: {error}; the file was changed, so start the experiment again", place.display())]
    Line {
        /// The journal.
        place: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The message of the parser.
        error: String,
    },
    /// Another version wrote it.
    #[error("{}: written by plimsoll {version} in format {format}, and this program knows format {FORMAT}; use that version, or start the experiment again", place.display())]
    OtherFormat {
        /// The journal.
        place: PathBuf,
        /// Its format.
        format: u32,
        /// The version that wrote it.
        version: String,
    },
    /// Another process holds it.
    #[error("{} is in use by another plimsoll; wait for it or stop it", .0.display())]
    InUse(PathBuf),
}

/// A journal as it was found.
#[derive(Debug)]
pub struct JournalContents {
    /// The journal, open for appending.
    pub journal: Journal,
    /// Its identity.
    pub header: JournalHeader,
    /// Finished runs, in the order they ran.
    pub records: Vec<RunRecord>,
    /// Bytes of a torn last line that were cut off; 0 if it was whole.
    pub torn: u64,
}

impl Journal {
    /// Begins one. There must be no such file.
    pub fn create(place: &Path, header: &JournalHeader) -> Result<Self, JournalError> {
        let io_error = |error| JournalError::Io { place: place.to_owned(), error };
        let file = OpenOptions::new().read(true).append(true).create_new(true).open(place).map_err(io_error)?;
        let mut journal = Journal::hold(place, file)?;
        journal.append_line(header)?;
        // The name must be on disk as well as the line.
        sync_folder(place.parent().unwrap_or(Path::new(""))).map_err(io_error)?;
        Ok(journal)
    }

    /// Opens one that was begun, and cuts off a torn last line.
    pub fn open(place: &Path) -> Result<JournalContents, JournalError> {
        let io_error = |error| JournalError::Io { place: place.to_owned(), error };
        let file = OpenOptions::new().read(true).append(true).open(place).map_err(io_error)?;
        let mut journal = Journal::hold(place, file)?;
        let mut bytes = Vec::new();
        journal.file.read_to_end(&mut bytes).map_err(io_error)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let (header, records) = parse(place, &bytes[..whole])?;
        journal.length = whole as u64;
        journal.file.set_len(journal.length).map_err(io_error)?;
        journal.file.seek(SeekFrom::End(0)).map_err(io_error)?;
        Ok(JournalContents { journal, header, records, torn: (bytes.len() - whole) as u64 })
    }

    /// Reads the finished runs of one and leaves it as it is. A torn last line is ignored.
    pub fn read(place: &Path) -> Result<Vec<RunRecord>, JournalError> {
        let bytes = std::fs::read(place).map_err(|error| JournalError::Io { place: place.to_owned(), error })?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        parse(place, &bytes[..whole]).map(|(_, records)| records)
    }

    fn hold(place: &Path, file: File) -> Result<Self, JournalError> {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Journal { place: place.to_owned(), file, length: 0 }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(JournalError::InUse(place.to_owned())),
            Err(error) => Err(JournalError::Io { place: place.to_owned(), error: error.into() }),
        }
    }

    /// Adds a finished run; it is on disk when this returns. After an error the journal is as it was before.
    pub fn append(&mut self, record: &RunRecord) -> Result<(), JournalError> {
        self.append_line(record)
    }

    fn append_line(&mut self, what: &impl Serialize) -> Result<(), JournalError> {
        let mut line = serde_json::to_vec(what).expect("plain data with text keys");
        line.push(b'\n');
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // Should this fail too, the torn line is cut off when the journal is opened.
            let _ = self.file.set_len(self.length);
            return Err(JournalError::Io { place: self.place.clone(), error });
        }
        self.length += line.len() as u64;
        Ok(())
    }
}

fn parse(place: &Path, text: &[u8]) -> Result<(JournalHeader, Vec<RunRecord>), JournalError> {
    let bad = |line: usize, error: String| JournalError::Line { place: place.to_owned(), line, error };
    let mut lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let first = lines.next().ok_or_else(|| bad(1, "the file is empty".to_owned()))?;
    // Checked before the rest, which a later format may have changed.
    let anything: serde_json::Value = serde_json::from_slice(first).map_err(|error| bad(1, error.to_string()))?;
    let format = anything["format"].as_u64().ok_or_else(|| bad(1, "it names no format".to_owned()))?;
    if format != u64::from(FORMAT) {
        let version = anything["plimsoll"].as_str().unwrap_or("of another version").to_owned();
        return Err(JournalError::OtherFormat { place: place.to_owned(), format: format as u32, version });
    }
    let header = serde_json::from_value(anything).map_err(|error| bad(1, error.to_string()))?;
    let record = |(number, line): (usize, &[u8])| {
        serde_json::from_slice(line).map_err(|error| bad(number + 2, error.to_string()))
    };
    Ok((header, lines.enumerate().map(record).collect::<Result<_, _>>()?))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;

    use super::*;
    use crate::record::RunId;
    use crate::report::fixture;

    pub(crate) fn header() -> JournalHeader {
        JournalHeader {
            format: FORMAT,
            plimsoll: "0.1.0".to_owned(),
            settings_hash: "5e1f".to_owned(),
            machine_fingerprint: "41c6".to_owned(),
            started: "2026-03-14T09:26:53Z".to_owned(),
            quick: true,
            ..JournalHeader::default()
        }
    }

    pub(crate) fn record(setting: usize) -> RunRecord {
        let id = RunId { setting, arm: 0, repeat: 1, is_again: false };
        RunRecord {
            id,
            point: fixture::study().points.swap_remove(0),
            histograms: vec![],
            samples: vec![],
            warnings: vec![],
            notes: vec![],
        }
    }

    fn settings(found: &JournalContents) -> Vec<usize> {
        found.records.iter().map(|record| record.id.setting).collect()
    }

    /// A journal with three runs, its bytes, and its folder.
    fn three() -> (tempfile::TempDir, PathBuf, Vec<u8>) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = folder.path().join("journal.jsonl");
        let mut journal = Journal::create(&place, &header()).expect("writable");
        (0..3).for_each(|setting| journal.append(&record(setting)).expect("writable"));
        let bytes = fs::read(&place).expect("readable");
        (folder, place, bytes)
    }

    #[test]
    fn whatever_a_kill_leaves_of_the_last_line_the_lines_before_are_kept() {
        let (_folder, place, bytes) = three();
        let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
        let ends: Vec<usize> = ends.collect();
        for length in [ends[3], ends[3] - 1, ends[2] + 1, ends[2], ends[2] - 7, ends[1] + 20, ends[0]] {
            fs::write(&place, &bytes[..length]).expect("writable");
            let mut found = Journal::open(&place).expect("a torn end is no error");
            let whole = ends.iter().rposition(|end| *end <= length).expect("the header is whole");
            assert_eq!((found.header.clone(), settings(&found)), (header(), (0..whole).collect()), "{length}");
            assert_eq!(found.torn as usize, length - ends[whole]);
            fs::write(&place, &bytes[..length]).expect("writable");
            assert_eq!(Journal::read(&place).expect("a torn end is no error").len(), whole);
            assert_eq!(fs::read(&place).expect("readable").len(), length, "readers change nothing");
            found.journal.file.set_len(ends[whole] as u64).expect("it is cut off");
            found.journal.append(&record(9)).expect("writable");
            drop(found);
            let again = Journal::open(&place).expect("whole again");
            assert_eq!((settings(&again).last(), again.torn), (Some(&9), 0));
        }
    }

    #[test]
    fn what_was_changed_is_named_with_its_line() {
        let (_folder, place, bytes) = three();
        let text = String::from_utf8(bytes).expect("JSON is text");
        let check = |text: &str, expect: &str| {
            fs::write(&place, text).expect("writable");
            let error = Journal::open(&place).expect_err(expect).to_string();
            assert!(error.contains(expect), "{error}");
        };
        check("", "journal.jsonl:1: not a line of a journal: the file is empty");
        check("{\"for", "journal.jsonl:1: not a line of a journal: the file is empty");
        check("hello\n", "journal.jsonl:1: not a line of a journal");
        check(&text.replacen("\"arm\":0", "\"arm\":-1", 2).replacen("\"arm\":-1", "\"arm\":0", 1), "journal.jsonl:3:");
        let newer = text.replacen(&format!("\"format\":{FORMAT}"), "\"format\":99", 1).replace("0.1.0", "7.0.0");
        check(&newer, "written by plimsoll 7.0.0 in format 99");
    }

    #[test]
    fn one_process_at_a_time_holds_it() {
        let (_folder, place, _) = three();
        let found = Journal::open(&place).expect("nobody else has it");
        assert!(Journal::open(&place).expect_err("held").to_string().contains("in use by another plimsoll"));
        drop(found);
        assert!(Journal::open(&place).is_ok());
    }
}
