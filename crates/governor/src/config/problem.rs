//! Faults of a settings file, with their places.

use std::fmt;
use std::ops::Range;

/// A settings file that cannot be used, with every fault that was seen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The file's name.
    pub file: String,
    /// The faults, in the order of the file.
    pub faults: Vec<Fault>,
}

/// One fault of a settings file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Line and column from 1, columns in characters; `None` for the file as a whole.
    pub place: Option<(usize, usize)>,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for ConfigError {
    /// A fault a line: `file:line:column: message`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, Fault { place, message }) in self.faults.iter().enumerate() {
            let end = if position > 0 { "\n" } else { "" };
            match place {
                Some((line, column)) => write!(f, "{end}{}:{line}:{column}: {message}", self.file)?,
                None => write!(f, "{end}{}: {message}", self.file)?,
            }
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
    /// Whether it may follow from another fault of the same table, and is not worth a line then.
    pub may_follow: bool,
}

impl Problem {
    /// A fault at a place.
    pub(super) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Problem { span, message: message.into(), may_follow: false }
    }

    /// What the reader of TOML found.
    pub(super) fn of_toml(error: &toml::de::Error) -> Self {
        let found = error.message().trim().replace('\n', ", ");
        let message = match found.strip_prefix("missing field ") {
            Some(key) => format!("the key {key} is missing here; add it"),
            None if found.starts_with("invalid boolean") => "this is not a value; write texts in quotes".to_owned(),
            // The names of Rust's types mean nothing to the author of the file.
            None => found.replace("expected i64", "expected a whole number").replace("a boolean", "true or false"),
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

    /// Notes a fault that may follow from another one of the same table.
    pub(super) fn add_following(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.0.push(Problem { may_follow: true, ..Problem::new(span, message) });
    }

    /// The value, or else its fault is noted.
    pub(super) fn note<T>(&mut self, span: Range<usize>, result: Result<T, String>) -> Option<T> {
        result.map_err(|message| self.add(span, message)).ok()
    }

    /// The value, unless anything was wrong.
    pub(super) fn unless_any<T>(self, value: T) -> Result<T, Vec<Problem>> {
        if self.0.is_empty() { Ok(value) } else { Err(self.0) }
    }
}

/// A file.
#[derive(Debug, Clone)]
pub(super) struct Source {
    /// Its name.
    pub(super) file: String,
    /// Its text.
    pub(super) text: String,
}

impl Source {
    /// Faults with their places as people count them.
    pub(super) fn error(&self, problems: Vec<Problem>) -> ConfigError {
        let fault = |problem: Problem| Fault { place: Some(self.place(problem.span.start)), message: problem.message };
        let mut faults: Vec<Fault> = problems.into_iter().map(fault).collect();
        faults.sort();
        faults.dedup();
        ConfigError { file: self.file.clone(), faults }
    }

    fn place(&self, byte: usize) -> (usize, usize) {
        let before = self.text.get(..byte).unwrap_or(&self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }
}

/// The nearest of the known words as a question to put behind an unknown one; nothing if none is near.
pub(crate) fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let distance = |known: &str| strsim::damerau_levenshtein(&word.to_lowercase(), &known.to_lowercase());
    let best = known.into_iter().min_by_key(|known| distance(known));
    let near = best.filter(|best| distance(best) <= best.len().div_ceil(3));
    near.map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"))
}

/// Words as a list for people.
pub(crate) fn listed<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}
