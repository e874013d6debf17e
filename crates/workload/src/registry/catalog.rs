//! The benchmarks of an experiment, each made once.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::{BenchmarkError, Kinds, NoKinds, checked_spec, make_with};
use crate::benchmark::Benchmark;
use crate::file::Definitions;
use crate::instance::{INSTANCE, Instance};

/// The benchmarks of an experiment. Each is made at the first request, and later requests get the same value. A
/// benchmark's counts of its clients' work are thus in one place, and all runs have the same workload, even if its file
/// is edited in the meantime. Clones share the benchmarks.
#[derive(Clone)]
pub struct Catalog(Arc<Contents>);

struct Contents {
    seed: u64,
    kinds: &'static dyn Kinds,
    made: Mutex<BTreeMap<Key, ScaledBenchmark>>,
    definitions: Definitions,
}

/// A benchmark and its scale.
type ScaledBenchmark = (Arc<dyn Benchmark>, f64);

/// Kind, bits of the scale if one was given, and parameters.
type Key = (String, Option<u64>, String);

impl Catalog {
    /// An empty one. The data of its benchmarks follow from the seed, as far as they follow from any.
    pub fn new(seed: u64) -> Self {
        Catalog::with(seed, &NoKinds)
    }

    /// The same with workloads of further kinds.
    pub fn with(seed: u64, kinds: &'static dyn Kinds) -> Self {
        Catalog(Arc::new(Contents { seed, kinds, made: Mutex::default(), definitions: Definitions::default() }))
    }

    /// The benchmark that `NAME`, `NAME:SCALE` or `file:PATH` asks for, with those parameters and all others at their defaults;
    /// and its scale.
    pub fn of_spec(
        &self,
        spec: &str,
        parameters: &BTreeMap<String, Value>,
    ) -> Result<(Arc<dyn Benchmark>, f64), BenchmarkError> {
        let (kind, scale) = checked_spec(spec)?;
        self.get(kind, scale, parameters)
    }

    /// The benchmark of that name at a scale, or its default scale, with those parameters and all others at their defaults;
    /// and its scale. The parameter [`INSTANCE`] asks for [another instance](crate::instance) of it.
    pub fn get(
        &self,
        kind: &str,
        scale: Option<f64>,
        parameters: &BTreeMap<String, Value>,
    ) -> Result<(Arc<dyn Benchmark>, f64), BenchmarkError> {
        let Contents { seed, kinds, made, definitions } = &*self.0;
        let key = |scale: Option<f64>| {
            let parameters = serde_json::to_string(parameters).expect("names and plain values");
            (kind.to_owned(), scale.map(f64::to_bits), parameters)
        };
        let mut made = made.lock();
        if let Some(known) = made.get(&key(scale)) {
            return Ok(known.clone());
        }
        let mut own = parameters.clone();
        let instance = own.remove(INSTANCE);
        let (benchmark, its_scale) = make_with(*kinds, definitions, kind, scale, &own, *seed)?;
        let benchmark: Box<dyn Benchmark> = match instance.as_ref().and_then(Value::as_str) {
            Some(name) => Box::new(Instance::new(benchmark, name)),
            None => benchmark,
        };
        // The default scale is also asked for by its number.
        let one = made.entry(key(Some(its_scale))).or_insert_with(|| (benchmark.into(), its_scale)).clone();
        made.insert(key(scale), one.clone());
        Ok(one)
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog").field("seed", &self.0.seed).finish_non_exhaustive()
    }
}
