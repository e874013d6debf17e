//! TPC-W: the database work of an online bookshop, whose users browse, search, fill carts and order.
//!
//! Each of the fourteen web interactions is one transaction. The mix of interactions is one of three: 5 %, 20 % or 50 %
//! of them belong to ordering.
//!
//! In reading order: `schema` defines the ten tables, and `random`, `words`, `size` and `population` their initial
//! rows; `mix` and `client` draw interactions and remember a visit's customer and cart; `shop` is the context of an
//! interaction, `numbers` numbers new rows; `browse`, `search`, `cart`, `customer`, `order`, `order_display` and
//! `admin` are the interactions with their statements; `audit` and `check` test whether input and data are correct.
//!
//! The SQL texts pass decimals to and from the client as integers, in hundredths. Statements about several tables, with
//! groups, or in an order that no index has are beyond [`keyed`](crate::keyed): their row operations are written by
//! hand.
//!
//! Not implemented: web server, pages and pictures, the payment gateway, and the matrix of transitions between pages.
//! Instead, interactions are drawn independently with the matrix's published shares.

mod admin;
mod audit;
mod browse;
mod cart;
mod check;
mod client;
mod customer;
mod mix;
mod numbers;
mod order;
mod order_display;
mod population;
mod random;
mod schema;
mod search;
mod shop;
mod size;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
mod words;

use std::sync::Arc;

use crate::benchmark::{Benchmark, CheckLine, Client, LoadError, LoadProgress, Writes};
use crate::database::{Database, DatabaseError};
use crate::parts::{Filling, load};
use crate::registry::{Entry, Parameter, ParameterValue, Possible};
use crate::schema::Schema;
use crate::statement::Statement;
use audit::Audit;
use client::TpcwClient;
use mix::{INTERACTIONS, MIXES, Mix};
use numbers::Numbers;
use schema::SCHEMA;
use size::Size;

/// As many browsers as 32-bit numbers of addresses have room for, and new ones beside them.
const BROWSERS_MAX: f64 = 100_000.0;

pub(crate) const ENTRY: Entry = Entry {
    name: "tpcw",
    about: "TPC-W: the database work of an online bookshop, fourteen interactions",
    source: "TPC-W 1.8, without the web",
    scale_unit: "emulated browsers, 2,880 customers and about 9 MB each",
    scale_default: 10.0,
    scale_possible: Possible::Whole { low: 1.0, high: BROWSERS_MAX },
    parameters: &[
        Parameter {
            name: "mix",
            about: "which mix of interactions, after the share that has to do with ordering: 5, 20 or 50 %",
            default: ParameterValue::Text("shopping"),
            possible: Possible::OneOf(&MIXES),
        },
        Parameter {
            name: "items",
            about: "how many items are on sale; the specification has 1,000, 10,000 and so on to 10,000,000",
            default: ParameterValue::Number(10_000.0),
            possible: Possible::Whole { low: 1_000.0, high: 10_000_000.0 },
        },
    ],
    sides: &[],
    make: |scale, parameters, seed| {
        Box::new(Tpcw::new(scale as u32, parameters.number("items") as u32, parameters.text("mix"), seed))
    },
};

/// TPC-W at a scale.
#[derive(Debug)]
pub struct Tpcw {
    size: Size,
    mix: Mix,
    seed: u64,
    numbers: Arc<Numbers>,
    audit: Arc<Audit>,
}

impl Tpcw {
    /// TPC-W for `browsers` emulated browsers and with `items` items, under one of the mixes `browsing`, `shopping` and
    /// `ordering`. The population follows from the seed.
    ///
    /// # Panics
    /// If there is no browser, fewer than 1,000 items, or no such mix.
    pub fn new(browsers: u32, items: u32, mix: &str, seed: u64) -> Self {
        assert!(browsers >= 1 && items >= 1_000, "TPC-W needs a browser and 1,000 items");
        let size = Size { browsers: browsers.into(), items: items.into() };
        Tpcw { size, mix: Mix::named(mix), seed, numbers: Arc::default(), audit: Arc::default() }
    }

    /// Every statement that a client may execute, for targets that prepare them ahead and for tests of their texts.
    pub fn statements() -> impl Iterator<Item = &'static Statement<'static>> {
        let interactions: [&[&'static Statement]; 8] = [
            &numbers::STATEMENTS,
            &browse::STATEMENTS,
            &search::STATEMENTS,
            &cart::STATEMENTS,
            &customer::STATEMENTS,
            &order::STATEMENTS,
            &order_display::STATEMENTS,
            &admin::STATEMENTS,
        ];
        interactions.into_iter().flatten().copied()
    }

    fn tpcw_client(&self, number: usize, seed: u64) -> TpcwClient {
        TpcwClient::new(self, number, seed)
    }
}

impl Benchmark for Tpcw {
    fn schema(&self) -> &'static Schema {
        &SCHEMA
    }

    fn data(&self) -> String {
        let Size { browsers, items } = self.size;
        format!("{}:{browsers}:items={items}:seed={}", SCHEMA.name, self.seed)
    }

    fn writes(&self) -> Writes {
        Writes::Grows
    }

    fn transactions(&self) -> Vec<&str> {
        INTERACTIONS.map(|(_, name)| name).into()
    }

    fn estimated_bytes(&self) -> u64 {
        self.size.bytes()
    }

    fn load(&self, database: &dyn Database, progress: &LoadProgress<'_>) -> Result<(), LoadError> {
        let (size, seed) = (self.size, self.seed);
        let fillings = population::FILLED.map(|table| Filling {
            table,
            rows: size.rows(table) as u64,
            make: Box::new(move |part| population::batch(table, size, seed, part)),
        });
        load(&SCHEMA, &fillings, database, progress)?;
        self.numbers.forget();
        Ok(())
    }

    fn client(&self, number: usize, seed: u64) -> Box<dyn Client> {
        Box::new(self.tpcw_client(number, seed))
    }

    fn check(&self, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
        check::check(self, database)
    }
}
