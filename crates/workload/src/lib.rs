//! Benchmarks, and what is needed to run one against any database.
//!
//! In reading order: [`schema`] says what tables a benchmark has, [`database`] is the trait a target implements,
//! [`statement`] is a statement in its two forms (SQL text and native row operations), [`benchmark`] is what a benchmark
//! must provide, [`tpcc`] and [`tpch`] are the benchmarks, [`driver`] makes clients run them and measures, [`memory`] is a
//! small reference database to test all of this against.
//!
//! Nothing here knows which database it runs on, and nothing here draws a random number or reads a clock that was not
//! handed in by the driver's seed.

pub mod benchmark;
pub mod database;
pub mod driver;
pub mod memory;
pub mod registry;
pub mod schema;
pub mod statement;
pub mod tpcc;
pub mod tpch;
