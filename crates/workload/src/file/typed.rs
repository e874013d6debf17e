//! A workload's TOML file as typed: every key with its place, nothing checked beyond its type.
//!
//! The descriptions here are also those of the JSON schema.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

/// A workload of your own: tables, transactions and what their parameters are drawn from.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Plimsoll workload")]
pub struct TypedFile {
    /// The workload's name: a letter, then letters, digits, `_` and `-`; without it the file's.
    #[schemars(with = "Option<String>")]
    pub name: Option<Spanned<String>>,
    /// What it is, in a sentence.
    #[allow(dead_code, reason = "it is for those who read the file")]
    pub about: Option<String>,
    /// The scale where none is given: 1 without it. SQL and bounds use it as `:scale`.
    #[schemars(with = "Option<f64>")]
    pub scale: Option<Spanned<f64>>,
    /// Mebibytes that one unit of scale takes on the server, so that what cannot fit is refused before it is loaded.
    #[schemars(with = "Option<f64>")]
    pub mib_per_scale: Option<Spanned<f64>>,
    /// What a run does to the data; without it `nothing` if all statements are queries, else `grows`.
    pub writes: Option<TypedWrites>,
    /// SQL that makes and fills the tables, in a schema of the workload's own; statements end with semicolons. It can use
    /// `:scale` and `:seed`. Without it the tables are there already.
    #[schemars(with = "Option<String>")]
    pub setup: Option<Spanned<String>>,
    /// A file with such SQL instead, beside this one.
    #[schemars(with = "Option<String>")]
    pub setup_file: Option<Spanned<String>>,
    /// Another workload's TOML file instead, beside this one: both use its tables, at one scale.
    #[schemars(with = "Option<String>")]
    pub tables_of: Option<Spanned<String>>,
    /// Parameters that several transactions use, by name; each transaction draws its own values.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, TypedGenerator>")]
    pub parameters: BTreeMap<Spanned<String>, Spanned<TypedGenerator>>,
    /// The transactions, one table each.
    #[serde(default, rename = "transaction")]
    #[schemars(with = "Vec<TypedTransaction>")]
    pub transactions: Vec<Spanned<TypedTransaction>>,
    /// What must hold of the data, one table each.
    #[serde(default, rename = "check")]
    #[schemars(with = "Vec<TypedCheck>")]
    pub checks: Vec<Spanned<TypedCheck>>,
}

/// What a run does to the data that was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum TypedWrites {
    /// It only reads.
    #[serde(rename = "nothing")]
    Nothing,
    /// It changes values; the data keep their size and distribution.
    #[serde(rename = "in place")]
    InPlace,
    /// It adds or removes rows: a later run finds other data than an earlier one.
    #[serde(rename = "grows")]
    Grows,
}

/// A kind of transaction.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedTransaction {
    /// Its name.
    #[schemars(with = "String")]
    pub name: Spanned<String>,
    /// How often it comes, in relation to the others: a number above 0; 1 without it.
    #[schemars(with = "Option<f64>")]
    pub weight: Option<Spanned<f64>>,
    /// Its parameters by name, beside those of the file.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, TypedGenerator>")]
    pub parameters: BTreeMap<Spanned<String>, Spanned<TypedGenerator>>,
    /// Its statements in order: SQL with parameters as `:name`, or a table with a name and SQL.
    #[schemars(with = "Vec<TypedStatement>")]
    pub statements: Vec<Spanned<TypedStatement>>,
    /// Whether the statements are one transaction; if not, each is one of its own (autocommit). `true` without it.
    #[schemars(with = "Option<bool>")]
    pub transaction: Option<Spanned<bool>>,
    /// Whether the transaction is declared read-only to the database. `false` without it.
    #[schemars(with = "Option<bool>")]
    pub read_only: Option<Spanned<bool>>,
    /// Whether it is run again after a deadlock or a conflict. `true` without it.
    pub retry: Option<bool>,
    /// Its priority: `high`, `low`, `level2` to `level254` above high, or shares as in `high:0.1`. Without it the one that the
    /// experiment or the command line gives to the workload.
    #[schemars(with = "Option<String>")]
    pub priority: Option<Spanned<String>>,
}

/// A statement: SQL, or a table with a name and SQL.
#[derive(Debug)]
pub enum TypedStatement {
    /// SQL.
    Sql(String),
    /// SQL with a name, by which its result can be used.
    Named(TypedNamedStatement),
}

/// A statement whose result later statements use.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedNamedStatement {
    /// Its name in this transaction.
    #[schemars(with = "Option<String>")]
    pub name: Option<Spanned<String>>,
    /// The SQL, with parameters as `:name`.
    #[schemars(with = "String")]
    pub sql: Spanned<String>,
}

