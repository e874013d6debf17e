//! `plimsoll study`.

use std::path::PathBuf;
use std::process::ExitCode;

use plimsoll_lab::run_directory::RunDirectory;
use plimsoll_lab::study::{StudyDefaults, StudyError, StudyPlan, StudyWorkload, document, measure, settings};
use plimsoll_lab::table;
use plimsoll_machine::MachineFacts;
use plimsoll_machine::space::available_memory;
use plimsoll_workload::registry::benchmark;

use crate::arguments::StudyOptions;
use crate::failure::{Failure, INTERRUPTED};
use crate::interrupt;
use crate::loading::{load, parse_target};
use crate::progress::Progress;
use crate::provenance::Beginning;

/// Runs the main job.
pub fn run(options: &StudyOptions) -> Result<ExitCode, Failure> {
    let beginning = Beginning::now();
    let target = parse_target(&options.target)?;
    let machine = MachineFacts::read();
    let defaults = StudyDefaults::new(machine.cores_usable, available_memory(), options.quick, options.seed);
    let (oltp, _) = benchmark(&defaults.oltp, options.seed).map_err(Failure::input)?;
    let (olap, _) = benchmark(&defaults.olap, options.seed).map_err(Failure::input)?;
    let place = options.out.clone().unwrap_or_else(|| default_place(&beginning));
    let directory = RunDirectory::create(&place).map_err(Failure::input)?;
    let stop = interrupt::listen()?;
    let progress = Progress::new();
    let database = load(&target, &[oltp.as_ref(), olap.as_ref()], &progress, stop)?;
    let workloads = [
        StudyWorkload { name: "oltp", benchmark: oltp.as_ref(), options: &defaults.oltp_clients },
        StudyWorkload { name: "olap", benchmark: olap.as_ref(), options: &defaults.olap_clients },
    ];
    let plan = StudyPlan { window: defaults.window, blocks: defaults.blocks, seed: options.seed };
    let mut tick = |step: plimsoll_lab::study::StudyProgress<'_>| progress.show_study(step, plan.window);
    let measured = measure(&database, &workloads, &plan, &mut tick, stop).map_err(study_failure)?;
    progress.clear();
    if measured.points.is_empty() {
        return Err(Failure::Interrupted("stopped before a run was complete; nothing was written".to_owned()));
    }
    let is_stopped = measured.stopped;
    let mut settings = settings(&workloads, &plan, target.settings());
    settings.insert("oltp.scale".to_owned(), defaults.oltp.as_str().into());
    settings.insert("olap.scale".to_owned(), defaults.olap.as_str().into());
    let results = document("study", beginning.provenance(), machine, settings, measured);
    let files = directory.finish(&results).map_err(Failure::world)?;
    let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    if options.json {
        println!("{}", serde_json::to_string_pretty(&results).map_err(Failure::world)?);
        eprintln!("written: {}", files.join(", "));
    } else {
        print!("{}", table::render(&results, &table::Options { files, colour: false }));
    }
    Ok(if is_stopped { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

fn default_place(beginning: &Beginning) -> PathBuf {
    PathBuf::from("runs").join(format!("study-{}", beginning.file_stamp()))
}

/// Whose fault it is that nothing was measured.
pub fn study_failure(error: StudyError) -> Failure {
    match &error {
        StudyError::Run { error: plimsoll_workload::driver::DriveError::Options { .. }, .. } => Failure::input(error),
        _ => Failure::world(error),
    }
}
