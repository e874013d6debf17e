//! Remarks on unknown keys of experiment files, beside the nearest known key.

use plimsoll_model::cache_simulator::OPERATORS;
use plimsoll_notation::{Problem, wrong_keys};
use plimsoll_workload::registry::BENCHMARKS;

use super::schema::schema;
use crate::simulation::MASK;

/// Keys without a mechanism in this version. Readers of texts about Plimsoll may expect them.
const NOT_YET: [&str; 1] = ["mpl"];

/// Every unknown or misplaced key of a file; an error if the file is not valid TOML.
pub(super) fn wrong(text: &str) -> Result<Vec<Problem>, Problem> {
    wrong_keys(text, &schema(), &|key, path| {
        if NOT_YET.contains(&key) {
            return Some(format!("`{key}` is not available in this version; leave it out"));
        }
        let message =
            || format!("there is no key `{key}` in [{path}]; it is a parameter: write parameters = {{ {key} = … }}");
        (path == "[workload]" && is_parameter(key)).then(message)
    })
}

fn is_parameter(key: &str) -> bool {
    let mut parameters = BENCHMARKS.iter().flat_map(|entry| entry.parameters).map(|parameter| parameter.name);
    parameters.any(|name| name == key)
        || OPERATORS.iter().flat_map(|operator| operator.parameters).any(|parameter| parameter.name == key)
        || key == MASK
}
