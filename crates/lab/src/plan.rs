//! An experiment as resolved: every name known, every default filled in, every value checked.
//!
//! What a person types is [`crate::experiment`]; a [`Plan`] is what the runner runs. The settings of a sweep are not kept
//! one by one but computed from their number, so that a plan of a million points is as small as one of ten.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_workload::driver::ClientOptions;
use serde_json::Value;

use crate::claim::Claim;

/// An experiment that can be run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Its name, also the beginning of the run directory's.
    pub name: String,
    /// What it is about, in a sentence.
    pub title: Option<String>,
    /// The study whose exhibit it reproduces, if any: `SR`, `SI`, `MW`, `GA`, `NO`.
    pub study: Option<String>,
    /// The experiment file as given; `None` if there is none.
    pub text: Option<String>,
    /// The target's URL.
    pub url: String,
    /// What is run where nothing is swept.
    pub base: Setting,
    /// What is swept, slowest first; a setting is one value of each.
    pub axes: Vec<Axis>,
    /// Who runs at each setting.
    pub arms: Vec<Arm>,
    /// How runs are run.
    pub run: RunPlan,
    /// What must come out.
    pub claims: Vec<Claim>,
}

/// One setting of an experiment, complete.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The swept values by sweep key; empty where nothing is swept.
    pub swept: BTreeMap<String, Value>,
    /// The target's options.
    pub options: BTreeMap<String, String>,
    /// The workloads, in the order of the file.
    pub workloads: Vec<PlannedWorkload>,
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

/// Something that is swept.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// The sweep key as typed: `dop`, `oltp.clients`.
    pub key: String,
    /// What it changes.
    pub place: Place,
    /// Its values, in the order of the file.
    pub values: Vec<Value>,
}

/// What a sweep key changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// An option of the target.
    Option(String),
    /// A field (`scale`, `clients`, `think`, `rate`, `priority`) or a parameter of the workload at this position.
    Workload(usize, String),
}

/// Who runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arm {
    /// `alone:NAME`, `A+B`, or `together` where all of several workloads run.
    pub name: String,
    /// Positions in the list of workloads.
    pub members: Vec<usize>,
}

/// How runs are run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPlan {
    /// What comes before each window.
    pub warmup: Warmup,
    /// The length of each window.
    pub measure: Duration,
    /// How often each arm of each setting runs.
    pub repeats: u32,
    /// The order of runs and everything that clients draw follows from this.
    pub seed: u64,
    /// When data is loaded anew.
    pub reload: Reload,
    /// Which settings are run.
    pub search: Search,
}

/// What comes before each window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warmup {
    /// So long.
    For(Duration),
    /// Until throughput is steady, by the rule of [`plimsoll_workload::driver`], but at most so long.
    UntilSteady(Duration),
}

/// When data is loaded anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reload {
    /// Before each run of a workload whose data an earlier run has made grow.
    #[default]
    WhenGrown,
    /// Before each run of a workload that has written at all.
    WhenWritten,
    /// Never: each run finds what the one before has left.
    Never,
}

/// Which settings of a sweep are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Search {
    /// All of them.
    #[default]
    Grid,
    /// Those that find the knee of the one numeric axis: by bisection, at every value of the other axes.
    Knee,
}

impl Plan {
    /// How many settings the sweep has; `None` if more than can be counted. 1 if nothing is swept.
    pub fn setting_count(&self) -> Option<usize> {
        self.axes.iter().try_fold(1_usize, |count, axis| count.checked_mul(axis.values.len()))
    }
}
