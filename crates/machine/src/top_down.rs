//! Top-down: which share of a core's capacity did work, and where the rest was lost.
//!
//! A core can begin a fixed number of operations in each cycle; each such opportunity is a *slot*. A slot is used for
//! work that is kept (retiring), used for work that is discarded (bad speculation), or empty, because no instructions
//! were ready (frontend) or because the core could not accept them (backend). On AMD Zen 4 and 5 there is a fifth case:
//! the other hardware thread had the cycle (SMT contention); it is not part of the backend and is never added to it.
//! That is level 1. Levels 2 and 3 are there as far as the family's events go: the backend's share is split into waiting
//! for memory, by [`MemoryLevels`], and waiting for execution (core), and the frontend's by [`FrontEnd`]. A note names the levels that are
//! missing.
//!
//! Each [`Family`] is one file with a table: its events by the vendor's names and numbers, in groups that are counted
//! together, and a formula over these names ([`method`]). The formulas are the vendor's; the checks afterwards are the
//! same for all (`TopDown::settle`): a share below zero is counting noise and becomes zero, which is noted if it was
//! more than half a per cent; the parts must add up to one within `SUM_ERROR_MAX`, or there is no breakdown. They are
//! then divided by their sum.
//!
//! Methods differ between makers: compare shares of one machine with each other, and shares of two families with care. A
//! method that counts cycles in place of slots has [`TopDown::approximate`] set and should be shown with a badge.

mod family;
mod front_end;
mod ice_lake;
mod memory_levels;
pub mod method;
mod neoverse;
mod sapphire_rapids;
mod skylake;
mod zen2_3;
mod zen4;
mod zen5;

use serde::{Deserialize, Serialize};

pub use family::Family;
pub use front_end::{FrontEnd, FrontEndShares, FrontEndSplit};
pub use memory_levels::{MemoryLevelSplit, MemoryLevels};
use method::{Counts, Method, Shares};

/// What shares are shares of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Chances to begin an operation.
    Slots,
    /// Cycles: an approximation.
    Cycles,
}

/// Where the slots, or cycles, of some threads went. Shares are 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopDown {
    /// Whose events and formulas.
    pub family: Family,
    /// Which of the family's ways: `PERF_METRICS`, `dispatch slots`.
    pub method: String,
    /// What the shares are shares of.
    pub unit: Unit,
    /// Whether this only approximates what top-down means.
    pub approximate: bool,
    /// Work that was kept.
    pub retiring: Option<f64>,
    /// Work that was thrown away.
    pub bad_speculation: Option<f64>,
    /// Lost because no instructions were ready.
    pub frontend: Option<f64>,
    /// Lost because the core could not accept instructions.
    pub backend: Option<f64>,
    /// Lost to the other hardware thread of the core; `None` where the family has no such event.
    pub smt_contention: Option<f64>,
    /// The part of `backend` that waited for memory.
    pub memory: Option<f64>,
    /// The rest of `backend`.
    pub core: Option<f64>,
    /// The parts of `memory`; `None` where the processor's events do not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_levels: Option<MemoryLevels>,
    /// The parts of `frontend`.
    #[serde(default)]
    pub front_end: FrontEnd,
    /// Share of the threads' time on cores in which the events were counted.
    pub coverage: f64,
    /// Caveats for the reader.
    pub notes: Vec<String>,
}

/// How far the sum of the parts may be from one. The vendors' formulas count each slot once, so the sum is one except
/// for the moments at which counters start and stop; a larger error means that a counter is wrong.
pub(crate) const SUM_ERROR_MAX: f64 = 0.1;

/// A share this much below zero, or a sum this far from one, is reported.
const WORTH_A_NOTE: f64 = 0.005;

impl TopDown {
    /// Evaluates a method of a family on counts that were taken together. If there is no answer, why not.
    pub fn evaluate(family: Family, method: &Method, counts: &Counts<'_>, coverage: f64) -> Result<TopDown, String> {
        TopDown::settle(family, method, (method.evaluate)(counts), coverage)
    }

