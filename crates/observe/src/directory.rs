//! The folder of an observation: `report.html`, `windows.jsonl`, and last `results.json`, so that a folder that has one is complete.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::report;
use crate::results::Observation;
use crate::windows::Window;

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
    if let Err(error) = check_writable(&folder.join("results.json")) {
        discard(folder);
        return Err(error.into());
    }
    Ok(())
}

/// Whether [`write_file`] could write the file, before minutes are spent on its content.
pub fn check_writable(file: &Path) -> Result<(), WriteError> {
    let part = part_of(file);
    File::create(&part).and_then(|_| fs::remove_file(&part)).map_err(wrong(file))
}

/// Keeps an observation whose folder, or whose proposed settings, could not be written: in a new folder for temporary
/// files. Returns that folder.
pub fn rescue(observation: &Observation, settings: Option<&str>) -> Result<PathBuf, WriteError> {
    let started: String = observation.started.chars().filter(char::is_ascii_alphanumeric).collect();
    let folder = std::env::temp_dir().join(format!("plimsoll-observe-{started}-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(wrong(&folder))?;
    if let Some(settings) = settings {
        write_file(&folder.join("plimsoll.toml"), settings)?;
    }
    write(&folder, observation)?;
    Ok(folder)
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
    let line = |window: &Window| serde_json::to_string(window).expect("windows are numbers and names") + "\n";
    write_file(&folder.join("windows.jsonl"), &observation.windows.iter().map(line).collect::<String>())?;
    let json = serde_json::to_string_pretty(observation).expect("results are numbers, texts and lists");
    write_file(&folder.join("results.json"), &(json + "\n"))?;
    Ok(report)
}

/// The name of a file while it is written.
fn part_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

/// Writes a file whole or not at all.
pub fn write_file(path: &Path, text: &str) -> Result<(), WriteError> {
    let part = part_of(path);
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
        let class = std::collections::BTreeMap::from([("shop".to_owned(), crate::windows::WindowOfClass::default())]);
        let windows = vec![Window { seconds: 1.5, classes: class, ..Window::default() }; 2];
        let report = write(&place, &Observation { windows: windows.clone(), ..observation.clone() }).unwrap();
        assert!(report.is_file());
        let text = fs::read_to_string(place.join("results.json")).unwrap();
        assert_eq!(serde_json::from_str::<Observation>(&text).unwrap(), observation);
        let lines = fs::read_to_string(place.join("windows.jsonl")).unwrap();
        let found: Vec<Window> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(found, windows);
        assert_eq!(fs::read_dir(&place).unwrap().count(), 3);
        discard(&place);
        assert!(matches!(prepare(&place), Err(PlaceError::HasResults(_))));
        let error = prepare(&report.join("below a file")).unwrap_err().to_string();
        assert!(error.starts_with("cannot write "), "{error}");
    }

    /// `--write /proc/plimsoll.toml` was found to be impossible after five minutes, and the report was lost with it.
    #[test]
    fn what_cannot_be_written_is_found_before_and_kept_elsewhere_after() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plimsoll.toml");
        check_writable(&file).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing stays");
        // Not even root can.
        let error = check_writable(Path::new("/proc/plimsoll.toml")).unwrap_err().to_string();
        assert!(error.starts_with("cannot write /proc/plimsoll.toml: "), "{error}");
        assert!(matches!(prepare(Path::new("/proc/self")), Err(PlaceError::Write(_))));
        let kept = rescue(&rich_observation(), Some("# settings")).unwrap();
        for name in ["plimsoll.toml", "report.html", "results.json", "windows.jsonl"] {
            assert!(kept.join(name).is_file(), "{name}");
        }
        fs::remove_dir_all(kept).unwrap();
    }
}
