//! `plimsoll.toml`: what an operator types, and how it becomes [`Settings`].
//!
//! [`typed`] lists every key. [`read`] refuses with all the faults it can see at once, each with its place in the file
//! ([`problem`]); nothing is changed before everything is known to be right. `schema` is the same grammar for
//! editors, `check` what `plimsoll govern --check` says.

mod admin;
pub mod check;
mod classes;
mod known_keys;
pub mod problem;
pub mod quantity;
mod resolve;
pub mod schema;
#[cfg(test)]
mod tests;
mod tls;
pub mod typed;
mod warnings;

use std::path::Path;

pub(crate) use classes::cpu_share;
pub use problem::ConfigError;
pub(crate) use resolve::{LOOK_LEAST, preemption_policy};

use plimsoll_postgres::url::account_name;

use crate::settings::Settings;
use problem::{Fault, Problem, Source};
use typed::TypedSettings;

/// A file longer than this is none of ours.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A file that was read and can be used.
#[derive(Debug, Clone)]
pub struct Config {
    /// What it asks for.
    pub settings: Settings,
    /// What is probably not meant so.
    pub warnings: Vec<String>,
}

/// What a file's meaning depends on beside its text.
pub struct Surroundings<'a> {
    /// The folder that relative paths are seen from.
    pub folder: &'a Path,
    /// Environment variables.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// The classes that there are already, which keep their places; none when a governor starts.
    pub classes: &'a [String],
}

/// Reads a file. `classes` are those that there are already.
pub fn read(file: &Path, classes: &[String]) -> Result<Config, ConfigError> {
    let name = file.display().to_string();
    let wrong = |message: String| ConfigError { file: name.clone(), faults: vec![Fault { place: None, message }] };
    let length = std::fs::metadata(file).map_err(|error| wrong(format!("cannot read it: {error}")))?.len();
    if length > FILE_BYTES_MAX {
        return Err(wrong(format!("it has {length} bytes; settings have at most {FILE_BYTES_MAX}")));
    }
    let text = std::fs::read_to_string(file).map_err(|error| wrong(format!("cannot read it: {error}")))?;
    // Without a variable it is the account that the governor runs as, so that a URL without a user means the same as for
    // psql.
    let account = |name: &str| if name == "LOGNAME" { account_name() } else { None };
    let surroundings = Surroundings {
        folder: file.parent().unwrap_or(Path::new("")),
        environment: &|name| std::env::var(name).ok().or_else(|| account(name)),
        classes,
    };
    parse(&text, &name, &surroundings)
}

/// Understands a file's text. Its name is told in errors.
pub fn parse(text: &str, file_name: &str, surroundings: &Surroundings<'_>) -> Result<Config, ConfigError> {
    let source = Source { file: file_name.to_owned(), text: text.to_owned() };
    let mut problems = known_keys::wrong_keys(text).map_err(|problem| source.error(vec![problem]))?;
    let typed = match toml::from_str::<TypedSettings>(text) {
        Ok(typed) => typed,
        Err(error) => {
            let problem = Problem::of_toml(&error);
            // A key in the wrong place is told once.
            if problems.iter().all(|told| told.span.start > problem.span.end || problem.span.start > told.span.end) {
                problems.push(problem);
            }
            return Err(source.error(problems));
        }
    };
    match resolve::resolve(&typed, surroundings) {
        Ok((settings, mut warnings)) if problems.is_empty() => {
            warnings.extend(warnings::warnings(&settings));
            Ok(Config { settings, warnings })
        }
        Ok(_) => Err(source.error(problems)),
        Err(more) => {
            problems.extend(more);
            Err(source.error(problems))
        }
    }
}
