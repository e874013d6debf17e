//! Benchmarks, and the means to run them against any database.
//!
//! In reading order: [`schema`] describes the tables of a benchmark, [`database`] is the trait that a target
//! implements, [`statement`] is a statement in its two forms (SQL text and native row operations), [`keyed`] makes the
//! second of the first, [`benchmark`] is the trait that a benchmark implements, [`registry`] lists all benchmarks.
//! [`tpcc`] and [`tpch`] are those of the Transaction Processing Performance Council, [`tpcb`] its older bank, [`tpcw`]
//! its bookshop; `ch` runs queries on TPC-C's tables, [`asdb`] is like a benchmark of cloud databases, [`brokerage`]
//! like one of stockbrokers; `rows` reads and updates random rows, `tpch_operators` runs one SQL operator over TPC-H's
//! tables, `column_operators` one over columns made for it; [`mod@file`] reads users' own workloads; [`captured`] names
//! recorded ones, which a program adds; [`sketch`] makes one of what was observed on a live server. [`driver`] runs them
//! with clients and measures, [`memory`] is a small reference database for tests. [`freshness`] is about databases that
//! keep a second copy for queries, [`parallelism`] about those that choose degrees of parallelism themselves.
//!
//! Nothing here knows which database it runs on. Random numbers and times follow from the driver's seed. Only a user's
//! own statements can read the system's time, as on a server.

pub mod activity;
pub mod asdb;
mod batch;
pub mod benchmark;
pub mod brokerage;
pub mod cancelling;
pub mod captured;
mod ch;
mod column_operators;
mod condition;
pub mod database;
pub mod driver;
pub mod file;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod fixture;
mod footprint;
pub mod freshness;
mod inquiry;
pub mod instance;
pub mod keyed;
mod lookup;
pub mod memory;
pub mod parallelism;
mod parts;
mod random;
#[cfg(test)]
mod recording;
pub mod registry;
pub mod rows;
pub mod schema;
mod share;
pub mod sketch;
pub mod statement;
mod tallies;
pub mod tpcb;
pub mod tpcc;
pub mod tpch;
mod tpch_operators;
pub mod tpcw;
mod words;
