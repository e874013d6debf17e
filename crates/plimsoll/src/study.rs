//! `plimsoll study`.

use std::process::ExitCode;

use plimsoll_commands::failure::{Failure, INTERRUPTED};
use plimsoll_commands::interrupt;
use plimsoll_commands::output::tell;
use plimsoll_commands::place::default_place;
use plimsoll_lab::line::LineRequest;
use plimsoll_lab::study::{EXPORT_EVERY, SideRequest, Sides, Study, StudyConclusion};
use plimsoll_lab::targets::Targets;
use plimsoll_target::{CLUSTER_URL, DEFAULT_URL};
use serde_json::Value;

use crate::arguments::{StudyOptions, TargetOptions};
use crate::loading::{parse_target, target_options};
use crate::program::{failure, program};
use crate::progress::Progress;
use crate::run::show;
use crate::targets::TARGETS;

/// How often a study exports for queries on a cluster, unless it is asked for something else.
const EXPORT_EVERY_DEFAULT: &str = "1s";

/// The target of a study, and the kind of its queries. `--olap cluster:` is not a kind but where they run.
fn place_of_queries(options: &StudyOptions) -> Result<(TargetOptions, Option<String>), Failure> {
    let refused = |why: &str| Err(Failure::Input(anyhow::anyhow!("--olap cluster: {why}")));
    let mut target = options.target.clone();
    let place = options.olap.as_deref().filter(|olap| olap.starts_with(CLUSTER_URL));
    if let Some(place) = place {
        if target.target != DEFAULT_URL {
            return refused("has an engine of its own for transactions; leave --target out");
        }
        place.clone_into(&mut target.target);
    }
    let settings = parse_target(&target)?.settings();
    let of = |name: &str| settings.get(&format!("target.{name}")).filter(|value| !value.is_null());
    match of(EXPORT_EVERY).and_then(Value::as_str) {
        None if place.is_some() => return refused("needs workers that a study starts itself, as `cluster:?workers=2`"),
        Some(_) if place.is_some() && of("data").is_some() => return refused("exports its own data; leave data out"),
        // Only read, so that there are no transactions.
        Some(_) if of("data").is_some() => {}
        Some(every) => {
            let every = if every == "never" { EXPORT_EVERY_DEFAULT } else { every };
            target.options.push(format!("{EXPORT_EVERY}={every}"));
        }
        None => {}
    }
    Ok((target, options.olap.clone().filter(|_| place.is_none())))
}

/// Runs the main job.
pub fn run(options: &StudyOptions) -> Result<ExitCode, Failure> {
    let refused = |why: String| Failure::Input(anyhow::anyhow!(why));
    let side = |kind: &Option<String>, clients| SideRequest { kind: kind.clone(), clients };
    let (target, olap) = place_of_queries(options)?;
    let sides = [side(&options.oltp, options.oltp_clients), side(&olap, options.olap_clients)];
    let sides = Sides::read(&sides, options.seed, TARGETS.kinds()).map_err(refused)?;
    let wanted = LineRequest::of_study(&options.protect, options.slo, &sides).map_err(refused)?;
    let target_options = target_options(&target)?;
    // The text is kept with the results, which must not contain a password.
    let shown_url = parse_target(&target)?.url();
    let study = Study {
        line: (!options.no_line).then_some(wanted),
        budget: options.budget,
        ..Study::here(&shown_url, &target_options, options.quick, options.seed, sides)
    };
    let place = options.out.clone().unwrap_or_else(|| default_place("study"));
    let progress = Progress::new();
    let program = program(interrupt::listen()?, &progress);
    let ended = study.carry_out(&target.target, &place, &program).map_err(failure)?;
    let StudyConclusion { study, line_stopped } = ended;
    let code = show(&study, options.json)?;
    let Some(line) = line_stopped else { return Ok(code) };
    tell(format_args!("to continue: plimsoll run --resume {}", line.display()));
    Ok(ExitCode::from(INTERRUPTED))
}
