//! `plimsoll compare`: two runs against each other.

use std::process::ExitCode;

use plimsoll_commands::failure::Failure;
use plimsoll_commands::output::print_result;
use plimsoll_lab::compare::compare;
use plimsoll_lab::run_directory::read_results;
use plimsoll_lab::table::comparison;

use crate::arguments::CompareOptions;

/// Compares and prints.
pub fn run(options: &CompareOptions) -> Result<ExitCode, Failure> {
    let base = read_results(&options.base).map_err(Failure::input)?;
    let other = read_results(&options.run).map_err(Failure::input)?;
    let compared = compare(&base, &other, options.margin.0, options.anyway).map_err(Failure::input)?;
    print_result(&compared, options.json, comparison::render)?;
    Ok(ExitCode::SUCCESS)
}
