//! Intel Skylake to Cooper Lake: four issue slots a cycle, without hyper-threads.
//!
//! Formulas: pmu-tools `skx_server_ratios.py`; codes: likwid `groups/skylakeX/TMA.txt`, which agrees except that it
//! does not halve slots under hyper-threading. Half of a busy core's slots are each thread's only while both are busy;
//! a thread's own counters show how often that is only with more events than fit here. So with hyper-threads there is
//! no breakdown: the kernel's `perf stat --topdown` refuses single processes there, too.

use super::method::{Counts, FamilyTable, Lead, MemoryReads, Method, NamedCode, Shares};
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
    memory: None,
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
