//! The folder that an experiment leaves behind, whole or not at all.
//!
//! Files are written into `NAME.partial` beside the folder's final place, which takes its name only when everything is on
//! disk. A run that fails, or is killed, leaves no half-written result where people look for results.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::report;
use crate::results::Results;

/// A folder in the making.
#[derive(Debug)]
pub struct RunDirectory {
    place: PathBuf,
    partial: PathBuf,
    is_finished: bool,
}

/// Why results cannot be kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunDirectoryError {
    /// There is something in the way.
    #[error("{} exists and is not empty; name another folder with --out", .0.display())]
    Exists(PathBuf),
    /// The system refused.
    #[error("cannot write to {}: {error}; name another folder with --out", place.display())]
    Io {
        /// The file or folder.
        place: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl RunDirectory {
    /// Makes sure that results can be written to `place`, before anything is measured.
    pub fn create(place: &Path) -> Result<Self, RunDirectoryError> {
        let is_empty = match fs::read_dir(place) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(RunDirectoryError::Io { place: place.to_owned(), error }),
        };
        if !is_empty {
            return Err(RunDirectoryError::Exists(place.to_owned()));
        }
        let mut name = place.file_name().unwrap_or_default().to_owned();
        name.push(".partial");
        let partial = place.with_file_name(name);
        let io_error = |error| RunDirectoryError::Io { place: partial.clone(), error };
        // What an earlier run that was killed has left there.
        match fs::remove_dir_all(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_error(error)),
            _ => {}
        }
        fs::create_dir_all(&partial).map_err(io_error)?;
        let directory = RunDirectory { place: place.to_owned(), partial, is_finished: false };
        directory.write("writable", b"")?;
        let probe = directory.partial.join("writable");
        fs::remove_file(&probe).map_err(|error| RunDirectoryError::Io { place: probe, error })?;
        Ok(directory)
    }

    /// Writes `results.json`, `machine.json` and `report.html` and gives the folder its name. Returns the paths of the
    /// files.
    pub fn finish(mut self, results: &Results) -> Result<Vec<PathBuf>, RunDirectoryError> {
        let files = [
            ("results.json", json(results)),
            ("machine.json", json(&results.machine)),
            ("report.html", report::render(results)),
        ];
        for (name, text) in &files {
            self.write(name, text.as_bytes())?;
        }
        let io_error = |error| RunDirectoryError::Io { place: self.place.clone(), error };
        fs::rename(&self.partial, &self.place).map_err(io_error)?;
        self.is_finished = true;
        Ok(files.iter().map(|(name, _)| self.place.join(name)).collect())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), RunDirectoryError> {
        let place = self.partial.join(name);
        let written = File::create(&place).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
        written.map_err(|error| RunDirectoryError::Io { place, error })
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        if !self.is_finished {
            // Nothing more can be done about a failure here, and nobody looks for results in it.
            let _ = fs::remove_dir_all(&self.partial);
        }
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("plain data with text keys")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn a_finished_run_has_its_files_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = folder.path().join("a").join("run");
        let directory = RunDirectory::create(&place).expect("writable");
        assert!(!place.exists(), "nothing is there before everything is");
        let files = directory.finish(&fixture::study()).expect("written");
        let names: Vec<_> = files.iter().map(|file| file.file_name().expect("a file").to_owned()).collect();
        assert_eq!(names, ["results.json", "machine.json", "report.html"]);
        let text = fs::read_to_string(&files[0]).expect("it is there");
        let read: Results = serde_json::from_str(&text).expect("it reads back");
        assert_eq!(read.points.len(), fixture::study().points.len());
        assert_eq!(fs::read_dir(folder.path().join("a")).expect("a folder").count(), 1);
    }

    #[test]
    fn a_run_that_fails_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = folder.path().join("run");
        drop(RunDirectory::create(&place).expect("writable"));
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }

    #[test]
    fn what_is_in_the_way_is_named_before_anything_is_measured() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("thesis.tex"), "").expect("writable");
        let error = RunDirectory::create(folder.path()).expect_err("not empty").to_string();
        assert!(error.contains("exists and is not empty; name another folder with --out"), "{error}");
        let below_a_file = folder.path().join("thesis.tex").join("run");
        let error = RunDirectory::create(&below_a_file).expect_err("below a file").to_string();
        assert!(error.contains("cannot write to") && error.contains("--out"), "{error}");
    }
}
