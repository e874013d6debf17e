//! Faults of a file, with their places.

use std::fmt;
use std::ops::Range;

/// A file that cannot be used, with every fault that was seen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct FileError {
    /// The file's name.
    pub file: String,
    /// The faults, in the order of the file.
    pub faults: Vec<Fault>,
}

/// One fault of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Line and column from 1, columns in characters; `None` for the file as a whole.
    pub place: Option<(usize, usize)>,
    /// The fault and the remedy.
    pub message: String,
}

impl fmt::Display for FileError {
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

/// A fault whose place is given in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where, in bytes of the file.
    pub span: Range<usize>,
    /// The fault and the remedy.
    pub message: String,
    /// Whether it may follow from another fault of the same table, and is then left out.
    pub may_follow: bool,
}

impl Problem {
    /// A fault at a place.
    pub fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Problem { span, message: message.into(), may_follow: false }
    }

    /// A fault that the TOML parser reported.
    pub fn of_toml(error: &toml::de::Error) -> Self {
        let found = error.message().trim().replace('\n', ", ");
        let message = match found.strip_prefix("missing field ") {
            Some(key) => format!("the key {key} is missing here; add it"),
            None if found.starts_with("invalid boolean") => "this is not a value; write texts in quotes".to_owned(),
            // The names of Rust's types mean nothing to the author of the file.
            None => ["i64", "u32", "u64"]
                .iter()
                .fold(found, |found, name| found.replace(&format!("expected {name}"), "expected a whole number"))
                .replace("a boolean", "true or false"),
        };
        Problem::new(error.span().unwrap_or(0..0), message)
    }
}

/// Faults as they are found.
#[derive(Debug, Default)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Notes a fault.
    pub fn add(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.0.push(Problem::new(span, message));
    }

    /// Notes a fault that may follow from another one of the same table.
    pub fn add_following(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.0.push(Problem { may_follow: true, ..Problem::new(span, message) });
    }

    /// The value; otherwise records its fault.
    pub fn note<T>(&mut self, result: Result<T, Problem>) -> Option<T> {
        result.map_err(|problem| self.0.push(problem)).ok()
    }

    /// The value; otherwise records its fault at that place.
    pub fn note_at<T>(&mut self, span: Range<usize>, result: Result<T, String>) -> Option<T> {
        self.note(result.map_err(|message| Problem::new(span, message)))
    }

    /// Takes the faults so far, as an error if there are any.
    pub fn check(&mut self) -> Result<(), Vec<Problem>> {
        if self.0.is_empty() { Ok(()) } else { Err(std::mem::take(&mut self.0)) }
    }
}

/// A file.
#[derive(Debug, Clone)]
pub struct Source {
    /// Its name.
    pub file: String,
    /// Its text.
    pub text: String,
}

impl Source {
    /// Faults with their places as people count them.
    pub fn error(&self, problems: impl IntoIterator<Item = Problem>) -> FileError {
        let fault =
            |problem: Problem| Fault { place: Some(place(&self.text, problem.span.start)), message: problem.message };
        let mut faults: Vec<Fault> = problems.into_iter().map(fault).collect();
        faults.sort();
        faults.dedup();
        FileError { file: self.file.clone(), faults }
    }
}

/// Line and column of a byte of a text, from 1, columns in characters.
pub fn place(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// The place of a part of `value`, a string of the TOML file `text`. If the string is written with escapes, so that its
/// bytes are not those of the file, returns the place of the whole string.
pub fn within(text: &str, string: Range<usize>, value: &str, part: &Range<usize>) -> Range<usize> {
    let typed = text.get(string.clone()).unwrap_or_default();
    // The first line break after three quotes does not belong to the text.
    let opening = ["\"\"\"\r\n", "\"\"\"\n", "\"\"\"", "'''\r\n", "'''\n", "'''", "\"", "'"];
    let quotes = opening.iter().find(|quotes| typed.starts_with(**quotes)).map_or(0, |quotes| quotes.len());
    match typed.get(quotes..).is_some_and(|typed| typed.starts_with(value)) {
        true => string.start + quotes + part.start..string.start + quotes + part.end,
        false => string,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_told_once_in_the_order_of_the_file() {
        let source = Source { file: "x.toml".to_owned(), text: "é = 1\nb = 2\n".to_owned() };
        let error =
            source.error([Problem::new(7..8, "second"), Problem::new(5..6, "first"), Problem::new(7..8, "second")]);
        assert_eq!(error.to_string(), "x.toml:1:5: first\nx.toml:2:1: second");
        let whole = FileError { faults: vec![Fault { place: None, message: "unreadable".to_owned() }], ..error };
        assert_eq!(whole.to_string(), "x.toml: unreadable");
    }

    #[test]
    fn parts_of_strings_have_places_unless_there_are_escapes() {
        let check = |text: &str, value: &str, expect: &str| {
            let at = text.find(['"', '\'']).expect("a string");
            assert_eq!(&text[within(text, at..text.len(), value, &(2..4))], expect, "{text}");
        };
        check("a = \"12345\"", "12345", "34");
        check("a = '12345'", "12345", "34");
        check("a = \"\"\"12345\"\"\"", "12345", "34");
        check("a = '''\n12345'''", "12345", "34");
        check("a = \"\"\"\r\n12345\"\"\"", "12345", "34");
        check("a = '\"2345'", "\"2345", "34");
        check("a = \"1\\u0032345\"", "12345", "\"1\\u0032345\"");
    }
}
