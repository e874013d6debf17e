//! A look at a live PostgreSQL server: where response time goes, who waits behind whom, and what a governor would change.
//!
//! Nothing is installed and nothing is changed: one connection, read-only, asks the server's statistics. In reading order:
//! [`snapshot`] is what one look shows, [`ledger`] adds looks up, [`lock_graph`] says who waits for whom.

pub mod classes;
pub mod counted;
pub mod effect;
pub mod findings;
pub mod identity;
pub mod ledger;
pub mod lock_graph;
pub mod pace;
pub mod results;
pub mod server;
pub mod snapshot;
#[cfg(test)]
pub(crate) mod testing;
