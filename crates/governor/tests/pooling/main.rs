//! Sessions that share server connections, against sessions that have one each.
//!
//! `model` plays random scripts of several clients on a plain server and through a governor with a pool: every answer,
//! every reported parameter and the final state must be the same. `stories` has single promises: who waits, who is
//! cancelled, what happens when a server ends. `operating` has an operator at the console, `logins` clients that
//! log in at the server through the governor, `workers` clients of several workers. All need a PostgreSQL server.
//!
//! `PLIMSOLL_SEED=7` plays one script and prints it, `PLIMSOLL_LONG=1` thousands.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod canary;
#[path = "../common/client.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod client;
mod logins;
mod model;
mod operating;
mod pgbouncer;
#[path = "../common/requests.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod requests;
mod stories;
mod workers;
mod world;
