//! What is wrong with a workload's file, and where.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::registry::nearest;

/// A workload's file that cannot be used. Several faults are told a line each.
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
    /// What is wrong and what to do.
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

/// A fault whose place is still told in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    /// Where, in bytes of the file.
    pub(super) span: Range<usize>,
    /// What is wrong and what to do.
    pub(super) message: String,
}

impl Problem {
    /// A fault at a place.
    pub(super) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Problem { span, message: message.into() }
    }

    /// What the reader of TOML found; an unknown key with the nearest that there is.
    pub(super) fn of_toml(error: &toml::de::Error) -> Self {
        let message = error.message();
        let message = match message.strip_prefix("unknown field ") {
            Some(rest) => {
                let names: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
                let (unknown, known) = names.split_first().map_or(("", &[][..]), |(first, rest)| (*first, rest));
                let meant = suggestion(unknown, known.iter().copied());
                format!("there is no key `{unknown}` here{meant}; there are {}", listed(known.iter().copied()))
            }
            None => message.replace("missing field", "there is no").replace("expected i64", "expected a whole number"),
        };
        Problem::new(error.span().unwrap_or(0..0), message)
    }
}

/// The nearest of the known words as a question to put behind an unknown one; nothing if none is near.
pub(super) fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"))
}

/// Words as a list for people.
pub(super) fn listed<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

/// A file and its text.
#[derive(Debug, Clone)]
pub(super) struct Source {
    /// Where it is.
    pub(super) path: PathBuf,
    /// What it says.
    pub(super) text: String,
}

impl Source {
    /// A fault with its place as people count it.
    pub(super) fn fault(&self, problem: Problem) -> Fault {
        Fault { file: self.name(), place: Some(self.place(problem.span.start)), message: problem.message }
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
        format!("{}:{}", self.path.display(), self.place(byte).0)
    }

    fn place(&self, byte: usize) -> (usize, usize) {
        let before = self.text.get(..byte).unwrap_or(&self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    /// The place of a part of a text that stands in the file as a TOML string. Where the string is written with escapes, so
    /// that its bytes are not those of the file, the beginning of the string.
    pub(super) fn within(&self, string: Range<usize>, text: &str, part: usize) -> usize {
        let typed = self.text.get(string.clone()).unwrap_or_default();
        // The first line break after three quotes does not belong to the text.
        let opening = ["\"\"\"\r\n", "\"\"\"\n", "\"\"\"", "'''\r\n", "'''\n", "'''", "\"", "'"];
        let quotes = opening.iter().find(|quotes| typed.starts_with(**quotes)).map_or(0, |quotes| quotes.len());
        let is_plain = typed.get(quotes..).is_some_and(|typed| typed.starts_with(text));
        if is_plain { string.start + quotes + part } else { string.start }
    }
}
