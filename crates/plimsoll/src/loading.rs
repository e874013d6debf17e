//! From the command line's options to a loaded database.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_commands::failure::Failure;
use plimsoll_lab::capacity::check_fits;
use plimsoll_target::Target;
use plimsoll_workload::benchmark::{Benchmark, LoadError, LoadProgress, load_anew};
use plimsoll_workload::cancelling::cancelling;
use plimsoll_workload::database::Database;

use crate::arguments::TargetOptions;
use crate::progress::Progress;

/// Parses the requested target.
pub fn parse_target(options: &TargetOptions) -> Result<Target, Failure> {
    Target::parse(&options.target, options.options.iter().map(String::as_str)).map_err(Failure::input)
}

/// The options of the requested target by name.
pub fn target_options(options: &TargetOptions) -> Result<BTreeMap<String, String>, Failure> {
    // Parsed for its errors, which name the option.
    parse_target(options)?;
    let pairs = options.options.iter().filter_map(|option| option.split_once('='));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// Opens the target and loads the benchmarks one after the other, if they fit. Existing data stays.
pub fn load(
    target: &Target,
    benchmarks: &[&dyn Benchmark],
    progress: &Progress,
    stop: &AtomicBool,
) -> Result<Box<dyn Database>, Failure> {
    check_fits(benchmarks, target.room()).map_err(Failure::input)?;
    let failed = |error| Failure::World(anyhow::anyhow!("cannot open `{}`: {error}", target.url()));
    let database = target.open().map_err(failed)?;
    load_into(database.as_ref(), benchmarks, progress, stop)?;
    Ok(database)
}

/// Loads the benchmarks one after the other into a target that was opened. Existing data stays.
pub fn load_into(
    database: &dyn Database,
    benchmarks: &[&dyn Benchmark],
    progress: &Progress,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    for benchmark in benchmarks {
        let found = database.data(benchmark.schema()).map_err(Failure::world)?;
        if found.is_some_and(|found| found.data == benchmark.data()) {
            continue;
        }
        progress.restart();
        let report = |done: u64, all: u64, _table: &str| {
            progress.show(&format!("loading {}", benchmark.name()), done, all);
        };
        let load = || load_anew(*benchmark, database, &LoadProgress { report: &report, stop });
        cancelling(database, stop, load).map_err(|error| match error {
            LoadError::Stopped => Failure::Interrupted("stopped while loading".to_owned()),
            _ if stop.load(Ordering::Relaxed) => Failure::Interrupted("stopped while loading".to_owned()),
            other => Failure::world(other),
        })?;
    }
    progress.restart();
    Ok(())
}
