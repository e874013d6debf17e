//! The folder of an observation: `report.html`, and last `results.json`, so that a folder that has one is complete.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::report;
use crate::results::Observation;

/// A file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {error}")]
pub struct WriteError {
    path: String,
    error: io::Error,
}

/// The folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// The folder has results already.
    #[error("{0} has results already; give another folder with --out, or remove it")]
    HasResults(String),
    /// The folder cannot be made.
    #[error(transparent)]
    Write(#[from] WriteError),
}

fn wrong(path: &Path) -> impl Fn(io::Error) -> WriteError + '_ {
    |error| WriteError { path: path.display().to_string(), error }
}

/// Creates the folder first, because an observation that cannot be kept should not begin.
pub fn prepare(folder: &Path) -> Result<(), PlaceError> {
    if folder.join("results.json").exists() {
        return Err(PlaceError::HasResults(folder.display().to_string()));
    }
    fs::create_dir_all(folder).map_err(wrong(folder))?;
    Ok(())
}

/// Removes the folder if nothing was written to it, for observations that could not begin.
pub fn discard(folder: &Path) {
    // `remove_dir` leaves a folder with files in it.
    let _ = fs::remove_dir(folder);
}

/// Writes the files, and returns the path of the report.
pub fn write(folder: &Path, observation: &Observation) -> Result<PathBuf, WriteError> {
    let report = folder.join("report.html");
    write_file(&report, &report::render(observation))?;
    let json = serde_json::to_string_pretty(observation).expect("results are numbers, texts and lists");
    write_file(&folder.join("results.json"), &(json + "\n"))?;
    Ok(report)
}

/// Writes a file whole or not at all.
pub fn write_file(path: &Path, text: &str) -> Result<(), WriteError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    let part = PathBuf::from(name);
    let write = || {
        let mut file = File::create(&part)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&part, path)
    };
    write().map_err(|error| {
        // An incomplete file is of no use.
        let _ = fs::remove_file(&part);
        wrong(path)(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::rich_observation;

    #[test]
    fn a_folder_is_whole_and_is_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("runs/one");
        prepare(&place).unwrap();
        discard(&place);
        assert!(!place.exists());
        prepare(&place).unwrap();
        let observation = rich_observation();
        let report = write(&place, &observation).unwrap();
        assert!(report.is_file());
        let text = fs::read_to_string(place.join("results.json")).unwrap();
        assert_eq!(serde_json::from_str::<Observation>(&text).unwrap(), observation);
        assert_eq!(fs::read_dir(&place).unwrap().count(), 2);
        discard(&place);
        assert!(matches!(prepare(&place), Err(PlaceError::HasResults(_))));
        let error = prepare(&report.join("below a file")).unwrap_err().to_string();
        assert!(error.starts_with("cannot write "), "{error}");
    }
}
