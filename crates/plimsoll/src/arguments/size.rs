//! The options of `size`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use plimsoll_lab::size::{Target, promise};
use plimsoll_workload::driver::Delay;

/// `plimsoll size`.
#[derive(Debug, Args)]
pub struct SizeOptions {
    /// The workload: `file:PATH`, `capture:DIR`, or a benchmark and its scale, such as tpcc:2
    #[arg(value_name = "WORKLOAD[:SCALE]", required_unless_present = "resume")]
    pub workload: Option<String>,
    /// Continue a search that was stopped or killed
    #[arg(long, value_name = "DIR", conflicts_with_all = ["workload", "out"])]
    pub resume: Option<PathBuf>,
    /// The database: `postgres:` is a private server, `embedded:` the engine in this process [default: postgres: for a
    /// workload from a file and a capture, else embedded:]
    #[arg(long, value_name = "URL")]
    pub target: Option<String>,
    /// Size on a private server with a copy of this database of yours, made by pg_dump; its password comes from PGPASSWORD
    /// or ~/.pgpass
    #[arg(long, value_name = "URL", conflicts_with = "target")]
    pub copy: Option<String>,
    /// An option of the target, such as work_mem=64MB: what "everything" means; may be given several times
    #[arg(long = "option", value_name = "KEY=VALUE")]
    pub options: Vec<String>,
    /// A parameter of the workload, such as scale=10; may be given several times
    #[arg(long = "parameter", value_name = "KEY=VALUE")]
    pub parameters: Vec<String>,
    /// The number of clients that run at once: your load, which decides what is enough [default: two for each core]
    #[arg(long)]
    pub clients: Option<usize>,
    /// Pause of a client between requests: `none`, `const 5ms` or `exp 10ms`
    #[arg(long, default_value = "none", value_name = "DELAY")]
    pub think: Delay,
    /// Requests per second of all clients together, however fast the database answers
    #[arg(long, value_name = "PER_SECOND")]
    pub rate: Option<f64>,
    /// A promise on response times that must be kept, too, such as p95=20ms
    #[arg(long, value_name = "PERCENTILE=TIME", value_parser = promise)]
    pub latency: Option<Target>,
    /// The resources: cores, memory, shared_buffers, work_mem, read_mb_s, write_mb_s, read_iops, write_iops, llc_ways, dop
    /// [default: all that can be limited here]
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    pub resources: Vec<String>,
    /// A file with machines and prices, TOML or CSV, of which the cheapest that is enough is named
    #[arg(long, value_name = "FILE")]
    pub catalogue: Option<PathBuf>,
    /// The time that the search may take, loading included
    #[arg(long, default_value = "5min", value_name = "TIME", value_parser = super::sitting_time)]
    pub budget: Duration,
    /// The folder for all results [default: runs/size-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The seed of all random choices
    #[arg(long, default_value_t = 7)]
    pub seed: u64,
    /// Print results.json instead of a table
    #[arg(long)]
    pub json: bool,
}
