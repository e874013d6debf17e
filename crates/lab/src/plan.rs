//! An experiment as resolved: every name known, every default filled in, every value checked.
//!
//! [`crate::experiment`] is the experiment as written; a [`Plan`] is the form that the runner runs. The settings of a
//! sweep are not stored but computed from their number, so a plan of a million points is as small as a plan of ten.

mod sweep_target;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_machine::control::Limits;
use plimsoll_model::knee::SHARES;
use plimsoll_model::knee::search::KneeSearch;
use plimsoll_policy::Target;
use plimsoll_workload::benchmark::Benchmark;
use plimsoll_workload::driver::{ClientOptions, WarmUp, Window};
use plimsoll_workload::registry::{BenchmarkError, Catalog};
use serde::Serialize;
use serde_json::Value;

use crate::amounts::Amounts;
use crate::claim::Claim;
use crate::simulation::cost;
use crate::size;
pub use sweep_target::{SweepTarget, TARGET_KEY, WORKLOAD_FIELDS};
pub(crate) use sweep_target::{is_target_key, option_text};

/// An experiment that can be run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Its name, also the beginning of the run directory's.
    pub name: String,
    /// Its subject, in a sentence.
    pub title: Option<String>,
    /// The study whose exhibit it reproduces, if any: `SR`, `SI`, `MW`, `GA`, `NO`.
    pub study: Option<String>,
    /// The differences from the study.
    pub differs: Vec<String>,
    /// The experiment file as given; `None` if there is none.
    pub text: Option<String>,
    /// The setting without swept values.
    pub base: Setting,
    /// The swept axes, slowest first; a setting is one value of each.
    pub axes: Vec<Axis>,
    /// The arms that run at each setting.
    pub arms: Vec<Arm>,
    /// How runs are run.
    pub run: RunPlan,
    /// The claims to be judged.
    pub claims: Vec<Claim>,
    /// The benchmarks of all settings, each made once.
    pub benchmarks: Catalog,
}

/// One setting of an experiment, complete.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Setting {
    /// The swept values by sweep key; empty without a sweep.
    pub swept: BTreeMap<String, Value>,
    /// The target's URL.
    pub url: String,
    /// Its options. If targets are swept, options that this one lacks are for the others.
    pub options: BTreeMap<String, String>,
    /// The limits of the machine and the hogs that run on it; see [`crate::limits`].
    pub limits: Limits,
    /// The workloads, in the order of the file.
    pub workloads: Vec<PlannedWorkload>,
    /// The folder to which paths in options are relative; empty for the working directory of the program.
    pub folder: PathBuf,
}

/// One workload at one setting.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedWorkload {
    /// Its name in the experiment.
    pub name: String,
    /// The benchmark's name.
    pub kind: String,
    /// The benchmark's scale.
    pub scale: f64,
    /// The benchmark's parameters beyond its scale, by name.
    pub parameters: BTreeMap<String, Value>,
    /// How many clients there are and how they behave.
    pub clients: ClientOptions,
}

/// A swept key.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// The sweep key as written: `dop`, `oltp.clients`.
    pub key: String,
    /// The option, limit or parameter that it changes.
    pub place: SweepTarget,
    /// Its values, in the order of the file.
    pub values: Vec<Value>,
}

/// The workloads that run together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arm {
    /// `alone:NAME`, `A+B`, or `together` if all of several workloads run.
    pub name: String,
    /// Positions in the list of workloads.
    pub members: Vec<usize>,
}

/// The share of requests that may fail without a setting. More would make the throughput that of another workload.
pub const FAILED_MAX: f64 = 0.05;

/// How runs are run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPlan {
    /// The warm-up before each window.
    pub warmup: WarmUp,
    /// The length of each window.
    pub measure: Duration,
    /// How often each arm of each setting runs.
    pub repeats: u32,
    /// How often its claims are judged, each time after more repeats: 1, unless it runs until they are decided. Each
    /// look has its part of the error probability.
    pub looks: usize,
    /// The data, the order of runs and everything that clients draw follow from this; see [`RunPlan::seed_of_block`].
    pub seed: u64,
    /// When data is loaded again.
    pub reload: Reload,
    /// How settings are selected.
    pub search: Search,
    /// The terms of a search for sizes.
    pub sizing: SizingTerms,
    /// The reaction to the loss of the server during a run.
    pub server_lost: ServerLost,
    /// How many cores others on this machine, and its host, may keep busy during a window, per core that can be used. A run in
    /// which they take more is invalid.
    pub others_max: f64,
    /// How often a run is tried while others take more than that, at least once.
    pub tries: u32,
    /// What becomes of a run in which they took more at every try.
    pub disturbed: Disturbed,
    /// Whether some runs are made twice in each block ([`Plan::runs_twice`]).
    pub again: bool,
    /// The share of a workload's requests that may fail, 0 to 1. A run in which more fail is invalid.
    pub failed_max: f64,
    /// What Ctrl-C ends while a window is open.
    pub ctrl_c: CtrlC,
    /// Requests that are under way this long after the clients of a run began are cancelled, once its window has ended; `None` if
    /// they run to their end.
    pub cut_after: Option<Duration>,
    /// The number of requests of each run that are counted on a [simulated processor](crate::counted), in place of a window that
    /// is measured; `None` if runs are measured.
    pub simulated_requests: Option<u64>,
}

