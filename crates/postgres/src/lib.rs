//! PostgreSQL as a database under test: a connection, a private server, and a look at what its backends do.
//!
//! In reading order: [`url`] says which server, [`connection`] talks to it, `values` is how parameters and results look on
//! the wire, `session` and [`database`] are what a workload sees, `degrees` says how many processes work on a query, `plan` reads what EXPLAIN answers. [`cache_classes`] which part of
//! the cache, [`parallel_workers`] finds the processes that work for others. [`server`] is a server of our own, [`governor`] the
//! governor that can be put between it and its clients, [`activity`] a look at what backends do.

pub mod activity;
mod arrow_rows;
mod binary_copy;
pub mod cache_classes;
pub mod connection;
pub mod database;
mod degrees;
pub mod governor;
pub mod parallel_workers;
mod plan;
pub mod server;
mod session;
pub mod url;
mod values;
