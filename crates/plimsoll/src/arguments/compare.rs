//! The arguments of `plimsoll compare`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

/// A difference that is small enough to be called none, as a share: 0.05 for `5`.
#[derive(Debug, Clone, Copy)]
pub struct Margin(pub f64);

impl FromStr for Margin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let percent =
            text.trim_end_matches('%').trim().parse::<f64>().ok().filter(|percent| (0.1..=100.0).contains(percent));
        percent
            .map(|percent| Margin(percent / 100.0))
            .ok_or_else(|| "write percent from 0.1 to 100, such as 5".to_owned())
    }
}

/// `plimsoll compare`.
#[derive(Debug, Args)]
pub struct CompareOptions {
    /// The folder of the run to compare with
    #[arg(value_name = "BASE")]
    pub base: PathBuf,
    /// The folder of the run that is compared
    #[arg(value_name = "DIR")]
    pub run: PathBuf,
    /// The difference that is small enough to be called none
    #[arg(long, value_name = "PERCENT", default_value = "5")]
    pub margin: Margin,
    /// Compare even if workloads or machines differ
    #[arg(long)]
    pub anyway: bool,
    /// Print one JSON document instead of a table
    #[arg(long)]
    pub json: bool,
}
