//! `plimsoll predict`: how the workloads of a run, or those seen on a live server, will do together.

use std::process::ExitCode;

use plimsoll_commands::failure::Failure;
use plimsoll_commands::output::print_result;
use plimsoll_lab::predict::{Predictions, Request, hold_out, predict};
use plimsoll_lab::run_directory::read_results;
use plimsoll_lab::seen::{self, Observation, SeenError, is_observation};
use plimsoll_lab::table::prediction;

use crate::arguments::PredictOptions;

/// Predicts and prints. Fails as a check does if no mix could be predicted.
pub fn run(options: &PredictOptions) -> Result<ExitCode, Failure> {
    if is_observation(&options.run) {
        return from_observation(options);
    }
    let mut results = read_results(&options.run).map_err(Failure::input)?;
    let mut against = options.against.as_deref().map(read_results).transpose().map_err(Failure::input)?;
    if let Some(held) = &options.hold_out {
        let (taught, judges) = hold_out(&results, held).map_err(Failure::input)?;
        (results, against) = (taught, Some(judges));
    }
    let request = Request { vary: options.vary.clone(), workloads: options.workloads.clone(), model: options.model };
    let predicted = predict(&results, against.as_ref(), &request).map_err(Failure::input)?;
    show(&predicted, options)
}

/// The same from the folder of an observation.
fn from_observation(options: &PredictOptions) -> Result<ExitCode, Failure> {
    let for_runs = [(options.against.is_some(), "--against"), (options.hold_out.is_some(), "--hold-out")];
    if let Some((_, option)) = for_runs.into_iter().find(|(is_given, _)| *is_given) {
        return Err(Failure::input(SeenError::Option(option)));
    }
    let observation = Observation::read(&options.run).map_err(Failure::input)?;
    let request = Request { vary: options.vary.clone(), workloads: options.workloads.clone(), model: options.model };
    show(&seen::predict(&observation, &request).map_err(Failure::input)?, options)
}

fn show(predicted: &Predictions, options: &PredictOptions) -> Result<ExitCode, Failure> {
    print_result(predicted, options.json, prediction::render)?;
    let all_refused = predicted.cache.is_empty() && predicted.mixes.iter().all(|mix| mix.refused.is_some());
    Ok(if all_refused { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
