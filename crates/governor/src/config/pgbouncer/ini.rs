//! pgbouncer's file format: sections, `key = value`, comments, `%include`.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_notation::{did_you_mean, quoted};

/// How deep files may include others, as in pgbouncer.
const DEPTH_MAX: usize = 10;

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    file: String,
    line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Databases,
    Users,
    Peers,
    Pgbouncer,
}

impl Section {
    const ALL: [(&'static str, Section); 4] = [
        ("databases", Section::Databases),
        ("users", Section::Users),
        ("peers", Section::Peers),
        ("pgbouncer", Section::Pgbouncer),
    ];
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) place: Place,
    pub(super) section: Section,
    pub(super) key: String,
    pub(super) value: String,
}

/// The entries of a file and of those that it includes, in order.
#[derive(Debug, Default)]
pub(super) struct Ini(Vec<Entry>);

impl Ini {
    /// Reads a file. The error has all faults, one a line.
    pub(super) fn read(file: &Path) -> Result<Ini, String> {
        let mut reader = Reader { folder: file.parent().unwrap_or(Path::new("")), ..Reader::default() };
        reader.file(file, None, 0);
        reader.end()
    }

    /// Reads a text, whose included files are relative to a folder.
    #[cfg(test)]
    pub(super) fn of_text(text: &str, folder: &Path) -> Result<Ini, String> {
        let mut reader = Reader { folder, ..Reader::default() };
        reader.text(text, "pgbouncer.ini", 0);
        reader.end()
    }

    pub(super) fn of(&self, section: Section) -> impl DoubleEndedIterator<Item = &Entry> {
        self.0.iter().filter(move |entry| entry.section == section)
    }
}

struct Reader<'a> {
    folder: &'a Path,
    entries: Vec<Entry>,
    faults: Vec<String>,
    /// An included file continues the section of the line that includes it, and the file after it that of its end.
    section: Option<Section>,
}

impl Default for Reader<'_> {
    fn default() -> Self {
        Reader { folder: Path::new(""), entries: Vec::new(), faults: Vec::new(), section: None }
    }
}

impl Reader<'_> {
    fn end(self) -> Result<Ini, String> {
        if self.faults.is_empty() { Ok(Ini(self.entries)) } else { Err(self.faults.join("\n")) }
    }

    fn fault(&mut self, place: &Place, message: impl fmt::Display) {
        self.faults.push(format!("{place}: {message}"));
    }

    fn file(&mut self, file: &Path, from: Option<&Place>, depth: usize) {
        let name = file.display().to_string();
        match fs::read(file) {
            Ok(bytes) => self.text(&String::from_utf8_lossy(&bytes), &name, depth),
            Err(error) => match from {
                Some(place) => self.fault(&place.clone(), format_args!("cannot read {name}: {error}")),
                None => self.faults.push(format!("{name}: cannot read it: {error}")),
            },
        }
    }

    fn text(&mut self, text: &str, name: &str, depth: usize) {
        for (number, line) in text.lines().enumerate() {
            let (line, place) = (line.trim(), Place { file: name.to_owned(), line: number + 1 });
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(included) = line.strip_prefix("%include").filter(|rest| rest.starts_with([' ', '\t'])) {
                self.include(included.trim(), &place, depth);
            } else if let Some(rest) = line.strip_prefix('[') {
                self.begin_section(rest, &place);
            } else {
                self.entry(line, place);
            }
        }
    }

    fn include(&mut self, included: &str, place: &Place, depth: usize) {
        if depth >= DEPTH_MAX {
            return self.fault(place, "files include one another more than 10 deep; do not include a file by itself");
        }
        let path = PathBuf::from(included);
        // pgbouncer starts from the folder in which it runs, which is unknown here.
        self.file(&self.folder.join(path), Some(place), depth + 1);
    }

    fn begin_section(&mut self, rest: &str, place: &Place) {
        let Some((name, _)) = rest.split_once(']') else {
            return self.fault(place, "the name of a section has no `]`; write [databases], for example");
        };
        let found = Section::ALL.iter().find(|(known, _)| *known == name);
        if found.is_none() {
            let meant = did_you_mean(name, Section::ALL.map(|(known, _)| known));
            self.fault(place, format_args!("pgbouncer has no section [{name}]{meant}; correct or remove it"));
        }
        self.section = found.map(|(_, section)| *section);
    }

    fn entry(&mut self, line: &str, place: Place) {
        let Some((key, value)) = key_and_value(line) else {
            let shown: String = line.chars().take(40).collect();
            return self
                .fault(&place, format_args!("`{shown}` is not `key = value`; correct it, or begin it with `;`"));
        };
        match self.section {
            Some(section) => self.entries.push(Entry { place, section, key, value: value.to_owned() }),
            // The fault of the section is there already.
            None if !self.faults.is_empty() => {}
            None => self.fault(&place, format_args!("`{key}` stands before any section; begin with [pgbouncer]")),
        }
    }
}

/// A line's key, which may be quoted, and its value.
fn key_and_value(line: &str) -> Option<(String, &str)> {
    let (key, rest) = match line.chars().next()? {
        quote @ ('\'' | '"') => quoted(&line[1..], quote)?,
        _ => {
            let is_of_key = |c: char| c.is_alphanumeric() || "_.-*".contains(c);
            let end = line.find(|c| !is_of_key(c)).unwrap_or(line.len());
            (line[..end].to_owned(), &line[end..])
        }
    };
    let value = rest.trim_start().strip_prefix('=')?;
    (!key.is_empty()).then(|| (key, value.trim()))
}
