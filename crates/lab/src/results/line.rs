//! Isolation of a workload: settings that a study has tried beside the one it measured first.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Interval;

/// The line that a study draws: the setting that lets one workload keep its speed, and its cost to the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The workload to protect.
    pub protect: String,
    /// The share of its speed alone that it must keep, 0 to 1: of its throughput, and of 1 / p95.
    pub slo: f64,
    /// The study's own setting, then the candidates, most promising first.
    pub tried: Vec<Isolation>,
    /// The position in `tried` of the best measured setting; `None` if none was measured.
    pub best: Option<usize>,
    /// The conclusion, in one or two sentences.
    pub sentence: String,
}

/// One setting that may isolate the workload.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Isolation {
    /// In words: `olap at dop 1 and nice 10`.
    pub words: String,
    /// Options of the target beside the study's own.
    pub options: BTreeMap<String, String>,
    /// The predicted part of its throughput alone that each workload keeps, 0 to 1; empty if there is no prediction.
    pub predicted: BTreeMap<String, f64>,
    /// The measured share that each workload keeps, the protected one first; empty if it was not measured.
    pub kept: Vec<KeptShare>,
    /// Whether the protected workload keeps its required share; `None` if it was not measured.
    pub standing: Option<LineStanding>,
    /// The lines of settings, or commands, that apply it.
    pub how: Vec<String>,
}

/// The share of its speed alone that a workload keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptShare {
    /// The workload.
    pub workload: String,
    /// Throughput over throughput alone; of queries at an equal mix.
    pub throughput: Interval,
    /// The p95 latency alone over that beside the others, below 1 if it got longer; `None` if some window has fewer
    /// than ten requests beyond it.
    pub p95: Option<Interval>,
}

/// Whether a workload keeps its speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineStanding {
    /// Some figure's interval lies below the bound.
    Broken,
    /// The bound lies within an interval.
    Undecided,
    /// All intervals lie above the bound.
    Kept,
}
