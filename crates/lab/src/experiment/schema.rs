//! The grammar of experiment files as a JSON schema, for completion and checks in editors.

use plimsoll_notation::schema::without_null;
use serde_json::Value;

use super::typed::TypedExperiment;

/// The schema. `docs/experiment.schema.json` is a copy for editors.
pub fn schema() -> Value {
    without_null(schemars::schema_for!(TypedExperiment).to_value())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_in_the_documentation_is_up_to_date() {
        let text = serde_json::to_string_pretty(&schema()).expect("JSON") + "\n";
        plimsoll_testing::check_made("../../docs/experiment.schema.json", &text);
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
