//! What claims are about: figures of cells of an experiment, from whoever has measured them.

use std::fmt;

use plimsoll_policy::Priority;

use super::lock_figures::LockFigure;
use super::machine_figures::MachineFigure;

/// Where figures come from. An error is why a figure was not measured; what asked for it is then not judged.
pub trait Figures {
    /// The figure of a cell.
    fn figure(&self, cell: &Cell, metric: Metric) -> Result<f64, String>;

    /// The smallest sufficient value of an axis: the one at which throughput reaches `share` of throughput at the
    /// full allocation. The share is one of [`SHARES`](plimsoll_model::knee::SHARES).
    ///
    /// `axis` is a position in [`Plan::axes`](crate::plan::Plan::axes). `cell` tells the arm, the workload and the values of
    /// all other axes; its setting is the one with the first value of `axis`.
    fn knee(&self, axis: usize, share: f64, cell: &Cell) -> Result<f64, String>;

    /// The 95 % interval of [`knee`](Figures::knee).
    fn knee_bounds(&self, _axis: usize, _share: f64, _cell: &Cell) -> Result<[f64; 2], String> {
        Err("the knee has no interval".to_owned())
    }

    /// The least relative difference that a figure can show: one request more or less, where requests are counted. 0 where
    /// it is finer than any noise.
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
    /// Which of its requests.
    pub part: Part,
}

/// Which requests of a workload.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// All of them.
    All,
    /// Those of a priority.
    Class(Priority),
    /// Those of a kind of transaction or query, by its name.
    Transaction(String),
}

/// A figure of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Requests per second.
    Throughput,
    /// Arithmetic mean of latency, microseconds.
    MeanLatency,
    /// A percentile of latency, microseconds.
    Latency(Percentile),
    /// A part of response time, 0 to 1. Only of [`Part::All`].
    TimeShare(TimePart),
    /// Throughput over that of the workload alone at the same setting; for analytical workloads at an equal mix of queries.
    ThroughputRelativeToAlone,
    /// A figure of the machine. Only of [`Part::All`].
    Machine(MachineFigure),
    /// A figure of lock waiting. Of [`Part::All`] and of classes.
    Lock(LockFigure),
}

/// A percentile of latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Percentile {
    /// The median.
    P50,
    /// 90 %.
    P90,
    /// 95 %.
    P95,
    /// 99 %.
    P99,
    /// 99.9 %.
    P999,
}

impl Percentile {
    /// Every percentile, smallest first.
    pub const ALL: [Percentile; 5] =
        [Percentile::P50, Percentile::P90, Percentile::P95, Percentile::P99, Percentile::P999];

    /// The word for it in claims, also its key in `results.json`.
    pub fn name(self) -> &'static str {
        match self {
            Percentile::P50 => "p50",
            Percentile::P90 => "p90",
            Percentile::P95 => "p95",
            Percentile::P99 => "p99",
            Percentile::P999 => "p999",
        }
    }
}

/// A part of response time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimePart {
    /// On a core.
    CpuRun,
    /// Runnable, waiting for a core.
    CpuWait,
    /// Waiting for a device.
    Io,
    /// Waiting behind another process that waits for a device.
    IoLatch,
    /// Waiting for a database lock.
    Lock,
    /// The server waits for the client.
    Client,
    /// Everything else.
    Other,
    /// Of `client`, or where that is not known of everything else, round trips between a client's statements.
    RoundTrip,
}

impl TimePart {
    /// Every part, in the order of [`TimeShare`](crate::results::TimeShare).
    pub const ALL: [TimePart; 8] = [
        TimePart::CpuRun,
        TimePart::CpuWait,
        TimePart::Io,
        TimePart::IoLatch,
        TimePart::Lock,
        TimePart::Client,
        TimePart::Other,
        TimePart::RoundTrip,
    ];

    /// The word for it in claims.
    pub fn name(self) -> &'static str {
        match self {
            TimePart::CpuRun => "cpu_run",
            TimePart::CpuWait => "cpu_wait",
            TimePart::Io => "io",
            TimePart::IoLatch => "io_latch",
            TimePart::Lock => "lock",
            TimePart::Client => "client",
            TimePart::Other => "other",
            TimePart::RoundTrip => "round_trip",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::All => f.write_str("all requests"),
            Part::Class(priority) => write!(f, "class {priority}"),
            Part::Transaction(name) => f.write_str(name),
        }
    }
}
