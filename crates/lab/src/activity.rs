//! Where time goes on a server: a thread samples the state of the server's processes many times per second (MW 2.6).
//!
//! # Looks
//!
//! Every [`PERIOD`] of the window has one look, at a random moment within it, so that periodic work is neither always
//! seen nor always missed. A look asks the server for the state of each process that serves a session
//! ([`ActivityWatch`]), finds the client of that session, and reads from the client's [`Board`] which request is in
//! flight. A look that is due while another is in progress is skipped and counted, not made up for. If a look fails,
//! looking ends and the run is invalid.
//!
//! # From looks to shares
//!
//! The whole is the time during which clients had a request in flight, which the clients know exactly. It consists of:
//!
//! - `cpu_run` and `cpu_wait` are exact, from the scheduler's accounts of the processes that serve the sessions;
//! - `lock`, `io`, `io_latch` are the looks that found a process in such a wait, divided by all looks, times the window;
//! - `client` is the time in which processes were found waiting for their client within a transaction, and all time in
//!   which a request was in flight and the server had no work for it: round trips, the network, and our own clients'
//!   time on cores or waiting for one;
//! - `other` is the time in which processes were found waiting for something else, or found running while the scheduler
//!   recorded no time on a core for them, as in a page fault.
//!
//! If the exact parts and the sampled ones do not add up to the whole, the exact ones are kept and the others are
//! scaled. This happens on a machine without a free core: a process that was woken but has no core yet waits for a core
//! by the scheduler's accounts, and still for its event by a look. The parts of classes and kinds are scaled in the
//! same way.
//!
//! A class or a kind of transaction has no exact parts: all its parts are shares of the looks that found such a request
//! in flight before they began. Looks that found nothing to do, and the request gone at their end, are left out. The
//! running part is divided into `cpu_run` and `cpu_wait` as in the whole. A share needs [`SAMPLES_MIN`] looks. Requests
//! that are shorter than a look cannot be distinguished: if more than [`CHANGED_MAX`] of the looks found another
//! request at their end, there are no shares.
//!
//! Looks at a request that lasts for many periods are not independent of each other, so shares of few long requests are less
//! certain than the number of looks suggests.
//!
//! Parallel workers are counted separately: the whole is the time of clients, whose processes wait for the workers
//! (`other`).

mod log;
mod sampler;
mod schedule;
mod shares;
mod tally;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use sampler::{ActivityRecord, Sampling};
pub use shares::ServedWorkload;
pub use tally::WorkloadTally;

#[cfg(doc)]
use plimsoll_workload::{activity::ActivityWatch, driver::Board};

/// How often looks are due: 125 times per second, so that at least a hundred are made even if some are skipped.
pub const PERIOD: Duration = Duration::from_millis(8);

/// Fewer looks are not enough: of a hundred, a share of a half is off by at most five hundredths in two cases of three.
pub const SAMPLES_MIN: u64 = 100;

/// If more than this share of looks at a part of a workload found another request at their end, its requests are too
/// short to be distinguished by looks.
pub const CHANGED_MAX: f64 = 0.5;
