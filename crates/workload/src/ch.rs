//! CH-benCHmark: TPC-C's transactions and 22 queries in the manner of TPC-H, over the same tables at once.
//!
//! In reading order: `schema` defines TPC-C's nine tables and three more, and `population` the rows of those three;
//! `queries` are the 22 queries and why each returns rows; `client` is a stream of them; `check` tests whether data and
//! answers are correct. Everything else comes from [`tpcc`](crate::tpcc).
//!
//! A value is one side of the mix, transactions or queries; both sides of an experiment load equal data and share them.

mod check;
mod client;
mod population;
mod queries;
mod schema;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use crate::benchmark::{Benchmark, CheckLine, Client, LoadError, LoadProgress, Writes};
use crate::database::{Database, DatabaseError};
use crate::footprint::bytes_per_row;
use crate::registry::{Entry, Parameter, ParameterValue, Possible, Side};
use crate::schema::Schema;
use crate::tpcc::{TRANSACTIONS, Tpcc, WAREHOUSES_MAX};
use client::QueryClient;
use queries::{NAMES, QUERIES};
use schema::{NAME, SCHEMA};

pub(crate) const ENTRY: Entry = Entry {
    name: NAME,
    about: "CH-benCHmark: TPC-C's transactions or 22 analytical queries on the same tables",
    source: "CH-benCHmark, on TPC-C 5.11",
    scale_unit: "warehouses",
    scale_default: 1.0,
    scale_possible: Possible::Whole { low: 1.0, high: WAREHOUSES_MAX },
    parameters: &[
        Parameter {
            name: "mix",
            about: "whether clients run queries or transactions",
            default: ParameterValue::Text("queries"),
            possible: Possible::OneOf(&["queries", "transactions"]),
        },
        Parameter {
            name: "queries",
            about: "which of the queries are run",
            default: ParameterValue::List(Cow::Borrowed(&NAMES)),
            possible: Possible::SomeOf(&NAMES),
        },
    ],
    sides: &[
        Side { name: "oltp", parameter: "mix", value: "transactions" },
        Side { name: "olap", parameter: "mix", value: "queries" },
    ],
    make: |scale, parameters, seed| {
        let mix = match parameters.text("mix") {
            "transactions" => Mix::Transactions,
            _ => Mix::of_queries(parameters.list("queries")),
        };
        Box::new(Ch::new(scale as u32, mix, seed))
    },
};

/// The side of the mix that clients run.
#[derive(Debug, Clone)]
enum Mix {
    /// Queries, as positions in [`QUERIES`].
    Queries(Arc<[usize]>),
    /// TPC-C's transactions.
    Transactions,
}

impl Mix {
    /// The queries of those names, which the registry has checked.
    fn of_queries(names: &[&str]) -> Mix {
        let position = |name: &&str| NAMES.iter().position(|known| known == name).expect("the registry has checked it");
        Mix::Queries(names.iter().map(position).collect())
    }
}

/// CH-benCHmark at a scale, one side of its mix.
#[derive(Debug)]
struct Ch {
    tpcc: Tpcc,
    mix: Mix,
    seed: u64,
    /// The texts of all queries at this scale, in order.
    texts: Arc<[String]>,
}

impl Ch {
    fn new(scale: u32, mix: Mix, seed: u64) -> Self {
        let texts = QUERIES.iter().map(|query| query.sql(scale.into())).collect();
        Ch { tpcc: Tpcc::in_schema(&SCHEMA, scale, seed), mix, seed, texts }
    }
}

impl Benchmark for Ch {
    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn data(&self) -> String {
        self.tpcc.data()
    }

    fn writes(&self) -> Writes {
        match self.mix {
            Mix::Queries(_) => Writes::Nothing,
            Mix::Transactions => self.tpcc.writes(),
        }
    }

    fn transactions(&self) -> Vec<&str> {
        match self.mix {
            Mix::Queries(_) => NAMES.to_vec(),
            Mix::Transactions => TRANSACTIONS.to_vec(),
        }
    }

    fn is_analytical(&self) -> bool {
        matches!(self.mix, Mix::Queries(_))
    }

    fn queries(&self) -> Vec<(String, String)> {
        match &self.mix {
            Mix::Queries(chosen) => {
                chosen.iter().map(|&query| (NAMES[query].to_owned(), self.texts[query].clone())).collect()
            }
            Mix::Transactions => Vec::new(),
        }
    }

    fn estimated_bytes(&self) -> u64 {
        let bytes = |(table, rows)| {
            // Texts are between their half and their whole length.
            let text_bytes = |_, bytes_max| 0.75 * bytes_max as f64;
            (rows as f64 * bytes_per_row(&SCHEMA.tables[table], text_bytes)) as u64
        };
        self.tpcc.estimated_bytes() + population::TABLES.into_iter().map(bytes).sum::<u64>()
    }

    fn load(&self, database: &dyn Database, progress: &LoadProgress<'_>) -> Result<(), LoadError> {
        let own: u64 = population::TABLES.iter().map(|(_, rows)| rows).sum();
        let all = own + self.tpcc.row_count();
        let mut done = 0;
        database.create(&SCHEMA)?;
        for (table, rows) in population::TABLES {
            progress.step(done, all, SCHEMA.tables[table].name)?;
            database.load(&SCHEMA, table, population::make(table, self.seed))?;
            done += rows;
        }
        self.tpcc.fill(database, progress, done)?;
        database.finish_load(&SCHEMA)?;
        Ok(())
    }

    fn client(&self, number: usize, seed: u64) -> Box<dyn Client> {
        match &self.mix {
            Mix::Queries(chosen) => Box::new(QueryClient::new(seed, number, self.texts.clone(), chosen.clone())),
            Mix::Transactions => self.tpcc.client(number, seed),
        }
    }

    fn check(&self, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
        check::check(self, database)
    }
}
