//! Writes a settings file. Its keys and values are checked against the table, so that no part writes a key that the
//! governor does not have.
//!
//! ```
//! use plimsoll_settings::write::Writer;
//!
//! let mut file = Writer::default();
//! file.set("server", "postgres://db.example");
//! file.gap().table("class").set("name", "low").set("priority", "low").comment("At most two at once:").set("mpl", 2);
//! assert!(file.text().ends_with("priority = \"low\"\n# At most two at once:\nmpl = 2\n"));
//! ```

use plimsoll_notation::toml_string;
use toml::{Table, Value};

use crate::section::{Section, sections};

/// A settings file while it is written.
#[derive(Debug, Clone, Default)]
pub struct Writer {
    text: String,
    /// The path of the present table; empty at the top.
    table: String,
}

impl Writer {
    /// The text so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Adds a line of a comment; `words` have no line breaks.
    pub fn comment(&mut self, words: &str) -> &mut Self {
        self.text.extend(["# ", words, "\n"]);
        self
    }

    /// Adds an empty line.
    pub fn gap(&mut self) -> &mut Self {
        self.text.push('\n');
        self
    }

    /// Begins a table, or one more of a list of tables.
    ///
    /// # Panics
    /// If a file has no such table.
    pub fn table(&mut self, path: &str) -> &mut Self {
        let header = if section(path).is_list { format!("[[{path}]]") } else { format!("[{path}]") };
        path.clone_into(&mut self.table);
        self.text.extend([&header, "\n"]);
        self
    }

    /// Sets a key of the present table.
    ///
    /// # Panics
    /// If the table has no such key, or the key no such value.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) -> &mut Self {
        let value = value.into();
        check(&self.table, key, &value);
        self.text.extend([key, " = ", &inline(&value), "\n"]);
        self
    }

    /// Sets a key, if there is a value; panics as [`Self::set`] does.
    pub fn set_if(&mut self, key: &str, value: Option<impl Into<Value>>) -> &mut Self {
        if let Some(value) = value {
            self.set(key, value);
        }
        self
    }

    /// Writes what would set a key as a comment; panics as [`Self::set`] does.
    pub fn propose(&mut self, key: &str, value: impl Into<Value>) -> &mut Self {
        self.text.push_str("# ");
        self.set(key, value)
    }
}

/// Sets a key of a file that was read, such as `server`, `listen.addresses` or `admin.user`; creates its table.
///
/// # Panics
/// If a file has no such key, or the key no such value.
pub fn put(file: &mut Table, path: &str, value: impl Into<Value>) {
    let (table, key) = path.rsplit_once('.').unwrap_or(("", path));
    let value = value.into();
    check(table, key, &value);
    let file = table.split('.').filter(|part| !part.is_empty()).fold(file, |file, part| {
        let inner = file.entry(part).or_insert_with(|| Table::new().into());
        if !inner.is_table() {
            *inner = Table::new().into();
        }
        inner.as_table_mut().expect("it was just made one")
    });
    file.insert(key.to_owned(), value);
}

/// The text of a file, a line for each key at the top.
pub fn text_of(file: &Table) -> String {
    file.iter().map(|(key, value)| format!("{} = {}\n", toml_string(key), inline(value))).collect()
}

/// A value in one line.
fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => toml_string(text),
        Value::Array(values) => format!("[{}]", values.iter().map(inline).collect::<Vec<_>>().join(", ")),
        Value::Table(table) => {
            let pairs = table.iter().map(|(key, value)| format!("{} = {}", toml_string(key), inline(value)));
            format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
        }
        // With a decimal point, so that it remains a float.
        Value::Float(number) => format!("{number:?}"),
        Value::Integer(_) | Value::Boolean(_) | Value::Datetime(_) => value.to_string(),
    }
}

fn section(path: &str) -> Section {
    let found = sections().into_iter().find(|section| section.path == path);
    found.unwrap_or_else(|| panic!("a settings file has no table [{path}]"))
}

fn check(table: &str, key: &str, value: &Value) {
    let path = format!("{table}.{key}");
    if let (true, Value::Array(items)) = (sections().iter().any(|section| section.path == path), value) {
        let keys = items.iter().filter_map(Value::as_table).flatten();
        return keys.for_each(|(key, value)| check(&path, key, value));
    }
    let entry = section(table).entries.into_iter().find(|entry| entry.key == key);
    let schema = entry.unwrap_or_else(|| panic!("[{table}] has no key `{key}`")).schema;
    let is_of_type = |schema: &serde_json::Value| match (schema["type"].as_str(), value) {
        (Some("boolean"), Value::Boolean(_)) | (Some("string"), Value::String(_)) => true,
        (Some("array"), Value::Array(items)) => items.iter().all(Value::is_str),
        (Some("integer"), Value::Integer(number)) => {
            let is_below = |bound: &str, number: i64| schema[bound].as_i64().is_none_or(|bound| number <= bound);
            is_below("maximum", *number) && schema["minimum"].as_i64().is_none_or(|least| least <= *number)
        }
        (None, Value::String(text)) => schema["const"] == text.as_str(),
        _ => false,
    };
    let choices = schema["anyOf"].as_array().map_or(std::slice::from_ref(&schema), Vec::as_slice);
    assert!(choices.iter().any(is_of_type), "[{table}] {key} = {value} is not {schema}");
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn a_key_or_value_that_the_governor_does_not_have_is_not_written() {
        let write = |table: &str, key: &str, value: Value| {
            catch_unwind(|| {
                let mut file = Writer::default();
                if !table.is_empty() {
                    file.table(table);
                }
                file.set(key, value).text().to_owned()
            })
        };
        assert_eq!(write("class", "mpl", 5.into()).unwrap(), "[[class]]\nmpl = 5\n");
        assert_eq!(write("", "break_glass", vec!["a\"b"].into()).unwrap(), "break_glass = [\"a\\\"b\"]\n");
        assert!(write("class", "preemptible", true.into()).is_ok());
        assert!(write("class", "preemptible", "retry-by-application".into()).is_ok());
        for (table, key, value) in [
            ("", "mpl", 5.into()),
            ("clas", "mpl", 5.into()),
            ("class", "mpl", (-1).into()),
            ("class", "mpl", "5".into()),
            ("class", "preemptible", "yes".into()),
            ("preemption", "weigh", 1.into()),
        ] {
            assert!(write(table, key, value).is_err(), "{table} {key}");
        }
    }

    #[test]
    fn a_key_of_a_file_is_replaced() {
        let mut file: Table = "server = \"a\"\nlisten = 5\n[http]\nhosts = [\"x\"]\n".parse().unwrap();
        put(&mut file, "listen.addresses", Vec::<String>::new());
        put(&mut file, "http.address", "off");
        let expect = "server = \"a\"\n[listen]\naddresses = []\n[http]\naddress = \"off\"\nhosts = [\"x\"]\n";
        assert_eq!(file, expect.parse().unwrap());
    }
}
