//! The crate against a real server: a private one, of the PostgreSQL that is installed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod benchmarks;
mod cache_classes;
mod login;
mod loss;
mod ownership;
mod parallelism;
mod poolers;
mod sessions;
mod shared;
mod values;
