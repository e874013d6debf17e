//! `plimsoll simulate`: an experiment on a simulated cache.

use std::process::ExitCode;

use plimsoll_commands::failure::Failure;
use plimsoll_lab::simulation::URL;

use crate::arguments::{RunOptions, SimulateOptions};
use crate::run;

/// Simulates an experiment. Refuses experiments that need a database.
pub fn run(options: &SimulateOptions) -> Result<ExitCode, Failure> {
    let SimulateOptions { experiment: file, out, only, quick, yes, json } = options;
    let experiment = run::read(file)?;
    if !experiment.is_simulated() {
        let place = file.display();
        return Err(Failure::Input(anyhow::anyhow!(
            "{place}: its target is a database; run it by `plimsoll run`, or write [target] url = \"{URL}\" and operators with a model as workloads"
        )));
    }
    run::begin(
        &experiment,
        &RunOptions {
            out: out.clone(),
            only: only.clone(),
            quick: *quick,
            yes: *yes,
            json: *json,
            ..RunOptions::default()
        },
    )
}
