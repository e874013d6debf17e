//! A benchmark like TPC-E: a brokerage, whose customers look at markets and at their accounts and order trades, which a
//! simulated market executes.
//!
//! Tables, transactions and their shares follow the public specification; data, statements and deviations are ours
//! (`docs/brokerage.md`). In reading order: `schema` defines the 33 tables; `size` has what follows from numbers alone,
//! `accounting` what trades do to holdings and cost, `history` and `population` the initial rows. `request` is the
//! input that customers draw, `market` executes orders. Each kind of transaction has a file; `transaction` has what
//! they share, `client` joins them, and `cleanup` cancels orders that earlier clients have left. `audit` and `check`
//! compare the data with the clients' work.
//!
//! The SQL texts pass decimals to and from the client as integers, in hundredths. Row operations are compiled from
//! them, except for joins, whose row operations are written by hand.

mod accounting;
mod audit;
mod broker_volume;
mod check;
mod cleanup;
mod client;
mod customer_position;
mod data_maintenance;
mod history;
mod market;
mod market_feed;
mod market_watch;
mod population;
mod request;
mod schema;
mod security_detail;
mod size;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
mod trade_lookup;
mod trade_order;
mod trade_result;
mod transaction;

use std::sync::Arc;

use crate::benchmark::{Benchmark, CheckLine, Client, LoadError, LoadProgress, Writes};
use crate::database::{Database, DatabaseError};
use crate::footprint::bytes_per_row;
use crate::parts::{Filling, load};
use crate::registry::{Entry, Possible};
use crate::schema::Schema;
use crate::statement::Statement;
use audit::Audit;
use client::BrokerageClient;
use population::Population;
use request::NAMES;
use schema::SCHEMA;
use size::{DAY_US, LOAD_TIME_US, Sizes};

pub(crate) const ENTRY: Entry = Entry {
    name: "brokerage",
    about: "like TPC-E: customers of a brokerage look at markets and order trades, which a simulated market executes",
    source: "TPC-E 1.14; data and statements are ours",
    scale_unit: "thousands of customers, about 110 MB each",
    scale_default: 1.0,
    scale_possible: Possible::Whole { low: 1.0, high: 10_000.0 },
    parameters: &[],
    sides: &[],
    make: |scale, _, seed| Box::new(Brokerage::new(scale as u32, seed)),
};

/// How much of the longest text that columns allow is filled, on average over all rows.
const TEXT_FILLED: f64 = 0.6;

/// The benchmark at a scale.
#[derive(Debug)]
pub struct Brokerage {
    sizes: Sizes,
    seed: u64,
    audit: Arc<Audit>,
}

impl Brokerage {
    /// The benchmark for that many thousand customers. The data follow from the seed.
    ///
    /// # Panics
    /// If the scale is 0.
    pub fn new(scale: u32, seed: u64) -> Self {
        assert!(scale >= 1, "the smallest scale is 1");
        Brokerage { sizes: Sizes { scale: scale.into() }, seed, audit: Arc::default() }
    }

    /// Every statement that a client may execute, for targets that prepare them ahead and for tests of their texts.
    pub fn statements() -> impl Iterator<Item = &'static Statement<'static>> {
        let transactions: [&[&'static Statement]; 11] = [
            &transaction::STATEMENTS,
            &trade_order::STATEMENTS,
            &trade_result::STATEMENTS,
            &market_feed::STATEMENTS,
            &market_watch::STATEMENTS,
            &customer_position::STATEMENTS,
            &security_detail::STATEMENTS,
            &trade_lookup::STATEMENTS,
            &broker_volume::STATEMENTS,
            &data_maintenance::STATEMENTS,
            &cleanup::STATEMENTS,
        ];
        transactions.into_iter().flatten().copied()
    }

    fn brokerage_client(&self, number: usize, seed: u64) -> BrokerageClient {
        BrokerageClient::new(number, seed, self.sizes, self.audit.clone())
    }
}

impl Benchmark for Brokerage {
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
        NAMES.into()
    }

    fn estimated_bytes(&self) -> u64 {
        // Words fill between two thirds and all of their column, symbols a third.
        let text_bytes = |_, bytes_max| TEXT_FILLED * bytes_max as f64;
        let bytes = |table| {
            let (units, rows_per_unit) = self.sizes.units(table);
            units as f64 * rows_per_unit * bytes_per_row(&SCHEMA.tables[table], text_bytes)
        };
        (0..SCHEMA.tables.len()).map(|table| bytes(table) as u64).sum()
    }

    fn load(&self, database: &dyn Database, progress: &LoadProgress<'_>) -> Result<(), LoadError> {
        let population = Population { seed: self.seed, sizes: self.sizes };
        let fillings: Vec<_> = (0..SCHEMA.tables.len())
            .map(|table| Filling {
                table,
                rows: self.sizes.units(table).0 as u64,
                make: Box::new(move |part| population.make(table, part)),
            })
            .collect();
        load(&SCHEMA, &fillings, database, progress)
    }

    fn prepare(&self, database: &dyn Database) -> Result<(), DatabaseError> {
        cleanup::clean_up(database, LOAD_TIME_US + DAY_US)
    }

    fn client(&self, number: usize, seed: u64) -> Box<dyn Client> {
        Box::new(self.brokerage_client(number, seed))
    }

    fn check(&self, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
        check::check(self, database)
    }
}
