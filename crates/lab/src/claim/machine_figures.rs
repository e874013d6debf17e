//! Figures of the machine that claims can be about, by their keys in `results.json`.

use super::syntax::Function;
use crate::results::DEVICE_FIGURES;

/// A figure of the machine during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MachineFigure {
    /// A hardware event, per completed request of a workload.
    PerRequest(&'static str),
    /// A share of a workload's top-down breakdown, 0 to 1.
    TopDown(&'static str),
    /// A share of a workload's breakdown by cache misses; may be above 1.
    CacheMisses(&'static str),
    /// What the devices did, whoever made them.
    Device(&'static str),
    /// What was reached of a limit.
    Achieved(&'static str),
}

/// Events that can be asked for per request: keys of [`Counters`](crate::results::Counters).
pub const EVENTS: [&str; 9] = [
    "cycles",
    "instructions",
    "l1d_misses",
    "l2_misses",
    "llc_misses",
    "branches",
    "branch_misses",
    "dtlb_misses",
    "dram_read_bytes",
];

/// Shares of a top-down breakdown.
pub const TOP_DOWN: [&str; 6] = ["retiring", "bad_speculation", "frontend", "backend", "memory", "core"];

/// Parts of a breakdown by cache misses: keys of [`CacheMissBreakdown`](plimsoll_machine::cache_miss::CacheMissBreakdown).
pub const CACHE_MISSES: [&str; 7] = ["l2", "llc", "dram", "memory", "disagreement", "icache", "decoding"];

impl MachineFigure {
    /// The figure of that name which a function gives; `None` if there is no such figure.
    pub(super) fn of(function: Function, name: &str) -> Option<MachineFigure> {
        let known = MachineFigure::names(function).into_iter().find(|known| *known == name)?;
        Some(match function {
            Function::PerRequest => MachineFigure::PerRequest(known),
            Function::TopDown => MachineFigure::TopDown(known),
            Function::CacheMisses => MachineFigure::CacheMisses(known),
            Function::Device => MachineFigure::Device(known),
            _ => MachineFigure::Achieved(known),
        })
    }

    /// The names of the figures that a function gives.
    pub(super) fn names(function: Function) -> Vec<&'static str> {
        match function {
            Function::PerRequest => EVENTS.to_vec(),
            Function::TopDown => TOP_DOWN.to_vec(),
            Function::CacheMisses => CACHE_MISSES.to_vec(),
            Function::Device => DEVICE_FIGURES.iter().map(|figure| figure.key).collect(),
            Function::Achieved => crate::limits::names().collect(),
            _ => Vec::new(),
        }
    }

    /// The figure's key.
    pub fn key(self) -> &'static str {
        match self {
            MachineFigure::PerRequest(key)
            | MachineFigure::TopDown(key)
            | MachineFigure::CacheMisses(key)
            | MachineFigure::Device(key)
            | MachineFigure::Achieved(key) => key,
        }
    }
}