/// What a parameter's values are drawn from: one of `uniform`, `zipf`, `one_of`, `query`, `sequence`, `text`, `constant` and
/// `result`, with what belongs to it. A bound is a whole number or an expression with `:scale`, as in "1000 * :scale".
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedGenerator {
    /// Whole numbers from a bound to a bound, each as often as the others.
    pub uniform: Option<[TypedBound; 2]>,
    /// Whole numbers from a bound to a bound by Zipf's distribution, the first most often.
    pub zipf: Option<[TypedBound; 2]>,
    /// One of these values.
    pub one_of: Option<Vec<TypedScalar>>,
    /// One of the values that this query gives; it is asked once before clients begin. With `sequence`: the number before the
    /// first; 0 if it gives NULL or no row.
    #[schemars(with = "Option<String>")]
    pub query: Option<Spanned<String>>,
    /// Numbers one after the other from this one on, which no other client draws.
    pub sequence: Option<TypedBound>,
    /// Random letters and digits: how many, or the least and the greatest number.
    pub text: Option<TypedLength>,
    /// Always this value.
    pub constant: Option<TypedScalar>,
    /// A column of the first row of an earlier statement of the same transaction, as `statement.column`.
    pub result: Option<String>,
    /// With `zipf`, `one_of` and `query`: Zipf's exponent, from 0 to 1000. 1 for `zipf` without it; without it the others draw
    /// each value as often as the others.
    pub exponent: Option<f64>,
    /// With `sequence`: from one number to the next. 1 without it.
    pub step: Option<i64>,
    /// With `sequence`: how many numbers each client takes at a time. 1000000 without it.
    pub block: Option<i64>,
    /// With `result`: the value where there is no row. Without it a transaction that finds none fails.
    pub default: Option<TypedScalar>,
}

/// Something that must hold of the data.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedCheck {
    /// What must hold, in words.
    pub what: String,
    /// The query, which can use `:scale` and `:seed`.
    #[schemars(with = "String")]
    pub sql: Spanned<String>,
    /// What it must answer: `no rows`, or the one value of its one row.
    pub expect: Option<TypedScalar>,
    /// A query that must give the same rows in the same order, instead.
    #[schemars(with = "Option<String>")]
    pub equal: Option<Spanned<String>>,
}

/// A whole number, or an expression with `:scale`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a whole number, or an expression as \"1000 * :scale\"")]
pub enum TypedBound {
    /// A number.
    Integer(i64),
    /// An expression.
    Expression(String),
}

/// A length, or the least and the greatest.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a length, or the least and the greatest as [5, 20]")]
pub enum TypedLength {
    /// Always this long.
    One(TypedBound),
    /// The least and the greatest.
    Between([TypedBound; 2]),
}

/// A text, a number, or true or false.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a text, a number, or true or false")]
pub enum TypedScalar {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Any number.
    Float(f64),
    /// A text.
    Text(String),
}

impl JsonSchema for TypedStatement {
    fn schema_name() -> Cow<'static, str> {
        "TypedStatement".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let named = generator.subschema_for::<TypedNamedStatement>();
        json_schema!({
            "description": "A statement: SQL with parameters as `:name`, or a table with a name and SQL.",
            "anyOf": [{ "type": "string" }, named],
        })
    }
}

impl<'de> Deserialize<'de> for TypedStatement {
    /// By hand, because an untagged enum would lose the places of name and SQL.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Statement;

        impl<'de> Visitor<'de> for Statement {
            type Value = TypedStatement;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("SQL, or a table as { name = \"…\", sql = \"…\" }")
            }

            fn visit_str<E>(self, sql: &str) -> Result<TypedStatement, E> {
                Ok(TypedStatement::Sql(sql.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TypedStatement, A::Error> {
                TypedNamedStatement::deserialize(MapAccessDeserializer::new(map)).map(TypedStatement::Named)
            }
        }

        deserializer.deserialize_any(Statement)
    }
}

/// The grammar of workload files as a JSON schema; `docs/workload.schema.json` is a copy for editors.
#[cfg(test)]
pub(super) fn schema() -> serde_json::Value {
    plimsoll_notation::schema::without_null(schemars::schema_for!(TypedFile).to_value())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::{env, fs};

    use super::*;

    #[test]
    fn the_copy_in_the_documentation_is_up_to_date() {
        let path = "../../docs/workload.schema.json";
        let text = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
        if env::var_os("PLIMSOLL_BLESS").is_some() {
            fs::write(path, &text).unwrap();
        }
        let kept = fs::read_to_string(path).unwrap_or_default();
        assert!(
            kept == text,
            "{path} is not the schema of the types; write it again with\n  PLIMSOLL_BLESS=1 cargo test --release -p plimsoll-workload schema"
        );
    }

    #[test]
    fn every_key_is_described() {
        let schema = schema();
        let tables = schema["$defs"].as_object().unwrap().values().chain([&schema]);
        for (key, property) in tables.filter_map(|table| table["properties"].as_object()).flatten() {
            assert!(property.get("description").is_some(), "{key} has no description");
        }
        assert_eq!(schema["additionalProperties"], false);
        assert!(!schema.to_string().contains("null"), "TOML has no null");
    }
}
