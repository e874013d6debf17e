//! `plimsoll rehearse`: recorded traffic replayed against a server.

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll_commands::failure::{CHECK_FAILED, Failure, INTERRUPTED};
use plimsoll_commands::interrupt;
use plimsoll_commands::output::{print_result, tell};
use plimsoll_rehearse::input;
use plimsoll_rehearse::plan::Selection;
use plimsoll_rehearse::private::Data;
use plimsoll_rehearse::rehearse::{Request, Target, rehearse};
use plimsoll_rehearse::replay::Pace;
use plimsoll_rehearse::report;

use crate::arguments::RehearseOptions;

/// Rehearses and prints. Fails as a check does if the result is not valid.
pub fn run(options: &RehearseOptions) -> Result<ExitCode, Failure> {
    let request = request(options)?;
    let input = input::read(input::folder(&options.capture)).map_err(Failure::input)?;
    let stop = interrupt::listen_to_report()?;
    let result = rehearse(input, &request, stop, &|line| tell(line)).map_err(|error| match error.is_input() {
        true => Failure::input(error),
        false => Failure::world(error),
    })?;
    print_result(&result, options.json, report::render)?;
    Ok(match () {
        () if stop.load(Ordering::Relaxed) => ExitCode::from(INTERRUPTED),
        () if result.invalid.is_empty() => ExitCode::SUCCESS,
        () => ExitCode::from(CHECK_FAILED),
    })
}

fn request(options: &RehearseOptions) -> Result<Request, Failure> {
    let us = |seconds: f64| (seconds * 1e6) as u64;
    let from_us = us(options.from);
    let until_us = options.seconds.map_or(u64::MAX, |seconds| from_us.saturating_add(us(seconds)));
    let data = match (&options.setup, &options.copy_from) {
        (Some(file), _) => Some(Data::Setup(file.clone())),
        (None, Some(url)) => Some(Data::copy_of(url).map_err(Failure::input)?),
        (None, None) => None,
    };
    let turns = options.turns.map(usize::from);
    Ok(Request {
        selection: Selection { from_us, until_us, database: options.database.clone() },
        pace: Pace {
            speed: options.speed.0,
            copies: options.sessions.0,
            patience: Duration::from_secs_f64(options.patience),
        },
        target: Target::parse(&options.target).map_err(Failure::input)?,
        against: options.against.as_deref().map(Target::parse).transpose().map_err(Failure::input)?,
        turns: turns.unwrap_or(if options.against.is_some() { 3 } else { 1 }),
        writes: options.writes,
        redacted_data: options.redacted_data,
        data,
    })
}
