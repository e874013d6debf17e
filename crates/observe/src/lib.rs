//! A look at a live PostgreSQL server: where response time goes, which sessions block which, and what a governor would
//! change.
//!
//! It installs nothing and changes nothing: one read-only connection queries the server's statistics. In reading order:
//! [`observe`](mod@observe) has the clock and drives everything, `server` runs the queries, and `snapshot` is the
//! result of one look. `ledger` adds up looks with the help of `lock_graph`, which finds the sessions that block each
//! other; `counted` has the server's own counts, `host` those of the machine, and `replication` those of standbys; [`windows`] keeps what
//! each class did from second to second, for predictions. `findings` turns all of it into [`results`], with `classes` and
//! `effect` for what a governor would change; [`summary`], `report` and [`settings_file`] write them. Everything except
//! `server` and `observe` is pure, and tested on simulated snapshots.

mod classes;
mod counted;
pub mod directory;
mod effect;
mod findings;
mod host;
mod identity;
mod ledger;
mod lock_graph;
pub mod observe;
mod pace;
mod parts;
mod replication;
mod report;
pub mod results;
mod server;
pub mod settings_file;
mod snapshot;
pub mod summary;
#[cfg(test)]
pub(crate) mod testing;
pub mod windows;

pub use plimsoll_pg::url::ServerUrl;
