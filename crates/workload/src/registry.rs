//! Which benchmarks there are, by name, and how `NAME:SCALE` becomes one of them.

use crate::benchmark::Benchmark;
use crate::tpcc::Tpcc;
use crate::tpch::Tpch;

/// A benchmark that can be asked for.
#[derive(Debug)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// What its scale counts.
    pub scale_unit: &'static str,
    /// The scale that is meant by the bare name.
    pub scale_default: f64,
    make: fn(f64, u64) -> Result<Box<dyn Benchmark>, String>,
}

/// Every benchmark.
pub static BENCHMARKS: &[Entry] = &[
    Entry {
        name: "tpcc",
        about: "TPC-C: order entry, five short transactions",
        scale_unit: "warehouses",
        scale_default: 1.0,
        make: make_tpcc,
    },
    Entry {
        name: "tpch",
        about: "TPC-H: 22 analytical queries",
        scale_unit: "units of about 1 GB",
        scale_default: 1.0,
        make: |scale, seed| Ok(Box::new(Tpch::new(scale, seed).map_err(|error| error.to_string())?)),
    },
];

/// As many warehouses as fit the row counts and keys that the schema has room for.
const WAREHOUSES_MAX: f64 = 100_000.0;

fn make_tpcc(scale: f64, seed: u64) -> Result<Box<dyn Benchmark>, String> {
    if scale.fract() != 0.0 || !(1.0..=WAREHOUSES_MAX).contains(&scale) {
        return Err(format!("tpcc has no scale {scale}; give a whole number of warehouses from 1 to {WAREHOUSES_MAX}"));
    }
    Ok(Box::new(Tpcc::new(scale as u32, seed)))
}

/// Why `NAME:SCALE` is no benchmark.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BenchmarkError {
    /// There is no benchmark of that name.
    #[error("there is no workload `{name}`{}; there are {}", suggestion(nearest), names())]
    Unknown {
        /// The name given.
        name: String,
        /// The nearest name there is, if one is near.
        nearest: Option<&'static str>,
    },
    /// The scale is no number.
    #[error("the scale `{scale}` of `{name}` is no number; write for example {name}:{default}")]
    NotANumber {
        /// The benchmark.
        name: &'static str,
        /// The scale given.
        scale: String,
        /// A scale that would do.
        default: f64,
    },
    /// The benchmark cannot have that scale.
    #[error("{0}")]
    Scale(String),
}

/// The nearest known word as a question to put behind an unknown one; nothing if none is near.
pub fn suggestion(nearest: &Option<&'static str>) -> String {
    nearest.map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"))
}

fn names() -> String {
    let names: Vec<_> = BENCHMARKS.iter().map(|entry| format!("`{}` ({})", entry.name, entry.about)).collect();
    names.join(" and ")
}

/// The nearest of some words, if one is near enough to be what was meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |known: &str| strsim::damerau_levenshtein(&word.to_lowercase(), known);
    let best = known.into_iter().min_by_key(|known| distance(known))?;
    (distance(best) <= best.len().div_ceil(3)).then_some(best)
}

/// The benchmark that `NAME` or `NAME:SCALE` asks for, and its scale.
pub fn benchmark(spec: &str, seed: u64) -> Result<(Box<dyn Benchmark>, f64), BenchmarkError> {
    let (name, scale) = spec.split_once(':').map_or((spec, None), |(name, scale)| (name, Some(scale)));
    let entry = BENCHMARKS.iter().find(|entry| entry.name == name).ok_or_else(|| BenchmarkError::Unknown {
        name: name.to_owned(),
        nearest: nearest(name, BENCHMARKS.iter().map(|entry| entry.name)),
    })?;
    let number = |text: &str| {
        let not_a_number =
            BenchmarkError::NotANumber { name: entry.name, scale: text.to_owned(), default: entry.scale_default };
        text.parse::<f64>().ok().filter(|number| !number.is_nan()).ok_or(not_a_number)
    };
    let scale = scale.map_or(Ok(entry.scale_default), number)?;
    Ok(((entry.make)(scale, seed).map_err(BenchmarkError::Scale)?, scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_scales_are_read_and_errors_say_what_to_do() {
        for (spec, name, scale) in [("tpcc", "tpcc", 1.0), ("tpcc:4", "tpcc", 4.0), ("tpch:0.01", "tpch", 0.01)] {
            let (benchmark, found) = benchmark(spec, 1).expect(spec);
            assert_eq!((benchmark.name(), found), (name, scale));
        }
        for (spec, expect) in [
            ("tpc-c", "did you mean `tpcc`?"),
            ("TPCH", "did you mean `tpch`?"),
            ("oracle", "there is no workload `oracle`; there are `tpcc` (TPC-C: order entry"),
            ("tpcc:", "the scale `` of `tpcc` is no number; write for example tpcc:1"),
            ("tpcc:NaN", "is no number"),
            ("tpcc:0", "tpcc has no scale 0; give a whole number of warehouses"),
            ("tpcc:-1", "tpcc has no scale -1"),
            ("tpcc:1.5", "tpcc has no scale 1.5"),
            ("tpcc:inf", "tpcc has no scale inf"),
            ("tpch:0", "tpch has no scale 0; give a number from 0.01"),
            ("tpch:-3", "tpch has no scale -3"),
        ] {
            let error = benchmark(spec, 1).err().expect(spec).to_string();
            assert!(error.contains(expect), "{spec}: {error}");
        }
    }
}
