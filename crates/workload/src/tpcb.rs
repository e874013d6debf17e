//! TPC-B, revision 2.0: a bank of branches with ten tellers and 100,000 accounts each, and one transaction, which books an
//! amount on an account, a teller and a branch and writes it down in the history.
//!
//! Every transaction at a branch updates the branch's one row. With fewer branches than clients, clients wait for that
//! row, and the benchmark measures its lock.
//!
//! In reading order: `schema` defines the tables, `data` their initial rows, `client` draws and runs transactions,
//! `check` tests whether the books balance.
//!
//! Not implemented: the specification's scaling of branches with the claimed throughput, its history of eight hours,
//! and the terminal.

mod check;
mod client;
mod data;
mod schema;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::benchmark::{Benchmark, CheckLine, Client, LoadError, LoadProgress, Writes};
use crate::database::{Database, DatabaseError};
use crate::footprint::bytes_per_row;
use crate::parts::load;
use crate::registry::{Entry, Possible};
use crate::schema::Schema;
use crate::statement::Statement;
use client::TpcbClient;
use schema::SCHEMA;

/// As many branches as 32-bit numbers of accounts have room for.
const BRANCHES_MAX: f64 = 20_000.0;

pub(crate) const ENTRY: Entry = Entry {
    name: "tpcb",
    about: "TPC-B: one short update of an account, a teller and a branch; with fewer branches than clients, a test of locks",
    source: "TPC-B 2.0",
    scale_unit: "branches of 100,000 accounts; at least as many as clients, so that these do not wait for each other",
    scale_default: 1.0,
    scale_possible: Possible::Whole { low: 1.0, high: BRANCHES_MAX },
    parameters: &[],
    sides: &[],
    make: |scale, _, _| Box::new(Tpcb::new(scale as u32)),
};

/// TPC-B at a scale.
#[derive(Debug)]
pub struct Tpcb {
    branches: i64,
    /// How many transactions of this value's clients have committed.
    completed: Arc<AtomicU64>,
}

impl Tpcb {
    /// TPC-B with `scale` branches.
    ///
    /// # Panics
    /// If there is no branch.
    pub fn new(scale: u32) -> Self {
        assert!(scale >= 1, "TPC-B needs a branch");
        Tpcb { branches: scale.into(), completed: Arc::default() }
    }

    /// Every statement that a client may execute, for targets that prepare them ahead and for tests of their texts.
    pub fn statements() -> impl Iterator<Item = &'static Statement<'static>> {
        client::STATEMENTS.into_iter()
    }

    fn tpcb_client(&self, number: usize, seed: u64) -> TpcbClient {
        TpcbClient::new(self, number, seed)
    }
}

impl Benchmark for Tpcb {
    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn data(&self) -> String {
        format!("{}:{}", SCHEMA.name, self.branches)
    }

    fn writes(&self) -> Writes {
        Writes::Grows
    }

    fn transactions(&self) -> Vec<&str> {
        vec!["transfer"]
    }

    fn estimated_bytes(&self) -> u64 {
        // Every text is as long as its column allows.
        let bytes = |table: usize| bytes_per_row(&SCHEMA.tables[table], |_, bytes_max| bytes_max as f64);
        data::fillings(self.branches).iter().map(|filling| (filling.rows as f64 * bytes(filling.table)) as u64).sum()
    }

    fn load(&self, database: &dyn Database, progress: &LoadProgress<'_>) -> Result<(), LoadError> {
        load(&SCHEMA, &data::fillings(self.branches), database, progress)
    }

    fn client(&self, number: usize, seed: u64) -> Box<dyn Client> {
        Box::new(self.tpcb_client(number, seed))
    }

    fn check(&self, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
        check::check(self, database)
    }
}
