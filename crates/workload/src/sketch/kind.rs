//! The kind of a sketch: `sketch:DIR`, with options after a question mark.

use std::fmt;
use std::path::{Path, PathBuf};

use plimsoll_notation::did_you_mean;

/// The prefix of the kind; the rest is the folder of an observation, and options.
pub const PREFIX: &str = "sketch:";

/// The description for the list of workloads.
pub const ABOUT: &str = "a sketch of what was observed on a live server: its statements with values from statistics";

/// The options, in the order in which they are written.
const OPTIONS: [&str; 2] = ["class", "database"];

/// A sketch, as its kind names it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SketchKind {
    /// The observation's folder.
    pub folder: PathBuf,
    /// The class whose statements it has; `None` for all.
    pub class: Option<String>,
    /// The database whose statements it has; `None` for the one in which most time was spent.
    pub database: Option<String>,
}

impl SketchKind {
    /// Reads a kind; `None` if it is of another workload. The error names the fault and the remedy.
    pub fn parse(kind: &str) -> Option<Result<Self, String>> {
        kind.strip_prefix(PREFIX).map(SketchKind::read)
    }

    fn read(rest: &str) -> Result<Self, String> {
        let (folder, options) = rest.split_once('?').unwrap_or((rest, ""));
        if folder.is_empty() {
            return Err("no folder is named; write for example sketch:seen".to_owned());
        }
        let mut read = SketchKind { folder: folder.into(), ..SketchKind::default() };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let place = match name {
                "class" => &mut read.class,
                "database" => &mut read.database,
                _ => {
                    let (meant, all) = (did_you_mean(name, OPTIONS), OPTIONS.join(", "));
                    return Err(format!("a sketch has no option `{name}`{meant}; there are {all}"));
                }
            };
            if value.is_empty() {
                return Err(format!("the option `{name}` has no value; write {name}=NAME"));
            }
            *place = Some(value.to_owned());
        }
        Ok(read)
    }

    /// A name for the workload: `sketch_`, then the names of the folder and of the class.
    pub fn workload_name(&self) -> String {
        let folder = self.folder.file_name().unwrap_or_default().to_string_lossy();
        let class = self.class.as_ref().map_or_else(String::new, |class| format!("_{class}"));
        name(&format!("sketch_{folder}{class}"))
    }
}

impl fmt::Display for SketchKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{PREFIX}{}", self.folder.display())?;
        let options = [("class", &self.class), ("database", &self.database)];
        let given = options.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        for (at, (name, value)) in given.enumerate() {
            write!(out, "{}{name}={value}", if at == 0 { '?' } else { '&' })?;
        }
        Ok(())
    }
}

/// Letters, digits and `_` in place of everything else, at most 40 of them.
pub(super) fn name(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(40).collect()
}

/// A kind of a sketch with a relative folder taken as relative to another one; `None` for any other kind, and for one with a
/// mistake, which is reported where the workload is made.
pub(crate) fn anchored(kind: &str, folder: &Path) -> Option<String> {
    let read = SketchKind::parse(kind)?.ok()?;
    Some(SketchKind { folder: folder.join(&read.folder), ..read }.to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_and_written() {
        for kind in ["sketch:seen", "sketch:/a:b/seen?class=shop", "sketch:seen?class=a/b:1f&database=shop"] {
            assert_eq!(SketchKind::parse(kind).unwrap().unwrap().to_string(), kind);
        }
        assert_eq!(SketchKind::parse("file:seen"), None);
        let class = SketchKind::parse("sketch:runs/seen-1?class=web/shop").unwrap().unwrap();
        assert_eq!(class.workload_name(), "sketch_seen_1_web_shop");
        assert_eq!(anchored("sketch:seen?class=a", Path::new("/lab")).as_deref(), Some("sketch:/lab/seen?class=a"));
        assert_eq!(anchored("sketch:seen?x", Path::new("/lab")), None);
    }

    #[test]
    fn mistakes_are_named_with_the_remedy() {
        for (kind, expect) in [
            ("sketch:", "no folder is named"),
            ("sketch:seen?clas=a", "did you mean `class`?"),
            ("sketch:seen?class", "write class=NAME"),
        ] {
            let why = SketchKind::parse(kind).unwrap().unwrap_err();
            assert!(why.contains(expect), "{kind}: {why}");
        }
    }
}
