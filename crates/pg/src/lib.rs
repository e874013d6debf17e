//! A client of PostgreSQL: its protocol, and what a server says about itself.
//!
//! In reading order: [`url`] names the server, [`connection`] talks to it, with [`scram`] for passwords, and [`values`] are
//! the parameters and results of statements. [`secret`] is what may be stored of a role's password, for programs that let
//! clients in themselves. [`activity`] says what a process of the server does, and [`parallel_workers`] finds the
//! processes that work for others.

pub mod activity;
pub mod connection;
pub mod parallel_workers;
pub mod scram;
pub mod secret;
pub mod url;
pub mod values;
