//! Where time goes on a server: a thread looks many times a second at what its processes are doing (MW 2.6).
//!
//! # Looks
//!
//! In every [`PERIOD`] of the window there is one look, at a moment drawn at random from it, so that nothing that happens at
//! regular times is always hit or always missed. A look asks the server what each process that serves a session is doing
//! ([`ActivityWatch`]), finds the client whose session it is, and on the client's [`Board`] the request that it has under
//! way. A look that is due while another is still under way is left out and counted; none is made up for later. A look that
//! fails ends the looking, and the run is invalid.
//!
//! # What follows of them
//!
//! The whole is the time in which clients had a request under way, which clients know exactly. Of it
//! - `cpu_run` and `cpu_wait` are what the scheduler says of the processes that serve the sessions, exactly;
//! - `lock`, `io`, `io_latch` are the looks that found a process waiting so, over all looks, times the window;
//! - `client` is what was found waiting for its client within a transaction, and all time in which a request was under way
//!   and the server had nothing to do for it: round trips, the network, and our own clients' time on cores or waiting for one;
//! - `other` is what was found waiting for something else, and what was found waiting for nothing though the scheduler knows
//!   nothing of it, as a process that takes a page fault does.
//!
//! Where the exact parts and those of looks do not fit the whole, the exact ones stand and the others are scaled. That is so on a
//! machine without a free core: who was woken and has no core yet waits for one to the scheduler, and to a look still for what
//! has come about. The parts of classes and kinds are scaled alike.
//!
//! Of a class and of a kind of transaction only looks tell: its parts are shares of the looks that found such a request under
//! way before they began; those that found nothing to do and the request gone when they were over are left out. What was found running
//! is divided into `cpu_run` and `cpu_wait` as the whole is. A share needs [`SAMPLES_MIN`] looks. Requests that are shorter
//! than a look are not to be told apart: where more than [`CHANGED_MAX`] of the looks found another request when they were
//! over, there are no shares.
//!
//! Looks at one request that lasts for many periods are not independent of each other, so that shares of few long requests
//! are less certain than the number of looks suggests.
//!
//! Parallel workers are told apart: the whole is the time of clients, whose processes wait for the workers meanwhile (`other`).

mod log;
mod sampler;
mod schedule;
mod shares;
mod tally;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use sampler::{Sampled, Sampling};
pub use shares::{OnServer, ServerShares};
pub use tally::{PartSeen, SeenWorkload};

#[cfg(doc)]
use plimsoll_workload::{activity::ActivityWatch, driver::Board};

/// How often looks are due: 125 times a second, so that some may fail to come about and there are still a hundred.
pub const PERIOD: Duration = Duration::from_millis(8);

/// Fewer looks say nothing: of a hundred, a share of a half is off by five hundredths or less in two cases of three.
pub const SAMPLES_MIN: u64 = 100;

/// If more than this share of looks at a part of a workload found another request when they were over, its requests are too
/// short to be told apart by looking.
pub const CHANGED_MAX: f64 = 0.5;
