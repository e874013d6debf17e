//! The list of benchmarks, and how a name, a scale and parameters become one of them.

mod catalog;
mod error;
mod parameter;

use std::collections::BTreeMap;

use plimsoll_notation::nearest;
use serde_json::Value;

use crate::benchmark::Benchmark;
use crate::column_operators::{group, key_join, scan};
use crate::tpch_operators::{join, projection, selection};
use crate::{asdb, brokerage, captured, ch, file, rows, sketch, tpcb, tpcc, tpch, tpcw};
pub use catalog::Catalog;
pub use error::BenchmarkError;
pub use parameter::{Parameter, ParameterValue, Parameters, Possible};

/// A benchmark of the list. Each benchmark declares its own, as `ENTRY`.
#[derive(Debug)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// A description in a few words.
    pub about: &'static str,
    /// Where it is described: the specification, or the study that it was made for.
    pub source: &'static str,
    /// The unit of its scale.
    pub scale_unit: &'static str,
    /// The scale if only the name is given.
    pub scale_default: f64,
    /// The possible scales.
    pub scale_possible: Possible,
    /// Its further parameters.
    pub parameters: &'static [Parameter],
    /// The sides of its mix, transactional ones first; empty unless a value of it is only one side.
    pub sides: &'static [Side],
    /// Makes it from a scale and parameters that are possible, and a seed.
    pub(crate) make: fn(f64, &Parameters, u64) -> Box<dyn Benchmark>,
}

/// A side of a benchmark's mix: one of the workloads that make the benchmark together.
#[derive(Debug)]
pub struct Side {
    /// The usual name of the workload.
    pub name: &'static str,
    /// The parameter that selects it.
    pub parameter: &'static str,
    /// The value of that parameter.
    pub value: &'static str,
}

impl Side {
    /// The parameters that select it.
    pub fn parameters(&self) -> BTreeMap<String, Value> {
        [(self.parameter.to_owned(), self.value.into())].into()
    }
}

/// Every benchmark.
pub static BENCHMARKS: &[Entry] = &[
    tpcc::ENTRY,
    tpcb::ENTRY,
    tpch::ENTRY,
    tpcw::ENTRY,
    ch::ENTRY,
    asdb::ENTRY,
    brokerage::ENTRY,
    rows::ENTRY,
    rows::query::ENTRY,
    projection::ENTRY,
    selection::ENTRY,
    join::ENTRY,
    scan::ENTRY,
    group::ENTRY,
    key_join::ENTRY,
];

/// Workloads beyond this crate's list, which a program has.
pub trait Kinds: Sync {
    /// The workload of a kind and a seed; `None` if the kind is of no such workload. The error names the fault and the remedy.
    fn make(&self, kind: &str, seed: u64) -> Option<Result<Box<dyn Benchmark>, String>>;
}

/// None.
#[derive(Debug)]
pub struct NoKinds;

impl Kinds for NoKinds {
    fn make(&self, _: &str, _: u64) -> Option<Result<Box<dyn Benchmark>, String>> {
        None
    }
}

/// The prefixes of kinds whose rest is a path, which may contain colons.
pub const PATH_PREFIXES: [&str; 3] = [file::PREFIX, captured::PREFIX, sketch::PREFIX];

/// The kind and, if it is given, the scale of `NAME` or `NAME:SCALE`. Kinds with [a path](PATH_PREFIXES) have none.
pub fn kind_and_scale(spec: &str) -> (&str, Option<&str>) {
    if PATH_PREFIXES.iter().any(|prefix| spec.starts_with(prefix)) {
        return (spec, None);
    }
    spec.split_once(':').map_or((spec, None), |(name, scale)| (name, Some(scale)))
}

/// The sides of the mix that a benchmark is about; empty for the others, and if there is no such benchmark.
pub fn sides(kind: &str) -> &'static [Side] {
    entry(kind).map_or(&[], |entry| entry.sides)
}

