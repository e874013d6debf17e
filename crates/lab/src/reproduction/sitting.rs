//! A sitting: part of a reproduction in a limited time, in a folder that earlier sittings have begun.
//!
//! Nothing that was measured is lost. A run that is made again goes to `earlier/` first, and what the page says of it is
//! kept in `runs.jsonl` until the new run is finished. A run that Ctrl-C or the end of a sitting interrupted continues in
//! the next one, unless its experiment or its code has changed since.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use super::budget::{Candidate, Known, Sitting, Wanted, ordered, schedule, sit};
use super::folder::{PlannedExhibit, Reproduction};
use super::origin::Origin;
use crate::document::settings;
use crate::execution::ExecutionError;
use crate::fingerprint::settings_hash;
use crate::plan::Plan;
use crate::program::Program;
use crate::run_directory::{RunDirectory, StoredExperiment, read_results};
use crate::targets::Targets;
use crate::until_decided::Limit;

/// The folder of runs that were made again.
const EARLIER: &str = "earlier";

/// Which exhibits a sitting takes, and how much time it has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SittingRequest {
    /// The exhibits that it takes.
    pub wanted: Wanted,
    /// The time that it has; `None` for as long as it takes.
    pub budget: Option<Duration>,
}

impl SittingRequest {
    /// Whether it is about runs that are on the page already, so that those of the page in `docs/` count, too.
    pub fn is_of_page(self) -> bool {
        self.wanted.stale || self.wanted.undecided
    }
}

/// What a sitting is going to do: told before it begins, and printed with what came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SittingPlan {
    /// Minutes that it has; `None` for as long as it takes.
    pub minutes: Option<f64>,
    /// The exhibits that it takes, in order, most claims per minute first.
    pub takes: Vec<Candidate>,
    /// Those that are likely not to fit.
    pub leaves: Vec<Candidate>,
}

impl SittingPlan {
    /// In lines.
    pub fn told(&self) -> String {
        let time =
            self.minutes.map_or_else(|| "all the time it takes".to_owned(), |minutes| format!("{minutes:.0} min"));
        let mut lines =
            vec![format!("{} of {} exhibits in {time}:", self.takes.len(), self.takes.len() + self.leaves.len())];
        lines.extend(self.takes.iter().map(|candidate| format!("  {}", candidate.told())));
        if !self.leaves.is_empty() {
            let shortest = self.leaves.iter().map(|candidate| candidate.minutes).fold(f64::INFINITY, f64::min);
            lines.push(format!(
                "  {} do not fit; the shortest of them takes about {shortest:.1} min",
                self.leaves.len()
            ));
        }
        lines.join("\n")
    }
}

impl Reproduction {
    /// The plan of the sitting that was requested. Refuses to look for stale runs in a program that does not know its
    /// sources.
    pub fn sitting_plan(&self, targets: &dyn Targets) -> Result<SittingPlan, ExecutionError> {
        let request = self.request.sitting.unwrap_or_default();
        if request.wanted.stale && self.build.sources.is_empty() {
            return Err(ExecutionError::Refused(
                "--stale: this program was built without its sources beside it, so it does not know whether code has \
                 changed since a run; build it in a checkout"
                    .to_owned(),
            ));
        }
        let candidates =
            self.requested_exhibits().filter_map(|exhibit| self.candidate(exhibit, request.wanted, targets));
        let candidates = ordered(candidates.collect());
        let (takes, leaves) = schedule(&candidates, request.budget);
        let [takes, leaves] = [takes, leaves].map(|part| part.into_iter().cloned().collect());
        Ok(SittingPlan { minutes: request.budget.map(|budget| budget.as_secs_f64() / 60.0), takes, leaves })
    }

    fn candidate(&self, exhibit: &PlannedExhibit, wanted: Wanted, targets: &dyn Targets) -> Option<Candidate> {
        let PlannedExhibit { plan, short, .. } = exhibit;
        let last = self.last(&plan.name);
        let left_out = short.claims.iter().filter(|claim| claim.left_out().is_some());
        let left_out: Vec<String> = left_out.map(|claim| claim.text.clone()).collect();
        let begun = self.begun(exhibit, targets);
        Candidate::of(
            &Known {
                plan,
                quick: self.request.quick,
                left_out: &left_out,
                last: last.as_ref(),
                stale: self.stale(exhibit, last.as_ref()),
                growth: growth(short, plan),
                done: begun.map_or(0, |begun| begun.records.len()),
            },
            wanted,
        )
    }

