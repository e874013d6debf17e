//! A standby beside a private server: it runs queries, its lag is reported, and it never leaves anything behind.
//!
//! PostgreSQL must be installed; without it these tests fail and say what to install.

#![allow(clippy::unwrap_used, reason = "an unwrap in a test is the assertion that there is something")]

mod clients;
mod common;
#[path = "../common/copies.rs"]
mod copies;
mod freshness;
mod full_disk;
mod life;
mod queries;
