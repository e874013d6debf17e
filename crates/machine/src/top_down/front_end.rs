//! Levels 2 and 3 of the front end: why no instructions were ready.
//!
//! Level 2 divides the front end's share into *latency*, cycles in which it delivered nothing, and *bandwidth*, the rest.
//! Level 3 divides latency by what the front end waited for. The parts here are those of SI (tab. A.1):
//!
//! | part | of the makers' level 3 |
//! |---|---|
//! | `icache` | misses of the instruction cache, and of the translations of its addresses |
//! | `branch_resteers` | fetching from the right place after a wrong one; SI counts it as branch misprediction |
//! | `decoding` | what is left of latency (switches between decoders, length-changing prefixes), and bandwidth |
//!
//! All of them are counted as slots or cycles that were lost. None is a number of misses times a latency: a core waits
//! longer for instructions than their misses take, so that the difference is no decoding (SI fig. 3.2).
//!
//! The makers' parts of level 3 may overlap. They are cut in the order of the table to what latency leaves.

use serde::{Deserialize, Serialize};

use super::WORTH_A_NOTE;
use super::method::{Counts, NamedCode};

/// One way to divide the front end's share, by a group of its own.
#[derive(Debug)]
pub struct FrontEndSplit {
    /// The events, all in one group, which has cycles as well.
    pub events: &'static [NamedCode],
    /// From counts to shares of all slots, not yet clipped.
    pub evaluate: fn(&Counts<'_>) -> FrontEndShares,
}

/// Shares of all slots from a formula. `None` if the events do not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FrontEndShares {
    /// Cycles in which nothing was delivered.
    pub latency: Option<f64>,
    /// Of these, waiting for code or its address, and for the right place after a wrong one.
    pub waits: Option<[f64; 2]>,
}

/// The front end's share by parts: shares of all slots, 0 to 1. `None` where the processor's events do not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct FrontEnd {
    /// Level 2: nothing was delivered.
    pub latency: Option<f64>,
    /// Level 2: too little was delivered.
    pub bandwidth: Option<f64>,
    /// Level 3: waiting for code.
    pub icache: Option<f64>,
    /// Level 3: fetching from the right place after a wrong one.
    pub branch_resteers: Option<f64>,
    /// Level 3: the rest of latency, and bandwidth.
    pub decoding: Option<f64>,
}

impl FrontEnd {
    /// Divides a front end's share, which may be known to level 2 already. Parts are cut to what is there, with a note where
    /// that is worth one.
    pub(super) fn divide(&mut self, frontend: f64, shares: FrontEndShares, notes: &mut Vec<String>) {
        let mut cut = |name: &str, share: f64, most: f64| {
            let kept = share.clamp(0.0, most);
            if (share - kept).abs() > WORTH_A_NOTE {
                notes.push(format!("{name} came out as {:.1} % and was cut to {:.1} %", share * 100.0, kept * 100.0));
            }
            kept
        };
        if let Some(share) = shares.latency.filter(|share| share.is_finite()) {
            let latency = cut("latency of the front end", share, frontend);
            (self.latency, self.bandwidth) = (Some(latency), Some(frontend - latency));
        }
        let waits = shares.waits.filter(|waits| waits.iter().all(|share| share.is_finite()));
        if let Some((latency, [icache, resteers])) = self.latency.zip(waits) {
            let icache = cut("icache", icache, latency);
            let resteers = cut("branch resteers", resteers, latency - icache);
            self.icache = Some(icache);
            self.branch_resteers = Some(resteers);
            self.decoding = Some(frontend - icache - resteers);
        }
    }
}
