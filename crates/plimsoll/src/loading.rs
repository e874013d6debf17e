//! From what was typed to a database with data in it.

use std::sync::atomic::AtomicBool;

use plimsoll_lab::capacity::check_fits;
use plimsoll_machine::space::available_memory;
use plimsoll_target::{Target, embedded::Embedded};
use plimsoll_workload::benchmark::{Benchmark, LoadError, LoadProgress};

use crate::arguments::TargetOptions;
use crate::failure::Failure;
use crate::progress::Progress;

/// Understands the target that was asked for.
pub fn parse_target(options: &TargetOptions) -> Result<Target, Failure> {
    Target::parse(&options.target, options.options.iter().map(String::as_str)).map_err(Failure::input)
}

/// Opens the target and loads the benchmarks one after the other, if they fit.
pub fn load(
    target: &Target,
    benchmarks: &[&dyn Benchmark],
    progress: &Progress,
    stop: &AtomicBool,
) -> Result<Embedded, Failure> {
    check_fits(benchmarks, available_memory()).map_err(Failure::input)?;
    let database = target.open().map_err(Failure::world)?;
    for benchmark in benchmarks {
        progress.restart();
        let report = |done: u64, all: u64, _table: &str| {
            progress.show(&format!("loading {}", benchmark.name()), done, all);
        };
        let outcome = benchmark.load(&database, &LoadProgress { report: &report, stop });
        outcome.map_err(|error| match error {
            LoadError::Stopped => Failure::Interrupted("stopped while loading; nothing was written".to_owned()),
            other => Failure::world(other),
        })?;
    }
    progress.restart();
    Ok(database)
}
