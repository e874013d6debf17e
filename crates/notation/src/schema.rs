//! JSON schemas of the TOML files that users write.

use serde_json::Value;

/// A schema that does not allow null: TOML has none; unset keys are left out.
pub fn without_null(mut schema: Value) -> Value {
    drop_null(&mut schema);
    schema
}

fn drop_null(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(drop_null),
        Value::Object(fields) => {
            if let Some(Value::Array(types)) = fields.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = &types[..] {
                    let only = only.clone();
                    fields.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(choices)) = fields.get_mut("anyOf") {
                choices.retain(|choice| choice["type"] != "null");
                if let [Value::Object(only)] = &choices[..] {
                    let only = only.clone();
                    fields.remove("anyOf");
                    fields.extend(only);
                }
            }
            fields.values_mut().for_each(drop_null);
        }
        _ => {}
    }
}

/// A schema with its reference followed; `root` holds the definitions.
pub fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let reference = schema.get("$ref").and_then(Value::as_str);
    reference.and_then(|reference| root.pointer(reference.trim_start_matches('#'))).unwrap_or(schema)
}
