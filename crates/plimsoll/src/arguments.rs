//! The commands and options of the command line.

mod bench;
mod compare;
mod export;
mod models;
mod rehearse;
mod size;
mod worker;

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use plimsoll_commands::arguments::SharedCommand;
use plimsoll_lab::reproduction::SittingRequest;
use plimsoll_lab::reproduction::budget::Wanted;
use plimsoll_lab::until_decided::{self, Limit};
use plimsoll_machine::facts::cores_usable;
use plimsoll_machine::hog::HogSpec;
use plimsoll_target::DEFAULT_URL;

pub use bench::{BenchOptions, CounterSource};
pub use compare::CompareOptions;
pub use export::{ExportOptions, WantedState};
pub use models::{AdviseOptions, PredictOptions};
pub use rehearse::RehearseOptions;
pub use size::SizeOptions;
pub use worker::WorkerOptions;

/// Measures what database workloads need from the machine, and what happens when they share it.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, max_term_width = 80, arg_required_else_help = true)]
#[command(
    after_help = "Exit codes: 0 success, 1 a claim or check failed (an undecided claim does not count as failed), 2 bad usage or input, 3 something outside Plimsoll failed, 130 Ctrl-C."
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run transactions and queries alone and together: which is slowed, and why
    ///
    /// Runs the transactions and the queries of CH-benCHmark, or workloads of your own (--oltp, --olap), each alone and both
    /// together, in interleaved blocks. Reports where time went, then measures what would isolate them. Takes about five
    /// minutes, with --quick one; longer if queries are slow, because a window must hold enough of them.
    Study(StudyOptions),
    /// Run one workload and report throughput, latency and where time went
    Bench(BenchOptions),
    /// Find the least cores, memory, disk speed and cache that are enough for a workload
    ///
    /// Limits one resource at a time and compares its speed with that of everything, until the least amount that keeps 90 and
    /// 95 % of full speed lies between two amounts. Takes the time of --budget. Exits with 1 if the whole machine is too
    /// small for --latency. docs/size.md explains the answer.
    Size(SizeOptions),
    /// Run an experiment file: sweeps, arms, claims
    ///
    /// A claim holds, fails, or is undecided: then more repeats are needed (--until-decided). Exits with 1 if one fails.
    /// Ctrl-C finishes the current run; what was measured is kept, and --resume continues it.
    Run(RunOptions),
    /// Simulate operators that share a cache: an experiment without the hardware
    ///
    /// The file is an experiment whose target is `simulated:`; docs/simulate.md has its keys. Claims, report and compare are
    /// those of any experiment; the result is marked as simulated. Ctrl-C keeps the finished runs, and
    /// `plimsoll run --resume` continues with them.
    Simulate(SimulateOptions),
    /// Run the experiments of the published studies: published, ours, holds
    Reproduce(ReproduceOptions),
    /// Write a report again from the results of a run, or one of several runs
    Report(ReportOptions),
    /// Compare two runs of an experiment: faster, slower, no difference larger than a margin, or undecided
    Compare(CompareOptions),
    /// Predict how the workloads of a run will perform together, from the demands of each alone
    ///
    /// Reads the `alone:` arms of a run; arms with several workloads, if there are any, show how requests slow each other
    /// down. docs/predict.md describes the models and their limits.
    Predict(PredictOptions),
    /// Find the load that keeps a promise: how many clients of others, or how many cores
    ///
    /// Predicts each value from a run with each workload alone. Exits with 1 if none is predicted to keep the promise.
    Advise(AdviseOptions),
    /// Replay recorded traffic against a server, and compare answers and times; with --against, two servers in turns
    ///
    /// Keeps the order within sessions, their times and concurrency; values that the server makes up, such as identities, are
    /// mapped. docs/rehearse.md lists what is kept and what is not. Exits with 1 if the result is not valid.
    Rehearse(RehearseOptions),
    /// Load a workload's data into a server, for runs that come later
    Load(LoadOptions),
    /// Write one state of a database's tables as Parquet files
    ///
    /// Reads a server of yours while it works, or a data folder of the embedded engine that no process has open, or loads a
    /// workload first. Writes a Parquet file for each chunk of a table, then manifest.json with the state, the columns, the
    /// numbers of rows, and the SHA-256 of each file. An export that is interrupted leaves the one before complete.
    /// docs/export.md shows how other programs read it.
    #[command(
        after_help = "Examples:\n  plimsoll export out --workload tpch:0.1\n  plimsoll export out --option data_folder=/var/lib/shop\n  plimsoll export out --target postgres://me@db.example/shop\n  plimsoll export out --verify"
    )]
    Export(ExportOptions),
    /// Check consistency conditions and answers (on `embedded:` the data is loaded first)
    Check(CheckOptions),
    /// Report what this machine is, and what can be measured and limited on it
    Machine(MachineOptions),
    /// A command for a live server.
    #[command(flatten)]
    Shared(SharedCommand),
    /// Act as a hog: take a set amount of one resource until the input ends; a line of input asks for a report
    #[command(hide = true)]
    Hog(HogOptions),
    /// Count the requests that the input asks for, and print the counts
    #[command(hide = true)]
    CountRequests,
    /// Act as a worker of a cluster: run parts of queries over an export, for targets `cluster:`
    ///
    /// docs/cluster.md shows how a cluster of several hosts is started.
    #[command(hide = true)]
    Worker(WorkerOptions),
}

