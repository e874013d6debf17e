//! The options of `plimsoll export`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use super::TargetOptions;

/// `plimsoll export`.
#[derive(Debug, Args)]
pub struct ExportOptions {
    /// The folder for the export: a new one, an empty one, or one with an earlier export, of which unchanged files are kept.
    /// s3://BUCKET/PREFIX if the program is built with the feature s3
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    #[command(flatten)]
    pub target: TargetOptions,
    /// The workload whose tables are exported, such as tpch:1. Without a data folder its rows are written as they
    /// are made [default: all tables of the data folder or the server]
    #[arg(long, value_name = "KIND[:SCALE]")]
    pub workload: Option<String>,
    /// The state to export: `now`, or a number that must be that of the latest state
    #[arg(long, value_name = "now|N", default_value = "now")]
    pub as_of: WantedState,
    /// The number of threads that read and write, of a data folder or a server [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    /// Export nothing: check that each file in DIR is the one that its manifest names; exit 1 if not
    #[arg(long, conflicts_with_all = ["target", "options", "workload", "as_of", "threads"])]
    pub verify: bool,
    /// The seed of the data, if they are made
    #[arg(long, default_value_t = 7)]
    pub seed: u64,
    /// Print one JSON document instead of lines
    #[arg(long)]
    pub json: bool,
}

/// The state that is to be exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantedState {
    /// The latest.
    Now,
    /// The one of this number.
    Number(u64),
}

impl FromStr for WantedState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "now" => Ok(WantedState::Now),
            _ => text.parse().map(WantedState::Number).map_err(|_| "write `now` or the number of a state".to_owned()),
        }
    }
}
