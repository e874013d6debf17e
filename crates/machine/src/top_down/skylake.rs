//! Intel Skylake to Cooper Lake: four issue slots a cycle, without hyper-threads.
//!
//! Formulas: pmu-tools `skx_server_ratios.py`; codes: likwid `groups/skylakeX/TMA.txt`, which agrees except that it
//! does not halve slots under hyper-threading. Half of a busy core's slots are each thread's only while both are busy;
//! a thread's own counters show how often that is only with more events than fit here. So with hyper-threads there is
//! no breakdown: the kernel's `perf stat --topdown` refuses single processes there, too.

use super::front_end::{FrontEndShares, FrontEndSplit};
use super::method::{Counts, FamilyTable, Lead, MemoryReads, MemorySplit, Method, NamedCode, Shares};
use crate::counters::source::Code;

const NOT_DELIVERED: NamedCode = NamedCode::new("idq_uops_not_delivered.core", Code::new(0x9c, 0x01));
const ISSUED: NamedCode = NamedCode::always("uops_issued.any", Code::new(0x0e, 0x01));
const RETIRED: NamedCode = NamedCode::always("uops_retired.retire_slots", Code::new(0xc2, 0x02));
const RECOVERY: NamedCode = NamedCode::new("int_misc.recovery_cycles", Code::new(0x0d, 0x01));
const SLOTS_PER_CYCLE: f64 = 4.0;

pub(super) const TABLE: FamilyTable = FamilyTable {
    methods: &[Method::of_slots(
        "issue slots",
        Lead::CyclesAndInstructions,
        &[NOT_DELIVERED, ISSUED, RETIRED, RECOVERY],
        evaluate,
    )],
    memory: Some(MEMORY),
    memory_levels: None,
    front_end: &FRONT_END,
    served: Some(LOADS_SERVED),
    code: Some(CODE_READS),
    memory_reads: MemoryReads::Unknown(
        "this family counts lines read from memory for loads that retired only, which leaves out what prefetchers read",
    ),
    l1d_loads: None,
    l2_misses: Some(LOADS_THAT_MISSED_L2),
};

/// Retired loads by the level that served them. Kernel `tools/perf/pmu-events/arch/x86/skylakex/cache.json`; the numbers
/// are the same on Ice Lake and Sapphire Rapids.
const LOADS_SERVED: [NamedCode; 3] = [
    NamedCode::new("mem_load_retired.l2_hit", Code::new(0xd1, 0x02)),
    NamedCode::new("mem_load_retired.l3_hit", Code::new(0xd1, 0x04)),
    NamedCode::new("mem_load_retired.l3_miss", Code::new(0xd1, 0x20)),
];
/// Reads of code by the core that the second level answered, and that it did not: the same files, and the same numbers on
/// all three.
const CODE_READS: [NamedCode; 2] = [
    NamedCode::new("l2_rqsts.code_rd_hit", Code::new(0x24, 0xc4)),
    NamedCode::new("l2_rqsts.code_rd_miss", Code::new(0x24, 0x24)),
];
/// Level 2 of the backend; kernel `tools/perf/pmu-events/arch/x86/skylakex/skx-metrics.json`, and the same on Ice Lake: cycles
/// without an operation that waited for loads or for room for stores, of those that waited for anything, or had work for one
/// unit only. Level 3 needs more events than there are counters.
const MEMORY: MemorySplit = MemorySplit {
    events: &[STALLS_MEMORY, STALLS_ANY, ONE_UNIT, TWO_UNITS, STORES_FULL],
    evaluate: |counts, retiring| {
        let [memory, any, one, two, stores] =
            [STALLS_MEMORY, STALLS_ANY, ONE_UNIT, TWO_UNITS, STORES_FULL].map(|event| counts.get(event.name));
        (memory + stores) / (any + one + retiring * two + stores)
    },
};
const STALLS_MEMORY: NamedCode = NamedCode::new("cycle_activity.stalls_mem_any", Code::new(0xa3, 0x14).at_least(0x14));
const STALLS_ANY: NamedCode = NamedCode::new("cycle_activity.stalls_total", Code::new(0xa3, 0x04).at_least(4));
const ONE_UNIT: NamedCode = NamedCode::new("exe_activity.1_ports_util", Code::new(0xa6, 0x02));
const TWO_UNITS: NamedCode = NamedCode::new("exe_activity.2_ports_util", Code::new(0xa6, 0x04));
const STORES_FULL: NamedCode = NamedCode::new("exe_activity.bound_on_stores", Code::new(0xa6, 0x40));

