//! `plimsoll count-requests`: the process that runs requests on a simulated processor for an experiment.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use plimsoll_commands::failure::Failure;
use plimsoll_commands::interrupt;
use plimsoll_commands::output::print;
use plimsoll_lab::counted::count;
use plimsoll_machine::hog::serve;

use crate::targets::TARGETS;

/// The program and the first argument that count.
pub fn command() -> Vec<OsString> {
    std::env::current_exe().map_or_else(|_| Vec::new(), |program| vec![program.into(), "count-requests".into()])
}

/// Reads what is asked for, counts, and prints the counts or the reason why there are none.
pub fn run() -> Result<ExitCode, Failure> {
    serve::die_with_parent().map_err(Failure::world)?;
    let stop = interrupt::listen_to_end()?;
    let request = serde_json::from_reader(io::stdin().lock()).map_err(Failure::input)?;
    let report = count(&request, &TARGETS, stop);
    print(&(serde_json::to_string(&report).expect("plain data") + "\n"))?;
    Ok(ExitCode::SUCCESS)
}
