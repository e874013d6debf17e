//! What a user can say of DuckDB: `duckdb:?dop=2&memory_mib=512`.

use std::path::PathBuf;

use plimsoll_machine::facts::cores_usable;
use plimsoll_notation::{meant_or_all, nearest};
use serde_json::Value;

/// The target's URL.
pub const URL: &str = "duckdb:";

/// The environment variable that names the default interpreter; `docs/python-environment` prints one that has DuckDB.
const PYTHON: &str = "PLIMSOLL_PYTHON_BIN";

/// A wrong option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionError {
    /// There is no such option.
    #[error("`{URL}` has no option `{name}`{}", meant_or_all(.nearest, OPTIONS.iter().map(|option| (option.name, option.meaning))))]
    NoSuchOption {
        /// As typed.
        name: String,
        /// What may have been meant.
        nearest: Option<&'static str>,
    },
    /// An option cannot have this value.
    #[error("option `{name}` cannot be `{value}`; it can be {possible}")]
    BadValue {
        /// The option.
        name: &'static str,
        /// As typed.
        value: String,
        /// What it can be.
        possible: &'static str,
    },
}

/// How DuckDB is to behave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DuckDbOptions {
    /// The threads that queries run on, all of them together.
    pub dop: usize,
    /// The memory for data and operators, MiB; `None` for no limit.
    pub memory_mib: Option<usize>,
    /// The interpreter; `None` for the default.
    pub python: Option<PathBuf>,
}

/// An option by name.
struct DuckDbOption {
    name: &'static str,
    meaning: &'static str,
    possible: &'static str,
    set: fn(&mut DuckDbOptions, &str) -> Option<()>,
    get: fn(&DuckDbOptions) -> Value,
}

const OPTIONS: &[DuckDbOption] = &[
    DuckDbOption {
        name: "dop",
        meaning: "the threads that queries run on, all of them together",
        possible: "a whole number from 1",
        set: |options, value| count(value).map(|given| options.dop = given),
        get: |options| options.dop.into(),
    },
    DuckDbOption {
        name: "memory_mib",
        meaning: "MiB of memory for data and operators together",
        possible: "a whole number from 1, or unlimited",
        set: |options, value| {
            let given = if value == "unlimited" { None } else { Some(count(value)?) };
            options.memory_mib = given;
            Some(())
        },
        get: |options| options.memory_mib.map_or_else(|| "unlimited".into(), Value::from),
    },
    DuckDbOption {
        name: "python",
        meaning: "the interpreter of Python that has the packages duckdb and pyarrow",
        possible: "the path or name of a program",
        set: |options, value| (!value.is_empty()).then(|| options.python = Some(value.into())),
        get: |options| options.python.as_ref().map(|python| python.display().to_string()).into(),
    },
];

fn count(text: &str) -> Option<usize> {
    text.parse().ok().filter(|count| *count > 0)
}

/// The names of the options.
pub fn option_names() -> impl Iterator<Item = &'static str> {
    OPTIONS.iter().map(|option| option.name)
}

impl Default for DuckDbOptions {
    fn default() -> Self {
        DuckDbOptions { dop: cores_usable(), memory_mib: None, python: None }
    }
}

impl DuckDbOptions {
    /// Sets an option.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        let option = OPTIONS.iter().find(|option| option.name == name).ok_or_else(|| OptionError::NoSuchOption {
            name: name.to_owned(),
            nearest: nearest(name, option_names()),
        })?;
        let bad = || OptionError::BadValue { name: option.name, value: value.to_owned(), possible: option.possible };
        (option.set)(self, value).ok_or_else(bad)
    }

    /// Every option, for the record. The interpreter is null if none is given: its place differs from machine to machine.
    pub fn settings(&self) -> impl Iterator<Item = (&'static str, Value)> {
        OPTIONS.iter().map(|option| (option.name, (option.get)(self)))
    }

    /// The interpreter.
    pub(crate) fn interpreter(&self) -> PathBuf {
        let default = || std::env::var_os(PYTHON).map_or_else(|| "python3".into(), PathBuf::from);
        self.python.clone().unwrap_or_else(default)
    }

    /// SQL that brings an open database to these options.
    pub(crate) fn sql(&self) -> String {
        let memory = self.memory_mib.map_or_else(|| "-1".to_owned(), |mebibytes| format!("{mebibytes}MiB"));
        format!("SET threads = {}; SET memory_limit = '{memory}'", self.dop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_set_and_recorded() {
        let mut options = DuckDbOptions::default();
        for (name, value) in [("dop", "3"), ("memory_mib", "64")] {
            options.set(name, value).expect("good");
        }
        let settings: Vec<String> = options.settings().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(settings, ["dop=3", "memory_mib=64", "python=null"]);
        assert_eq!(options.sql(), "SET threads = 3; SET memory_limit = '64MiB'");
        options.set("memory_mib", "unlimited").expect("good");
        options.set("python", "python4").expect("good");
        assert_eq!((options.memory_mib, options.interpreter()), (None, "python4".into()));
    }

    #[test]
    fn mistakes_are_named_with_the_remedy() {
        let check = |name: &str, value: &str, expect: &str| {
            let error = DuckDbOptions::default().set(name, value).expect_err(expect).to_string();
            assert!(error.contains(expect), "{error}, not {expect}");
        };
        check("dopp", "2", "`duckdb:` has no option `dopp` (did you mean `dop`?)");
        check("dop", "0", "it can be a whole number from 1");
        check("memory_mib", "1GB", "it can be a whole number from 1, or unlimited");
        check("python", "", "it can be the path or name of a program");
    }
}
