//! `plimsoll load`: data for runs that come later.

use std::process::ExitCode;
use std::time::Instant;

use plimsoll_commands::failure::Failure;
use plimsoll_commands::interrupt;
use plimsoll_commands::output::{print, print_json};
use plimsoll_lab::targets::Targets;
use plimsoll_target::{DEFAULT_URL, DUCKDB_URL, PRIVATE_URL};
use plimsoll_workload::registry::Catalog;

use crate::arguments::LoadOptions;
use crate::bench::parameters;
use crate::loading::{load, parse_target};
use crate::progress::Progress;
use crate::targets::TARGETS;

/// Loads a workload's data into a database that outlives this process.
pub fn run(options: &LoadOptions) -> Result<ExitCode, Failure> {
    let target = parse_target(&options.target)?;
    let is_kept = options.target.options.iter().any(|option| option.starts_with("data_folder="));
    let url = target.url();
    if url == PRIVATE_URL || url == DUCKDB_URL || (url == DEFAULT_URL && !is_kept) {
        let instead = if url == DEFAULT_URL {
            "keep it with --option durability=sync --option data_folder=DIR, or name a server: --target postgres://user@host/database"
        } else {
            "name a server of yours: --target postgres://user@host/database"
        };
        return Err(Failure::Input(anyhow::anyhow!("the data of `{url}` goes with this process; {instead}")));
    }
    let parameters = parameters(&options.parameters)?;
    let catalog = Catalog::with(options.seed, TARGETS.kinds());
    let (benchmark, scale) = catalog.of_spec(&options.workload, &parameters).map_err(Failure::input)?;
    let stop = interrupt::listen_to_end()?;
    let progress = Progress::new();
    let began = Instant::now();
    let database = load(&target, &[benchmark.as_ref()], &progress, stop)?;
    progress.clear();
    drop(database);
    let (name, seconds) = (benchmark.name(), began.elapsed().as_secs_f64());
    if options.json {
        print_json(&serde_json::json!({ "workload": name, "scale": scale, "target": url, "elapsed_s": seconds }))?;
    } else {
        print(&format!("{name}:{scale} is in {url} after {seconds:.1} s\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
