//! Recorded traffic replayed against a server, and what came out otherwise.
//!
//! In reading order: [`plan`] makes scripts of a capture's events, one for each session, with the values that are mapped
//! and the waits between sessions; it is pure. [`check`] tries the statements on a target before the run. [`replay`]
//! carries the plan out. [`result`] compares answers and times with the recording, and one server with another.
//! [`rehearse`](rehearse::rehearse) is all of it, and [`report`] its text.
//!
//! [`workload`] makes a workload of a capture, for the runs of the lab.
//!
//! The crate sends only what clients have sent before. It never changes a server that is not its own unless it was
//! permitted.

pub mod check;
mod explain;
pub mod input;
mod latency;
mod message;
pub mod plan;
pub mod private;
pub mod rehearse;
pub mod replay;
pub mod report;
pub mod result;
mod server;
pub mod skip;
mod sql;
#[cfg(test)]
mod testing;
mod value;
pub mod workload;

pub use latency::{Estimate, Latencies, Latency};
pub use plimsoll_postgres::load::LoadError;
pub use server::PostgresServer;
