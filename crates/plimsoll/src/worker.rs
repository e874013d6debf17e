//! `plimsoll worker`: a process that runs parts of the queries of a cluster.

#[cfg(feature = "cluster")]
mod served;

#[cfg(feature = "cluster")]
pub use served::run;

/// A program without clusters cannot be a worker.
#[cfg(not(feature = "cluster"))]
pub fn run(_: &crate::arguments::WorkerOptions) -> Result<std::process::ExitCode, plimsoll_commands::failure::Failure> {
    Err(plimsoll_commands::failure::Failure::input(plimsoll_target::OpenError::NoClusters))
}
