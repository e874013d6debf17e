//! `plimsoll hog`: a hog in a separate process, which experiments start beside their workloads.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use plimsoll_commands::failure::Failure;
use plimsoll_machine::hog::{HogPlace, serve};

use crate::arguments::HogOptions;

/// The program and the first argument that start a hog.
pub fn command() -> Vec<OsString> {
    std::env::current_exe().map_or_else(|_| Vec::new(), |program| vec![program.into(), "hog".into()])
}

/// Runs a hog until the input ends.
pub fn run(options: &HogOptions) -> Result<ExitCode, Failure> {
    serve::die_with_parent().map_err(Failure::world)?;
    let folder = options.folder.clone().unwrap_or_else(std::env::temp_dir);
    let place = HogPlace { cores: options.cores.clone(), folder };
    serve(options.hog, &place, io::stdin().lock(), io::stdout()).map_err(Failure::world)?;
    Ok(ExitCode::SUCCESS)
}
