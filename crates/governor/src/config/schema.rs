//! The grammar of settings files as a JSON schema, for completion and checks in editors.

use plimsoll_notation::schema::{resolved, without_null};
use serde_json::Value;

use super::typed::TypedSettings;

/// The schema. `docs/governor.schema.json` is a copy for editors.
pub fn schema() -> Value {
    without_null(schemars::schema_for!(TypedSettings).to_value())
}

/// Every key with its description, in the order of the file, top-level keys before tables: `listen.tls.key`, `[class]
/// name`.
pub fn keys() -> Vec<(String, String)> {
    let root = schema();
    let mut keys = Vec::new();
    collect(&root, &root, "", &mut keys);
    keys
}

fn collect(root: &Value, table: &Value, path: &str, keys: &mut Vec<(String, String)>) {
    for (name, property) in table["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let inner = resolved(root, property.get("items").unwrap_or(property));
        if inner.get("properties").is_some() {
            collect(root, inner, &path, keys);
        } else {
            let description = property["description"].as_str().unwrap_or_default();
            keys.push((path, description.split_whitespace().collect::<Vec<_>>().join(" ")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_in_the_documentation_is_up_to_date() {
        let text = serde_json::to_string_pretty(&schema()).expect("JSON") + "\n";
        plimsoll_testing::check_made("../../docs/governor.schema.json", &text);
    }

    #[test]
    fn every_key_is_described() {
        let keys = keys();
        assert!(keys.len() > 40 && keys.iter().any(|(key, _)| key == "listen.tls.certificate"), "{keys:?}");
        for (key, description) in keys {
            assert!(!description.is_empty(), "{key} has no description");
        }
        let schema = schema();
        assert_eq!(schema["additionalProperties"], false);
        assert!(!schema.to_string().contains("null"), "TOML has no null");
    }
}
