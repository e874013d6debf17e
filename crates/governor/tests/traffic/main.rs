//! The governor under real traffic: drivers, PostgreSQL's own tests, money that must not get lost, and hostile input.
//!
//! In all of it two classes share a server: `high`, whoever's name begins so, and `low`, of which four transactions may be
//! inside at once, which is rolled back for the other and replayed. [`server`] is the PostgreSQL server, [`governed`] the
//! governor as a process of its own, [`client`] a client that can misbehave.
//! [`versions`] does the chosen part of it with every version of PostgreSQL that is supported.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bank;
mod canary;
#[path = "../common/certificates.rs"]
mod certificates;
#[path = "../common/client.rs"]
#[allow(dead_code, reason = "shared with the model's tests")]
mod client;
mod conversation;
mod drivers;
mod governed;
mod hostile;
mod installcheck;
mod isolation;
mod npgsql;
mod pooler_cases;
mod poolers;
mod reading;
#[path = "../common/requests.rs"]
mod requests;
mod retried;
mod server;
mod targets;
mod versions;
mod workers;
