//! A settings file while it is put together from many lines.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plimsoll_settings::section::sections;
use plimsoll_settings::write::Writer;
use toml::Value;

use super::ini::Entry;
use super::report::{Kind, Note};

/// The tables in the order of the file.
const ORDER: [&str; 6] = ["", "listen", "listen.tls", "pool", "login", "admin"];

/// A key with its value, and a comment above it.
type Line = (String, Value, Option<String>);

/// Settings of the governor, and notes about their origin.
#[derive(Debug)]
pub(super) struct Draft {
    /// The folder of pgbouncer's file, from which its relative paths are taken to start.
    folder: PathBuf,
    tables: BTreeMap<&'static str, Vec<Line>>,
    /// Keys of every class.
    pub(super) of_classes: Vec<(&'static str, Value)>,
    /// Users of the console: name, verifier, whether it may change things.
    pub(super) console_users: Vec<(String, Option<String>, bool)>,
    notes: Vec<Note>,
}

impl Draft {
    pub(super) fn new(folder: &Path) -> Draft {
        let (tables, notes) = (BTreeMap::new(), Vec::new());
        Draft { folder: folder.to_owned(), tables, of_classes: Vec::new(), console_users: Vec::new(), notes }
    }

    /// A path of pgbouncer's settings as an absolute one.
    pub(super) fn path(&self, text: &str) -> String {
        let path = self.folder.join(text);
        std::path::absolute(&path).unwrap_or(path).display().to_string()
    }

    pub(super) fn note(&mut self, kind: Kind, entry: &Entry, text: impl Into<String>) {
        self.note_at(kind, entry.place.to_string(), &entry.key, text);
    }

    /// A note about several lines, or none.
    pub(super) fn note_all(&mut self, kind: Kind, key: &str, text: impl Into<String>) {
        self.note_at(kind, String::new(), key, text);
    }

    fn note_at(&mut self, kind: Kind, place: String, key: &str, text: impl Into<String>) {
        self.notes.push(Note { kind, place, key: key.to_owned(), text: text.into() });
    }

    /// Sets a key, such as `listen.clients_max`, for a line of pgbouncer's. If the governor has no such key, or it does
    /// not take that value, a note reports it.
    pub(super) fn set(&mut self, entry: &Entry, path: &'static str, value: impl Into<Value>) {
        let value = value.into();
        match self.put(path, value.clone(), None) {
            Ok(()) => self.note(Kind::Translated, entry, format!("{path} = {value}")),
            Err(why) => self.note(Kind::Missing, entry, why),
        }
    }

    /// Sets a key with a comment; the error says why that is not possible.
    pub(super) fn put(&mut self, path: &'static str, value: Value, comment: Option<&str>) -> Result<(), String> {
        let (table, key) = path.rsplit_once('.').unwrap_or(("", path));
        fits(table, key, &value).map_err(|why| format!("{path} = {value} cannot be written: {why}"))?;
        let lines = self.tables.entry(table).or_default();
        lines.retain(|(other, ..)| other != key);
        lines.push((key.to_owned(), value, comment.map(str::to_owned)));
        Ok(())
    }

    pub(super) fn has(&self, path: &str) -> bool {
        let (table, key) = path.rsplit_once('.').unwrap_or(("", path));
        self.tables.get(table).is_some_and(|lines| lines.iter().any(|(other, ..)| other == key))
    }

    /// The text of the file, and the notes.
    pub(super) fn finish(self) -> (String, Vec<Note>) {
        let mut file = Writer::default();
        file.comment(
            "Written by `plimsoll-governor import` from settings of pgbouncer. Read what it said about each line,",
        )
        .comment("then run `plimsoll-governor govern --check --connect --config FILE`.")
        .gap();
        for table in ORDER {
            let lines = self.tables.get(table).map_or(&[][..], Vec::as_slice);
            if table == "login" {
                self.classes(&mut file);
            }
            if lines.is_empty() {
                continue;
            }
            if !table.is_empty() {
                file.gap().table(table);
            }
            for (key, value, comment) in lines {
                if let Some(comment) = comment {
                    file.comment(comment);
                }
                file.set(key, value.clone());
            }
        }
        self.console(&mut file);
        (file.text().to_owned(), self.notes)
    }

    /// pgbouncer has no classes: all work is in the first until rules say otherwise.
    fn classes(&self, file: &mut Writer) {
        for (name, priority) in [("high", "high"), ("low", "low")] {
            file.gap().table("class").set("name", name).set("priority", priority);
            for (key, value) in &self.of_classes {
                file.set(key, value.clone());
            }
        }
        file.gap().comment("Work that gives way, once you know it. `plimsoll-governor observe` proposes rules:");
        let mut rule = Writer::default();
        rule.table("rule").set("class", "low").set("application_name", "report*");
        for line in rule.text().lines() {
            file.comment(line);
        }
        file.gap()
            .table("preemption")
            .comment("Decide which transactions to roll back, and count them, but roll back nothing.")
            .set("policy", "track");
    }

    fn console(&self, file: &mut Writer) {
        for (name, verifier, may_change) in &self.console_users {
            let mut user = Writer::default();
            user.table("admin.user").set("name", name.as_str());
            user.set("verifier", verifier.as_deref().unwrap_or("SCRAM-SHA-256$…"));
            if *may_change {
                user.set("may_change", true);
            }
            file.gap();
            if verifier.is_some() {
                for line in user.text().lines() {
                    raw(file, line);
                }
            } else {
                file.comment("`plimsoll-governor govern --hash-password` prints the verifier of a password:");
                for line in user.text().lines() {
                    file.comment(line);
                }
            }
        }
    }
}

/// Appends a line that another writer has checked.
fn raw<'w>(file: &'w mut Writer, line: &str) -> &'w mut Writer {
    match line.split_once(" = ") {
        None => file.table(line.trim_matches(['[', ']'])),
        Some((key, value)) => {
            let value: toml::Table = format!("x = {value}").parse().expect("a writer wrote it");
            file.set(key, value["x"].clone())
        }
    }
}

/// Whether the governor has that key, and the key such a value.
fn fits(table: &str, key: &str, value: &Value) -> Result<(), String> {
    let section = sections().into_iter().find(|section| section.path == table);
    let entry = section.and_then(|section| section.entries.into_iter().find(|entry| entry.key == key));
    let schema = entry.ok_or("this version has no such setting")?.schema;
    let bound = |name: &str| schema[name].as_i64();
    match value {
        Value::Integer(number) if bound("minimum").is_some_and(|least| *number < least) => {
            Err(format!("the least is {}", schema["minimum"]))
        }
        Value::Integer(number) if bound("maximum").is_some_and(|most| *number > most) => {
            Err(format!("the most is {}", schema["maximum"]))
        }
        _ => Ok(()),
    }
}