/// The benchmark that `NAME`, `NAME:SCALE` or `file:PATH` asks for, with its parameters at their defaults, and its scale.
pub fn benchmark(spec: &str, seed: u64) -> Result<(Box<dyn Benchmark>, f64), BenchmarkError> {
    let (kind, scale) = checked_spec(spec)?;
    make(kind, scale, &BTreeMap::new(), seed)
}

/// The kind and, if it is given, the scale of `NAME`, `NAME:SCALE` or `file:PATH`.
fn checked_spec(spec: &str) -> Result<(&str, Option<f64>), BenchmarkError> {
    let (name, scale) = kind_and_scale(spec);
    if PATH_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return Ok((name, None));
    }
    let entry = entry(name)?;
    let number = |text: &str| {
        let not_a_number =
            BenchmarkError::NotANumber { name: entry.name, scale: text.to_owned(), default: entry.scale_default };
        text.parse::<f64>().ok().filter(|number| !number.is_nan()).ok_or(not_a_number)
    };
    Ok((name, scale.map(number).transpose()?))
}

/// The benchmark of that name at a scale, or its default scale, with those parameters and all others at their defaults;
/// and its scale. Equal arguments make benchmarks that load equal data and whose clients of equal number and
/// seed draw equal requests.
pub fn make(
    kind: &str,
    scale: Option<f64>,
    parameters: &BTreeMap<String, Value>,
    seed: u64,
) -> Result<(Box<dyn Benchmark>, f64), BenchmarkError> {
    make_with(&NoKinds, &file::Definitions::default(), kind, scale, parameters, seed)
}

/// The same; `kinds` makes workloads of further kinds, and `files` holds those that were read from files before.
fn make_with(
    kinds: &dyn Kinds,
    files: &file::Definitions,
    kind: &str,
    scale: Option<f64>,
    parameters: &BTreeMap<String, Value>,
    seed: u64,
) -> Result<(Box<dyn Benchmark>, f64), BenchmarkError> {
    if let Some(paths) = kind.strip_prefix(file::PREFIX) {
        return Ok(files.make(paths, file_scale(paths, scale, parameters)?, seed)?);
    }
    if let Some(made) = sketch::make(kind, seed).or_else(|| kinds.make(kind, seed)) {
        // A URL behind the question mark may have a password.
        let shown = kind.split('?').next().unwrap_or(kind);
        let refused = |why| BenchmarkError::Other { kind: shown.to_owned(), why };
        return match parameters.keys().next() {
            Some(parameter) => Err(refused(format!("it has no parameter `{parameter}`, nor any other; leave it out"))),
            None => made.map(|benchmark| (benchmark, 1.0)).map_err(refused),
        };
    }
    let entry = entry(kind)?;
    let scale = scale.unwrap_or(entry.scale_default);
    let (name, possible) = (entry.name, entry.scale_possible);
    if !possible.has_number(scale) {
        return Err(BenchmarkError::Scale { name, scale, possible, unit: entry.scale_unit });
    }
    let parameters = Parameters::read(name, entry.parameters, parameters)?;
    Ok(((entry.make)(scale, &parameters, seed), scale))
}

/// The scale of a workload from a file, which can also be given as its only parameter.
fn file_scale(
    path: &str,
    scale: Option<f64>,
    parameters: &BTreeMap<String, Value>,
) -> Result<Option<f64>, BenchmarkError> {
    let fault = |parameter: &str, given: Option<&Value>| BenchmarkError::FileParameter {
        path: path.to_owned(),
        parameter: parameter.to_owned(),
        given: given.map(Value::to_string),
    };
    match parameters.iter().find(|(name, _)| *name != "scale") {
        Some((unknown, _)) => Err(fault(unknown, None)),
        None => match parameters.get("scale") {
            Some(given) => given.as_f64().map(Some).ok_or_else(|| fault("scale", Some(given))),
            None => Ok(scale),
        },
    }
}

fn entry(name: &str) -> Result<&'static Entry, BenchmarkError> {
    BENCHMARKS.iter().find(|entry| entry.name == name).ok_or_else(|| BenchmarkError::Unknown {
        name: name.to_owned(),
        nearest: nearest(name, BENCHMARKS.iter().map(|entry| entry.name)),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
