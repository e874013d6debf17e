//! Why a requested benchmark cannot be made.

use itertools::Itertools;
use plimsoll_notation::suggestion;

use super::BENCHMARKS;
use super::parameter::{Parameter, Possible};

/// Why a benchmark cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BenchmarkError {
    /// There is no benchmark of that name.
    #[error(
        "there is no workload `{name}`{}; there are {}, and your own as file:PATH (docs/workloads.md)",
        suggestion(nearest),
        names()
    )]
    Unknown {
        /// The name given.
        name: String,
        /// The nearest existing name, if one is near.
        nearest: Option<&'static str>,
    },
    /// The scale is not a number.
    #[error("the scale `{scale}` of `{name}` is not a number; write for example {name}:{default}")]
    NotANumber {
        /// The benchmark.
        name: &'static str,
        /// The scale given.
        scale: String,
        /// A scale that would do.
        default: f64,
    },
    /// The benchmark cannot have that scale.
    #[error("{name} has no scale {scale}; give {possible} ({unit})")]
    Scale {
        /// The benchmark.
        name: &'static str,
        /// The scale given.
        scale: f64,
        /// The possible scales.
        possible: Possible,
        /// The unit of the scale.
        unit: &'static str,
    },
    /// The benchmark has no such parameter.
    #[error("`{name}` has no parameter `{parameter}`{}; {}", suggestion(nearest), parameters(name, known))]
    NoSuchParameter {
        /// The benchmark.
        name: &'static str,
        /// The parameter's name as given.
        parameter: String,
        /// The nearest name of a parameter, if one is near.
        nearest: Option<&'static str>,
        /// The existing parameters.
        known: &'static [Parameter],
    },
    /// The parameter cannot be that.
    #[error("`{parameter}` of `{name}` cannot be {given}{}; give {possible}", suggestion(nearest))]
    ParameterValue {
        /// The benchmark.
        name: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// The value as given.
        given: String,
        /// The nearest word that is possible, where words are and one is near.
        nearest: Option<&'static str>,
        /// The possible values.
        possible: Possible,
    },
    /// A workload of a further kind cannot be made.
    #[error("{kind}: {why}")]
    Other {
        /// The kind, without its options.
        kind: String,
        /// The fault and the remedy.
        why: String,
    },
    /// The file of a workload cannot be used.
    #[error(transparent)]
    File(#[from] crate::file::FileError),
    /// A workload from a file has no parameter but its scale, which is a number.
    #[error("`{path}` has no parameter `{parameter}`{}; there is `scale`, a number", given.as_ref().map_or_else(String::new, |given| format!(" that is {given}")))]
    FileParameter {
        /// The file.
        path: String,
        /// The parameter's name as given.
        parameter: String,
        /// The value as given, where it is the value that is wrong.
        given: Option<String>,
    },
}

fn names() -> String {
    BENCHMARKS.iter().map(|entry| entry.name).join(", ")
}

fn parameters(name: &str, known: &[Parameter]) -> String {
    let line = |parameter: &Parameter| format!("`{}` ({}: {})", parameter.name, parameter.about, parameter.possible);
    match known {
        [] => format!("`{name}` has none, leave it out"),
        _ => format!("there are {}", known.iter().map(line).join(", ")),
    }
}
