//! Logins without passwords at hand: clients at a gate, and what remains of their proofs at real servers.
//!
//! [`pooler`] is a program as small as it can be that lets clients in itself; `psql` is the client.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod asking;
mod bound;
#[path = "../common/certificates.rs"]
mod certificates;
mod encrypted;
mod pooler;
mod server;
mod versions;