/// Levels 2 and 3 of the frontend; kernel `tools/perf/pmu-events/arch/x86/skylakex/{skx-metrics,frontend}.json`. The second
/// way is for guests with few counters.
const FRONT_END: [FrontEndSplit; 2] = [
    FrontEndSplit {
        events: &[NOTHING_DELIVERED, ICACHE_STALL, TAG_STALL, RESTEERS, UNKNOWN_BRANCHES],
        evaluate: |counts| FrontEndShares { waits: Some(waits(counts, RESTEERS, 9.0)), ..latency(counts) },
    },
    FrontEndSplit { events: &[NOTHING_DELIVERED], evaluate: latency },
];
const NOTHING_DELIVERED: NamedCode =
    NamedCode::new("idq_uops_not_delivered.cycles_0_uops_deliv.core", Code::new(0x9c, 0x01).at_least(4));
/// Cycles in which fetching waited for a line of code, and for its address; the numbers are the same on Ice Lake and
/// Sapphire Rapids, where the events are `icache_data.stalls` and `icache_tag.stalls`.
pub(super) const ICACHE_STALL: NamedCode = NamedCode::new("icache_16b.ifdata_stall", Code::new(0x80, 0x04));
pub(super) const TAG_STALL: NamedCode = NamedCode::new("icache_64b.iftag_stall", Code::new(0x83, 0x04));
pub(super) const RESTEERS: NamedCode = NamedCode::new("int_misc.clear_resteer_cycles", Code::new(0x0d, 0x80));
pub(super) const UNKNOWN_BRANCHES: NamedCode = NamedCode::new("baclears.any", Code::new(0xe6, 0x01));

/// Level 2: the share of cycles in which nothing was delivered. The event has the same name on Ice Lake, where its threshold
/// is another.
pub(super) fn latency(counts: &Counts<'_>) -> FrontEndShares {
    FrontEndShares { latency: Some(counts.get(NOTHING_DELIVERED.name) / counts.cycles()), waits: None }
}

/// Shares of the time in which the frontend waited for code, and for the right place after a wrong one: `resteers` are cycles
/// after a wrong prediction, and each branch that was not known to be one costs `unknown_cycles`.
pub(super) fn waits(counts: &Counts<'_>, resteers: NamedCode, unknown_cycles: f64) -> [f64; 2] {
    let code = counts.get(ICACHE_STALL.name) + counts.get(TAG_STALL.name);
    let resteers = counts.get(resteers.name) + unknown_cycles * counts.get(UNKNOWN_BRANCHES.name);
    [code, resteers].map(|cycles| cycles / counts.cycles())
}

const LOADS_THAT_MISSED_L2: NamedCode = NamedCode::new("mem_load_retired.l2_miss", Code::new(0xd1, 0x10));

fn evaluate(counts: &Counts<'_>) -> Shares {
    let slots = SLOTS_PER_CYCLE * counts.cycles();
    let (issued, retired) = (counts.get(ISSUED.name), counts.get(RETIRED.name));
    let recovery = SLOTS_PER_CYCLE * counts.get(RECOVERY.name);
    let frontend = counts.get(NOT_DELIVERED.name) / slots;
    Shares {
        retiring: Some(retired / slots),
        bad_speculation: Some((issued - retired + recovery) / slots),
        frontend: Some(frontend),
        backend: Some(1.0 - frontend - (issued + recovery) / slots),
        ..Shares::default()
    }
}
