//! The parameters of a benchmark beside its scale, and how their values are read.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use itertools::Itertools;
use plimsoll_notation::nearest;
use serde_json::Value;

use super::BenchmarkError;

/// A parameter of a benchmark.
#[derive(Debug, PartialEq)]
pub struct Parameter {
    /// Its name in an experiment.
    pub name: &'static str,
    /// Its effect, in a few words.
    pub about: &'static str,
    /// The default.
    pub default: ParameterValue,
    /// The possible values.
    pub possible: Possible,
}

/// A parameter's value.
#[derive(Debug, Clone, PartialEq)]
pub enum ParameterValue {
    /// A number, whole or not.
    Number(f64),
    /// A word.
    Text(&'static str),
    /// Several words.
    List(Cow<'static, [&'static str]>),
}

impl fmt::Display for ParameterValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParameterValue::Number(number) => write!(f, "{number}"),
            ParameterValue::Text(word) => f.write_str(word),
            ParameterValue::List(words) => write!(f, "[{}]", words.join(", ")),
        }
    }
}

/// The possible values of a parameter or a scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Possible {
    /// A number within these bounds, both included.
    Number {
        /// The least.
        low: f64,
        /// The greatest.
        high: f64,
    },
    /// A whole number within these bounds, both included.
    Whole {
        /// The least.
        low: f64,
        /// The greatest.
        high: f64,
    },
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// One or several of these words, each at most once: a word or a list of words.
    SomeOf(&'static [&'static str]),
}

impl fmt::Display for Possible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The ends of a list of 22 queries explain the rest.
        let list = |words: &[&str]| match words {
            [first, second, .., last] if words.len() > 8 => format!("`{first}`, `{second}` … `{last}`"),
            _ => words.iter().map(|word| format!("`{word}`")).join(", "),
        };
        match self {
            Possible::Number { low, high } => write!(f, "a number from {low} to {high}"),
            Possible::Whole { low, high } => write!(f, "a whole number from {low} to {high}"),
            Possible::OneOf(words) => write!(f, "one of {}", list(words)),
            Possible::SomeOf(words) => write!(f, "one or several of {}", list(words)),
        }
    }
}

impl Possible {
    /// Whether a number is possible.
    pub fn has_number(&self, number: f64) -> bool {
        match self {
            Possible::Number { low, high } => (*low..=*high).contains(&number),
            Possible::Whole { low, high } => (*low..=*high).contains(&number) && number.fract() == 0.0,
            Possible::OneOf(_) | Possible::SomeOf(_) => false,
        }
    }

    /// Reads a value; fails with the nearest possible word, if words are possible and one is near.
    fn read(&self, value: &Value) -> Result<ParameterValue, Option<&'static str>> {
        match (self, value) {
            (Possible::Number { .. } | Possible::Whole { .. }, Value::Number(number)) => {
                let number = number.as_f64().filter(|number| self.has_number(*number));
                number.map(ParameterValue::Number).ok_or(None)
            }
            (Possible::OneOf(known), Value::String(word)) => Ok(ParameterValue::Text(find(known, word)?)),
            (Possible::SomeOf(known), Value::String(word)) => Ok(ParameterValue::List(vec![find(known, word)?].into())),
            (Possible::SomeOf(known), Value::Array(words)) if !words.is_empty() => {
                let words = words.iter().map(|word| find(known, word.as_str().ok_or(None)?));
                let words: Vec<&'static str> = words.collect::<Result<_, _>>()?;
                if words.iter().all_unique() { Ok(ParameterValue::List(words.into())) } else { Err(None) }
            }
            _ => Err(None),
        }
    }
}

fn find(known: &'static [&'static str], word: &str) -> Result<&'static str, Option<&'static str>> {
    known.iter().copied().find(|known| *known == word).ok_or_else(|| nearest(word, known.iter().copied()))
}

/// Every parameter of a benchmark with its value: the given ones as given, the others at their defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters(BTreeMap<&'static str, ParameterValue>);

