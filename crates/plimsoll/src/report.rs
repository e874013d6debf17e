//! `plimsoll report`: the report written again from the results of a run, or one report of several runs.

use std::fs;
use std::process::ExitCode;

use plimsoll_commands::failure::Failure;
use plimsoll_commands::output::print;
use plimsoll_lab::report::render_all;
use plimsoll_lab::run_directory::{read_report_input, rewrite_report};

use crate::arguments::ReportOptions;

/// Writes it.
pub fn run(options: &ReportOptions) -> Result<ExitCode, Failure> {
    let place = match (&options.out, options.runs.as_slice()) {
        (None, [only]) => rewrite_report(only).map_err(Failure::input)?,
        (None, _) => {
            return Err(Failure::Input(anyhow::anyhow!("several runs need --out FILE for their report")));
        }
        (Some(out), runs) => {
            let sources: Vec<_> =
                runs.iter().map(|run| read_report_input(run)).collect::<Result<_, _>>().map_err(Failure::input)?;
            let written = fs::write(out, render_all(&sources));
            written.map_err(|error| Failure::World(anyhow::anyhow!("{}: {error}", out.display())))?;
            out.clone()
        }
    };
    print(&format!("{}\n", place.display()))?;
    Ok(ExitCode::SUCCESS)
}
