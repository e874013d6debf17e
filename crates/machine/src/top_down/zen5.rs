//! AMD Zen 5: as Zen 4, with eight dispatch slots a cycle.
//!
//! Events and formulas: kernel `tools/perf/pmu-events/arch/x86/amdzen5/` (`pipeline.json`, `decode.json`,
//! `load-store.json`, `inst-cache.json`, `l2-cache.json`); likwid's `groups/zen5/TMA.txt` agrees.

use super::Unit;
use super::method::{FamilyTable, Lead, MemoryReads, Method, NamedCode};
use super::zen4::{
    CODE_FILLS, DATA_MISSES_IN_L2, FIVE, FIVE_NOTES, LOADS_DISPATCHED, MEMORY, SERVED, SIX, by_five, by_six,
};
use crate::counters::source::Code;

const SLOTS_PER_CYCLE: f64 = 8.0;

/// Both levels' events of Zen 5.
pub(super) static TABLE: FamilyTable = FamilyTable {
    methods: &[
        Method {
            name: "dispatch slots",
            unit: Unit::Slots,
            approximate: false,
            lead: Lead::Cycles,
            events: SIX,
            notes: &[],
            evaluate: |counts| by_six(counts, SLOTS_PER_CYCLE),
        },
        Method {
            name: "dispatch slots, bad speculation as the rest",
            unit: Unit::Slots,
            approximate: false,
            lead: Lead::Cycles,
            events: FIVE,
            notes: FIVE_NOTES,
            evaluate: |counts| by_five(counts, SLOTS_PER_CYCLE),
        },
    ],
    memory: Some(MEMORY),
    served: Some(SERVED),
    code: Some(CODE_FILLS),
    // Every line that the second level gets, whatever requested it (`l2-cache.json`): earlier families cannot tell.
    memory_reads: MemoryReads::Events(
        &[NamedCode::new("l2_fill_rsp_src.dram_io_all", Code::new(0x165, 0x08 | 0x40))],
        "fills of the second level from memory: data and code, on demand or prefetched",
    ),
    l1d_loads: Some(LOADS_DISPATCHED),
    l2_misses: Some(DATA_MISSES_IN_L2),
};