/// The database and its options.
#[derive(Debug, Clone, Args)]
pub struct TargetOptions {
    /// The database: `embedded:` is the engine in this process, `postgres:` a private PostgreSQL server that is removed
    /// afterwards, `postgres://user@host:port/database` a server of yours, `cluster:` several processes for queries,
    /// `duckdb:` a DuckDB for queries
    #[arg(long, value_name = "URL", default_value = DEFAULT_URL)]
    pub target: String,
    /// An option of the target, such as lock_policy=nprio or dop=2; may be given several times
    #[arg(long = "option", value_name = "KEY=VALUE")]
    pub options: Vec<String>,
}

/// `plimsoll study`.
#[derive(Debug, Args)]
pub struct StudyOptions {
    #[command(flatten)]
    pub target: TargetOptions,
    /// Small data and short runs, for a first impression
    #[arg(long)]
    pub quick: bool,
    /// The time that measuring may take if requests are slow, loading not counted [default: 4min, with --quick 1min]
    #[arg(long, value_name = "TIME", value_parser = sitting_time)]
    pub budget: Option<std::time::Duration>,
    /// The folder for results.json and report.html [default: runs/study-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The transactions: file:shop.toml, file:a.sql@3,b.sql, capture:DIR, or a kind with its scale such as tpcc:4 [default:
    /// those of CH-benCHmark or TPC-C]
    #[arg(long, value_name = "KIND")]
    pub oltp: Option<String>,
    /// The queries: file:reports.toml, or a kind with its scale such as tpch:0.1 [default: those of CH-benCHmark or TPC-H];
    /// `cluster:` runs these on workers, over exports of the engine that runs the transactions
    #[arg(long, value_name = "KIND")]
    pub olap: Option<String>,
    /// The number of clients that run transactions [default: one for each core]
    #[arg(long, value_name = "N", value_parser = client_count)]
    pub oltp_clients: Option<usize>,
    /// The number of clients that run queries [default: 1]
    #[arg(long, value_name = "N", value_parser = client_count)]
    pub olap_clients: Option<usize>,
    /// The workload to protect: oltp, olap, or the name of one
    #[arg(long, default_value = "oltp", value_name = "WORKLOAD")]
    pub protect: String,
    /// The share of its speed alone that it must keep
    #[arg(long, default_value_t = plimsoll_lab::line::SLO, value_name = "SHARE")]
    pub slo: f64,
    /// Do not measure ways to isolate it
    #[arg(long)]
    pub no_line: bool,
    /// The seed of all random choices
    #[arg(long, default_value_t = 7)]
    pub seed: u64,
    /// Print results.json instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Reads a number of clients.
fn client_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| "write a number of clients from 1".to_owned())
}

/// A number of cores as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoreCount {
    /// As many as there are.
    All,
    /// This many.
    Number(usize),
}

impl FromStr for CoreCount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(CoreCount::All),
            _ => text.parse().map(CoreCount::Number).map_err(|_| "write a number of cores or `all`".to_owned()),
        }
    }
}

