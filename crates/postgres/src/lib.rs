//! PostgreSQL as a database under test: a connection, a private server, and the activity of its backends.
//!
//! In reading order: [`url`] names the server, [`connection`] talks to it, and `values` encodes parameters and results.
//! `session` and [`database`] are the view of a workload. `degrees` decides how many processes work on a query, `plan`
//! reads the answers of EXPLAIN, [`cache_classes`] decides which part of the cache a query may fill, and
//! [`parallel_workers`] finds the processes that work for others. [`server`] is a private server, [`governor`] the
//! governor between it and its clients, and [`activity`] observes backends.

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
pub mod scram;
pub mod server;
mod session;
pub mod url;
pub mod values;
