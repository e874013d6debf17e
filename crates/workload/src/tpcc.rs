//! TPC-C, revision 5.11: an order-entry business of W warehouses, five transactions.
//!
//! In reading order: `schema` defines the nine tables, `random` and `population` make their initial rows, `load` loads
//! them; `deck` and `terminal` draw a user's input; `new_order`, `payment`, `order_status`, `delivery` and
//! `stock_level` are the transactions, each with its input, its control flow and its statements; `client` joins these;
//! `audit` and `check` test whether input and data are correct.
//!
//! The SQL texts pass decimals to and from the client as integers, in hundredths or, for rates, in ten-thousandths:
//! they multiply and divide, so that a target needs no decimal type of its own.
//!
//! Differences from the specification: keying and think times are left to the driver, a Delivery runs at once instead
//! of being queued, and no terminal displays results.

mod audit;
mod buffers;
mod check;
mod client;
mod customer;
mod deck;
mod delivery;
mod load;
mod new_order;
mod order_status;
mod payment;
mod population;
mod random;
mod schema;
mod size;
mod stock_level;
mod terminal;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use std::sync::Arc;

use crate::benchmark::{Benchmark, CheckLine, Client, LoadError, LoadProgress, Writes};
use crate::database::{Database, DatabaseError, Session};
use crate::registry::{Entry, Parameter, ParameterValue, Possible};
use crate::schema::Schema;
use crate::statement::Statement;
use audit::Audit;
use client::TpccClient;
pub(crate) use deck::TRANSACTIONS;
pub(crate) use population::{RUN_TIME_US, entry_time};
use random::{Constants, LAST_NAMES, last_name};
pub(crate) use random::{Purpose, Random};
pub(crate) use schema::{DISTRICTS_PER_WAREHOUSE, ORDERS_DELIVERED, ORDERS_LOADED, TABLES};
use terminal::{Home, Terminal};

/// As many warehouses as fit the row counts and keys that the schema has room for.
pub(crate) const WAREHOUSES_MAX: f64 = 100_000.0;

pub(crate) const ENTRY: Entry = Entry {
    name: "tpcc",
    about: "TPC-C: order entry, five short transactions",
    source: "TPC-C 5.11",
    scale_unit: "warehouses",
    scale_default: 1.0,
    scale_possible: Possible::Whole { low: 1.0, high: WAREHOUSES_MAX },
    parameters: &[Parameter {
        name: "home",
        about: "whether a client keeps its warehouse and district, as the specification has it, or draws both for each transaction, \
                as MW 2.5.1 does",
        default: ParameterValue::Text("fixed"),
        possible: Possible::OneOf(&Home::NAMES),
    }],
    sides: &[],
    make: |scale, parameters, seed| {
        let tpcc = Tpcc::new(scale as u32, seed);
        Box::new(Tpcc { home: Home::named(parameters.text("home")), ..tpcc })
    },
};

/// TPC-C at a scale.
#[derive(Debug)]
pub struct Tpcc {
    schema: &'static Schema,
    warehouses: i64,
    home: Home,
    seed: u64,
    constants: Constants,
    last_names: Arc<[String]>,
    audit: Arc<Audit>,
}

impl Tpcc {
    /// TPC-C with `scale` warehouses and a fixed one for each client. Population and constants follow from the seed.
    ///
    /// # Panics
    /// If there is no warehouse.
    pub fn new(scale: u32, seed: u64) -> Self {
        Tpcc::in_schema(&schema::SCHEMA, scale, seed)
    }

    /// The same in a schema whose first nine tables are [`TABLES`].
    pub(crate) fn in_schema(schema: &'static Schema, scale: u32, seed: u64) -> Self {
        assert!(scale >= 1, "TPC-C needs a warehouse");
        let name = |number| {
            let mut name = String::new();
            last_name(number, &mut name);
            name
        };
        Tpcc {
            schema,
            warehouses: scale.into(),
            home: Home::default(),
            seed,
            constants: Constants::draw(seed),
            last_names: (0..LAST_NAMES).map(name).collect(),
            audit: Arc::default(),
        }
    }

    /// Checks the initial population alone: the checks that [`check`](Benchmark::check) adds if no client has run.
    pub fn check_population(&self, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
        check::check_population(database, self.schema, self.warehouses)
    }

    /// Every statement that a client may execute, for targets that prepare them ahead and for tests of their texts.
    pub fn statements() -> impl Iterator<Item = &'static Statement<'static>> {
        let transactions: [&[&'static Statement]; 5] = [
            &new_order::STATEMENTS,
            &payment::STATEMENTS,
            &order_status::STATEMENTS,
            &delivery::STATEMENTS,
            &stock_level::STATEMENTS,
        ];
        transactions.into_iter().flatten().copied()
    }

    /// Fills TPC-C's tables after they were created; the schema's other tables have `rows_before` rows by then.
    pub(crate) fn fill(
        &self,
        database: &dyn Database,
        progress: &LoadProgress<'_>,
        rows_before: u64,
    ) -> Result<(), LoadError> {
        load::fill(database, self.schema, self.warehouses, self.seed, progress, rows_before)
    }

    /// How many rows loading puts into TPC-C's tables.
    pub(crate) fn row_count(&self) -> u64 {
        population::row_count(self.seed, self.warehouses)
    }

    pub(crate) fn warehouses(&self) -> i64 {
        self.warehouses
    }

    /// Why the data are no longer as loaded; `None` if they are.
    pub(crate) fn why_touched(&self, session: &mut dyn Session) -> Result<Option<String>, DatabaseError> {
        check::why_touched(session, self.warehouses, self.audit.completed())
    }

    fn tpcc_client(&self, number: usize, seed: u64) -> TpccClient {
        let terminal = Terminal::new(seed, self.constants, self.warehouses, self.home, number);
        TpccClient::new(number, terminal, self.last_names.clone(), self.audit.clone())
    }
}

impl Benchmark for Tpcc {
    fn schema(&self) -> &'static Schema {
        self.schema
    }

    fn data(&self) -> String {
        format!("{}:{}:seed={}", self.schema.name, self.warehouses, self.seed)
    }

    fn writes(&self) -> Writes {
        Writes::Grows
    }

    fn transactions(&self) -> Vec<&str> {
        TRANSACTIONS.to_vec()
    }

    fn estimated_bytes(&self) -> u64 {
        size::estimated_bytes(self.warehouses)
    }

    fn load(&self, database: &dyn Database, progress: &LoadProgress<'_>) -> Result<(), LoadError> {
        database.create(self.schema)?;
        self.fill(database, progress, 0)?;
        database.finish_load(self.schema)?;
        Ok(())
    }

    fn client(&self, number: usize, seed: u64) -> Box<dyn Client> {
        Box::new(self.tpcc_client(number, seed))
    }

    fn check(&self, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
        let completed = self.audit.completed();
        let mut lines = check::check(database, self.schema, self.warehouses, completed)?;
        lines.push(check::check_constants(self.constants));
        if completed > 0 {
            lines.extend(self.audit.judge(self.warehouses));
        }
        Ok(lines)
    }
}
