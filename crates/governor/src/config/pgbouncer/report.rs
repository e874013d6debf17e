//! What became of each line of pgbouncer's settings, worst first.

use std::fmt;

use plimsoll_display::wrap;
use serde::Serialize;

/// The settings, and what became of each line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Import {
    /// The file that was read.
    pub file: String,
    /// The text of `plimsoll.toml`.
    pub settings: String,
    /// A note for each line, worst first.
    pub notes: Vec<Note>,
}

/// What became of a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// How the line fares.
    pub kind: Kind,
    /// File and line; empty if no single line is meant.
    pub place: String,
    /// pgbouncer's key.
    pub key: String,
    /// What it means here, and what to do.
    pub text: String,
}

/// How a line fares, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Something is to be decided or done before the governor can start or replace pgbouncer.
    Open,
    /// It has no counterpart, and users may notice.
    Missing,
    /// It was translated, and acts differently.
    Differs,
    /// It was translated.
    Translated,
    /// Nothing is needed for it.
    Unneeded,
}

impl Kind {
    const ALL: [(Kind, &'static str); 5] = [
        (Kind::Open, "To decide before you switch"),
        (Kind::Missing, "No counterpart"),
        (Kind::Differs, "Acts differently"),
        (Kind::Translated, "Translated"),
        (Kind::Unneeded, "Nothing needed"),
    ];
}

impl fmt::Display for Import {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = Kind::ALL.map(|(kind, _)| self.notes.iter().filter(|note| note.kind == kind).count());
        let [open, missing, differs, translated, unneeded] = counts;
        writeln!(
            f,
            "{}: {translated} translated, {unneeded} not needed, {differs} differ, {missing} without a counterpart, \
             {open} to decide",
            self.file
        )?;
        for (kind, heading) in Kind::ALL {
            let notes: Vec<&Note> = self.notes.iter().filter(|note| note.kind == kind).collect();
            if !notes.is_empty() {
                writeln!(f, "\n{heading}:")?;
            }
            for Note { place, key, text, .. } in notes {
                let line = place.rsplit(':').next().filter(|line| !line.is_empty());
                let line = line.map_or(String::new(), |line| format!(" (line {line})"));
                for part in wrap(&format!("{key}{line}: {text}"), "  ", "      ") {
                    writeln!(f, "{part}")?;
                }
            }
        }
        Ok(())
    }
}
