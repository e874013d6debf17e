//! The options of `predict` and `advise`.

use std::path::PathBuf;

use clap::Args;
use plimsoll_lab::advise::Slo;
use plimsoll_lab::predict::{Model, Vary};

/// `plimsoll predict`.
#[derive(Debug, Args)]
pub struct PredictOptions {
    /// The folder of a run with each workload alone, or of `plimsoll observe` on a live server
    #[arg(value_name = "DIR")]
    pub run: PathBuf,
    /// What to vary: the clients or rate of a workload, as in olap.clients=1..50, or cores=2,4 [default: the mixes of the run]
    #[arg(long, value_name = "KEY=VALUES")]
    pub vary: Option<Vary>,
    /// Which workloads are in the mix of --vary [default: all]
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    pub workloads: Vec<String>,
    /// The model: idd adjusts demands by measured mixes, mva does not, des simulates for percentiles
    #[arg(long, value_name = "MODEL", default_value = "idd")]
    pub model: Model,
    /// The folder of a run with mixes; their measurements are put beside the predictions
    #[arg(long, value_name = "DIR")]
    pub against: Option<PathBuf>,
    /// Settings of the run that teach nothing; their measurements are put beside the predictions
    #[arg(long, value_name = "KEY=VALUES", conflicts_with_all = ["against", "vary"])]
    pub hold_out: Option<Vary>,
    /// Print one JSON document instead of a table
    #[arg(long)]
    pub json: bool,
}

/// `plimsoll advise`.
#[derive(Debug, Args)]
pub struct AdviseOptions {
    /// The folder of a run with each workload alone, or of `plimsoll observe` on a live server
    #[arg(value_name = "DIR")]
    pub run: PathBuf,
    /// The promise to keep, such as 'oltp.p95 < 20ms' or 'oltp.p95 < 1.3 x alone'
    #[arg(long, value_name = "PROMISE")]
    pub slo: Slo,
    /// The settings that may change, as in olap.clients=0..50 or cores=2,4 [default: the load of the workload to maximise]
    #[arg(long, value_name = "KEY=VALUES")]
    pub vary: Option<Vary>,
    /// The workload whose throughput is maximised [default: that of --vary, or the last other]
    #[arg(long, value_name = "WORKLOAD")]
    pub maximise: Option<String>,
    /// Measure the advised value and its neighbour on the same target, into the folder `verify` of the run
    #[arg(long)]
    pub verify: bool,
    /// Write governor settings that apply the advice, to a new file
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Print one JSON document instead of a table
    #[arg(long)]
    pub json: bool,
}
