//! `plimsoll reproduce`: the experiments that this program carries, and what of the published numbers they show.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use plimsoll_commands::failure::{CHECK_FAILED, Failure, INTERRUPTED};
use plimsoll_commands::interrupt;
use plimsoll_commands::output::{print_json, print_result, tell};
use plimsoll_commands::place::default_place;
use plimsoll_lab::reproduction::{self, Exhibit, Reproduction, ReproductionRequest};
use serde_json::json;

use crate::arguments::ReproduceOptions;
use crate::exhibits::COLLECTION;
use crate::program::{BUILD, failure, program};
use crate::progress::Progress;
use crate::targets::TARGETS;

/// The folder of sittings, which the next one finds again.
const SITTINGS: &str = "runs/reproduce";

/// Runs the requested exhibits one after the other, or only writes the page of those already run.
pub fn run(options: &ReproduceOptions) -> Result<ExitCode, Failure> {
    let sitting = options.sitting.request();
    let request = ReproductionRequest {
        name: options.study.clone(),
        quick: options.quick,
        cores: options.cores.map(usize::from),
        until_decided: options.until_decided.limit(),
        sitting,
    };
    let default = || if sitting.is_some() { PathBuf::from(SITTINGS) } else { default_place("reproduce") };
    let place = options.page.clone().or_else(|| options.out.clone()).unwrap_or_else(default);
    let mut reproduction = Reproduction::open(&COLLECTION, request, &place, &TARGETS, BUILD).map_err(failure)?;
    if BUILD.sources.is_empty() {
        tell(format_args!("this program was built without its sources beside it: no run is marked as stale"));
    }
    if sitting.is_some() {
        return sit(&mut reproduction, options);
    }
    let stopped = match options.page {
        Some(_) => false,
        None => {
            let progress = Progress::new();
            reproduction.measure(&program(interrupt::listen()?, &progress)).map_err(failure)?
        }
    };
    let written = written(&reproduction, &place, stopped)?;
    let exhibits = reproduction.requested();
    print_result(&exhibits, options.json, |exhibits| reproduction::render(exhibits))?;
    tell(format_args!("written: {}", written.display()));
    Ok(exit_code(stopped, options.page.is_none() && exhibits.iter().any(Exhibit::has_failed)))
}

/// Runs what was requested in the time that there is. Before it begins, it tells what it is going to run.
fn sit(reproduction: &mut Reproduction, options: &ReproduceOptions) -> Result<ExitCode, Failure> {
    let plan = reproduction.sitting_plan(&TARGETS).map_err(failure)?;
    tell(format_args!("{}", plan.told()));
    let progress = Progress::new();
    let began = Instant::now();
    let program = program(interrupt::listen()?, &progress);
    let sitting = reproduction.sit(&plan, &program, &|| began.elapsed()).map_err(failure)?;
    let written = reproduction.write().map_err(failure)?;
    let mut exhibits = reproduction.requested();
    exhibits.retain(|exhibit| sitting.ran.iter().any(|ran| ran.name == exhibit.id));
    let failed = exhibits.iter().any(Exhibit::has_failed);
    if options.json {
        print_json(&json!({ "plan": plan, "ran": sitting.ran, "left": sitting.left, "exhibits": exhibits }))?;
    } else {
        print_result(&exhibits, false, |exhibits| reproduction::render(exhibits))?;
    }
    if !sitting.left.is_empty() {
        tell(format_args!("{} exhibits are left for another sitting", sitting.left.len()));
    }
    if let Some(written) = written {
        tell(format_args!("written: {}", written.display()));
    }
    Ok(exit_code(sitting.stopped, failed))
}

/// The page, as written; an error if there is nothing that it could report.
fn written(reproduction: &Reproduction, place: &Path, stopped: bool) -> Result<PathBuf, Failure> {
    reproduction.write().map_err(failure)?.ok_or_else(|| {
        let told = format!("{}: it has no runs of exhibits, so there is nothing to report", place.display());
        if stopped { Failure::Interrupted(told) } else { Failure::Input(anyhow::anyhow!(told)) }
    })
}

fn exit_code(stopped: bool, failed: bool) -> ExitCode {
    match (stopped, failed) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (_, true) => ExitCode::from(CHECK_FAILED),
        _ => ExitCode::SUCCESS,
    }
}