    fn settle(family: Family, method: &Method, shares: Shares, coverage: f64) -> Result<TopDown, String> {
        let mut notes: Vec<String> = method.notes.iter().map(|note| (*note).to_owned()).collect();
        notes.extend(shares.notes);
        let mut parts = [
            ("retiring", shares.retiring),
            ("bad speculation", shares.bad_speculation),
            ("frontend", shares.frontend),
            ("backend", shares.backend),
            ("SMT contention", shares.smt_contention),
        ];
        if parts.iter().any(|(_, share)| share.is_some_and(|share| !share.is_finite())) {
            return Err("nothing was counted of which there could be shares".to_owned());
        }
        for (name, share) in &mut parts {
            if share.is_some_and(|share| share < -WORTH_A_NOTE) {
                let told = share.unwrap_or_default() * 100.0;
                notes.push(format!("{name} came out as {told:.1} %, which counts as 0"));
            }
            *share = share.map(|share| share.max(0.0));
        }
        let sum: f64 = parts.iter().filter_map(|(_, share)| *share).sum();
        // Where only some parts are known they need not add up to anything, but they cannot be more than the whole.
        let whole = shares.retiring.is_some();
        if sum > 1.0 + SUM_ERROR_MAX || (whole && sum < 1.0 - SUM_ERROR_MAX) {
            return Err(format!("the parts add up to {:.0} % and not to 100 %: they are not used", sum * 100.0));
        }
        let divisor = if whole { sum } else { sum.max(1.0) };
        if (divisor - 1.0).abs() > WORTH_A_NOTE {
            notes.push(format!("the parts added up to {:.1} % and were divided by it", sum * 100.0));
        }
        let [retiring, bad_speculation, frontend, backend, smt_contention] =
            parts.map(|(_, share)| share.map(|share| share / divisor));
        let mut top_down = TopDown {
            family,
            method: method.name.to_owned(),
            unit: method.unit,
            approximate: method.approximate,
            retiring,
            bad_speculation,
            frontend,
            backend,
            smt_contention,
            memory: None,
            core: None,
            memory_levels: None,
            front_end: FrontEnd::default(),
            coverage,
            notes,
        };
        if let (Some(memory), Some(raw_backend @ f64::MIN_POSITIVE..)) = (shares.memory, shares.backend) {
            top_down.split_backend(memory / raw_backend);
        }
        top_down.split_frontend(FrontEndShares { latency: shares.frontend_latency, waits: None });
        Ok(top_down)
    }

    /// Splits the backend's share: `memory_part` of it, 0 to 1, is memory's. NaN splits nothing.
    pub(crate) fn split_backend(&mut self, memory_part: f64) {
        let Some(backend) = self.backend.filter(|_| memory_part.is_finite()) else { return };
        let kept = memory_part.clamp(0.0, 1.0);
        if (memory_part - kept).abs() > WORTH_A_NOTE {
            self.notes.push(format!("memory came out as {:.1} % of the backend's share: cut", memory_part * 100.0));
        }
        self.memory = Some(backend * kept);
        self.core = Some(backend * (1.0 - kept));
    }

    /// Splits memory's share by level, in proportion to these cycles.
    pub(crate) fn split_memory(&mut self, cycles: [f64; 5]) {
        self.memory_levels = self.memory.and_then(|memory| MemoryLevels::divide(memory, cycles));
    }

    /// Splits the frontend's share, as far as `shares` tell.
    pub(crate) fn split_frontend(&mut self, shares: FrontEndShares) {
        let Some(frontend) = self.frontend else { return };
        self.front_end.divide(frontend, shares, &mut self.notes);
    }

    /// Slots that wrong predictions of branches cost: work that was thrown away, and the way back to the right place
    /// (SI tab. A.1). `None` unless both are known.
    pub fn branch_misprediction(&self) -> Option<f64> {
        Some(self.bad_speculation? + self.front_end.branch_resteers?)
    }

    /// Names the levels that are missing, so that a part that is not shown does not pass for 0.
    pub(crate) fn note_missing_levels(&mut self) {
        let FrontEnd { latency, icache, .. } = self.front_end;
        let missing = [
            (latency.is_none(), "level 2 of the frontend (latency, bandwidth)"),
            (icache.is_none(), "level 3 of the frontend (icache, branch resteers, decoding)"),
            (self.memory.is_none(), "level 2 of the backend (memory, core)"),
            (self.memory_levels.is_none(), "level 3 of the backend (l1, l2, l3, dram, store)"),
        ];
        let missing: Vec<&str> = missing.iter().filter(|(is_missing, _)| *is_missing).map(|(_, name)| *name).collect();
        if !missing.is_empty() {
            self.notes.push(format!("not counted on this processor: {}", missing.join("; ")));
        }
    }
}

#[cfg(test)]
mod tests;