impl From<CoreCount> for usize {
    fn from(count: CoreCount) -> usize {
        match count {
            CoreCount::All => cores_usable(),
            CoreCount::Number(count) => count,
        }
    }
}

/// How long to continue while a claim is undecided.
#[derive(Debug, Default, Args)]
pub struct UntilDecidedOptions {
    /// Run more repeats until every claim is decided or a limit is reached
    #[arg(long)]
    pub until_decided: bool,
    /// With --until-decided: the largest number of repeats [default: 20]
    #[arg(long, value_name = "N", requires = "until_decided", conflicts_with = "max_time")]
    pub blocks_max: Option<u32>,
    /// With --until-decided: as many repeats as fit into this time, without loading, such as 2h
    #[arg(long, value_name = "TIME", requires = "until_decided", value_parser = until_decided::duration)]
    pub max_time: Option<Duration>,
}

impl UntilDecidedOptions {
    /// Where it ends at the latest, if it runs until it is decided.
    pub fn limit(&self) -> Option<Limit> {
        let given = self.max_time.map(Limit::Time).or(self.blocks_max.map(Limit::Blocks));
        self.until_decided.then(|| given.unwrap_or_default())
    }
}

/// `plimsoll run`.
#[derive(Debug, Default, Args)]
pub struct RunOptions {
    /// The experiment
    #[arg(value_name = "EXPERIMENT.toml", required_unless_present = "resume")]
    pub experiment: Option<PathBuf>,
    /// Continue a run that was stopped or killed
    #[arg(long, value_name = "DIR", conflicts_with_all = ["experiment", "out", "only", "quick", "cores", "until_decided"])]
    pub resume: Option<PathBuf>,
    /// The folder for all results [default: runs/NAME-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Run only a part of it: arms and values, such as dop=2,together
    #[arg(long, value_name = "POINT")]
    pub only: Option<String>,
    /// Small data and short runs, as set under `quick` in the file
    #[arg(long)]
    pub quick: bool,
    /// The number of cores that it is sized for, or `all`: the value of the word `cores` in the file; it uses no other cores
    /// [default: 2]
    #[arg(long, value_name = "N")]
    pub cores: Option<CoreCount>,
    #[command(flatten)]
    pub until_decided: UntilDecidedOptions,
    /// Run it even if it takes more than 12 hours or 100000 runs
    #[arg(long)]
    pub yes: bool,
    /// Print results.json instead of a table
    #[arg(long)]
    pub json: bool,
}

/// `plimsoll simulate`.
#[derive(Debug, Args)]
pub struct SimulateOptions {
    /// The experiment
    #[arg(value_name = "EXPERIMENT.toml")]
    pub experiment: PathBuf,
    /// The folder for all results [default: runs/NAME-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Simulate only a part of it: arms and values, such as groups=100,together
    #[arg(long, value_name = "POINT")]
    pub only: Option<String>,
    /// Short runs, as set under `quick` in the file
    #[arg(long)]
    pub quick: bool,
    /// Simulate even if it takes more than an hour, or more memory than is free
    #[arg(long)]
    pub yes: bool,
    /// Print results.json instead of a table
    #[arg(long)]
    pub json: bool,
}

