//! Published exhibits and the results of reproducing them: as text for a terminal ([`render`]) and as a page of documentation
//! ([`page`]), both from the run directories of a [`Reproduction`].

pub mod budget;
pub mod causes;
pub mod exercised;
pub mod exhibit_list;
mod folder;
mod kept_runs;
pub mod origin;
pub mod page;
mod sitting;
mod tally;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use plimsoll_machine::MachineFacts;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::results::{ClaimResult, Mode, Results};
use crate::table::claims;
pub use folder::{CarriedFile, Collection, Reproduction, ReproductionRequest};
pub use kept_runs::{KeptRun, KeptRuns};
use origin::Origin;
use plimsoll_display as units;
use plimsoll_display::wrap;
pub use sitting::{SittingPlan, SittingRequest};
pub use tally::Tally;

/// One published exhibit and the results of reproducing it.
#[derive(Debug, Clone, Serialize)]
pub struct Exhibit {
    /// Its name, as in `SR-fig6-dop`.
    pub id: String,
    /// Its subject.
    pub title: String,
    /// The study, if it belongs to one.
    pub study: Option<String>,
    /// The differences from the study.
    pub differs: Vec<String>,
    /// The experiment file.
    pub file: String,
    /// The run directory, if it was run.
    pub directory: String,
    /// How it was measured; `None` if it was not run.
    pub measured: Option<ExhibitRun>,
    /// Its claims, judged.
    pub claims: Vec<ClaimResult>,
    /// Claims that once had a result and are no longer made.
    pub withdrawn: Vec<String>,
    /// Why it was not run.
    pub why_not_run: Option<String>,
    /// Why its run is stale; `None` if it is not, or was not run.
    pub stale: Option<String>,
}

/// How an exhibit was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExhibitRun {
    /// Commit that measured it; the version, if the commit is not known.
    pub commit: String,
    /// UTC, ISO 8601, when it began.
    pub started: String,
    /// Whether it was measured or simulated.
    pub mode: Mode,
    /// Whether it is the short form.
    pub quick: bool,
    /// Scale of each workload: `oltp 4, olap 0.3`.
    pub scale: String,
    /// Window of a run: `10 s`.
    pub window: String,
    /// How often each setting was run.
    pub repeats: u32,
    /// Runs, and how many of them are invalid.
    pub runs: (usize, usize),
    /// Runs that were not made, because it was stopped.
    pub runs_left: usize,
    /// The machine, in a line.
    pub machine: String,
    /// Seconds that it took, loading included and pauses left out; `None` if that was not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length_s: Option<f64>,
    /// Seconds of warm-ups and windows among them; `None` as for `length_s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows_s: Option<f64>,
    /// The experiment and the code that it was made from; `None` if that was not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

impl Exhibit {
    /// Whether a claim fails, the exhibit could not be run at all, or none of its runs is valid.
    pub fn has_failed(&self) -> bool {
        let is_invalid = self.measured.as_ref().is_some_and(|measured| measured.runs.0 == measured.runs.1);
        is_invalid || self.why_not_run.is_some() || self.claims.iter().any(tally::has_failed)
    }
}

impl ExhibitRun {
    /// How the runs of these results were measured.
    pub fn of(results: &Results) -> Self {
        let settings = &results.experiment.settings;
        let points = &results.points;
        ExhibitRun {
            commit: results.commit.clone().unwrap_or_else(|| results.plimsoll.clone()),
            started: results.started.clone(),
            mode: results.mode,
            quick: results.quick,
            scale: scales(results),
            window: settings.get("run.measure_s").and_then(Value::as_f64).map(units::seconds).unwrap_or_default(),
            repeats: points.iter().map(|point| point.repeat).max().unwrap_or(0),
            runs: (points.len(), points.iter().filter(|point| !point.valid).count()),
            runs_left: results.runs_left,
            machine: machine(&results.machine),
            length_s: Some(length_s(results)),
            windows_s: Some(points.iter().map(|point| point.warmup_s + point.window_s).sum()),
            origin: results.origin.clone(),
        }
    }

    /// In a few words, for a cell of a table: `0c76132f1a2b, scale 4, 3 x 10 s`.
    pub fn told(&self) -> String {
        match self.mode {
            Mode::Measured => format!("{}, scale {}, {} x {}", self.commit, self.scale, self.repeats, self.window),
            Mode::SimulatedProcessor => {
                format!("{}, scale {}, {} x on a simulated processor", self.commit, self.scale, self.repeats)
            }
            Mode::Simulated => format!("{}, simulated, {} blocks", self.commit, self.repeats),
        }
    }
}

/// The scale of each workload, or all scales if they are swept.
fn scales(results: &Results) -> String {
    let experiment = &results.experiment;
    let names = &experiment.workloads;
    let of = |name: &String| {
        let key = format!("{name}.scale");
        let is_its = |axis: &str| axis.split('+').any(|part| part == key || (part == "scale" && names.len() == 1));
        let told = match experiment.sweep.iter().find(|axis| is_its(&axis.key)) {
            Some(axis) => axis.values.iter().map(units::value).collect::<Vec<_>>().join("/"),
            None => experiment.settings.get(&key).map(units::value).unwrap_or_default(),
        };
        (name.clone(), told)
    };
    let all: BTreeMap<String, String> = names.iter().map(of).collect();
    let several = names.iter().map(|name| format!("{name} {}", all[name]));
    match names.as_slice() {
        [only] => all[only].clone(),
        _ => several.collect::<Vec<_>>().join(", "),
    }
}

/// Gaps between runs that are longer than this are pauses: nothing loads for so long.
const PAUSE_S: f64 = 3600.0;

/// How long an experiment took in all of its sittings.
fn length_s(results: &Results) -> f64 {
    let mut times: Vec<(f64, f64)> = results.points.iter().map(|point| (point.at_s, point.window_s)).collect();
    times.sort_by(|one, other| one.0.total_cmp(&other.0));
    let gaps = times.windows(2).map(|pair| pair[1].0 - pair[0].0 - pair[0].1);
    let pauses: f64 = gaps.filter(|gap| *gap > PAUSE_S).sum();
    (results.elapsed_s - pauses).max(0.0)
}

fn machine(machine: &MachineFacts) -> String {
    let virtualised = if machine.virtualised.is_some() { ", virtual" } else { "" };
    format!(
        "{} of {} cores of {}{virtualised}, {}, kernel {}",
        machine.cores_usable,
        machine.cores_online,
        machine.cpu_model,
        units::bytes(machine.memory_bytes),
        machine.kernel
    )
}

/// The whole text for a terminal, ending in a line break.
pub fn render(exhibits: &[Exhibit]) -> String {
    let mut out = Vec::new();
    for exhibit in exhibits {
        out.extend(wrap(&format!("{}: {}", exhibit.id, exhibit.title), "", "  "));
        out.extend(exhibit.claims.iter().flat_map(claims::lines));
        out.extend(exhibit.why_not_run.iter().flat_map(|why| wrap(why, "  not run     ", "              ")));
        if exhibit.why_not_run.is_none() {
            out.push(format!("  {}", exhibit.directory));
        }
        out.push(String::new());
    }
    let tally = Tally::of(exhibits.iter().flat_map(|exhibit| &exhibit.claims));
    out.push(tally.verdicts());
    out.push(tally.grades());
    out.push(String::new());
    out.join("\n")
}
