//! PostgreSQL as a database under test: sessions of a workload, a private server, and the activity of its backends.
//!
//! In reading order: `session` and [`database`] are the view of a workload, over a connection of [`plimsoll_pg`].
//! `degrees` decides how many processes work on a query, `plan` reads the answers of EXPLAIN, and [`cache_classes`] decides
//! which part of the cache a query may fill. [`server`] is a private server, [`governor`] the governor between it and its
//! clients, and [`activity`] observes backends. [`copy`] makes a server a copy of another, by statements of [`load`].
//! [`mod@export`] has the tables of a server as a source of exports.

pub mod activity;
mod arrow_rows;
mod binary_copy;
pub mod cache_classes;
pub mod copy;
pub mod database;
mod degrees;
pub mod export;
mod failure;
pub mod governor;
mod hidden_table;
pub mod load;
pub mod message;
mod plan;
pub mod server;
mod session;
