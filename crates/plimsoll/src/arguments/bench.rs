//! The options of `plimsoll bench`.

use clap::Args;
use plimsoll_workload::driver::{Delay, PriorityRule};

use super::TargetOptions;

/// `plimsoll bench`.
#[derive(Debug, Args)]
pub struct BenchOptions {
    /// The workload and its scale, such as tpcc:2, or file:PATH or capture:DIR; docs/workloads.md lists all workloads
    #[arg(value_name = "WORKLOAD[:SCALE]")]
    pub workload: String,
    #[command(flatten)]
    pub target: TargetOptions,
    /// A parameter of the workload, such as queries=q6 or rows=10; may be given several times
    #[arg(long = "parameter", value_name = "KEY=VALUE")]
    pub parameters: Vec<String>,
    /// The number of clients that run at once [default: 1; of a capture its own, with their pauses]
    #[arg(long)]
    pub clients: Option<usize>,
    /// Pause of a client between requests: `none`, `const 5ms` or `exp 10ms`
    #[arg(long, default_value = "none", value_name = "DELAY")]
    pub think: Delay,
    /// Interactive clients: round trip between statements, for which locks are held, such as `exp 1ms`
    #[arg(long, default_value = "none", value_name = "DELAY")]
    pub round_trip: Delay,
    /// Requests per second of all clients together, however fast the database answers
    #[arg(long, value_name = "PER_SECOND")]
    pub rate: Option<f64>,
    /// Seconds to measure
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// Seconds to run before measuring [default: a fifth of --seconds, at most 5]
    #[arg(long, value_name = "SECONDS")]
    pub warmup: Option<f64>,
    /// Cancel requests that are still under way this many seconds after the clients began [default: wait for them]
    #[arg(long, value_name = "SECONDS")]
    pub seconds_max: Option<f64>,
    /// Priority of requests: `high`, `low`, `high:0.1` for a tenth of them high, `level2:0.05, high:0.1`, `payment=high` by kind
    /// of transaction, or `high:0.25 of clients`
    #[arg(long, default_value = "low", value_name = "RULE")]
    pub priority: PriorityRule,
    /// Check the data and the clients' input afterwards; exit 1 if a check fails
    #[arg(long, conflicts_with = "counters")]
    pub check: bool,
    /// `simulated` counts instructions, cache misses and mispredicted branches of one client on a simulated processor
    /// (Valgrind), where the kernel sees no counters; speeds are not measured then
    #[arg(long, value_enum, default_value_t, conflicts_with_all = ["think", "round_trip", "rate", "seconds", "warmup", "seconds_max"])]
    pub counters: CounterSource,
    /// With --counters simulated: the number of requests to count
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..), requires = "counters")]
    pub requests: u64,
    /// The seed of all random choices
    #[arg(long, default_value_t = 7)]
    pub seed: u64,
    /// Print one JSON document instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Whose counters are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum CounterSource {
    /// The processor's, if the kernel sees them.
    #[default]
    Hardware,
    /// A simulated processor's.
    Simulated,
}
