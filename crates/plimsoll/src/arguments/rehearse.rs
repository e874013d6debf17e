//! The arguments of `plimsoll rehearse`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use plimsoll_rehearse::replay::Speed;

/// `2`, `0.5` or `max`.
#[derive(Debug, Clone, Copy)]
pub struct SpeedArgument(pub Speed);

impl FromStr for SpeedArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(SpeedArgument(Speed::Max));
        }
        let times = text.parse::<f64>().ok().filter(|times| (0.01..=1000.0).contains(times));
        let wrong = || "write a number from 0.01 to 1000, such as 2, or `max`".to_owned();
        times.map(|times| SpeedArgument(Speed::Times(times))).ok_or_else(wrong)
    }
}

/// How often each session runs: `x4` or `4`.
#[derive(Debug, Clone, Copy)]
pub struct Copies(pub usize);

impl FromStr for Copies {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let count = text.strip_prefix('x').unwrap_or(text).parse::<usize>().ok();
        let wrong = || "write how often each session runs, from x1 to x100".to_owned();
        count.filter(|count| (1..=100).contains(count)).map(Copies).ok_or_else(wrong)
    }
}

/// A number that is finite and not negative.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=1e9).contains(seconds));
    seconds.ok_or_else(|| "write seconds, such as 60".to_owned())
}

/// `plimsoll rehearse`.
#[derive(Debug, Args)]
pub struct RehearseOptions {
    /// The capture: `capture:DIR`, or its folder
    #[arg(value_name = "capture:DIR")]
    pub capture: String,
    /// The server: `postgres://user@host/database`, or `postgres:?version=18`, a private one that is removed afterwards
    #[arg(long, value_name = "URL")]
    pub target: String,
    /// A second server: both run in turns, and the target is compared with it
    #[arg(long, value_name = "URL")]
    pub against: Option<String>,
    /// How often each server runs [default: 1, with --against 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub turns: Option<u16>,
    /// Divide times by this number; `max` waits for nothing but answers and values
    #[arg(long, default_value = "1", value_name = "TIMES")]
    pub speed: SpeedArgument,
    /// Run each session this often at once, such as x4
    #[arg(long, default_value = "x1", value_name = "xN")]
    pub sessions: Copies,
    /// Begin this many seconds after the beginning of the capture
    #[arg(long, default_value = "0", value_name = "SECONDS", value_parser = seconds)]
    pub from: f64,
    /// Replay this many seconds of the capture [default: all]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Replay the sessions of this database [default: the one with most units]
    #[arg(long, value_name = "NAME")]
    pub database: Option<String>,
    /// A file of SQL that makes a private server's tables and rows
    #[arg(long, value_name = "FILE", conflicts_with = "copy_from")]
    pub setup: Option<PathBuf>,
    /// A database whose copy a private server gets, by pg_dump
    #[arg(long, value_name = "URL")]
    pub copy_from: Option<String>,
    /// The servers named by URL may be written
    #[arg(long)]
    pub writes: bool,
    /// The target's data has the hashes of a redacted capture in place of values
    #[arg(long)]
    pub redacted_data: bool,
    /// Seconds that a unit waits for a value of another session before it is given up
    #[arg(long, default_value = "10", value_name = "SECONDS", value_parser = seconds)]
    pub patience: f64,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}
