//! TPC-H: eight tables and 22 queries.
//!
//! In reading order: [`tables`] is the schema, [`load`] makes the data with a generator that is byte-identical to the
//! specification's, [`queries`] lists the 22 queries, [`parameters`] draws their parameters, [`client`] is a stream of
//! queries, [`check`] holds tables and answers against what is published, with [`cells`] to read an answer and
//! [`answers`] to compare it.
//!
//! The refresh functions, and with them the specification's metrics, are not part of it.

use crate::benchmark::{Benchmark, CheckLine, Client, LoadError, LoadProgress};
use crate::database::{Database, DatabaseError};
use crate::schema::Schema;

pub mod answers;
pub mod cells;
pub mod check;
pub mod client;
pub mod load;
pub mod parameters;
pub mod queries;
pub mod tables;

/// TPC-H at a scale.
#[derive(Debug, Clone)]
pub struct Tpch {
    scale: f64,
    seed: u64,
}

/// Why there is no such TPC-H.
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

    /// TPC-H at a scale, 1 being some 8.7 million rows. The seed decides what clients ask; the data depends on the scale
    /// alone.
    pub fn new(scale: f64, seed: u64) -> Result<Tpch, TpchError> {
        if (Tpch::SCALE_MIN..=Tpch::SCALE_MAX).contains(&scale) {
            Ok(Tpch { scale, seed })
        } else {
            Err(TpchError::Scale(scale))
        }
    }

    /// The scale.
    pub fn scale(&self) -> f64 {
        self.scale
    }
}

/// Bytes per unit of scale of all eight tables as Arrow arrays in the types of [`tables`].
const BYTES_PER_SCALE: f64 = 2_000_000_000.0;

/// The text that the generator cuts comments from; it stays in memory once a table was made.
const TEXT_POOL_BYTES: u64 = 300 << 20;

impl Benchmark for Tpch {
    fn name(&self) -> &'static str {
        tables::SCHEMA.name
    }

    fn schema(&self) -> &'static Schema {
        &tables::SCHEMA
    }

    fn transactions(&self) -> &'static [&'static str] {
        &queries::NAMES
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

    fn client(&self, number: usize) -> Box<dyn Client> {
        Box::new(client::QueryClient::new(self.seed, number, self.scale))
    }

    fn check(&self, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
        check::check(self.scale, database)
    }
}

#[cfg(test)]
mod tests;
