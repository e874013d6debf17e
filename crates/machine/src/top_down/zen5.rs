//! AMD Zen 5: as Zen 4, with eight dispatch slots a cycle.
//!
//! Events and formulas: kernel `tools/perf/pmu-events/arch/x86/amdzen5/` (`pipeline.json`, `decode.json`,
//! `load-store.json`, `inst-cache.json`, `l2-cache.json`); likwid's `groups/zen5/TMA.txt` agrees.

use super::method::{FamilyTable, MemoryReads, NamedCode};
use super::zen4::{self, FRONTEND, NO_SLOT, latency, methods};
use crate::counters::source::Code;

pub(super) static TABLE: FamilyTable = FamilyTable {
    methods: &methods::<8>(),
    front_end: &[latency(&[NamedCode::new(NO_SLOT, FRONTEND.code.at_least(8))])],
    // Every line that the second level receives, regardless of the request (`l2-cache.json`): earlier families do not
    // count this.
    memory_reads: MemoryReads::Events(
        &[NamedCode::new("l2_fill_rsp_src.dram_io_all", Code::new(0x165, 0x08 | 0x40))],
        "fills of the second level from memory: data and code, on demand or prefetched",
    ),
    ..zen4::TABLE
};
