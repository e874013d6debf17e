//! A benchmark like ASDB, the one by which Microsoft rates the sizes of its cloud databases (DTU benchmark): six tables
//! and nine transactions of high contrast, from reads of one row in memory to reads and writes all over a table.
//!
//! Only a description is public, without schema and statements; those here are ours. In reading order: `schema` defines
//! the six tables, and `population` their initial rows, with text from `crate::words`; `request` is the input that
//! clients draw; `reads`, `updates` and `inserts` are the transactions; `client` joins these; `audit` and `check`
//! compare the data with the clients' work.

mod audit;
mod check;
mod client;
mod inserts;
mod population;
mod reads;
mod request;
mod schema;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
mod updates;

use std::sync::Arc;

use crate::benchmark::{Benchmark, CheckLine, Client, LoadError, LoadProgress, Writes};
use crate::database::{self, Database, DatabaseError, Session};
use crate::footprint::bytes_per_row;
use crate::parts::{Filling, load};
use crate::registry::{Entry, Possible};
use crate::schema::Schema;
use crate::statement::{Rows, Statement, Value};
use audit::Audit;
use client::AsdbClient;
use population::Sizes;
use request::MIX;
use schema::SCHEMA;

pub(crate) const ENTRY: Entry = Entry {
    name: "asdb",
    about: "like ASDB: nine transactions of high contrast, two reads to a write",
    source: "the DTU benchmark's description; tables and statements are ours",
    scale_unit: "scale factors of about 10 MB; one client for every five of them",
    scale_default: 5.0,
    scale_possible: Possible::Whole { low: 1.0, high: 100_000.0 },
    parameters: &[],
    sides: &[],
    make: |scale, _, seed| Box::new(Asdb::new(scale as u32, seed)),
};

/// Units of scale for which there is one client.
const SCALE_PER_CLIENT: usize = 5;

/// The benchmark at a scale.
#[derive(Debug)]
pub struct Asdb {
    sizes: Sizes,
    seed: u64,
    audit: Arc<Audit>,
}

impl Asdb {
    /// The benchmark at a scale. The data follow from the seed.
    ///
    /// # Panics
    /// If the scale is 0.
    pub fn new(scale: u32, seed: u64) -> Self {
        assert!(scale >= 1, "the smallest scale is 1");
        Asdb { sizes: Sizes { scale: scale.into() }, seed, audit: Arc::default() }
    }

    /// Every statement that a client may execute, for targets that prepare them ahead and for tests of their texts.
    pub fn statements() -> impl Iterator<Item = &'static Statement<'static>> {
        let transactions: [&[&'static Statement]; 3] = [&reads::STATEMENTS, &updates::STATEMENTS, &inserts::STATEMENTS];
        transactions.into_iter().flatten().copied()
    }

    fn asdb_client(&self, number: usize, seed: u64) -> AsdbClient {
        AsdbClient::new(seed, self.sizes, number, self.audit.clone())
    }
}

/// Runs a statement that must find its row, as [`database::execute_one`] does.
fn execute_one(
    session: &mut dyn Session,
    statement: &Statement<'_>,
    parameters: &[Value<'_>],
    rows: &mut Rows,
) -> Result<(), DatabaseError> {
    database::execute_one(session, ENTRY.name, statement, parameters, rows)
}

impl Benchmark for Asdb {
    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn data(&self) -> String {
        format!("{}:{}:seed={}", SCHEMA.name, self.sizes.scale, self.seed)
    }

    fn writes(&self) -> Writes {
        Writes::Grows
    }

    fn transactions(&self) -> Vec<&str> {
        MIX.map(|(_, name, _)| name).into()
    }

    fn estimated_bytes(&self) -> u64 {
        // Most texts fill between two thirds and all of their column.
        let text_bytes = |_, bytes_max| 0.8 * bytes_max as f64;
        let bytes = |table| self.sizes.rows(table) as f64 * bytes_per_row(&SCHEMA.tables[table], text_bytes);
        (0..SCHEMA.tables.len()).map(|table| bytes(table) as u64).sum()
    }

    fn client_count_max(&self) -> Option<usize> {
        Some((self.sizes.scale as usize / SCALE_PER_CLIENT).max(1))
    }

    fn load(&self, database: &dyn Database, progress: &LoadProgress<'_>) -> Result<(), LoadError> {
        let fillings = [0, 1, 2, 3, 4, 5].map(|table| Filling {
            table,
            rows: self.sizes.rows(table),
            make: Box::new(move |part| population::make(self.seed, self.sizes, table, part)),
        });
        load(&SCHEMA, &fillings, database, progress)
    }

    fn client(&self, number: usize, seed: u64) -> Box<dyn Client> {
        Box::new(self.asdb_client(number, seed))
    }

    fn check(&self, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
        check::check(self, database)
    }
}
