//! Reads or updates of random rows by primary key: the micro-benchmark of SI 4.3. Or insertions: that of SI 6.3.2.
//!
//! One table of keys and values, either both 8-byte integers or both strings of 50 bytes; a transaction reads, or updates,
//! a number of loaded rows that are drawn uniformly, with replacement, and touched in the order drawn. Clients that update
//! several rows each can therefore deadlock, and the fewer rows the table has the more often. A transaction that inserts
//! adds that many rows above all others, each client at keys of its own.
//!
//! In reading order: `schema` is the table in its two types, `data` makes its rows, `client` draws and runs
//! transactions, `check` tests whether keys and values are correct, `query` are queries over the same table.

mod check;
mod client;
mod data;
pub(crate) mod query;
mod schema;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::benchmark::{Benchmark, CheckLine, Client, LoadError, LoadProgress, Writes};
use crate::database::{Database, DatabaseError};
use crate::footprint::bytes_per_row;
use crate::parts::{Filling, load};
use crate::registry::{Entry, Parameter, ParameterValue, Possible};
use crate::schema::{Schema, Table};
use crate::statement::Statement;
use client::RowsClient;
use schema::PAIRS;

const ROWS_SCALE_UNIT: &str = "millions of rows; 0.0625 is 1 MB of 8-byte keys and values";

/// The smallest is ten rows, for clients that are to conflict. The greatest scale is twice the 100 GB of SI, in the
/// smaller type.
const ROWS_SCALE: Possible = Possible::Number { low: 0.00001, high: 12_500.0 };

pub(crate) const ENTRY: Entry = Entry {
    name: "rows",
    about: "reads or updates of random rows of one table by key, or insertions",
    source: "SI 4.3, 6.3.2",
    scale_unit: ROWS_SCALE_UNIT,
    scale_default: 1.0,
    scale_possible: ROWS_SCALE,
    parameters: &[
        Parameter {
            name: "rows",
            about: "how many rows a transaction reads, updates or inserts",
            default: ParameterValue::Number(1.0),
            possible: Possible::Whole { low: 1.0, high: 10_000.0 },
        },
        Parameter {
            name: "columns",
            about: "8-byte integers or strings of 50 bytes",
            default: ParameterValue::Text("bigint"),
            possible: Possible::OneOf(&["bigint", "text"]),
        },
        Parameter {
            name: "updates",
            about: "share of transactions that update rather than read",
            default: ParameterValue::Number(0.0),
            possible: Possible::Number { low: 0.0, high: 1.0 },
        },
        Parameter {
            name: "inserts",
            about: "share of transactions that insert rows; `updates` is a share of the others",
            default: ParameterValue::Number(0.0),
            possible: Possible::Number { low: 0.0, high: 1.0 },
        },
    ],
    sides: &[],
    make: |scale, parameters, _| {
        let columns = if parameters.text("columns") == "text" { Columns::Text } else { Columns::BigInt };
        Box::new(RandomRows {
            scale,
            columns,
            rows_per_transaction: parameters.number("rows") as usize,
            updates: parameters.number("updates"),
            inserts: parameters.number("inserts"),
            work: Arc::default(),
        })
    },
};

/// The type of keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Columns {
    /// 8-byte integers.
    BigInt,
    /// Strings of 50 bytes.
    Text,
}

#[derive(Debug)]
struct RandomRows {
    /// Millions of rows.
    scale: f64,
    columns: Columns,
    rows_per_transaction: usize,
    /// The share that updates of the transactions that do not insert.
    updates: f64,
    /// The share of transactions that insert.
    inserts: f64,
    work: Arc<Work>,
}

/// What clients have done in transactions that committed.
#[derive(Debug, Default)]
struct Work {
    /// Rows updated; a row updated twice counts twice.
    updated: AtomicU64,
    /// Rows inserted.
    inserted: AtomicU64,
    /// The distance of the greatest key from the greatest one that was loaded, when the clients were made.
    inserted_before: AtomicU64,
}

impl RandomRows {
    fn row_count(&self) -> u64 {
        (self.scale * 1e6).round() as u64
    }

    fn table(&self) -> &'static Table {
        &self.schema().tables[PAIRS]
    }

    fn rows_client(&self, number: usize, seed: u64) -> RowsClient {
        RowsClient::new(self, number, seed)
    }
}

/// Every statement that a client may execute, for targets that prepare them ahead and for tests of their texts.
pub fn statements() -> impl Iterator<Item = &'static Statement<'static>> {
    client::STATEMENTS.into_iter()
}

/// The names of the kinds of transaction, in the order of [`client::TransactionKind`].
const TRANSACTIONS: [&str; 3] = ["read", "update", "insert"];

impl Benchmark for RandomRows {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn schema(&self) -> &'static Schema {
        match self.columns {
            Columns::BigInt => &schema::BIGINT,
            Columns::Text => &schema::TEXT,
        }
    }

    fn data(&self) -> String {
        format!("{}:{}", self.schema().name, self.scale)
    }

    fn writes(&self) -> Writes {
        match (self.inserts > 0.0, self.updates > 0.0) {
            (true, _) => Writes::Grows,
            (false, true) => Writes::InPlace,
            (false, false) => Writes::Nothing,
        }
    }

    fn transactions(&self) -> Vec<&str> {
        TRANSACTIONS.to_vec()
    }

    fn estimated_bytes(&self) -> u64 {
        // Every text is as long as its column allows.
        (self.row_count() as f64 * bytes_per_row(self.table(), |_, bytes_max| bytes_max as f64)) as u64
    }

    fn load(&self, database: &dyn Database, progress: &LoadProgress<'_>) -> Result<(), LoadError> {
        let make = Box::new(|part| data::batch(self.table(), self.columns, part));
        load(self.schema(), &[Filling { table: PAIRS, rows: self.row_count(), make }], database, progress)
    }

    fn prepare(&self, database: &dyn Database) -> Result<(), DatabaseError> {
        if self.inserts > 0.0 {
            let greatest = check::greatest_key(self, database)?;
            // Relaxed: the threads that make the clients are started afterwards.
            self.work.inserted_before.store(greatest.saturating_sub(self.row_count()), Ordering::Relaxed);
        }
        Ok(())
    }

    fn client(&self, number: usize, seed: u64) -> Box<dyn Client> {
        Box::new(self.rows_client(number, seed))
    }

    fn check(&self, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
        check::check(self, database)
    }
}
