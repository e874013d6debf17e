//! Finds unknown keys, and tables in place of lists or lists in place of tables, by the schema of a kind of files.

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::schema::resolved;
use crate::{Problem, choices, did_you_mean};

/// Every unknown or misplaced key of a TOML file by the schema of such files; an error if the file is not TOML.
/// `special` returns a message for an unknown key of this kind of files, by the key and its table: empty for the top,
/// `[class]` for one of several.
pub fn wrong_keys(
    text: &str,
    schema: &Value,
    special: &dyn Fn(&str, &str) -> Option<String>,
) -> Result<Vec<Problem>, Problem> {
    let table = DeTable::parse(text).map_err(|error| Problem::of_toml(&error))?;
    let mut walk = Walk { root: schema, special, problems: Vec::new() };
    walk.table(table.get_ref(), schema, "");
    Ok(walk.problems)
}

struct Walk<'a> {
    root: &'a Value,
    special: &'a dyn Fn(&str, &str) -> Option<String>,
    problems: Vec<Problem>,
}

impl<'a> Walk<'a> {
    fn table(&mut self, table: &DeTable<'_>, schema: &'a Value, path: &str) {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return self.free_table(table);
        };
        for (key, value) in table {
            match properties.get(key.get_ref().as_ref()) {
                Some(schema) => self.value(key, value.get_ref(), resolved(self.root, schema), path),
                None => {
                    let message = self.message(key.get_ref(), properties.keys().map(String::as_str), path);
                    self.wrong(key, message);
                }
            }
        }
    }

    fn value(&mut self, key: &Spanned<DeString<'_>>, value: &DeValue<'_>, schema: &'a Value, path: &str) {
        let path = if path.is_empty() { key.get_ref().to_string() } else { format!("{path}.{}", key.get_ref()) };
        let has_tables = || resolved(self.root, &schema["items"]).get("properties").is_some();
        match (value, schema["type"].as_str()) {
            (DeValue::Table(table), Some("object")) => self.table(table, schema, &path),
            (_, Some("object")) => self.wrong(key, format!("`{path}` is a table; write [{path}]")),
            (DeValue::Array(items), Some("array")) => {
                let schema = resolved(self.root, &schema["items"]);
                for item in items {
                    if let DeValue::Table(table) = item.get_ref() {
                        self.table(table, schema, &format!("[{path}]"));
                    }
                }
            }
            (DeValue::Table(_), Some("array")) if has_tables() => {
                self.wrong(key, format!("there can be several: write [[{path}]], with two brackets"));
            }
            (DeValue::String(text), Some("array")) if !has_tables() => {
                self.wrong(key, format!("there can be several: write {} = [\"{text}\"]", key.get_ref()));
            }
            _ => {}
        }
    }

    /// A table whose keys are names and whose values are not tables.
    fn free_table(&mut self, table: &DeTable<'_>) {
        for (key, value) in table {
            if let DeValue::Table(inner) = value.get_ref() {
                let within = inner.keys().next().map_or("…", |within| within.get_ref());
                self.wrong(key, format!("a key with a dot needs quotes; write \"{}.{within}\"", key.get_ref()));
            }
        }
    }

    fn wrong(&mut self, key: &Spanned<DeString<'_>>, message: String) {
        self.problems.push(Problem::new(key.span(), message));
    }

    fn message<'b>(&self, key: &str, known: impl Iterator<Item = &'b str> + Clone, path: &str) -> String {
        if let Some(message) = (self.special)(key, path) {
            return message;
        }
        let place = if path.is_empty() { "at the top".to_owned() } else { format!("in [{path}]") };
        let near = did_you_mean(key, known.clone());
        if !near.is_empty() {
            return format!("there is no key `{key}` {place}{near}");
        }
        let homes = self.homes(key);
        if !homes.is_empty() {
            return format!("there is no key `{key}` {place}; it belongs {}", homes.join(" or "));
        }
        format!("there is no key `{key}` {place}; there are {}", choices(known))
    }

    /// The tables that do have a key.
    fn homes(&self, key: &str) -> Vec<String> {
        let Some(top) = self.root["properties"].as_object() else { return Vec::new() };
        let has = |schema: &Value| resolved(self.root, schema)["properties"].get(key).is_some();
        let mut homes: Vec<String> = top
            .iter()
            .filter_map(|(name, schema)| match schema.get("items") {
                Some(items) => has(items).then(|| format!("into [[{name}]]")),
                None => has(schema).then(|| format!("into [{name}]")),
            })
            .collect();
        if top.contains_key(key) {
            homes.insert(0, "to the top, before the first table".to_owned());
        }
        homes
    }
}