/// What becomes of a run that others on the machine disturbed at every try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Disturbed {
    /// It is invalid. If a whole round is, the experiment ends.
    #[default]
    Discard,
    /// It counts, and intervals of comparisons are wider by what others took.
    Keep,
}

/// What Ctrl-C ends while a window is open. Before it opens, nothing is lost, and the run ends at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CtrlC {
    /// The experiment, after the run.
    #[default]
    AfterRun,
    /// The run.
    Run,
}

/// The reaction to the loss of a server during a run, which is then invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerLost {
    /// It is opened again, and the next run begins.
    #[default]
    GoOn,
    /// The experiment ends.
    Stop,
}

/// When data is loaded again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reload {
    /// Before each run of a workload whose data an earlier run has made grow.
    #[default]
    WhenGrown,
    /// Before each run of a workload that has written at all.
    WhenWritten,
    /// Never: each run uses the data that the previous one has left.
    Never,
}

/// How the settings of a sweep are selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Search {
    /// All of them.
    #[default]
    Grid,
    /// Settings that find the knee of the one numeric axis: by bisection, at every value of the other axes.
    Knee,
    /// Settings that bracket the least sufficient amount along each axis, with the last value of every other axis, until
    /// its time is over.
    Size,
}

/// The terms of a search for sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizingTerms {
    /// The time that runs may take, loading included.
    pub budget: Duration,
    /// A promise on response times that an amount must keep to be sufficient, if there is one.
    pub promise: Option<Target>,
}

impl Default for SizingTerms {
    fn default() -> Self {
        SizingTerms { budget: size::BUDGET, promise: None }
    }
}

impl RunPlan {
    /// The options of the driver.
    pub fn window(&self) -> Window {
        Window { warmup: self.warmup, measure: self.measure }
    }

