//! Every row is obeyed wherever the table is used, and no other key is.

use std::collections::BTreeSet;

use plimsoll_testing::check_made;

use super::good;
use crate::section::{keys, schema, sections};
use crate::table::{CLASS, Row, TABLES};
use crate::{change_of, means_nothing, settable};

/// Files that together show every row: one for each mode.
const FILES: [&str; 2] =
    ["server = \"postgres://db\"\n", "control = \"postgres://plimsoll@db\"\n[mode]\nproxy = false\n"];

#[test]
fn the_copy_of_the_schema_is_up_to_date() {
    let text = serde_json::to_string_pretty(&schema()).expect("JSON") + "\n";
    check_made("../../docs/governor.schema.json", &text);
}

/// The key of a row in `SHOW CONFIG`, whose classes are called `high` and `low`.
fn in_show_config(path: &str) -> String {
    path.strip_prefix("class.").map_or_else(|| path.to_owned(), |key| format!("class.low.{key}"))
}

/// A new row is read, shown, changed, described, and in the schema, without another line of code.
#[test]
fn each_row_is_shown_and_described_and_nothing_else_is() {
    let shown: BTreeSet<String> = FILES
        .iter()
        .flat_map(|file| good(file).settings.described())
        .map(|(key, _)| key)
        .filter(|key| !key.starts_with("class.high."))
        .collect();
    // Values of several keys: a class by its name, encryption as a word, a rule and a user of the console as a line.
    let is_joined =
        |key: &str| ["class.name", "rule.", "admin.user.", "listen.tls."].iter().any(|it| key.starts_with(it));
    let rows: BTreeSet<String> =
        keys().iter().filter(|(key, ..)| !is_joined(key)).map(|(key, ..)| in_show_config(key)).collect();
    let shown: BTreeSet<String> = shown.into_iter().filter(|key| key != "listen.tls").collect();
    assert_eq!(shown, rows);
    for (key, about, change) in keys() {
        assert!(about.ends_with('.'), "{key}: {about}");
        if !is_joined(&key) {
            assert_eq!(change_of(&in_show_config(&key)), Some(change), "{key}");
        }
    }
    assert_eq!(change_of("preemption.nothing"), None);
}

/// Parsing, the schema and the list of keys have the same keys: a key of one table is unknown in every other.
#[test]
fn a_key_is_read_where_it_has_a_row_and_nowhere_else() {
    let sections = sections();
    let all: BTreeSet<&str> = sections.iter().flat_map(|section| &section.entries).map(|entry| entry.key).collect();
    for section in &sections {
        let head = match (section.path, section.is_list) {
            ("", _) => String::new(),
            (path, true) => format!("[[{path}]]\n"),
            (path, false) => format!("[{path}]\n"),
        };
        let parts = sections.iter().map(|inner| inner.path.rsplit_once('.').unwrap_or(("", inner.path)));
        let inner: Vec<&str> = parts.filter(|(outer, _)| *outer == section.path).map(|(_, name)| name).collect();
        for key in all.iter().filter(|key| !inner.contains(key)) {
            let told = super::read_text(&format!("{head}{key} = 1979-05-27\n"));
            let told = told.err().map(|error| error.to_string()).unwrap_or_default();
            let is_known = section.entries.iter().any(|entry| entry.key == *key);
            assert_eq!(
                !told.contains(&format!("there is no key `{key}`")),
                is_known,
                "[{}] {key}: {told}",
                section.path
            );
            // A date is a value of no key, so that each one that is known is read.
            if is_known {
                assert!(
                    told.contains("1979-05-27") || told.contains("has no effect"),
                    "[{}] {key}: {told}",
                    section.path
                );
            }
        }
    }
}

/// A default of the table is what a file without the key has, and stands in the text once.
#[test]
fn a_file_without_a_key_has_its_default() {
    fn check<Of>(rows: &[Row<Of>], table: &str, shown: &[(String, String)]) {
        for row in rows.iter().filter(|row| !row.default.is_empty()) {
            let key = if table.is_empty() { row.key.to_owned() } else { format!("{table}.{}", row.key) };
            if let Some((_, value)) = shown.iter().find(|(other, _)| *other == key) {
                let is_of_mode = key == "mode.proxy" || key == "admin.socket_folder";
                assert!(value == row.default || is_of_mode, "{key}: {value}, and the table has {}", row.default);
            }
            if row.about.contains("The default is `") {
                assert!(row.about.contains(&format!("The default is `{}`", row.default)), "{key}: {}", row.about);
            }
        }
    }
    let shown = good(FILES[0]).settings.described();
    TABLES.iter().for_each(|table| check(table.rows, table.name, &shown));
    check(CLASS, "class.low", &shown);
}

#[test]
fn what_can_be_set_takes_what_it_shows() {
    let mut settings = good(FILES[0]).settings;
    let (all, of_class) = settable();
    let keys = all.into_iter().chain(of_class.into_iter().map(|key| format!("class.low.{key}")));
    let before = settings.described();
    for key in keys {
        let (_, value) = before.iter().find(|(other, _)| *other == key).unwrap_or_else(|| panic!("{key} is not shown"));
        assert_eq!(settings.set(&key, value), Ok(true), "{key} = {value}");
        assert!(settings.set(&key, "no value of any key").is_err(), "{key}");
    }
    assert_eq!(settings.described(), before);
    assert_eq!(settings.set("listen.workers", "2"), Ok(false), "only a restart changes it");
    assert!(means_nothing("listen.workers", true).is_some() && means_nothing("listen.workers", false).is_none());
}