    /// Runs the exhibits of the plan while they fit into the time, and writes the page after each. `elapsed` is the time
    /// since the sitting began.
    pub fn sit(
        &mut self,
        plan: &SittingPlan,
        program: &Program<'_>,
        elapsed: &dyn Fn() -> Duration,
    ) -> Result<Sitting, ExecutionError> {
        let candidates = plan.takes.iter().chain(&plan.leaves).cloned().collect();
        let time = self.request.sitting.unwrap_or_default().budget;
        sit(candidates, time, elapsed, &mut |candidate, left| {
            let stopped = self.run_again(candidate, left, program)?;
            self.write()?;
            Ok(stopped)
        })
    }

    /// Runs a candidate, or continues it. Whether Ctrl-C ended it.
    fn run_again(
        &mut self,
        candidate: &Candidate,
        left: Option<Duration>,
        program: &Program<'_>,
    ) -> Result<bool, ExecutionError> {
        let exhibit = self.exhibits.iter().find(|exhibit| exhibit.plan.name == candidate.name);
        let exhibit = exhibit.expect("candidates are exhibits");
        let begun = self.begun(exhibit, program.targets).map(|begun| begun.header.blocks_max);
        let limit = match begun {
            Some(blocks_max) => blocks_max.map(Limit::Blocks),
            None => {
                let fit = left.map_or(u32::MAX, |left| Limit::Time(left).blocks(&exhibit.plan));
                let own = candidate.blocks_max.map(|most| Limit::Blocks(most.min(fit)));
                self.request.until_decided.or(own)
            }
        };
        let execution = self.execution(exhibit, limit);
        if begun.is_none() {
            // What the page says of the earlier run is on disk before its directory is moved.
            let earlier = self.last(&candidate.name);
            earlier.into_iter().for_each(|run| self.kept.add(run));
            self.write()?;
            set_aside(&self.place, &candidate.name)?;
        }
        self.measure_one(&execution, program)
    }

    /// The interrupted run of an exhibit, if it can be continued: with the same settings and from the same code.
    fn begun(&self, exhibit: &PlannedExhibit, targets: &dyn Targets) -> Option<StoredExperiment> {
        let place = self.place.join(&exhibit.plan.name);
        if read_results(&place).is_ok_and(|results| results.runs_left == 0) {
            return None;
        }
        let begun = RunDirectory::open(&place).ok()?;
        let limit = begun.header.blocks_max.map(Limit::Blocks);
        let looks = self.execution(exhibit, limit).looks().ok()?;
        let is_same = settings_hash(&settings(looks.first()?, targets)) == begun.header.settings_hash;
        let now = Origin::now(&exhibit.plan, exhibit.carried.text, self.request.quick, self.build);
        let is_stale = begun.header.origin.as_ref().is_none_or(|origin| origin.stale(&now).is_some());
        Some(begun).filter(|_| is_same && (!is_stale || self.build.sources.is_empty()))
    }
}

/// How much larger the data of the full form is than that of the short one; 1 if that is not known.
fn growth(short: &Plan, full: &Plan) -> f64 {
    let scale = |plan: &Plan| plan.base.workloads.iter().map(|workload| workload.scale).sum::<f64>();
    if scale(short) > 0.0 { scale(full) / scale(short) } else { 1.0 }
}

/// Moves the run directory of an exhibit out of the way of a new run. One that holds no run stays, to be refused.
fn set_aside(folder: &Path, name: &str) -> Result<(), ExecutionError> {
    let place = folder.join(name);
    let Ok(begun) = RunDirectory::open(&place) else { return Ok(()) };
    let started = begun.header.started.replace(':', "");
    drop(begun);
    let to = free_place(&folder.join(EARLIER).join(format!("{name}-{started}")));
    let moved = fs::create_dir_all(folder.join(EARLIER)).and_then(|()| fs::rename(&place, &to));
    moved.map_err(|error| ExecutionError::System(format!("{} to {}: {error}", place.display(), to.display())))
}

/// A path that is not taken: this one, or with a number.
fn free_place(place: &Path) -> PathBuf {
    let numbered = (2..).map(|number| PathBuf::from(format!("{}-{number}", place.display())));
    std::iter::once(place.to_owned()).chain(numbered).find(|place| !place.exists()).expect("numbers do not end")
}

#[cfg(test)]
mod tests;
