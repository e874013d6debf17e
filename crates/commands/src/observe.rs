//! `observe`: a look at a live server.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use plimsoll_observe::ServerUrl;
use plimsoll_observe::directory::{self, PlaceError};
use plimsoll_observe::observe::{Progress, observe};
use plimsoll_observe::results::{EndReason, Observation};
use plimsoll_observe::settings_file::settings_file;
use plimsoll_observe::summary::summary;

use crate::arguments::ObserveOptions;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{print_result, tell, tell_as_is};
use crate::place::default_place;

/// Longer observations are refused: this command takes a look, and is not a service.
const SECONDS_MAX: f64 = 7.0 * 86_400.0;

/// Observes, until the time is over or Ctrl-C, and reports. `program` is named in the report on what to do next.
pub fn run(options: &ObserveOptions, program: &str) -> Result<ExitCode, Failure> {
    if !(options.seconds > 0.0 && options.seconds <= SECONDS_MAX) {
        return Err(Failure::Input(anyhow::anyhow!("--seconds is more than 0 and at most {SECONDS_MAX}")));
    }
    let url = ServerUrl::parse(&options.url).map_err(Failure::input)?;
    if let Some(file) = &options.write {
        check_free(file)?;
    }
    let place = options.out.clone().unwrap_or_else(|| default_place("observe"));
    directory::prepare(&place).map_err(|error| match error {
        PlaceError::HasResults(_) => Failure::input(error),
        _ => Failure::world(error),
    })?;
    let stop = interrupt::listen_to_report()?;
    let mut last = Progress { elapsed: Duration::ZERO, looks: 0, in_progress: 0 };
    let observed = observe(&url, Duration::from_secs_f64(options.seconds), stop, &mut |now| {
        show(options.seconds, &last, &now);
        last = now;
    });
    end_line();
    let observation = observed.map_err(|error| {
        directory::discard(&place);
        Failure::world(error)
    })?;
    // A full disk must not lose minutes of observing: the files are kept elsewhere, and the summary is printed in any case.
    let settings = options.write.as_ref().map(|_| settings_file(&observation, &url));
    let proposal = options.write.as_deref().zip(settings.as_deref());
    let written = write(proposal, program, &place, &observation);
    if written.is_err() {
        directory::discard(&place);
        match directory::rescue(&observation, settings.as_deref()) {
            Ok(kept) => tell(format_args!("the results are kept in {}", kept.display())),
            Err(error) => tell(format_args!("the results cannot be kept elsewhere either: {error}")),
        }
    }
    print_result(&observation, options.json, summary)?;
    written?;
    Ok(code(&observation))
}

/// Writes the proposed settings, if they are wanted, and the folder of results.
fn write(
    proposal: Option<(&Path, &str)>,
    program: &str,
    place: &Path,
    observation: &Observation,
) -> Result<(), Failure> {
    if let Some((file, settings)) = proposal {
        directory::write_file(file, settings).map_err(Failure::world)?;
        tell(format_args!(
            "proposed settings: {0}; to check them: {program} govern --check --config {0}",
            file.display()
        ));
    }
    let report = directory::write(place, observation).map_err(Failure::world)?;
    tell(format_args!("report: {}", report.display()));
    Ok(())
}

/// Refuses to overwrite existing settings, and a file that cannot be written, before minutes are spent on observing.
fn check_free(file: &Path) -> Result<(), Failure> {
    let shown = file.display();
    if file.exists() {
        return Err(Failure::Input(anyhow::anyhow!("{shown} is there already; remove it, or write another file")));
    }
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            Err(Failure::Input(anyhow::anyhow!("cannot write {shown}: there is no folder {}", folder.display())))
        }
        _ => directory::check_writable(file).map_err(Failure::world),
    }
}

/// The observation is reported in any case; a lost server is a failure of the environment.
fn code(observation: &Observation) -> ExitCode {
    match &observation.ended {
        EndReason::ServerLost(why) => {
            tell(format_args!("error: the observation ended early: {why}"));
            ExitCode::from(3)
        }
        EndReason::InTime | EndReason::Interrupted => ExitCode::SUCCESS,
    }
}

/// On a terminal, one line that is overwritten; elsewhere a line every ten seconds.
fn show(seconds: f64, last: &Progress, now: &Progress) {
    let line = format!(
        "observing: {:.0} of {seconds:.0} s, {} looks, {} in progress; Ctrl-C ends with a report",
        now.elapsed.as_secs_f64(),
        now.looks,
        now.in_progress
    );
    if std::io::stderr().is_terminal() {
        tell_as_is(format_args!("\r{line}\x1b[K"));
    } else if now.elapsed.as_secs() / 10 > last.elapsed.as_secs() / 10 {
        tell(line);
    }
}

fn end_line() {
    if std::io::stderr().is_terminal() {
        tell_as_is("\r\x1b[K");
    }
}
