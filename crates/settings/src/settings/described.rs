//! Settings in readable form, as keys and values: for `SHOW CONFIG`, `SET`, and to report the changes of a reload.

use std::path::Path;

use super::{ClassSettings, Settings};
use crate::read::Surroundings;
use crate::table::{CLASS, Change, Context, Mode, Raw, Row, TABLES};

/// A key of `SHOW CONFIG`, such as `class.low.mpl`, in the table.
enum Found<'k> {
    All(Mode, &'static Row<Settings>),
    Class(&'k str, &'static Row<ClassSettings>),
}

fn find(key: &str) -> Option<Found<'_>> {
    if let Some((class, name)) = class_key(key) {
        return CLASS.iter().find(|row| row.key == name).map(|row| Found::Class(class, row));
    }
    let (section, name) = key.split_once('.').unwrap_or(("", key));
    let table = TABLES.iter().find(|table| table.name == section)?;
    table.rows.iter().find(|row| row.key == name).map(|row| Found::All(table.mode, row))
}

/// Name and key of a class's setting, which is called `class.NAME.KEY`.
pub fn class_key(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix("class.")?.rsplit_once('.')
}

/// The acts that change the setting of that key, in words; `None` for a key that is not in the table.
pub fn change_of(key: &str) -> Option<&'static str> {
    match find(key)? {
        Found::All(_, row) => Some(row.change.name()),
        Found::Class(_, row) => Some(row.change.name()),
    }
}

/// Why a key has no effect in a mode; `None` if it has one.
pub fn means_nothing(key: &str, is_beside: bool) -> Option<&'static str> {
    match find(key)? {
        Found::All(mode, row) => mode.fault(is_beside).or_else(|| row.mode.fault(is_beside)),
        Found::Class(_, row) => row.mode.fault(is_beside),
    }
}

/// The keys that `SET` can change: of the whole governor, and of a class.
pub fn settable() -> (Vec<String>, Vec<&'static str>) {
    let all = TABLES.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row)));
    let all = all.filter(|(_, row)| matches!(row.change, Change::Set)).map(|(table, row)| full(table.name, row.key));
    let of_class = CLASS.iter().filter(|row| matches!(row.change, Change::Set)).map(|row| row.key);
    (all.collect(), of_class.collect())
}

/// The default of a key that `SET` can change; `None` for another, and for one whose default depends on other settings.
pub fn default_of(key: &str) -> Option<&'static str> {
    let (can_be_set, default) = match find(key)? {
        Found::All(_, Row { change, default, .. }) => (matches!(change, Change::Set), *default),
        Found::Class(_, Row { change, default, .. }) => (matches!(change, Change::Set), *default),
    };
    Some(default).filter(|default| can_be_set && !default.is_empty())
}

/// The default of a key as `SHOW CONFIG` shows it; `None` if it depends on other settings.
pub fn default_shown(key: &str) -> Option<&'static str> {
    let default = match find(key)? {
        Found::All(_, row) => row.default,
        Found::Class(_, row) => row.default,
    };
    Some(default).filter(|default| !default.is_empty())
}

fn full(table: &str, key: &str) -> String {
    if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") }
}

impl Settings {
    /// Every setting by its key in the file, in the order of the table. Verifiers are left out.
    pub fn described(&self) -> Vec<(String, String)> {
        let is_beside = self.is_beside;
        // The table names the place of a value once, for reading and for writing.
        let mut all = self.clone();
        let mut lines = Vec::new();
        for table in &TABLES {
            if table.mode.fault(is_beside).is_none() {
                lines.extend(shown(table.rows, &mut all, table.name, is_beside));
            }
            match table.name {
                "listen" => self.describe_lists(&mut all.classes, &mut lines),
                "admin" => lines.extend(self.admin.users.iter().map(|user| {
                    let may = if user.may_change { "may change" } else { "may look" };
                    (format!("admin.user.{}", user.name), may.to_owned())
                })),
                _ => {}
            }
        }
        lines
    }

    fn describe_lists(&self, classes: &mut [ClassSettings], lines: &mut Vec<(String, String)>) {
        if !self.is_beside {
            lines.push(("listen.tls".to_owned(), self.listen.tls_mode().to_owned()));
        }
        for class in classes {
            let name = format!("class.{}", class.name);
            lines.extend(shown(CLASS, class, &name, self.is_beside));
        }
        for (place, rule) in self.rules.rules().iter().enumerate() {
            let class = &self.class(rule.class).name;
            lines.push((format!("rule.{}", place + 1), format!("{rule} -> {class}")));
        }
    }

    /// Sets the value of a key of `SHOW CONFIG`, written as there. The error says why it is no value of that key;
    /// `Ok(false)` if there is no such key or class, or if it cannot be set while the governor runs.
    pub fn set(&mut self, key: &str, value: &str) -> Result<bool, String> {
        let surroundings = Surroundings { folder: Path::new(""), environment: &|_| None, classes: &[] };
        let cx = Context { surroundings: &surroundings, is_beside: self.is_beside };
        match find(key) {
            Some(Found::All(_, row)) if matches!(row.change, Change::Set) => {
                row.kind.put(self, Raw::Word(value), &cx)?;
            }
            Some(Found::Class(class, row)) if matches!(row.change, Change::Set) => {
                let Some(place) = self.class_named(class) else { return Ok(false) };
                row.kind.put(&mut self.classes[usize::from(place.0)], Raw::Word(value), &cx)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Keeps the settings that cannot change while sessions run.
    pub fn keep_until_restart(&mut self, current: &Settings) {
        for row in TABLES.iter().flat_map(|table| table.rows) {
            if let Change::Restart(keep) = row.change {
                keep(self, current);
            }
        }
    }
}

fn shown<Of>(rows: &[Row<Of>], of: &mut Of, table: &str, is_beside: bool) -> Vec<(String, String)> {
    let rows = rows.iter().filter(|row| row.is_shown && row.mode.fault(is_beside).is_none());
    rows.map(|row| (full(table, row.key), row.kind.shown(of, is_beside))).collect()
}
