//! `plimsoll reproduce`: the experiments that this program carries, and what of the published numbers they show.

use std::process::ExitCode;

use plimsoll_commands::failure::{CHECK_FAILED, Failure, INTERRUPTED};
use plimsoll_commands::interrupt;
use plimsoll_commands::output::{print_result, tell};
use plimsoll_commands::place::default_place;
use plimsoll_lab::reproduction::{self, Exhibit, Reproduction, ReproductionRequest};

use crate::arguments::ReproduceOptions;
use crate::exhibits::COLLECTION;
use crate::program::{failure, program};
use crate::progress::Progress;
use crate::targets::TARGETS;

/// Runs the requested exhibits one after the other, or only writes the page of those already run.
pub fn run(options: &ReproduceOptions) -> Result<ExitCode, Failure> {
    let request = ReproductionRequest {
        name: options.study.clone(),
        quick: options.quick,
        cores: options.cores.map(usize::from),
        until_decided: options.until_decided.limit(),
    };
    let place = options.page.clone().or_else(|| options.out.clone()).unwrap_or_else(|| default_place("reproduce"));
    let mut reproduction = Reproduction::open(&COLLECTION, request, &place, &TARGETS).map_err(failure)?;
    let stopped = match options.page {
        Some(_) => false,
        None => {
            let progress = Progress::new();
            reproduction.measure(&program(interrupt::listen()?, &progress)).map_err(failure)?
        }
    };
    let Some(written) = reproduction.write().map_err(failure)? else {
        let told = format!("{}: it has no runs of exhibits, so there is nothing to report", place.display());
        return Err(if stopped { Failure::Interrupted(told) } else { Failure::Input(anyhow::anyhow!(told)) });
    };
    let exhibits = reproduction.requested();
    print_result(&exhibits, options.json, |exhibits| reproduction::render(exhibits))?;
    tell(format_args!("written: {}", written.display()));
    let failed = options.page.is_none() && exhibits.iter().any(Exhibit::has_failed);
    Ok(match (stopped, failed) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (_, true) => ExitCode::from(CHECK_FAILED),
        _ => ExitCode::SUCCESS,
    })
}
