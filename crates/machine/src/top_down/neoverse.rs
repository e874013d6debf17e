//! Arm Neoverse: slots from N2, V1 and V2 on; cycles only on N1.
//!
//! Formulas: kernel `tools/perf/pmu-events/arch/arm64/sbsa.json`, and `arm/neoverse-n2-v2/metrics.json` for cores of five
//! slots, whose events of lost slots count one too many in every cycle. Event numbers: the architecture's common events.

use super::Unit;
use super::method::{Counts, FamilyTable, Lead, MemoryReads, Method, NamedCode, Shares};
use crate::counters::source::Code;

const LOST: NamedCode = NamedCode::new("stall_slot", Code::new(0x3f, 0));
const LOST_BY_BACKEND: NamedCode = NamedCode::new("stall_slot_backend", Code::new(0x3d, 0));
const LOST_BY_FRONTEND: NamedCode = NamedCode::new("stall_slot_frontend", Code::new(0x3e, 0));
const RETIRED: NamedCode = NamedCode::always("op_retired", Code::new(0x3a, 0));
const SPECULATED: NamedCode = NamedCode::always("op_spec", Code::new(0x3b, 0));
const STALL_FRONTEND: NamedCode = NamedCode::new("stall_frontend", Code::new(0x23, 0));
const STALL_BACKEND: NamedCode = NamedCode::new("stall_backend", Code::new(0x24, 0));
const L2_REFILLS: NamedCode = NamedCode::new("l2d_cache_refill", Code::new(0x17, 0));

pub(super) const TABLE: FamilyTable = FamilyTable {
    methods: &[Method::of_slots(
        "operation slots",
        Lead::Cycles,
        &[LOST, LOST_BY_BACKEND, LOST_BY_FRONTEND, RETIRED, SPECULATED],
        by_slots,
    )],
    memory: None,
    memory_levels: None,
    front_end: &[],
    served: None,
    code: None,
    memory_reads: MemoryReads::Unknown(
        "this family's core events do not tell reads of memory apart from reads of the system cache",
    ),
    l1d_loads: None,
    l2_misses: Some(L2_REFILLS),
};

/// The events of Neoverse N1, which does not count slots.
pub(super) static N1: FamilyTable = FamilyTable {
    methods: &[Method {
        name: "stall cycles",
        unit: Unit::Cycles,
        approximate: true,
        lead: Lead::CyclesAndInstructions,
        events: &[STALL_FRONTEND, STALL_BACKEND],
        notes: &["cycles without an operation, not slots: retiring and bad speculation are not told apart"],
        evaluate: by_cycles,
    }],
    ..TABLE
};

fn by_slots(counts: &Counts<'_>) -> Shares {
    /// Cores of this width count one slot too many in each cycle.
    const WIDTH_WITH_ERRATUM: f64 = 5.0;
    let cycles = counts.cycles();
    let slots = counts.slots_per_cycle * cycles;
    let excess = if counts.slots_per_cycle == WIDTH_WITH_ERRATUM { cycles } else { 0.0 };
    let used = 1.0 - (counts.get(LOST.name) - excess) / slots;
    let kept = counts.get(RETIRED.name) / counts.get(SPECULATED.name);
    Shares {
        retiring: Some(kept * used),
        bad_speculation: Some((1.0 - kept) * used),
        frontend: Some((counts.get(LOST_BY_FRONTEND.name) - excess) / slots),
        backend: Some(counts.get(LOST_BY_BACKEND.name) / slots),
        ..Shares::default()
    }
}

fn by_cycles(counts: &Counts<'_>) -> Shares {
    let share = |event: NamedCode| Some(counts.get(event.name) / counts.cycles());
    Shares { frontend: share(STALL_FRONTEND), backend: share(STALL_BACKEND), ..Shares::default() }
}
