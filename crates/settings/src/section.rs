//! The table as plain data, for the JSON schema, the documentation, and the writing of files.

use serde_json::{Map, Value, json};

use crate::table::{CLASS, RULE, Row, TABLES, TLS, USER};

/// A key of a settings file.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its name within its table.
    pub key: &'static str,
    /// The meaning, with the default.
    pub about: String,
    /// The acts that change it, in words.
    pub change: &'static str,
    /// Whether every such table must give it.
    pub is_required: bool,
    /// The JSON schema of its values.
    pub schema: Value,
}

/// A table of a settings file with its keys.
#[derive(Debug, Clone)]
pub struct Section {
    /// Its path, such as `listen.tls`; empty for the top.
    pub path: &'static str,
    /// Whether a file can have several: `[[class]]`.
    pub is_list: bool,
    /// The meaning.
    pub about: String,
    /// Its keys, in the order of the documentation.
    pub entries: Vec<Entry>,
}

/// All tables, in the order of the documentation; each follows the table that contains it.
pub fn sections() -> Vec<Section> {
    let mut sections = Vec::new();
    for table in &TABLES {
        sections.push(section(table.name, false, table.about, table.rows));
        match table.name {
            "listen" => sections.extend([
                section("listen.tls", false, "Encryption towards clients; none without it.", TLS),
                section("class", true, "The classes, one table each; `high` and `low` without any.", CLASS),
                section("rule", true, "Who belongs to a class: the first rule of which all holds decides.", RULE),
            ]),
            "admin" => sections.push(section(
                "admin.user",
                true,
                "A user of the console. Exactly one of `verifier`, `password_file`, `password_variable` and `password` is given.",
                USER,
            )),
            _ => {}
        }
    }
    sections
}

fn section<Of>(path: &'static str, is_list: bool, about: &str, rows: &'static [Row<Of>]) -> Section {
    let entry = |row: &'static Row<Of>| Entry {
        key: row.key,
        about: match row.default {
            "" | "any" | "none" => row.about.trim().to_owned(),
            _ if row.about.contains("The default is") => row.about.trim().to_owned(),
            default => format!("{} The default is `{default}`.", row.about.trim()),
        },
        change: row.change.name(),
        is_required: row.is_required,
        schema: row.kind.schema(),
    };
    Section { path, is_list, about: about.to_owned(), entries: rows.iter().map(entry).collect() }
}

/// Every key with its description and the acts that change it, in the order of the documentation: `listen.tls.key`,
/// `class.name`.
pub fn keys() -> Vec<(String, String, &'static str)> {
    let path = |table: &str, key: &str| if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") };
    let keys = |section: Section| {
        section.entries.into_iter().map(move |entry| (path(section.path, entry.key), entry.about, entry.change))
    };
    sections().into_iter().flat_map(keys).collect()
}

/// The grammar of settings files as a JSON schema, for completion and checks in editors.
/// `docs/governor.schema.json` is a copy.
pub fn schema() -> Value {
    let mut root = json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Plimsoll governor" });
    for section in sections() {
        let required: Vec<&str> =
            section.entries.iter().filter(|entry| entry.is_required).map(|entry| entry.key).collect();
        let mut table = json!({ "type": "object", "description": section.about, "additionalProperties": false });
        if !required.is_empty() {
            table["required"] = json!(required);
        }
        table["properties"] = section.entries.into_iter().map(property).collect::<Map<_, _>>().into();
        match section.path {
            "" => root.as_object_mut().expect("an object").append(table.as_object_mut().expect("an object")),
            path => {
                let parents = path.split('.').rev().skip(1);
                let outer = parents.fold(&mut root, |root, parent| &mut root["properties"][parent]);
                let list = |item: Value| json!({ "type": "array", "description": section.about, "items": item });
                let name = path.rsplit('.').next().expect("a path has a last part");
                outer["properties"][name] = if section.is_list { list(table) } else { table };
            }
        }
    }
    root
}

fn property(entry: Entry) -> (String, Value) {
    let mut schema = entry.schema;
    schema["description"] = entry.about.into();
    (entry.key.to_owned(), schema)
}
