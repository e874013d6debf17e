//! The stages of a study: a pilot that chooses the lengths of its runs, the study itself, and the line.

use std::path::{Path, PathBuf};

use super::{Lengths, Pilot, Study, run_pilot};
use crate::capacity;
use crate::execution::{Beginning, Conclusion, Execution, ExecutionError, Start, told_length};
use crate::experiment::{ExperimentError, Terms, parse, resolve};
use crate::host_limits::HostLimits;
use crate::line::{Attempt, LineRequest};
use crate::program::Program;
use crate::run_directory::{self, RunDirectory};
use crate::runner::{OpenedDatabase, RunProgress, Watch};
use crate::targets::Targets;

/// The folder of the line's runs, below the study's.
const LINE: &str = "line";

/// A study that has ended.
#[derive(Debug)]
pub struct StudyConclusion {
    /// The study, with the line.
    pub study: Conclusion,
    /// The folder of the line's runs, if Ctrl-C ended them before all were done.
    pub line_stopped: Option<PathBuf>,
}

impl Study<'_> {
    /// Carries it out in a new or empty folder. `url` is the target's with its password.
    pub fn carry_out(&self, url: &str, place: &Path, program: &Program<'_>) -> Result<StudyConclusion, ExecutionError> {
        RunDirectory::check_place(place).map_err(ExecutionError::of_place)?;
        let least = told_length(self.time(self.shortest()));
        program.reporter.tell(&format!(
            "study of {}: {least} of measuring if requests are fast, loading not counted",
            self.sides.names().join(" and ")
        ));
        let Pilot { chosen, opened } = self.pilot(url, program)?;
        let too_short = chosen.too_short.as_ref();
        if let Some(why) = too_short {
            program.reporter.tell(&format!("windows will be too short: {why}"));
        }
        let text = self.experiment(chosen.lengths);
        if chosen.lengths != self.shortest() {
            let time = told_length(self.time(chosen.lengths));
            program.reporter.tell(&format!("requests are slow: windows are longer, and measuring takes {time}"));
        }
        let warnings = too_short.map(|why| format!("windows were too short: {why}")).into_iter().collect();
        let execution = execution(&text, url, program.targets)?;
        let mut study = execution.begin_with(Start { warnings, opened }, place, program)?;
        let is_complete = !study.stopped && !study.given_up;
        let line_stopped = match self.line.as_ref().filter(|_| is_complete) {
            Some(wanted) => self.draw_line(url, wanted, chosen.lengths, &mut study, place, program)?,
            None => None,
        };
        Ok(StudyConclusion { study, line_stopped })
    }

    /// Measures the speed of the target, so that windows are long enough.
    fn pilot(&self, url: &str, program: &Program<'_>) -> Result<Pilot, ExecutionError> {
        let shortest = execution(&self.experiment(self.shortest()), url, program.targets)?.plan;
        capacity::check_plan_fits(&shortest, program.targets)?;
        let beginning = Beginning::now();
        let mut show = |step: RunProgress<'_>| match step {
            RunProgress::Loading { .. } => program.reporter.step(step, &shortest),
            // Told when it costs a try.
            RunProgress::Disturbed { .. } => {}
            RunProgress::Running { .. } | RunProgress::Counting { .. } | RunProgress::Simulating { .. } => {
                program.reporter.activity("looking how fast they are");
            }
        };
        let elapsed_s = || beginning.elapsed_s();
        let mut watch = Watch { progress: &mut show, keep: &mut |_| Ok(()), stop: program.stop, elapsed_s: &elapsed_s };
        let mut limits = HostLimits::new(program.hog.clone());
        let pilot = run_pilot(self, url, program.targets, &mut limits, &mut watch);
        program.reporter.clear();
        pilot?.ok_or_else(|| {
            ExecutionError::Interrupted("stopped before a run was complete; nothing was written".to_owned())
        })
    }

    /// Measures what isolates the workloads of a finished study, and adds it to the results. If that fails, the study
    /// stays as it is, with a warning. Returns the folder of the measurements if Ctrl-C ended them.
    fn draw_line(
        &self,
        url: &str,
        wanted: &LineRequest,
        lengths: Lengths,
        study: &mut Conclusion,
        place: &Path,
        program: &Program<'_>,
    ) -> Result<Option<PathBuf>, ExecutionError> {
        let amended = |error| ExecutionError::System(format!("{error}"));
        let results = &mut study.results;
        let Some(attempt) = Attempt::consider(results, wanted) else {
            let why = "no line is drawn: a workload has too few valid runs alone or together";
            results.warnings.push(why.to_owned());
            run_directory::amend(place, results).map_err(amended)?;
            return Ok(None);
        };
        let place_of_line = place.join(LINE);
        let measured = (!attempt.is_empty()).then(|| {
            let opened = std::mem::take(&mut study.opened);
            self.measure_line(url, lengths, &attempt, opened, &place_of_line, program)
        });
        let measured = measured.transpose().unwrap_or_else(|error| {
            results.warnings.push(format!("isolation was not measured: {error}"));
            None
        });
        results.line = Some(attempt.line(measured.as_ref().map(|measured| &measured.results)));
        run_directory::amend(place, results).map_err(amended)?;
        Ok(measured.filter(|measured| measured.stopped).map(|_| place_of_line))
    }

    fn measure_line(
        &self,
        url: &str,
        lengths: Lengths,
        attempt: &Attempt,
        opened: OpenedDatabase,
        place: &Path,
        program: &Program<'_>,
    ) -> Result<Conclusion, ExecutionError> {
        let text = self.line_experiment(lengths, attempt);
        let execution = execution(&text, url, program.targets)?;
        let what = format!("what isolates {}: {}", attempt.protect(), attempt.words().join("; "));
        program.reporter.tell(&what);
        let only = Some(attempt.only(&self.sides.names()));
        let start = Start { opened, ..Start::default() };
        Execution { only, ..execution }.begin_with(start, place, program)
    }
}

/// A study's experiment, with the files of workloads that its folder keeps. `url` is the target's with its password.
fn execution(text: &str, url: &str, targets: &dyn Targets) -> Result<Execution, ExperimentError> {
    let experiment = parse(text, "the study's experiment")?;
    let mut plan = resolve(&experiment, &Terms::here(targets, false))?;
    url.clone_into(&mut plan.base.url);
    Ok(Execution { files: experiment.workload_files(), ..Execution::of(plan, text) })
}
