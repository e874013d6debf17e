//! Finds unknown keys, and tables in place of lists or lists in place of tables, by the schema of experiment files.

use plimsoll_model::cache_simulator::OPERATORS;
use plimsoll_workload::registry::{BENCHMARKS, nearest};
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::problem::Problem;
use super::schema::schema;
use crate::simulation::MASK;
use crate::wording::choices;

/// Keys that this version has no mechanism for, though people who have read about Plimsoll may expect them.
const NOT_YET: [&str; 1] = ["mpl"];

/// Every unknown or misplaced key of a file; an error if the file is no TOML.
pub(super) fn wrong_keys(text: &str) -> Result<Vec<Problem>, Problem> {
    let table = DeTable::parse(text).map_err(|error| Problem::of_toml(&error))?;
    let root = schema();
    let mut walk = Walk { root: &root, problems: Vec::new() };
    walk.table(table.get_ref(), &root, "");
    Ok(walk.problems)
}

struct Walk<'a> {
    root: &'a Value,
    problems: Vec<Problem>,
}

impl<'a> Walk<'a> {
    fn table(&mut self, table: &DeTable<'_>, schema: &'a Value, path: &str) {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return self.free_table(table);
        };
        for (key, value) in table {
            match properties.get(key.get_ref().as_ref()) {
                Some(schema) => self.value(key, value.get_ref(), self.resolved(schema), path),
                None => {
                    let message = self.message(key.get_ref(), properties.keys().map(String::as_str), path);
                    self.problems.push(Problem::new(key.span(), message));
                }
            }
        }
    }

    fn value(&mut self, key: &Spanned<DeString<'_>>, value: &DeValue<'_>, schema: &'a Value, path: &str) {
        let path = join(path, key.get_ref());
        let wrong = |message: String| Problem::new(key.span(), message);
        match (value, schema["type"].as_str()) {
            (DeValue::Table(table), Some("object")) => self.table(table, schema, &path),
            (_, Some("object")) => self.problems.push(wrong(format!("`{path}` is a table; write [{path}]"))),
            (DeValue::Array(items), Some("array")) => {
                let schema = self.resolved(&schema["items"]);
                for item in items {
                    if let DeValue::Table(table) = item.get_ref() {
                        self.table(table, schema, &format!("[{path}]"));
                    }
                }
            }
            (DeValue::Table(_), Some("array")) => {
                self.problems.push(wrong(format!("there can be several: write [[{path}]], with two brackets")));
            }
            _ => {}
        }
    }

    /// A table whose keys are names and whose values are no tables.
    fn free_table(&mut self, table: &DeTable<'_>) {
        for (key, value) in table {
            if let DeValue::Table(inner) = value.get_ref() {
                let within = inner.keys().next().map_or("…", |within| within.get_ref());
                let message = format!("a key with a dot needs quotes; write \"{}.{within}\"", key.get_ref());
                self.problems.push(Problem::new(key.span(), message));
            }
        }
    }

    /// A schema with its reference followed.
    fn resolved(&self, schema: &'a Value) -> &'a Value {
        let reference = schema.get("$ref").and_then(Value::as_str);
        reference.and_then(|reference| self.root.pointer(reference.trim_start_matches('#'))).unwrap_or(schema)
    }

    fn message<'b>(&self, key: &str, known: impl Iterator<Item = &'b str> + Clone, path: &str) -> String {
        let place = if path.is_empty() { "at the top".to_owned() } else { format!("in [{path}]") };
        if NOT_YET.contains(&key) {
            return format!("`{key}` is not available in this version; leave it out");
        }
        let mut parameters = BENCHMARKS.iter().flat_map(|entry| entry.parameters).map(|parameter| parameter.name);
        let is_parameter = parameters.any(|name| name == key)
            || OPERATORS.iter().flat_map(|operator| operator.parameters).any(|parameter| parameter.name == key)
            || key == MASK;
        if path == "[workload]" && is_parameter {
            return format!("there is no key `{key}` {place}; it is a parameter: write parameters = {{ {key} = … }}");
        }
        if let Some(near) = nearest(key, known.clone()) {
            return format!("there is no key `{key}` {place} (did you mean `{near}`?)");
        }
        let homes: Vec<String> = self.homes(key);
        if !homes.is_empty() {
            return format!("there is no key `{key}` {place}; it belongs {}", homes.join(" or "));
        }
        format!("there is no key `{key}` {place}; there are {}", choices(known))
    }

    /// The tables that do have a key.
    fn homes(&self, key: &str) -> Vec<String> {
        let Some(top) = self.root["properties"].as_object() else { return Vec::new() };
        let has = |schema: &Value| schema["properties"].get(key).is_some();
        let mut homes: Vec<String> = top
            .iter()
            .filter_map(|(name, schema)| match schema.get("items") {
                Some(items) => has(self.resolved(items)).then(|| format!("into [[{name}]]")),
                None => has(self.resolved(schema)).then(|| format!("into [{name}]")),
            })
            .collect();
        if top.contains_key(key) {
            homes.insert(0, "to the top, before the first table".to_owned());
        }
        homes
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
