//! Settings of a governor from those of pgbouncer, and a list of what differs.
//!
//! In reading order: `ini` reads the files, `connection` the connection strings in them; `keys` has a row for each key
//! of pgbouncer; `databases`, `listening` and `logins` translate keys that mean something only together; `draft` is the
//! settings file while it is put together, and `report` says what became of every line.

mod connection;
mod databases;
mod draft;
mod ini;
mod keys;
mod listening;
mod logins;
mod report;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::path::Path;

use plimsoll_pg::url::account_name;

use crate::config::{Surroundings, parse};
use draft::Draft;
use ini::{Entry, Ini, Section};
pub use report::{Import, Kind, Note};

/// Why nothing was translated: lines that cannot be read, one fault a line with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ImportError(String);

/// The wishes of the caller.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// The server to write settings for, as `host:port`, if there are several; otherwise that of most databases.
    pub server: Option<String>,
}

/// The settings of pgbouncer that the translation of several keys needs.
struct Source<'a> {
    ini: &'a Ini,
}

impl Source<'_> {
    /// The last value of a key of `[pgbouncer]`: later lines win.
    fn entry(&self, key: &str) -> Option<&Entry> {
        self.ini.of(Section::Pgbouncer).rfind(|entry| entry.key == key)
    }

    /// Its value; `None` if it is missing or empty.
    fn value(&self, key: &str) -> Option<&str> {
        self.entry(key).map(|entry| entry.value.as_str()).filter(|value| !value.is_empty())
    }

    fn is_transaction_mode(&self) -> bool {
        self.value("pool_mode") == Some("transaction")
    }
}

/// Translates pgbouncer's settings in a file and the files that it includes.
pub fn import(file: &Path, options: &ImportOptions) -> Result<Import, ImportError> {
    let ini = Ini::read(file).map_err(ImportError)?;
    translate(&ini, file, options)
}

fn translate(ini: &Ini, file: &Path, options: &ImportOptions) -> Result<Import, ImportError> {
    let source = Source { ini };
    let mut faults = String::new();
    let mut draft = Draft::new(file.parent().unwrap_or(Path::new("")));
    for entry in ini.of(Section::Pgbouncer) {
        if let Err(message) = keys::translate(&source, entry, &mut draft) {
            let _ = writeln!(faults, "{}: {message}", entry.place);
        }
    }
    let databases = databases::translate(&source, options, &mut draft, &mut faults);
    logins::users(&source, &mut draft, &mut faults);
    listening::peers(&source, &mut draft, &mut faults);
    if !faults.is_empty() {
        return Err(ImportError(faults.trim_end().to_owned()));
    }
    listening::translate(&source, &mut draft);
    logins::translate(&source, &databases, &mut draft);
    let (settings, mut notes) = draft.finish();
    notes.extend(check(&settings, file));
    notes.sort_by_key(|note| note.kind);
    Ok(Import { file: file.display().to_string(), settings, notes })
}

/// What the governor itself says about the settings.
fn check(settings: &str, file: &Path) -> Vec<Note> {
    // As when the governor reads a file: a URL without a user means the account.
    let account = |name: &str| if name == "LOGNAME" { account_name() } else { None };
    let environment = |name: &str| std::env::var(name).ok().or_else(|| account(name));
    let surroundings =
        Surroundings { folder: file.parent().unwrap_or(Path::new("")), environment: &environment, classes: &[] };
    let note = |kind, text: String| Note { kind, place: String::new(), key: "check".to_owned(), text };
    match parse(settings, "plimsoll.toml", &surroundings) {
        Ok(config) => config.warnings.into_iter().map(|warning| note(Kind::Differs, warning)).collect(),
        Err(error) => error.faults.into_iter().map(|fault| note(Kind::Open, fault.message)).collect(),
    }
}
