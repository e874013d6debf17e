//! Faults of an experiment file, with their places.

use std::fmt;
use std::ops::Range;

/// An experiment file that cannot be run, with every fault that was seen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ExperimentError {
    /// The file's name.
    pub file: String,
    /// The faults, in the order of the file.
    pub faults: Vec<Fault>,
}

/// One fault of an experiment file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1, in characters.
    pub column: usize,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for ExperimentError {
    /// A fault a line: `file:line:column: message`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, Fault { line, column, message }) in self.faults.iter().enumerate() {
            let end = if position > 0 { "\n" } else { "" };
            write!(f, "{end}{}:{line}:{column}: {message}", self.file)?;
        }
        Ok(())
    }
}

/// A fault whose place is still told in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    /// Where, in bytes of the file.
    pub span: Range<usize>,
    /// What is wrong and what to do.
    pub message: String,
}

impl Problem {
    /// A fault at a place.
    pub(super) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Problem { span, message: message.into() }
    }

    /// What the reader of TOML found.
    pub(super) fn of_toml(error: &toml::de::Error) -> Self {
        let found = error.message().trim().replace('\n', ", ");
        let message = match found.strip_prefix("missing field ") {
            Some(key) => format!("the key {key} is missing here; add it"),
            None if found.starts_with("invalid boolean") => "this is not a value; write texts in quotes".to_owned(),
            // The names of Rust's types mean nothing to the author of the file.
            None => found
                .replace("expected u32", "expected a whole number")
                .replace("expected u64", "expected a whole number"),
        };
        Problem::new(error.span().unwrap_or(0..0), message)
    }
}

/// Faults as they are found.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<Problem>);

impl Problems {
    /// Notes a fault.
    pub(super) fn add(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.0.push(Problem::new(span, message));
    }

    /// The value, or else its fault is noted.
    pub(super) fn note<T>(&mut self, result: Result<T, Problem>) -> Option<T> {
        result.map_err(|problem| self.0.push(problem)).ok()
    }

    /// All that was found so far, if anything was.
    pub(super) fn check(&mut self) -> Result<(), Vec<Problem>> {
        if self.0.is_empty() { Ok(()) } else { Err(std::mem::take(&mut self.0)) }
    }
}

/// A file.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Its name.
    pub(crate) file: String,
    /// Its text.
    pub(crate) text: String,
}

impl Source {
    /// Faults with their places as people count them.
    pub(super) fn error(&self, problems: Vec<Problem>) -> ExperimentError {
        let mut faults: Vec<Fault> = problems.into_iter().map(|problem| self.fault(problem)).collect();
        faults.sort();
        faults.dedup();
        ExperimentError { file: self.file.clone(), faults }
    }

    fn fault(&self, problem: Problem) -> Fault {
        let before = self.text.get(..problem.span.start).unwrap_or(&self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Fault {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: problem.message,
        }
    }

    /// The place of a part of a text that stands in the file as a string. Where the string is written with escapes, so that
    /// its bytes are not those of the file, all of the string.
    pub(super) fn within(&self, string: Range<usize>, text: &str, part: &Range<usize>) -> Range<usize> {
        let typed = self.text.get(string.clone()).unwrap_or_default();
        let quotes = typed.find(|character| !matches!(character, '"' | '\'')).unwrap_or(0);
        match typed.get(quotes..).is_some_and(|typed| typed.starts_with(text)) {
            true => string.start + quotes + part.start..string.start + quotes + part.end,
            false => string,
        }
    }
}
