//! What this program provides for carrying out experiments, and which exit code their errors have.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use plimsoll_commands::failure::Failure;
use plimsoll_lab::execution::{ExecutionError, Fault};
use plimsoll_lab::program::{Build, Program};
use plimsoll_machine::memory_speed;

use crate::hog;
use crate::progress::Progress;
use crate::targets::TARGETS;

const COMMIT: &str = env!("PLIMSOLL_COMMIT");

/// This program.
pub const BUILD: Build =
    Build { version: env!("CARGO_PKG_VERSION"), commit: if COMMIT.is_empty() { None } else { Some(COMMIT) } };

/// This program, with its stop signal and its screen.
pub fn program<'a>(stop: &'a AtomicBool, progress: &'a Progress) -> Program<'a> {
    let (hog, state_folder) = (hog::command(), state_folder());
    Program { targets: &TARGETS, build: BUILD, hog, state_folder, stop, reporter: progress }
}

/// The folder for figures kept between runs; `None` if this user has none.
pub fn state_folder() -> Option<PathBuf> {
    let variable = std::env::var_os;
    memory_speed::state_folder(variable("XDG_STATE_HOME").as_deref(), variable("HOME").as_deref())
}

/// An error of an experiment, by its origin.
pub fn failure(error: ExecutionError) -> Failure {
    match error.fault() {
        Fault::Caller => Failure::input(error),
        Fault::World => Failure::world(error),
        Fault::Interruption => Failure::Interrupted(error.to_string()),
    }
}
