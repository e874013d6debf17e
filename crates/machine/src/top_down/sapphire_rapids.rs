//! Intel Sapphire, Emerald and Granite Rapids: slots and eight shares from fixed counters, six slots a cycle.
//!
//! Formulas: pmu-tools `spr_server_ratios.py`, kernel `tools/perf/pmu-events/arch/x86/sapphirerapids/spr-metrics.json`;
//! codes of the shares: kernel `tools/perf/Documentation/topdown.txt`.

use super::ice_lake::{BACKEND, BAD, FRONTEND, READS_TO_CORE, RETIRING, SLOTS, with_bad_as_rest};
use super::method::{Counts, FamilyTable, Lead, MemoryReads, Method, NamedCode, Shares};
use super::skylake;
use crate::counters::source::Code;

const MEMORY: NamedCode = NamedCode::new("topdown-mem-bound", Code::new(0x00, 0x87));
const DROPPING: NamedCode = NamedCode::new("int_misc.uop_dropping", Code::new(0xad, 0x10));

pub(super) static TABLE: FamilyTable = FamilyTable {
    methods: &[Method::of_slots(
        "PERF_METRICS",
        Lead::Own,
        &[SLOTS, RETIRING, BAD, FRONTEND, BACKEND, MEMORY, DROPPING],
        evaluate,
    )],
    // OCR.READS_TO_CORE.DRAM of kernel `tools/perf/pmu-events/arch/x86/sapphirerapids/other.json`.
    memory_reads: MemoryReads::Events(
        &[NamedCode::new("ocr.reads_to_core.dram", Code::new(0x2a, 0x01).with_offcore_response(0x7_3c00_4477))],
        READS_TO_CORE,
    ),
    ..skylake::TABLE
};

fn evaluate(counts: &Counts<'_>) -> Shares {
    let [retiring, bad, frontend, backend] = [RETIRING, BAD, FRONTEND, BACKEND].map(|event| counts.get(event.name));
    let sum = retiring + bad + frontend + backend;
    let dropped = counts.get(DROPPING.name) / counts.get(SLOTS.name);
    let shares = with_bad_as_rest(retiring / sum, frontend / sum - dropped, backend / sum);
    Shares { memory: Some(counts.get(MEMORY.name) / sum), ..shares }
}
