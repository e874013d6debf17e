//! Figures of a machine, kept in a folder, so that they are measured once and not before each run.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::MemorySpeed;
use crate::disk_speed::DiskSpeed;

/// Figures as they are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptSpeed {
    /// The machine that was measured.
    pub machine_key: String,
    /// When they were measured, as the caller writes times.
    pub measured_at: String,
    /// The version of the program that measured them.
    pub program_version: String,
    /// The figures.
    pub speed: MemorySpeed,
    /// The speed of a disk, by the same probe; `None` if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskSpeed>,
}

/// Why figures could not be kept or found again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeepError {
    /// The file or its folder.
    #[error("cannot {doing} {}: {error}", path.display())]
    File {
        /// `read`, `write`.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The file is not in the format of this version.
    #[error("{} is not a kept measurement ({error}); measure again", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The error in it.
        error: serde_json::Error,
    },
}

/// The folder for the state that programs keep between runs, by the values of `XDG_STATE_HOME` and `HOME` (XDG Base
/// Directory Specification); `None` if neither is an absolute path.
pub fn state_folder(xdg_state_home: Option<&OsStr>, home: Option<&OsStr>) -> Option<PathBuf> {
    let absolute = |value: Option<&OsStr>| value.map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute(xdg_state_home).or_else(|| Some(absolute(home)?.join(".local/state")))?;
    Some(state.join("plimsoll"))
}

/// The latest probe of the disk with this name, as in `/proc/diskstats`, among all that are kept in a folder, with the time at which it was
/// measured. Files that are no kept measurement are passed over.
pub fn disk_probe(folder: &Path, device: &str) -> Option<(String, DiskSpeed)> {
    let kept = |entry: io::Result<fs::DirEntry>| -> Option<(String, DiskSpeed)> {
        let path = entry.ok()?.path();
        path.file_name()?.to_str()?.strip_prefix("memory-speed-")?;
        let kept: KeptSpeed = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        Some((kept.measured_at, kept.disk.filter(|disk| disk.device.as_deref() == Some(device))?))
    };
    fs::read_dir(folder).ok()?.filter_map(kept).max_by(|one, other| one.0.cmp(&other.0))
}

impl MemorySpeed {
    /// Figures of the machine with this key; `None` if none are kept in `folder`.
    pub fn load(folder: &Path, machine_key: &str) -> Result<Option<KeptSpeed>, KeepError> {
        let path = file_of(folder, machine_key);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(KeepError::File { doing: "read", path, error }),
        };
        let kept: KeptSpeed = serde_json::from_slice(&text).map_err(|error| KeepError::Content { path, error })?;
        // Keys that differ may share a file name.
        Ok((kept.machine_key == machine_key).then_some(kept))
    }

    /// Keeps the figures, with those of a disk, in `folder`, which is created if missing. The file is written
    /// atomically. Returns its path.
    pub fn save(
        &self,
        disk: Option<&DiskSpeed>,
        folder: &Path,
        machine_key: &str,
        measured_at: &str,
        program_version: &str,
    ) -> Result<PathBuf, KeepError> {
        let path = file_of(folder, machine_key);
        let kept = KeptSpeed {
            machine_key: machine_key.to_owned(),
            measured_at: measured_at.to_owned(),
            program_version: program_version.to_owned(),
            speed: self.clone(),
            disk: disk.cloned(),
        };
        let text = serde_json::to_string_pretty(&kept).expect("figures are numbers and text");
        let write = || {
            fs::create_dir_all(folder)?;
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(text.as_bytes())?;
            file.persist(&path).map_err(|error| error.error)
        };
        match write() {
            Ok(_) => Ok(path),
            Err(error) => Err(KeepError::File { doing: "write", path, error }),
        }
    }
}

/// The file of a machine: its key in characters that are safe in names.
fn file_of(folder: &Path, machine_key: &str) -> PathBuf {
    let safe = |letter: char| if letter.is_ascii_alphanumeric() || "-_".contains(letter) { letter } else { '_' };
    folder.join(format!("memory-speed-{}.json", machine_key.chars().map(safe).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_speed::tests::example;

    #[test]
    fn the_latest_probe_of_a_disk_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let disk = |device: &str| DiskSpeed {
            folder: "/data".into(),
            device: Some(device.to_owned()),
            is_only: true,
            file_mib: 256,
            points: Vec::new(),
        };
        let keep = |device, key, at| example().save(Some(&disk(device)), folder.path(), key, at, "0.1.0").unwrap();
        keep("vda", "one", "2026-01-02T03:04:05Z");
        keep("vda", "other", "2026-02-02T03:04:05Z");
        keep("vdb", "third", "2026-03-02T03:04:05Z");
        fs::write(folder.path().join("memory-speed-broken.json"), "{").unwrap();
        assert_eq!(disk_probe(folder.path(), "vda"), Some(("2026-02-02T03:04:05Z".to_owned(), disk("vda"))));
        assert_eq!(disk_probe(folder.path(), "sda"), None);
        assert_eq!(disk_probe(Path::new("/nowhere"), "vda"), None);
    }

    #[test]
    fn kept_and_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state/plimsoll");
        assert_eq!(MemorySpeed::load(&state, "AMD EPYC/2").unwrap(), None);
        let path = example().save(None, &state, "AMD EPYC/2", "2026-01-02T03:04:05Z", "0.1.0").unwrap();
        assert_eq!(path, state.join("memory-speed-AMD_EPYC_2.json"));
        let kept = MemorySpeed::load(&state, "AMD EPYC/2").unwrap().unwrap();
        assert_eq!((kept.measured_at.as_str(), kept.program_version.as_str()), ("2026-01-02T03:04:05Z", "0.1.0"));
        assert_eq!(kept.speed, example());
        assert_eq!(MemorySpeed::load(&state, "AMD EPYC.2").unwrap(), None, "another machine, the same file name");
        assert_eq!(state.read_dir().unwrap().count(), 1, "no half-written file is left");
    }

    #[test]
    fn what_cannot_be_kept_or_read() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("memory-speed-a.json"), "{}").unwrap();
        let error = MemorySpeed::load(folder.path(), "a").unwrap_err().to_string();
        assert!(error.contains("measure again"), "{error}");
        fs::write(folder.path().join("file"), "").unwrap();
        let error = example().save(None, &folder.path().join("file"), "a", "", "").unwrap_err().to_string();
        assert!(error.contains("cannot write"), "{error}");
    }

    #[test]
    fn state_folders() {
        let check = |state: Option<&str>, home: Option<&str>, expect: Option<&str>| {
            assert_eq!(state_folder(state.map(OsStr::new), home.map(OsStr::new)), expect.map(PathBuf::from));
        };
        check(Some("/state"), Some("/home/a"), Some("/state/plimsoll"));
        check(None, Some("/home/a"), Some("/home/a/.local/state/plimsoll"));
        check(Some("relative"), Some("/home/a"), Some("/home/a/.local/state/plimsoll"));
        check(Some(""), None, None);
        check(None, None, None);
    }
}
