//! A look at a live PostgreSQL server: where response time goes, who waits behind whom, and what a governor would change.
//!
//! Nothing is installed and nothing is changed: one connection, read-only, asks the server's statistics. In reading order:
//! [`observe`](mod@observe) has the clock and drives everything, `server` asks, `snapshot` is what one look shows, `ledger` adds looks up with
//! `lock_graph`, which says who waits for whom; `counted` is what the server counts itself. `findings` makes [`results`] of all of
//! it, with `classes` and `effect` for what a governor would change; [`summary`], `report` and [`settings_file`] write them down.
//! Everything but `server` and `observe` is pure, and tested on made-up snapshots.

mod classes;
mod counted;
pub mod directory;
mod effect;
mod findings;
mod identity;
mod ledger;
mod lock_graph;
pub mod observe;
mod pace;
mod report;
pub mod results;
mod server;
pub mod settings_file;
mod snapshot;
pub mod summary;
#[cfg(test)]
pub(crate) mod testing;
mod words;

pub use plimsoll_postgres::url::ServerUrl;
