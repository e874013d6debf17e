//! The subjects of claims: figures of cells of an experiment, from any source that has measured them.

use std::fmt;

use plimsoll_policy::Priority;

use crate::figures::{Figure, FigureArgument};

/// The source of figures. An error says why a figure was not measured; the claim that needs it is then not judged.
pub trait Figures {
    /// The figure of a cell.
    fn figure(&self, cell: &Cell, metric: Metric) -> Result<f64, String>;

    /// The smallest sufficient value of an axis: the one at which throughput reaches `share` of throughput at the
    /// full allocation. The share is one of [`SHARES`](plimsoll_model::knee::SHARES).
    ///
    /// `axis` is a position in [`Plan::axes`](crate::plan::Plan::axes). `cell` gives the arm, the workload and the
    /// values of all other axes; its setting is the one with the first value of `axis`.
    fn knee(&self, axis: usize, share: f64, cell: &Cell) -> Result<f64, String>;

    /// The 95 % interval of [`knee`](Figures::knee).
    fn knee_bounds(&self, _axis: usize, _share: f64, _cell: &Cell) -> Result<[f64; 2], String> {
        Err("the knee has no interval".to_owned())
    }

    /// The least relative difference that a figure can show: one request more or less, for figures that count requests.
    /// 0 if it is finer than any noise.
    fn resolution(&self, _cell: &Cell, _metric: Metric) -> f64 {
        0.0
    }
}

/// A part of the requests of one workload in one arm at one setting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    /// The setting's number, as [`Plan::setting`](crate::plan::Plan::setting) takes it.
    pub setting: usize,
    /// Position in [`Plan::arms`](crate::plan::Plan::arms).
    pub arm: usize,
    /// Position in [`Setting::workloads`](crate::plan::Setting::workloads).
    pub workload: usize,
    /// The selected requests.
    pub part: RequestSubset,
}

/// A selection of the requests of a workload.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestSubset {
    /// All of them.
    All,
    /// Requests of a priority.
    Class(Priority),
    /// Requests of a kind of transaction or query, by its name.
    Transaction(String),
}

/// A figure of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Requests per second; of all requests of an analytical workload at an equal mix of queries.
    Throughput,
    /// Arithmetic mean of latency, microseconds; of all requests of an analytical workload at an equal mix of queries.
    MeanLatency,
    /// Throughput over that of the workload alone at the same setting; for analytical workloads at an equal mix of queries.
    ThroughputRelativeToAlone,
    /// A row of the list of figures, with its argument.
    Listed(&'static Figure, FigureArgument),
}

impl fmt::Display for RequestSubset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestSubset::All => f.write_str("all requests"),
            RequestSubset::Class(priority) => write!(f, "class {priority}"),
            RequestSubset::Transaction(name) => f.write_str(name),
        }
    }
}
