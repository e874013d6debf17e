//! Reads `plimsoll.toml`, and makes [`Settings`] of it.
//!
//! [`read`] reports all the faults it can see at once, each with its place in the file; nothing changes unless the
//! whole file is valid.

mod admin;
mod classes;
mod login;
mod resolve;
mod secrets;
pub(crate) mod tables;
mod tls;
mod warnings;

use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

pub use plimsoll_notation::FileError as ConfigError;
use plimsoll_notation::{Fault, Problem, Source, wrong_keys};
use plimsoll_pg::url::{ServerUrl, account_name};
use toml::de::DeTable;

use crate::section;
use crate::settings::Settings;

use resolve::Resolved;
pub use warnings::BINDING;

/// A longer file is not a settings file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The permission that lets every user of the machine read a file.
const EVERYBODY_READS: u32 = 0o004;

/// A valid file.
#[derive(Debug, Clone)]
pub struct Config {
    /// The settings in the file.
    pub settings: Settings,
    /// Settings that are probably not intended.
    pub warnings: Vec<String>,
}

/// Everything besides the text that the meaning of a file depends on.
pub struct Surroundings<'a> {
    /// The folder that relative paths start from.
    pub folder: &'a Path,
    /// Environment variables.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// The existing classes, which keep their places; empty when a governor starts.
    pub classes: &'a [String],
}

/// A file with faults, and the servers that it names all the same.
#[derive(Debug)]
pub struct Unusable {
    /// The faults.
    pub error: ConfigError,
    /// The server, if that key is valid.
    pub server: Option<ServerUrl>,
    /// The control connection, if that key is valid.
    pub control: Option<ServerUrl>,
}

/// Reads a file. `classes` are the existing ones.
pub fn read(file: &Path, classes: &[String]) -> Result<Config, ConfigError> {
    read_for(file, classes, false)
}

/// Reads a file. With `is_beside`, it is read for a governor beside its server, regardless of `[mode]`.
pub fn read_for(file: &Path, classes: &[String], is_beside: bool) -> Result<Config, ConfigError> {
    read_partly(file, classes, is_beside).map_err(|unusable| unusable.error)
}

/// Makes another text of that of a file. The error says why it cannot.
pub type Edit<'e> = dyn Fn(&str) -> Result<String, String> + 'e;

/// Reads a file as if its text were another one.
pub fn read_edited(file: &Path, classes: &[String], is_beside: bool, edit: &Edit<'_>) -> Result<Config, ConfigError> {
    read_text(file, classes, is_beside, edit).map_err(|unusable| unusable.error)
}

/// Reads a file; for one with faults, also returns the servers that it names.
pub fn read_partly(file: &Path, classes: &[String], is_beside: bool) -> Result<Config, Box<Unusable>> {
    read_text(file, classes, is_beside, &|text| Ok(text.to_owned()))
}

fn read_text(file: &Path, classes: &[String], is_beside: bool, edit: &Edit<'_>) -> Result<Config, Box<Unusable>> {
    let name = file.display().to_string();
    let wrong = |message: String| {
        let error = ConfigError { file: name.clone(), faults: vec![Fault { place: None, message }] };
        Box::new(Unusable { error, server: None, control: None })
    };
    let metadata = std::fs::metadata(file).map_err(|error| wrong(format!("cannot read it: {error}")))?;
    let length = metadata.len();
    if length > FILE_BYTES_MAX {
        return Err(wrong(format!("it has {length} bytes; settings have at most {FILE_BYTES_MAX}")));
    }
    let text = std::fs::read_to_string(file).map_err(|error| wrong(format!("cannot read it: {error}")))?;
    let text = edit(&text).map_err(wrong)?;
    // Without this variable, the account is the one that the governor runs as, so that a URL without a user means the
    // same as for psql.
    let account = |name: &str| if name == "LOGNAME" { account_name() } else { None };
    let surroundings = Surroundings {
        folder: file.parent().unwrap_or(Path::new("")),
        environment: &|name| std::env::var(name).ok().or_else(|| account(name)),
        classes,
    };
    let mut config = parse_partly(&text, &name, &surroundings, is_beside)?;
    if metadata.permissions().mode() & EVERYBODY_READS != 0 {
        config.warnings.extend(secrets::in_the_open(&text, &name));
    }
    Ok(config)
}

/// Parses a file's text. Errors name the file.
pub fn parse(text: &str, file_name: &str, surroundings: &Surroundings<'_>) -> Result<Config, ConfigError> {
    parse_partly(text, file_name, surroundings, false).map_err(|unusable| unusable.error)
}

fn parse_partly(
    text: &str,
    file_name: &str,
    surroundings: &Surroundings<'_>,
    is_beside: bool,
) -> Result<Config, Box<Unusable>> {
    let source = Source { file: file_name.to_owned(), text: text.to_owned() };
    let unusable = |problems, server, control| Box::new(Unusable { error: source.error(problems), server, control });
    let is_no_toml = |problem| unusable(vec![problem], None, None);
    let mut problems = wrong_keys(text, &section::schema(), &|_, _| None).map_err(is_no_toml)?;
    let root = DeTable::parse(text).map_err(|error| is_no_toml(Problem::of_toml(&error)))?;
    let Resolved { settings, problems: more, mut warnings, server, control } =
        resolve::resolve(root.get_ref(), surroundings, is_beside);
    // A fault is reported once, with its first and most exact description.
    for problem in more {
        let table = table_at(text, &problem.span).filter(|_| problem.may_follow);
        if table.is_some_and(|table| problems.iter().any(|told| table.contains(&told.span.start))) {
            continue;
        }
        if problems.iter().all(|told| told.span.start > problem.span.end || problem.span.start > told.span.end) {
            problems.push(problem);
        }
    }
    if !problems.is_empty() {
        return Err(unusable(problems, server, control));
    }
    warnings.extend(warnings::warnings(&settings));
    Ok(Config { settings, warnings })
}

/// The table whose header is on the line of the place, up to the next header.
fn table_at(text: &str, place: &Range<usize>) -> Option<Range<usize>> {
    let is_head = |line: &str| line.trim_start().starts_with('[');
    let start = text.get(..place.start)?.rfind('\n').map_or(0, |end| end + 1);
    let mut lines = text[start..].split_inclusive('\n');
    let head = lines.next().filter(|line| is_head(line))?;
    let body: usize = lines.take_while(|line| !is_head(line)).map(str::len).sum();
    Some(start..start + head.len() + body)
}
