//! Faults in a workload's file, and their places.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

pub(super) use plimsoll_notation::{Problem, did_you_mean as suggestion, listed};
use plimsoll_notation::{place, within};

/// A workload's file that cannot be used. Each fault is reported on its own line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct FileError(pub Vec<Fault>);

/// One fault of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The file's name as it was given.
    pub file: String,
    /// Line and column, from 1, columns in characters; `None` if the fault has no place in the file.
    pub place: Option<(usize, usize)>,
    /// The fault and the remedy.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some((line, column)) => write!(f, "{}:{line}:{column}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

impl FileError {
    /// A fault of a file as a whole.
    pub(super) fn of_file(file: &Path, message: impl Into<String>) -> Self {
        FileError(vec![Fault { file: file.display().to_string(), place: None, message: message.into() }])
    }
}

/// A fault that the TOML parser reported; an unknown key with the nearest known one.
pub(super) fn of_toml(error: &toml::de::Error) -> Problem {
    let message = error.message();
    let message = match message.strip_prefix("unknown field ") {
        Some(rest) => {
            let names: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
            let (unknown, known) = names.split_first().map_or(("", &[][..]), |(first, rest)| (*first, rest));
            let meant = suggestion(unknown, known.iter().copied());
            format!("there is no key `{unknown}` here{meant}; there are {}", listed(known))
        }
        None => message.replace("missing field", "there is no").replace("expected i64", "expected a whole number"),
    };
    Problem::new(error.span().unwrap_or(0..0), message)
}

/// A file and its text.
#[derive(Debug, Clone)]
pub(super) struct SourceFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

impl SourceFile {
    /// A fault with its place as people count it.
    pub(super) fn fault(&self, problem: Problem) -> Fault {
        Fault { file: self.name(), place: Some(place(&self.text, problem.span.start)), message: problem.message }
    }

    /// The error that these faults make, in the order of the file.
    pub(super) fn error(&self, problems: impl IntoIterator<Item = Problem>) -> FileError {
        let mut faults: Vec<Fault> = problems.into_iter().map(|problem| self.fault(problem)).collect();
        faults.sort();
        faults.dedup();
        FileError(faults)
    }

    /// The file's name as it was given.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// A place as `file:line`.
    pub(super) fn line(&self, byte: usize) -> String {
        format!("{}:{}", self.path.display(), place(&self.text, byte).0)
    }

    /// The place of a part of a string in a TOML file. If the string is written with escapes, so that its bytes are not
    /// those of the file, returns the beginning of the string.
    pub(super) fn within(&self, string: Range<usize>, text: &str, part: usize) -> usize {
        within(&self.text, string, text, &(part..part)).start
    }
}
