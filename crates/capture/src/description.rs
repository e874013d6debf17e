//! `capture.toml`: what a capture is. It names no host.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::format::{DESCRIPTION, VERSION};

/// How values are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Values {
    /// As they were sent, but for secrets.
    Kept,
    /// As keyed hashes of the same type.
    Redacted,
}

/// What a capture is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// The version of the format.
    pub format: u32,
    /// The program that wrote it.
    pub program: String,
    /// When it began, such as `2026-11-29T14:30:42Z`: all times of events are since then.
    pub began: String,
    /// The server's version as `server_version_num` has it, once a session has begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_version: Option<u32>,
    /// How values are kept.
    pub values: Values,
}

/// Why a capture cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The folder has no description.
    #[error("{} is no capture: it has no capture.toml; give the folder that `plimsoll capture` has written", .0.display())]
    NoCapture(PathBuf),
    /// The description is not of the right form.
    #[error("{path} cannot be read: {1}; it was written by a program, so restore it from a copy of the capture", path = .0.display())]
    Description(PathBuf, String),
    /// It was written by a newer program.
    #[error("{} has version {found} of the format, and this program reads version {known}; use a newer plimsoll", .file.display())]
    Version {
        /// The file.
        file: PathBuf,
        /// Its version.
        found: u32,
        /// The newest that is known.
        known: u32,
    },
    /// The system cannot read a file.
    #[error("cannot read {path}: {1}", path = .0.display())]
    Io(PathBuf, #[source] io::Error),
}

impl Description {
    /// The description of a capture that begins at that time.
    pub fn new(began: SystemTime, values: Values) -> Self {
        let program = format!("plimsoll {}", env!("CARGO_PKG_VERSION"));
        // A clock that is centuries off is no reason not to record.
        let began = Timestamp::try_from(began).unwrap_or_default();
        Description { format: VERSION, program, began: format!("{began:.0}"), server_version: None, values }
    }

    pub(crate) fn text(&self) -> String {
        let head = "# Traffic that plimsoll has recorded; docs/capture.md has the format of the other files.\n";
        format!("{head}{}", toml::to_string(self).expect("every field is a value"))
    }

    /// Reads the description of a folder.
    pub(crate) fn read(folder: &Path) -> Result<Self, ReadError> {
        let file = folder.join(DESCRIPTION);
        let text = std::fs::read_to_string(&file).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ReadError::NoCapture(folder.to_owned()),
            _ => ReadError::Io(file.clone(), error),
        })?;
        // The version first: a newer description may have other keys.
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let wrong = |error: toml::de::Error| ReadError::Description(file.clone(), error.message().to_owned());
        let Version { format: found } = toml::from_str(&text).map_err(wrong)?;
        if found != VERSION {
            return Err(ReadError::Version { file, found, known: VERSION });
        }
        toml::from_str(&text).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut description = Description::new(SystemTime::UNIX_EPOCH, Values::Redacted);
        assert_eq!(description.began, "1970-01-01T00:00:00Z");
        description.server_version = Some(170_002);
        std::fs::write(folder.path().join(DESCRIPTION), description.text()).expect("written");
        assert_eq!(Description::read(folder.path()).expect("read"), description);
    }

    #[test]
    fn what_is_no_capture_or_newer_is_refused_with_the_remedy() {
        let folder = tempfile::tempdir().expect("a folder");
        let refusal = || Description::read(folder.path()).expect_err("refused").to_string();
        assert!(refusal().contains("it has no capture.toml"), "{}", refusal());
        std::fs::write(folder.path().join(DESCRIPTION), "format = 9\nfuture = true\n").expect("written");
        assert!(
            refusal().ends_with("has version 9 of the format, and this program reads version 1; use a newer plimsoll")
        );
        std::fs::write(folder.path().join(DESCRIPTION), "format = 1\n").expect("written");
        assert!(refusal().contains("missing field"), "{}", refusal());
    }
}