/// `plimsoll reproduce`.
#[derive(Debug, Args)]
pub struct ReproduceOptions {
    /// A study (SR, SI, MW, GA, NO) or the name of one experiment [default: all]
    #[arg(value_name = "STUDY")]
    pub study: Option<String>,
    /// Small data and short runs
    #[arg(long)]
    pub quick: bool,
    /// The number of cores that experiments are sized for, or `all` [default: 2]
    #[arg(long, value_name = "N")]
    pub cores: Option<CoreCount>,
    #[command(flatten)]
    pub until_decided: UntilDecidedOptions,
    #[command(flatten)]
    pub sitting: SittingOptions,
    /// The folder for all results [default: runs/reproduce-TIME; with --budget, --stale or --undecided runs/reproduce];
    /// finished exhibits in it are kept, and one that was interrupted is continued
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Run nothing: write the page (reproduction.md) again from the runs in this folder, the --out of a reproduction
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    pub page: Option<PathBuf>,
    /// Print one JSON document instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Which exhibits of a reproduction are run again, and for how long.
#[derive(Debug, Args)]
pub struct SittingOptions {
    /// Run what decides most claims per minute, until the next exhibit would not fit into this time, such as 160m; the
    /// next call continues. Lengths follow from earlier runs
    #[arg(long, value_name = "TIME", value_parser = sitting_time, conflicts_with = "page")]
    pub budget: Option<Duration>,
    /// Run exhibits again whose experiment, or code that it exercises, has changed since their run
    #[arg(long, conflicts_with = "page")]
    pub stale: bool,
    /// Run exhibits with undecided claims, with more blocks, and those that were never run
    #[arg(long, conflicts_with = "page")]
    pub undecided: bool,
}

/// Reads the time of a sitting, which may also be written as `160m`.
fn sitting_time(text: &str) -> Result<Duration, String> {
    let minutes = text.strip_suffix('m').filter(|number| number.ends_with(|letter: char| letter.is_ascii_digit()));
    minutes.map_or_else(|| until_decided::duration(text), |number| until_decided::duration(&format!("{number}min")))
}

impl SittingOptions {
    /// What is requested, if any of them is given.
    pub fn request(&self) -> Option<SittingRequest> {
        let &SittingOptions { budget, stale, undecided } = self;
        let is_given = budget.is_some() || stale || undecided;
        is_given.then_some(SittingRequest { wanted: Wanted { stale, undecided }, budget })
    }
}

/// `plimsoll report`.
#[derive(Debug, Args)]
pub struct ReportOptions {
    /// The folders of the runs
    #[arg(value_name = "DIR", required = true)]
    pub runs: Vec<PathBuf>,
    /// The file to write [default, of one run: report.html in its folder]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `plimsoll load`.
#[derive(Debug, Args)]
pub struct LoadOptions {
    /// The workload and its scale, such as tpcc:10; docs/workloads.md lists all workloads
    #[arg(value_name = "WORKLOAD[:SCALE]")]
    pub workload: String,
    #[command(flatten)]
    pub target: TargetOptions,
    /// A parameter of the workload, such as mix=shopping; may be given several times
    #[arg(long = "parameter", value_name = "KEY=VALUE")]
    pub parameters: Vec<String>,
    /// The seed of all random choices
    #[arg(long, default_value_t = 7)]
    pub seed: u64,
    /// Print one JSON document instead of a line
    #[arg(long)]
    pub json: bool,
}

/// `plimsoll check`.
#[derive(Debug, Args)]
pub struct CheckOptions {
    /// The workload and its scale, such as tpch:1; docs/workloads.md lists all workloads
    #[arg(value_name = "WORKLOAD[:SCALE]")]
    pub workload: String,
    #[command(flatten)]
    pub target: TargetOptions,
    /// The seed of all random choices
    #[arg(long, default_value_t = 7)]
    pub seed: u64,
    /// Print one JSON document instead of lines
    #[arg(long)]
    pub json: bool,
}

/// `plimsoll hog`.
#[derive(Debug, Args)]
pub struct HogOptions {
    /// The resource and the amount, such as cpu:1, llc:8, bandwidth:4000, disk:50
    #[arg(value_name = "HOG")]
    pub hog: HogSpec,
    /// The cores it is pinned to, such as 1 or 2,3
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub cores: Vec<usize>,
    /// The folder for the file of a disk hog [default: the one for temporary files]
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
}

/// `plimsoll machine`.
#[derive(Debug, Args)]
pub struct MachineOptions {
    /// Undo limits that a killed plimsoll has left
    #[arg(long, conflicts_with = "probe")]
    pub restore: bool,
    /// Measure the speed of memory and disk and keep it for reports and predictions: latencies, bandwidths, latencies under load, reads
    /// per second by queue depth
    #[arg(long)]
    pub probe: bool,
    /// With --probe: a folder on the disk to measure; a file of up to 1 GiB is made there and removed [default: the folder for temporary
    /// files]
    #[arg(long, value_name = "DIR", requires = "probe")]
    pub folder: Option<PathBuf>,
    /// With --probe: a quick measurement of a few seconds
    #[arg(long, requires = "probe")]
    pub quick: bool,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests;
