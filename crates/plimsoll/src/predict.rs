//! `plimsoll predict`: how the workloads of a run will do together.

use std::process::ExitCode;

use plimsoll_commands::failure::Failure;
use plimsoll_commands::output::print_result;
use plimsoll_lab::predict::{Request, hold_out, predict};
use plimsoll_lab::run_directory::read_results;
use plimsoll_lab::table::prediction;

use crate::arguments::PredictOptions;

/// Predicts and prints. Fails as a check does if no mix could be predicted.
pub fn run(options: &PredictOptions) -> Result<ExitCode, Failure> {
    let mut results = read_results(&options.run).map_err(Failure::input)?;
    let mut against = options.against.as_deref().map(read_results).transpose().map_err(Failure::input)?;
    if let Some(held) = &options.hold_out {
        let (taught, judges) = hold_out(&results, held).map_err(Failure::input)?;
        (results, against) = (taught, Some(judges));
    }
    let request = Request { vary: options.vary.clone(), workloads: options.workloads.clone(), model: options.model };
    let predicted = predict(&results, against.as_ref(), &request).map_err(Failure::input)?;
    print_result(&predicted, options.json, prediction::render)?;
    let all_refused = predicted.cache.is_empty() && predicted.mixes.iter().all(|mix| mix.refused.is_some());
    Ok(if all_refused { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
