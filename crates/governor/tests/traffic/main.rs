//! The governor under real traffic: drivers, PostgreSQL's own tests, money that must not get lost, and hostile input.
//!
//! In all of it two classes share a server: `high`, for users with names that begin so, and `low`, with at most four
//! transactions inside at once, which are rolled back for the other class and replayed. [`server`] is the PostgreSQL
//! server, [`governed`] the governor as a process of its own, [`client`] a client that can misbehave.
//! [`versions`] runs a selection of it with every supported version of PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bank;
mod canary;
#[path = "../common/certificates.rs"]
mod certificates;
#[path = "../common/client.rs"]
#[allow(dead_code, reason = "shared with the model's tests")]
mod client;
mod contended;
mod conversation;
mod drivers;
mod equal;
mod governed;
mod guards;
mod hostile;
mod installcheck;
mod isolation;
mod npgsql;
mod odd;
mod pooler_cases;
mod poolers;
mod proved;
mod reading;
#[path = "../common/requests.rs"]
mod requests;
mod retried;
mod server;
mod snapshots;
mod standby;
mod targets;
mod timeouts;
mod unknown_versions;
mod versions;
mod workers;