    /// The seed of the clients' random choices in a block: requests, think times, arrivals and priorities.
    ///
    /// All runs of a block have the same inputs, so that settings and arms differ in nothing else. Every block has
    /// other inputs, so that intervals over blocks include their effect on figures. The data follows from
    /// [`seed`](Self::seed) and does not change.
    pub fn seed_of_block(&self, block: u32) -> u64 {
        // The finaliser of SplitMix64 (Steele, Lea and Flood 2014): one to one, so that no two blocks have the same.
        let mut mixed = self.seed.wrapping_add(u64::from(block).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

impl Plan {
    /// How many settings the sweep has; `None` if more than can be counted. 1 if nothing is swept.
    pub(crate) fn setting_count(&self) -> Option<usize> {
        self.axes.iter().try_fold(1_usize, |count, axis| count.checked_mul(axis.values.len()))
    }

    /// The number of values of each axis.
    pub(crate) fn axis_lengths(&self) -> Vec<usize> {
        self.axes.iter().map(|axis| axis.values.len()).collect()
    }

    /// The number of the setting with these values, given as a position on each axis.
    pub(crate) fn setting_number(&self, positions: &[usize]) -> usize {
        let axes = self.axes.iter().zip(positions);
        axes.fold(0, |number, (axis, position)| number * axis.values.len() + position)
    }

    /// The setting of that number, from 0: the last axis changes fastest.
    ///
    /// # Panics
    /// If no setting has that number, or if a value of the plan is not valid in its place. Plans that were resolved
    /// from a file have no such value.
    pub fn setting(&self, number: usize) -> Setting {
        assert!(self.setting_count().is_none_or(|count| number < count), "there is no setting {number}");
        let mut setting = self.base.clone();
        for (axis, position) in self.axes.iter().zip(positions(number, &self.axis_lengths())) {
            let value = &axis.values[position];
            setting.apply(&axis.place, value).expect("every value of a plan was checked");
            setting.swept.insert(axis.key.clone(), value.clone());
        }
        if self.run.search == Search::Size {
            size::resources::fit_buffers(&mut setting);
        }
        setting
    }

    /// Every setting in order, each made on demand.
    pub fn settings(&self) -> impl Iterator<Item = Setting> + '_ {
        (0..self.setting_count().unwrap_or(usize::MAX)).map(|number| self.setting(number))
    }

    /// The benchmark that a workload runs, the same value on every call. Plans are checked, so an error here is one in
    /// this program.
    pub fn benchmark(&self, workload: &PlannedWorkload) -> Result<Arc<dyn Benchmark>, BenchmarkError> {
        let made = self.benchmarks.get(&workload.kind, Some(workload.scale), &workload.parameters);
        made.map(|(benchmark, _)| benchmark)
    }

    /// The benchmarks of a setting, in the order of its workloads.
    pub(crate) fn benchmarks_of(&self, setting: &Setting) -> Result<Vec<Arc<dyn Benchmark>>, BenchmarkError> {
        setting.workloads.iter().map(|workload| self.benchmark(workload)).collect()
    }

    /// Whether an arm of a setting runs twice in each block (A/A), so that the difference between equal runs can be
    /// compared with the other differences: every arm of the first of several settings; of a single setting the first
    /// of the arms with the most workloads, if there is another arm to compare it with. Without [`RunPlan::again`] none.
    pub fn runs_twice(&self, setting: usize, arm: usize) -> bool {
        if !self.run.again {
            return false;
        }
        let members = |arm: usize| self.arms[arm].members.len();
        let fullest = || (0..self.arms.len()).rev().max_by_key(|arm| members(*arm));
        setting == 0 && (self.setting_count() != Some(1) || (self.arms.len() > 1 && fullest() == Some(arm)))
    }

    /// The number of runs: arms of all settings once in each block, and some of the first setting once more
    /// ([`Plan::runs_twice`]). For a knee search, the maximum. [`usize::MAX`] if it is too large to count.
    pub fn run_count(&self) -> usize {
        match self.run.search {
            Search::Grid => {}
            Search::Knee => return self.run_count_of_search(),
            Search::Size => return self.run_count_of_sizes(),
        }
        let settings = self.setting_count().unwrap_or(usize::MAX);
        let twice = (0..self.arms.len()).filter(|arm| self.runs_twice(0, *arm)).count();
        settings.saturating_mul(self.arms.len()).saturating_add(twice).saturating_mul(self.run.repeats as usize)
    }

    /// As many runs as fit into the time of a search for sizes.
    fn run_count_of_sizes(&self) -> usize {
        let run = self.estimated_time(1).as_secs_f64().max(0.1);
        (self.run.sizing.budget.as_secs_f64() / run) as usize
    }

    /// The budgets of all searches: one along the numeric axis for each workload of each arm, at every value of the others.
    fn run_count_of_search(&self) -> usize {
        let repeats = self.run.repeats as usize;
        let (mut others, mut budget, mut grid) = (1_usize, repeats, repeats);
        for axis in &self.axes {
            match axis.amounts() {
                Some(numbers) => {
                    grid = numbers.len().saturating_mul(repeats);
                    budget = KneeSearch::new(numbers, repeats, SHARES.to_vec(), None, self.run.seed).budget();
                }
                None => others = others.saturating_mul(axis.values.len()),
            }
        }
        let of_arm = |arm: &Arm| budget.saturating_mul(arm.members.len()).min(grid);
        others.saturating_mul(self.arms.iter().map(of_arm).fold(0, usize::saturating_add))
    }

    /// How long warm-ups and windows of `runs` runs take together, without loading. A warm-up until throughput is
    /// steady counts as long as it can last. For simulated runs, the time that the simulator needs.
    pub fn estimated_time(&self, runs: usize) -> Duration {
        if self.is_simulated() {
            return cost(self, runs).time();
        }
        let warmup = self.run.warmup.at_most();
        let runs = u32::try_from(runs).unwrap_or(u32::MAX);
        warmup.saturating_add(self.run.measure).saturating_mul(runs)
    }
}

/// The digits of a setting's number, one position per axis, where the last axis changes fastest.
pub(crate) fn positions(number: usize, lengths: &[usize]) -> Vec<usize> {
    let mut rest = number;
    let mut positions: Vec<usize> = lengths
        .iter()
        .rev()
        .map(|length| {
            let position = rest % length;
            rest /= length;
            position
        })
        .collect();
    positions.reverse();
    positions
}

impl Axis {
    /// Its values as numbers, if all of them are.
    pub fn numbers(&self) -> Option<Vec<f64>> {
        self.values.iter().map(Value::as_f64).collect()
    }

    /// The amounts that its values stand for, in the order of the file, if all of them stand for one. The full amount is
    /// infinite.
    pub(crate) fn amounts(&self) -> Option<Vec<f64>> {
        let amounts = Amounts::of(&self.values);
        self.values.iter().map(|value| amounts.amount(value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_block_has_a_seed_of_its_own() {
        let run = |seed| RunPlan {
            warmup: WarmUp::For(Duration::ZERO),
            measure: Duration::from_secs(1),
            repeats: 1,
            looks: 1,
            seed,
            reload: Reload::Never,
            search: Search::Grid,
            sizing: SizingTerms::default(),
            server_lost: ServerLost::GoOn,
            others_max: 0.1,
            tries: 3,
            disturbed: Disturbed::Discard,
            again: true,
            failed_max: FAILED_MAX,
            ctrl_c: CtrlC::AfterRun,
            cut_after: None,
            simulated_requests: None,
        };
        let seeds: BTreeSet<u64> = (1..=1_000).map(|block| run(7).seed_of_block(block)).collect();
        assert_eq!(seeds.len(), 1_000);
        assert_eq!(run(7).seed_of_block(3), run(7).seed_of_block(3));
        assert_ne!(run(7).seed_of_block(1), run(8).seed_of_block(1));
    }
}