impl Parameters {
    /// Reads the given values of the parameters that the benchmark of that name has declared.
    pub(super) fn read(
        name: &'static str,
        declared: &'static [Parameter],
        given: &BTreeMap<String, Value>,
    ) -> Result<Self, BenchmarkError> {
        if let Some(unknown) = given.keys().find(|name| declared.iter().all(|parameter| parameter.name != **name)) {
            return Err(BenchmarkError::NoSuchParameter {
                name,
                parameter: unknown.clone(),
                nearest: nearest(unknown, declared.iter().map(|parameter| parameter.name)),
                known: declared,
            });
        }
        let read = |parameter: &'static Parameter| -> Result<_, BenchmarkError> {
            let Some(value) = given.get(parameter.name) else { return Ok((parameter.name, parameter.default.clone())) };
            let (parameter, possible) = (parameter.name, parameter.possible);
            let fault = |nearest| BenchmarkError::ParameterValue {
                name,
                parameter,
                given: value.to_string(),
                nearest,
                possible,
            };
            Ok((parameter, possible.read(value).map_err(fault)?))
        };
        Ok(Parameters(declared.iter().map(read).collect::<Result<_, _>>()?))
    }

    /// A number that the benchmark has declared.
    ///
    /// # Panics
    /// If it has declared no number of that name; so do the others.
    pub fn number(&self, name: &str) -> f64 {
        match self.get(name) {
            ParameterValue::Number(number) => *number,
            other => panic!("`{name}` is {other}, not a number"),
        }
    }

    /// A word that the benchmark has declared.
    pub fn text(&self, name: &str) -> &'static str {
        match self.get(name) {
            ParameterValue::Text(word) => word,
            other => panic!("`{name}` is {other}, not a word"),
        }
    }

    /// A list that the benchmark has declared.
    pub fn list(&self, name: &str) -> &[&'static str] {
        match self.get(name) {
            ParameterValue::List(words) => words,
            other => panic!("`{name}` is {other}, not a list"),
        }
    }

    fn get(&self, name: &str) -> &ParameterValue {
        self.0.get(name).unwrap_or_else(|| panic!("no parameter `{name}` was declared"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use super::*;

    static DECLARED: [Parameter; 4] = [
        Parameter {
            name: "rows",
            about: "how many rows",
            default: ParameterValue::Number(1.0),
            possible: Possible::Whole { low: 1.0, high: 100.0 },
        },
        Parameter {
            name: "share",
            about: "how much",
            default: ParameterValue::Number(0.5),
            possible: Possible::Number { low: 0.0, high: 1.0 },
        },
        Parameter {
            name: "type",
            about: "which type",
            default: ParameterValue::Text("bigint"),
            possible: Possible::OneOf(&["bigint", "text"]),
        },
        Parameter {
            name: "queries",
            about: "which queries",
            default: ParameterValue::List(Cow::Borrowed(&["q1", "q2"])),
            possible: Possible::SomeOf(&["q1", "q2"]),
        },
    ];

    fn read(given: Value) -> Result<Parameters, BenchmarkError> {
        Parameters::read("rows", &DECLARED, &serde_json::from_value(given).unwrap())
    }

    #[test]
    fn defaults_are_possible() {
        let defaults = read(json!({})).unwrap();
        let given = json!({ "rows": 1, "share": 0.5, "type": "bigint", "queries": ["q1", "q2"] });
        assert_eq!(read(given).unwrap(), defaults);
    }

    #[test]
    fn values_are_read() {
        let found = read(json!({ "rows": 10.0, "share": 1, "type": "text", "queries": "q2" })).unwrap();
        assert_eq!((found.number("rows"), found.number("share"), found.text("type")), (10.0, 1.0, "text"));
        assert_eq!(found.list("queries"), ["q2"]);
        assert_eq!(read(json!({ "queries": ["q2", "q1"] })).unwrap().list("queries"), ["q2", "q1"]);
    }

    #[test]
    fn what_is_not_possible_is_refused() {
        for (name, value, expect) in [
            ("rows", json!(0), None),
            ("rows", json!(1.5), None),
            ("rows", json!("1"), None),
            ("share", json!(1.01), None),
            ("share", json!([0.5]), None),
            ("type", json!("texts"), Some("text")),
            ("type", json!(1), None),
            ("queries", json!("q3"), Some("q1")),
            ("queries", json!(["q1", "qq2"]), Some("q2")),
            ("queries", json!(["q1", "q1"]), None),
            ("queries", json!([]), None),
            ("queries", json!([1]), None),
        ] {
            match read(json!({ name: value })).unwrap_err() {
                BenchmarkError::ParameterValue { parameter, given, nearest, .. } => {
                    assert_eq!((parameter, given, nearest), (name, value.to_string(), expect));
                }
                error => panic!("{error:?}"),
            }
        }
        let error = read(json!({ "row": 1 })).unwrap_err();
        assert!(matches!(&error, BenchmarkError::NoSuchParameter { parameter, .. } if parameter == "row"), "{error:?}");
    }
}
