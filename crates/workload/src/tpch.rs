//! TPC-H: eight tables and 22 queries.
//!
//! In reading order: [`tables`] is the schema, [`load`] makes the data with a generator that is byte-identical to the
//! specification's, [`queries`] lists the 22 queries, [`parameters`] draws their parameters, [`client`] is a stream of
//! queries, [`check`] compares tables and answers with the published ones, with [`cells`] to read an answer and
//! [`answers`] to compare it.
//!
//! The refresh functions, and with them the specification's metrics, are not part of it.

use std::borrow::Cow;
use std::sync::Arc;

use crate::benchmark::{Benchmark, CheckLine, Client, LoadError, LoadProgress, Writes};
use crate::database::{Database, DatabaseError};
use crate::registry::{Entry, Parameter, ParameterValue, Possible};
use crate::schema::Schema;

pub mod answers;
pub mod cells;
pub mod check;
pub mod client;
pub mod load;
pub mod parameters;
pub mod queries;
pub mod tables;

pub(crate) const ENTRY: Entry = Entry {
    name: "tpch",
    about: "TPC-H: 22 analytical queries",
    source: "TPC-H, without refresh functions",
    scale_unit: SCALE_UNIT,
    scale_default: 1.0,
    scale_possible: SCALE_POSSIBLE,
    parameters: &[Parameter {
        name: "queries",
        about: "which of the queries are run",
        default: ParameterValue::List(Cow::Borrowed(&queries::NAMES)),
        possible: Possible::SomeOf(&queries::NAMES),
    }],
    sides: &[],
    make: |scale, parameters, _| {
        let tpch = Tpch::new(scale).expect("the registry has checked the scale");
        Box::new(tpch.with_queries(parameters.list("queries")))
    },
};

/// The unit of scale of every benchmark over TPC-H's tables.
pub(crate) const SCALE_UNIT: &str = "units of about 1 GB";

/// Which scales a benchmark over TPC-H's tables can have.
pub(crate) const SCALE_POSSIBLE: Possible = Possible::Number { low: Tpch::SCALE_MIN, high: Tpch::SCALE_MAX };

/// TPC-H at a scale.
#[derive(Debug, Clone)]
pub struct Tpch {
    scale: f64,
    /// The queries that clients run, as positions in [`queries::QUERIES`].
    chosen: Arc<[usize]>,
}

/// Why a TPC-H cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TpchError {
    /// The scale is too small, too large, or no number.
    #[error("tpch has no scale {0}; give a number from {min} to {max}", min = Tpch::SCALE_MIN, max = Tpch::SCALE_MAX)]
    Scale(f64),
}

impl Tpch {
    /// The smallest scale: 100 suppliers, so that each of the 25 nations may still have one.
    pub const SCALE_MIN: f64 = 0.01;

    /// The largest scale that TPC-H 4.1.3.1 lists.
    pub const SCALE_MAX: f64 = 100_000.0;

    /// TPC-H at a scale, 1 being some 8.7 million rows. The data depends on the scale alone.
    pub fn new(scale: f64) -> Result<Tpch, TpchError> {
        if (Tpch::SCALE_MIN..=Tpch::SCALE_MAX).contains(&scale) {
            Ok(Tpch { scale, chosen: (0..queries::QUERIES.len()).collect() })
        } else {
            Err(TpchError::Scale(scale))
        }
    }

    /// The same, with clients that run only the queries of those names. The list of transactions still has all 22, so
    /// that a query's position does not depend on the selection.
    ///
    /// # Panics
    /// If there is no query or one has no such name.
    pub fn with_queries(self, names: &[&str]) -> Tpch {
        let position = |name: &&str| queries::NAMES.iter().position(|known| known == name);
        let chosen: Option<Arc<[usize]>> = names.iter().map(position).collect();
        let chosen = chosen.filter(|chosen| !chosen.is_empty()).unwrap_or_else(|| panic!("no queries {names:?}"));
        Tpch { chosen, ..self }
    }

    /// The scale.
    pub fn scale(&self) -> f64 {
        self.scale
    }
}

/// Bytes per unit of scale of all eight tables as Arrow arrays in the types of [`tables`], as their batches report it:
/// `lineitem` takes 71 % of them, `orders` 16 %. At scale 0.1 and 1 it is the same within 1 %.
const BYTES_PER_SCALE: f64 = 1_925_000_000.0;

/// The text that the generator cuts comments from; it stays in memory once a table was made.
const TEXT_POOL_BYTES: u64 = 300 << 20;

impl Benchmark for Tpch {
    fn schema(&self) -> &'static Schema {
        &tables::SCHEMA
    }

    fn data(&self) -> String {
        format!("{}:{}", tables::SCHEMA.name, self.scale)
    }

    fn writes(&self) -> Writes {
        Writes::Nothing
    }

    fn transactions(&self) -> Vec<&str> {
        queries::NAMES.to_vec()
    }

    fn is_analytical(&self) -> bool {
        true
    }

    fn estimated_bytes(&self) -> u64 {
        (self.scale * BYTES_PER_SCALE) as u64 + TEXT_POOL_BYTES
    }

    fn load(&self, database: &dyn Database, progress: &LoadProgress<'_>) -> Result<(), LoadError> {
        load::load(self.scale, database, progress)
    }

    fn client(&self, number: usize, seed: u64) -> Box<dyn Client> {
        Box::new(client::QueryClient::new(seed, number, self.scale, self.chosen.clone()))
    }

    /// The queries that clients run, with the parameters of the specification's own answers.
    fn queries(&self) -> Vec<(String, String)> {
        let query = |position: &usize| &queries::QUERIES[*position];
        let chosen = self.chosen.iter().map(query);
        chosen.map(|query| (query.name.to_owned(), query.validation_sql(self.scale))).collect()
    }

    fn check(&self, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
        check::check(self.scale, database)
    }
}

#[cfg(test)]
mod tests;
