//! The form of a family's table: its events, and the formulas over them.

use std::collections::BTreeMap;

use super::{FrontEndSplit, MemoryLevelSplit, Unit};
use crate::counters::source::Code;

/// The events of one family of processors beyond those of all, and the formulas over them.
#[derive(Debug)]
pub struct FamilyTable {
    /// Ways to level 1, best first. The first whose events can all be counted together is used.
    pub methods: &'static [Method],
    /// How the backend's share is split into memory and core where level 1 does not: by a separate group.
    pub memory: Option<MemorySplit>,
    /// How memory's share is split by the level that was waited for, by a separate group.
    pub memory_levels: Option<MemoryLevelSplit>,
    /// Ways to levels 2 and 3 of the frontend, best first. The first whose events can all be counted together is used.
    pub front_end: &'static [FrontEndSplit],
    /// Demand misses of the first level by what served them: the second level, the third or another core's cache, memory.
    /// One group.
    pub served: Option<[NamedCode; 3]>,
    /// Lines of code that missed the first level: those that came from the second, and those from beyond. One group.
    pub code: Option<[NamedCode; 2]>,
    /// Events whose counts are lines read from memory; several are added.
    pub memory_reads: MemoryReads,
    /// Reads that look into the first-level data cache, where the kernel's own event does not count.
    pub l1d_loads: Option<NamedCode>,
    /// Data reads that miss the second level; the kernel has no event for it.
    pub l2_misses: Option<NamedCode>,
}

/// An event of a family under its vendor's name.
#[derive(Debug, Clone, Copy)]
pub struct NamedCode {
    /// The maker's name, in lower case.
    pub name: &'static str,
    /// Its numbers.
    pub code: Code,
    /// Whether any work at all increases it. If such an event stays at 0, the counter is not wired, as in guests.
    pub counts_always: bool,
}

impl NamedCode {
    /// An event that some work may leave at 0.
    pub const fn new(name: &'static str, code: Code) -> NamedCode {
        NamedCode { name, code, counts_always: false }
    }

    /// An event that any work makes count.
    pub const fn always(name: &'static str, code: Code) -> NamedCode {
        NamedCode { name, code, counts_always: true }
    }
}

/// Which of the kernel's general events a group has beside its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lead {
    /// Cycles and instructions, before the group's own.
    CyclesAndInstructions,
    /// Cycles only: the group's own events take all counters that are left.
    Cycles,
    /// Cycles and instructions, after the group's own, since the kernel wants the first of these to lead.
    Own,
}

/// One way to level 1.
#[derive(Debug)]
pub struct Method {
    /// Its name in reports.
    pub name: &'static str,
    /// The whole that its shares refer to.
    pub unit: Unit,
    /// Whether it only approximates what top-down means.
    pub approximate: bool,
    /// The general events of its group.
    pub lead: Lead,
    /// Its own events, all in one group.
    pub events: &'static [NamedCode],
    /// Caveats for the reader.
    pub notes: &'static [&'static str],
    /// From counts to shares, not yet clipped. A division by zero gives NaN, which is refused afterwards.
    pub evaluate: fn(&Counts<'_>) -> Shares,
}

impl Method {
    /// One that counts slots.
    pub const fn of_slots(
        name: &'static str,
        lead: Lead,
        events: &'static [NamedCode],
        evaluate: fn(&Counts<'_>) -> Shares,
    ) -> Method {
        Method { name, unit: Unit::Slots, approximate: false, lead, events, notes: &[], evaluate }
    }
}

/// How the backend's share is split.
#[derive(Debug)]
pub struct MemorySplit {
    /// The events, all in one group.
    pub events: &'static [NamedCode],
    /// The part of the backend's share that is memory's, 0 to 1, where a share of the slots retires: the counts, and that
    /// share.
    pub evaluate: fn(&Counts<'_>, f64) -> f64,
}

/// Lines read from memory.
#[derive(Debug)]
pub enum MemoryReads {
    /// The sum of these events, and the reads that it misses.
    Events(&'static [NamedCode], &'static str),
    /// Why this family cannot count them.
    Unknown(&'static str),
}

/// Counts that were taken together, by name.
#[derive(Debug, Clone, Copy)]
pub struct Counts<'a> {
    /// The counts.
    pub counts: &'a BTreeMap<&'static str, f64>,
    /// Slots per cycle if the processor reports them, else 0.
    pub slots_per_cycle: f64,
}

impl Counts<'_> {
    /// A count; not a number if it was not counted, so that it cannot pass for 0.
    pub fn get(&self, name: &str) -> f64 {
        self.counts.get(name).copied().unwrap_or(f64::NAN)
    }

    /// Core cycles.
    pub fn cycles(&self) -> f64 {
        self.get(crate::counters::Event::Cycles.key())
    }
}

/// Shares from a formula. `None` if the method cannot determine the share.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Shares {
    /// Work that was kept.
    pub retiring: Option<f64>,
    /// Work that was thrown away.
    pub bad_speculation: Option<f64>,
    /// Lost because no instructions were ready.
    pub frontend: Option<f64>,
    /// Lost because the core could not accept instructions.
    pub backend: Option<f64>,
    /// Lost to the other hardware thread of the core.
    pub smt_contention: Option<f64>,
    /// The part of `backend` that waited for memory.
    pub memory: Option<f64>,
    /// The part of `frontend` in which nothing was delivered.
    pub frontend_latency: Option<f64>,
    /// Notes on corrections.
    pub notes: Vec<String>,
}
