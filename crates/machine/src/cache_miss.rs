//! The older breakdown, by cache misses: misses of each level times the latency of what served them.
//!
//! The time of a query is taken to be computation plus stalls minus overlap, and the memory stalls of a level to be its
//! misses times a fixed latency (Ailamaki et al., VLDB 1999). Cores overlap misses with each other and with work. The method ignores
//! overlap, so it is an **upper bound** of the time lost to data; it also ignores stalls that are not
//! misses. It is computed beside top-down to show where the two disagree (SI fig. 3.1): it does not see decoding, and
//! over-estimates the data stalls of engines that overlap their misses.
//!
//! Of the front end it knows the misses of the first-level instruction cache only, and takes them for cheaper than they
//! are: top-down's own count of cycles that wait for code is significantly higher (SI fig. 3.2). What top-down lost in the
//! front end beyond these misses is therefore no measure of decoding; that is
//! [`FrontEnd::decoding`](crate::top_down::FrontEnd).
//!
//! Misses are counted in user mode, and so are the slots of top-down: shares are of the time in user mode, too.
//!
//! The latencies must be measured on the machine, because they differ threefold between machines. They are passed in.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::counters::{CounterReading, Event};
use crate::top_down::TopDown;

/// The latency of a dependent load by the level that serves it, nanoseconds, measured on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LevelLatencies {
    /// Second-level cache.
    pub l2_ns: f64,
    /// Last-level cache.
    pub llc_ns: f64,
    /// Memory.
    pub dram_ns: f64,
}

/// Time that misses would have cost one after another, as shares of the threads' time on cores in user mode. A share
/// may exceed 1, because overlap is not modelled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CacheMissBreakdown {
    /// By misses that the second level served.
    pub l2: f64,
    /// By misses that the last level, or a cache of other cores, served.
    pub llc: f64,
    /// By misses that memory served.
    pub dram: f64,
    /// The three together: an upper bound of the share of time lost to data.
    pub memory: f64,
    /// `memory` less the share that the backend lost to memory by top-down: positive where misses overlapped, negative
    /// where data stalls were not misses. `None` where top-down does not report it.
    pub disagreement: Option<f64>,
    /// By misses of the first-level instruction cache: lines from the second level at its latency, those from beyond at the last
    /// level's. `None` where they were not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icache: Option<f64>,
    /// Share of the threads' time on cores in which the misses were counted.
    pub coverage: f64,
    /// Caveats for the reader.
    pub notes: Vec<String>,
}

impl CacheMissBreakdown {
    /// Computes the breakdown from the counts, or says why there is none.
    ///
    /// Time is the user-mode part of the time in which the misses' group was counted. It is not in cycles, so that
    /// changes of the clock frequency do not matter.
    pub fn of(
        reading: &CounterReading,
        latencies: &LevelLatencies,
        top_down: Option<&TopDown>,
    ) -> Result<CacheMissBreakdown, String> {
        let LevelLatencies { l2_ns, llc_ns, dram_ns } = *latencies;
        if ![l2_ns, llc_ns, dram_ns].iter().all(|latency| latency.is_finite() && *latency > 0.0) {
            return Err(format!("latencies of {l2_ns}, {llc_ns} and {dram_ns} ns cannot have been measured"));
        }
        let levels = [Event::ServedByL2, Event::ServedByL3, Event::ServedByMemory];
        if let Some(missing) = levels.iter().find(|level| reading.figure(**level).is_none()) {
            return Err(format!("{missing} were not counted"));
        }
        let counted = reading
            .together(&levels.map(Event::key))
            .ok_or("the misses of the three levels were not counted together")?;
        let user_ns = user_ns(reading, counted.on_core)?;
        let share = |level: usize, latency: f64| counted.counts[level] * latency / user_ns;
        let (l2, llc, dram) = (share(0, l2_ns), share(1, llc_ns), share(2, dram_ns));
        let memory = l2 + llc + dram;
        let mut notes = vec!["upper bound: misses that overlap are counted one after another".to_owned()];
        let icache = reading
            .together(&[Event::CodeFromL2.key(), Event::CodeBeyondL2.key()])
            .map(|code| (code.counts[0] * l2_ns + code.counts[1] * llc_ns) / user_ns);
        let frontend = top_down.and_then(|top_down| top_down.frontend);
        if icache.is_some() {
            notes.push("code from beyond the second level counts as from the last, not from memory".to_owned());
        }
        let excess = icache.zip(frontend).map(|(icache, frontend)| icache - frontend);
        if let Some(excess) = excess.filter(|excess| *excess > 0.0) {
            let points = excess * 100.0;
            notes.push(format!("misses of code come to {points:.1} points more than the front end lost: they overlap"));
        }
        if let Some(top_down) = top_down.filter(|top_down| top_down.approximate) {
            notes.push(format!("top-down beside it is approximate ({})", top_down.method));
        }
        Ok(CacheMissBreakdown {
            l2,
            llc,
            dram,
            memory,
            disagreement: top_down.and_then(|top_down| top_down.memory).map(|backend_memory| memory - backend_memory),
            icache,
            coverage: counted.coverage,
            notes,
        })
    }
}

/// The user-mode part of the time on cores, nanoseconds: events are counted in user mode only.
fn user_ns(reading: &CounterReading, on_core: Duration) -> Result<f64, String> {
    if on_core.is_zero() {
        return Err("the threads did not run".to_owned());
    }
    let share = reading.user_share().ok_or("it is not known how much of their time the threads were in user mode")?;
    if share <= 0.0 {
        return Err("the threads were in user mode for too short a time to tell".to_owned());
    }
    Ok(on_core.as_nanos() as f64 * share)
}

#[cfg(test)]
mod tests;
