//! `plimsoll study`.

use std::process::ExitCode;

use plimsoll_commands::failure::{Failure, INTERRUPTED};
use plimsoll_commands::interrupt;
use plimsoll_commands::output::tell;
use plimsoll_commands::place::default_place;
use plimsoll_lab::line::LineRequest;
use plimsoll_lab::study::{SideRequest, Sides, Study, StudyConclusion};
use plimsoll_lab::targets::Targets;

use crate::arguments::StudyOptions;
use crate::loading::{parse_target, target_options};
use crate::program::{failure, program};
use crate::progress::Progress;
use crate::run::show;
use crate::targets::TARGETS;

/// Runs the main job.
pub fn run(options: &StudyOptions) -> Result<ExitCode, Failure> {
    let refused = |why: String| Failure::Input(anyhow::anyhow!(why));
    let side = |kind: &Option<String>, clients| SideRequest { kind: kind.clone(), clients };
    let sides = [side(&options.oltp, options.oltp_clients), side(&options.olap, options.olap_clients)];
    let sides = Sides::read(&sides, options.seed, TARGETS.kinds()).map_err(refused)?;
    let wanted = LineRequest::of_study(&options.protect, options.slo, &sides).map_err(refused)?;
    let target_options = target_options(&options.target)?;
    // The text is kept with the results, which must not contain a password.
    let shown_url = parse_target(&options.target)?.url();
    let study = Study {
        line: (!options.no_line).then_some(wanted),
        budget: options.budget,
        ..Study::here(&shown_url, &target_options, options.quick, options.seed, sides)
    };
    let place = options.out.clone().unwrap_or_else(|| default_place("study"));
    let progress = Progress::new();
    let program = program(interrupt::listen()?, &progress);
    let ended = study.carry_out(&options.target.target, &place, &program).map_err(failure)?;
    let StudyConclusion { study, line_stopped } = ended;
    let code = show(&study, options.json)?;
    let Some(line) = line_stopped else { return Ok(code) };
    tell(format_args!("to continue: plimsoll run --resume {}", line.display()));
    Ok(ExitCode::from(INTERRUPTED))
}
