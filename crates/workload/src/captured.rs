//! The kind of a workload that replays recorded traffic: `capture:DIR`, with options after a question mark.
//!
//! What replays it is not here: it needs PostgreSQL's protocol. This is the name, which paths in it are resolved.

use std::fmt;
use std::path::{Path, PathBuf};

use plimsoll_notation::did_you_mean;

/// The prefix of the kind; the rest is a folder and options.
pub const PREFIX: &str = "capture:";

/// The description for the list of workloads.
pub const ABOUT: &str = "recorded traffic, replayed on PostgreSQL";

/// The options, in the order in which they are written.
const OPTIONS: [&str; 6] = ["database", "writes", "leave_out", "redacted_data", "setup", "copy_from"];

/// A workload of recorded traffic, as its kind names it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CaptureKind {
    /// The capture's folder.
    pub folder: PathBuf,
    /// The database whose sessions are replayed; `None` for the one with most units.
    pub database: Option<String>,
    /// Whether a server of the user's may be written.
    pub writes: bool,
    /// Whether statements that the target cannot run are left out.
    pub leave_out: bool,
    /// Whether the data has the hashes of a redacted capture in place of values.
    pub redacted_data: bool,
    /// Where the data of a private server comes from.
    pub source: Option<DataSource>,
}

/// Where the data of a private server comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataSource {
    /// A file of SQL.
    Setup(PathBuf),
    /// The URL of a database that is dumped.
    CopyFrom(String),
}

impl CaptureKind {
    /// Reads a kind; `None` if it is of another workload. The error names the fault and the remedy.
    pub fn parse(kind: &str) -> Option<Result<Self, String>> {
        kind.strip_prefix(PREFIX).map(CaptureKind::read)
    }

    fn read(rest: &str) -> Result<Self, String> {
        let (folder, mut options) = rest.split_once('?').unwrap_or((rest, ""));
        if folder.is_empty() {
            return Err("no folder is named; write for example capture:friday".to_owned());
        }
        let mut read = CaptureKind { folder: folder.into(), ..CaptureKind::default() };
        while !options.is_empty() {
            // A URL has question marks and ampersands of its own, so it is the last.
            let (option, rest) = match options.starts_with("copy_from=") {
                true => (options, ""),
                false => options.split_once('&').unwrap_or((options, "")),
            };
            options = rest;
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            read.set(name, value)?;
        }
        Ok(read)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let takes_value = matches!(name, "database" | "setup" | "copy_from");
        if OPTIONS.contains(&name) && takes_value == value.is_empty() {
            return Err(match takes_value {
                true => format!("the option `{name}` has no value; write {name}=VALUE"),
                false => format!("the option `{name}` takes no value; write {name} alone"),
            });
        }
        match name {
            "database" => self.database = Some(value.to_owned()),
            "writes" => self.writes = true,
            "leave_out" => self.leave_out = true,
            "redacted_data" => self.redacted_data = true,
            "setup" | "copy_from" if self.source.is_some() => {
                return Err("the data has two sources; give one of setup=FILE and copy_from=URL".to_owned());
            }
            "setup" => self.source = Some(DataSource::Setup(value.into())),
            "copy_from" => self.source = Some(DataSource::CopyFrom(value.to_owned())),
            "" => return Err("an option after ? or & is empty; leave the mark out".to_owned()),
            _ => {
                let (meant, all) = (did_you_mean(name, OPTIONS), OPTIONS.join(", "));
                return Err(format!("a capture has no option `{name}`{meant}; there are {all}"));
            }
        }
        Ok(())
    }

    /// The same with relative paths taken as relative to a folder.
    fn anchored(mut self, folder: &Path) -> Self {
        self.folder = folder.join(self.folder);
        if let Some(DataSource::Setup(file)) = &mut self.source {
            *file = folder.join(&*file);
        }
        self
    }
}

impl fmt::Display for CaptureKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{PREFIX}{}", self.folder.display())?;
        let flag = |is_set: bool, name: &str| is_set.then(|| name.to_owned());
        let options = [
            self.database.as_ref().map(|name| format!("database={name}")),
            flag(self.writes, "writes"),
            flag(self.leave_out, "leave_out"),
            flag(self.redacted_data, "redacted_data"),
            self.source.as_ref().map(|source| match source {
                DataSource::Setup(file) => format!("setup={}", file.display()),
                DataSource::CopyFrom(url) => format!("copy_from={url}"),
            }),
        ];
        for (at, option) in options.into_iter().flatten().enumerate() {
            write!(out, "{}{option}", if at == 0 { '?' } else { '&' })?;
        }
        Ok(())
    }
}

/// A kind of recorded traffic with relative paths taken as relative to a folder. Any other kind stays as it is, as does one
/// with a mistake, which is reported where the workload is made.
pub(crate) fn anchored(kind: &str, folder: &Path) -> String {
    match CaptureKind::parse(kind) {
        Some(Ok(read)) => read.anchored(folder).to_string(),
        _ => kind.to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_and_written() {
        for kind in [
            "capture:friday",
            "capture:a:b/friday?writes",
            "capture:friday?database=shop&leave_out&redacted_data&setup=shop.sql",
            "capture:friday?writes&copy_from=postgres://ann@db/shop?sslmode=require&x=y",
        ] {
            assert_eq!(CaptureKind::parse(kind).unwrap().unwrap().to_string(), kind);
        }
        assert_eq!(CaptureKind::parse("file:capture.toml"), None);
        let anchor = |kind: &str| anchored(kind, Path::new("/lab"));
        assert_eq!(anchor("capture:friday?setup=shop.sql"), "capture:/lab/friday?setup=/lab/shop.sql");
        assert_eq!(anchor("capture:/x?copy_from=postgres://db/shop"), "capture:/x?copy_from=postgres://db/shop");
        assert_eq!((anchor("tpcc"), anchor("capture:a?b")), ("tpcc".to_owned(), "capture:a?b".to_owned()));
    }

    #[test]
    fn mistakes_are_named_with_the_remedy() {
        for (kind, expect) in [
            ("capture:", "no folder is named"),
            ("capture:a?write", "did you mean `writes`?"),
            ("capture:a?setup", "write setup=VALUE"),
            ("capture:a?writes=no", "write writes alone"),
            ("capture:a?writes&&leave_out", "is empty"),
            ("capture:a?setup=b&copy_from=postgres://c", "two sources"),
        ] {
            let why = CaptureKind::parse(kind).unwrap().unwrap_err();
            assert!(why.contains(expect), "{kind}: {why}");
        }
    }
}
