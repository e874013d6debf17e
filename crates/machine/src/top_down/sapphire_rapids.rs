//! Intel Sapphire, Emerald and Granite Rapids: slots and eight shares from fixed counters, six slots a cycle.
//!
//! Formulas: pmu-tools `spr_server_ratios.py`, kernel `tools/perf/pmu-events/arch/x86/sapphirerapids/spr-metrics.json`;
//! codes of the shares: kernel `tools/perf/Documentation/topdown.txt`.

use super::front_end::{FrontEndShares, FrontEndSplit};
use super::ice_lake::{BACKEND, BAD, FRONTEND, READS_TO_CORE, RETIRING, SLOTS, with_bad_as_rest};
use super::memory_levels::MemoryLevelSplit;
use super::method::{Counts, FamilyTable, Lead, MemoryReads, Method, NamedCode, Shares};
use super::skylake;
use crate::counters::source::Code;

const MEMORY: NamedCode = NamedCode::new("topdown-mem-bound", Code::new(0x00, 0x87));
const LATENCY: NamedCode = NamedCode::new("topdown-fetch-lat", Code::new(0x00, 0x86));
const RESTEERS: NamedCode = NamedCode::new("int_misc.clear_resteer_cycles", Code::new(0xad, 0x80));
const UNKNOWN_BRANCHES: NamedCode = NamedCode { code: Code::new(0x60, 0x01), ..skylake::UNKNOWN_BRANCHES };
const DROPPING: NamedCode = NamedCode::new("int_misc.uop_dropping", Code::new(0xad, 0x10));

pub(super) static TABLE: FamilyTable = FamilyTable {
    methods: &[Method::of_slots(
        "PERF_METRICS",
        Lead::Own,
        &[SLOTS, RETIRING, BAD, FRONTEND, BACKEND, MEMORY, LATENCY, DROPPING],
        evaluate,
    )],
    // Among the fixed counters.
    memory: None,
    memory_levels: Some(MEMORY_LEVELS),
    // Level 3; level 2 is among the fixed counters. The kernel's `spr-metrics.json` counts the cycles of branches that were not
    // known to be any; that event needs one more register, so each counts 10 cycles as on Ice Lake.
    front_end: &[FrontEndSplit {
        events: &[skylake::ICACHE_STALL, skylake::TAG_STALL, RESTEERS, UNKNOWN_BRANCHES],
        evaluate: |counts| FrontEndShares { latency: None, waits: Some(skylake::waits(counts, RESTEERS, 10.0)) },
    }],
    // OCR.READS_TO_CORE.DRAM of kernel `tools/perf/pmu-events/arch/x86/sapphirerapids/other.json`.
    memory_reads: MemoryReads::Events(
        &[NamedCode::new("ocr.reads_to_core.dram", Code::new(0x2a, 0x01).with_offcore_response(0x7_3c00_4477))],
        READS_TO_CORE,
    ),
    ..skylake::TABLE
};

/// Level 3 of the backend: kernel `spr-metrics.json`. Cycles in which loads were waited for, and those in which they were
/// waited for beyond each level.
const MEMORY_LEVELS: MemoryLevelSplit = MemoryLevelSplit {
    events: &[ON_LOADS, BEYOND_L1, BEYOND_L2, BEYOND_L3, STORES_FULL],
    evaluate: |counts| {
        let [loads, l1, l2, l3, stores] =
            [ON_LOADS, BEYOND_L1, BEYOND_L2, BEYOND_L3, STORES_FULL].map(|event| counts.get(event.name));
        [loads - l1, l1 - l2, l2 - l3, l3, stores]
    },
};
const ON_LOADS: NamedCode = NamedCode::new("exe_activity.bound_on_loads", Code::new(0xa6, 0x21).at_least(5));
const BEYOND_L1: NamedCode = NamedCode::new("memory_activity.stalls_l1d_miss", Code::new(0x47, 0x03).at_least(3));
const BEYOND_L2: NamedCode = NamedCode::new("memory_activity.stalls_l2_miss", Code::new(0x47, 0x05).at_least(5));
const BEYOND_L3: NamedCode = NamedCode::new("memory_activity.stalls_l3_miss", Code::new(0x47, 0x09).at_least(9));
const STORES_FULL: NamedCode = NamedCode::new("exe_activity.bound_on_stores", Code::new(0xa6, 0x40).at_least(2));

fn evaluate(counts: &Counts<'_>) -> Shares {
    let [retiring, bad, frontend, backend] = [RETIRING, BAD, FRONTEND, BACKEND].map(|event| counts.get(event.name));
    let sum = retiring + bad + frontend + backend;
    let dropped = counts.get(DROPPING.name) / counts.get(SLOTS.name);
    let shares = with_bad_as_rest(retiring / sum, frontend / sum - dropped, backend / sum);
    Shares {
        memory: Some(counts.get(MEMORY.name) / sum),
        frontend_latency: Some(counts.get(LATENCY.name) / sum - dropped),
        ..shares
    }
}
