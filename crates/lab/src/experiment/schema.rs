//! The grammar of experiment files as a JSON schema, which editors complete and check by.

use plimsoll_notation::schema::without_null;
use serde_json::Value;

use super::typed::TypedExperiment;

/// The schema. `docs/experiment.schema.json` is a copy for editors.
pub fn schema() -> Value {
    without_null(schemars::schema_for!(TypedExperiment).to_value())
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::{env, fs};

    use super::*;

    #[test]
    fn the_copy_in_the_documentation_is_up_to_date() {
        let path = Path::new("../../docs/experiment.schema.json");
        let text = serde_json::to_string_pretty(&schema()).expect("JSON") + "\n";
        if env::var_os("PLIMSOLL_BLESS").is_some() {
            fs::write(path, &text).expect("docs can be written");
        }
        let kept = fs::read_to_string(path).unwrap_or_default();
        assert!(
            kept == text,
            "docs/experiment.schema.json is not the schema of the types; write it anew with\n  PLIMSOLL_BLESS=1 cargo test --release -p plimsoll-lab schema"
        );
    }

    #[test]
    fn every_key_is_described() {
        let schema = schema();
        let tables = schema["$defs"].as_object().expect("tables").values().chain([&schema]);
        for table in tables {
            for (key, property) in table["properties"].as_object().into_iter().flatten() {
                assert!(property.get("description").is_some(), "{key} has no description");
            }
        }
        assert_eq!(schema["additionalProperties"], false);
        assert!(!schema.to_string().contains("null"), "TOML has no null");
    }
}
