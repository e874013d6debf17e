//! Exit codes: 2 for bad usage or input, 3 when the system, the target or a workload failed, 130 after Ctrl-C.

use std::process::ExitCode;

use crate::output::tell;

/// An error, by its origin.
#[derive(Debug)]
pub enum Failure {
    /// The input makes no sense or asks for too much.
    Input(anyhow::Error),
    /// The system, the target or a workload failed.
    World(anyhow::Error),
    /// Ctrl-C.
    Interrupted(String),
}

impl Failure {
    /// The caller's fault.
    pub fn input(error: impl Into<anyhow::Error>) -> Self {
        Failure::Input(error.into())
    }

    /// A fault of the system, the target or a workload.
    pub fn world(error: impl Into<anyhow::Error>) -> Self {
        Failure::World(error.into())
    }
}

/// A check failed.
pub const CHECK_FAILED: u8 = 1;
/// Ctrl-C, as shells expect it.
pub const INTERRUPTED: u8 = 130;

/// Reports the failure on stderr.
pub fn report(failure: &Failure) -> ExitCode {
    let (text, code) = match failure {
        Failure::Input(error) => (format!("error: {error:#}"), 2),
        Failure::World(error) => (format!("error: {error:#}"), 3),
        Failure::Interrupted(what) => (what.clone(), INTERRUPTED),
    };
    tell(text);
    ExitCode::from(code)
}
