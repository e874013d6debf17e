//! Intel Ice Lake: slots and their four shares from fixed counters (`PERF_METRICS`), five slots a cycle.
//!
//! Formulas: pmu-tools `icx_server_ratios.py`; group rules: kernel `tools/perf/Documentation/topdown.txt` (slots lead, one
//! group). Guests seldom have the fixed counters; then general counters take their place.

use super::front_end::{FrontEndShares, FrontEndSplit};
use super::method::{Counts, FamilyTable, Lead, MemoryReads, Method, NamedCode, Shares};
use super::skylake;
use crate::counters::source::Code;

pub(super) const SLOTS: NamedCode = NamedCode::always("slots", Code::new(0x00, 0x04));
pub(super) const RETIRING: NamedCode = NamedCode::always("topdown-retiring", Code::new(0x00, 0x80));
pub(super) const BAD: NamedCode = NamedCode::new("topdown-bad-spec", Code::new(0x00, 0x81));
pub(super) const FRONTEND: NamedCode = NamedCode::new("topdown-fe-bound", Code::new(0x00, 0x82));
pub(super) const BACKEND: NamedCode = NamedCode::new("topdown-be-bound", Code::new(0x00, 0x83));
const DROPPING: NamedCode = NamedCode::new("int_misc.uop_dropping", Code::new(0x0d, 0x10));
const CLEARS: NamedCode = NamedCode::new("int_misc.clears_count", Code::new(0x0d, 0x01).beginnings());
const NOT_DELIVERED: NamedCode = NamedCode::new("idq_uops_not_delivered.core", Code::new(0x9c, 0x01));
const BACKEND_SLOTS: NamedCode = NamedCode::new("topdown.backend_bound_slots", Code::new(0xa4, 0x02));
const RETIRED_SLOTS: NamedCode = NamedCode::always("uops_retired.slots", Code::new(0xc2, 0x02));
const SLOTS_GENERAL: NamedCode = NamedCode::always("topdown.slots_p", Code::new(0xa4, 0x01));
const SLOTS_PER_CYCLE: f64 = 5.0;
pub(super) const READS_TO_CORE: &str = "reads of data and code, on demand or prefetched into the core's caches, that memory \
    supplied; prefetches that stop at the last level are not in it";

pub(super) static TABLE: FamilyTable = FamilyTable {
    methods: &[
        Method::of_slots(
            "PERF_METRICS",
            Lead::Own,
            &[SLOTS, RETIRING, BAD, FRONTEND, BACKEND, DROPPING, CLEARS],
            by_fixed_counters,
        ),
        Method::of_slots(
            "slots by general counters",
            Lead::CyclesAndInstructions,
            &[SLOTS_GENERAL, NOT_DELIVERED, BACKEND_SLOTS, RETIRED_SLOTS, DROPPING, CLEARS],
            by_general_counters,
        ),
    ],
    // Reads by demand and by both prefetchers, data and code, that memory supplied: OCR.READS_TO_CORE.DRAM of the maker's
    // event list for Ice Lake servers.
    memory_reads: MemoryReads::Events(
        &[NamedCode::new("ocr.reads_to_core.dram", Code::new(0xb7, 0x01).with_offcore_response(0x7_3c00_0477))],
        READS_TO_CORE,
    ),
    front_end: &FRONT_END,
    ..skylake::TABLE
};

/// Levels 2 and 3 of the frontend; kernel `tools/perf/pmu-events/arch/x86/icelakex/icx-metrics.json`. Operations that were
/// dropped (`int_misc.uop_dropping`) are not taken off latency, as there: that is less than a hundredth, and no counter is
/// left. The second way is for guests with few counters.
const FRONT_END: [FrontEndSplit; 2] = [
    FrontEndSplit {
        events: &[
            NOTHING_DELIVERED,
            skylake::ICACHE_STALL,
            skylake::TAG_STALL,
            skylake::RESTEERS,
            skylake::UNKNOWN_BRANCHES,
        ],
        evaluate: |counts| FrontEndShares {
            waits: Some(skylake::waits(counts, skylake::RESTEERS, 10.0)),
            ..skylake::latency(counts)
        },
    },
    FrontEndSplit { events: &[NOTHING_DELIVERED], evaluate: skylake::latency },
];
const NOTHING_DELIVERED: NamedCode =
    NamedCode::new("idq_uops_not_delivered.cycles_0_uops_deliv.core", Code::new(0x9c, 0x01).at_least(5));

fn by_fixed_counters(counts: &Counts<'_>) -> Shares {
    let [retiring, bad, frontend, backend] = [RETIRING, BAD, FRONTEND, BACKEND].map(|event| counts.get(event.name));
    let (sum, slots) = (retiring + bad + frontend + backend, counts.get(SLOTS.name));
    with_bad_as_rest(
        retiring / sum,
        frontend / sum - counts.get(DROPPING.name) / slots,
        backend / sum + SLOTS_PER_CYCLE * counts.get(CLEARS.name) / slots,
    )
}

fn by_general_counters(counts: &Counts<'_>) -> Shares {
    let slots = counts.get(SLOTS_GENERAL.name);
    with_bad_as_rest(
        counts.get(RETIRED_SLOTS.name) / slots,
        (counts.get(NOT_DELIVERED.name) - counts.get(DROPPING.name)) / slots,
        (counts.get(BACKEND_SLOTS.name) + SLOTS_PER_CYCLE * counts.get(CLEARS.name)) / slots,
    )
}

/// The maker's formulas take bad speculation as what the others leave.
pub(super) fn with_bad_as_rest(retiring: f64, frontend: f64, backend: f64) -> Shares {
    Shares {
        retiring: Some(retiring),
        bad_speculation: Some(1.0 - retiring - frontend - backend),
        frontend: Some(frontend),
        backend: Some(backend),
        ..Shares::default()
    }
}
