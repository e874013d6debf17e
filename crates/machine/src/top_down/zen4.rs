//! AMD Zen 4: six dispatch slots a cycle.
//!
//! Events and formulas: kernel `tools/perf/pmu-events/arch/x86/amdzen4/` (`pipeline.json`, `other.json`, `core.json`,
//! `cache.json`).

use super::front_end::{FrontEndShares, FrontEndSplit};
use super::method::{Counts, FamilyTable, Lead, MemoryReads, MemorySplit, Method, NamedCode, Shares};
use crate::counters::source::Code;

pub(super) const FRONTEND: NamedCode =
    NamedCode::new("de_no_dispatch_per_slot.no_ops_from_frontend", Code::new(0x1a0, 0x01));
const BACKEND: NamedCode = NamedCode::new("de_no_dispatch_per_slot.backend_stalls", Code::new(0x1a0, 0x1e));
const SMT: NamedCode = NamedCode::new("de_no_dispatch_per_slot.smt_contention", Code::new(0x1a0, 0x60));
const DISPATCHED: NamedCode = NamedCode::always("de_src_op_disp.all", Code::new(0xaa, 0x07));
const RETIRED: NamedCode = NamedCode::always("ex_ret_ops", Code::new(0xc1, 0x00));
const LOAD_NOT_COMPLETE: NamedCode = NamedCode::new("ex_no_retire.load_not_complete", Code::new(0xd6, 0xa2));
const NOT_COMPLETE: NamedCode = NamedCode::new("ex_no_retire.not_complete", Code::new(0xd6, 0x02));

pub(super) const TABLE: FamilyTable = FamilyTable {
    methods: &methods::<6>(),
    memory: Some(MEMORY),
    memory_levels: None,
    front_end: &[latency(&[NamedCode::new(NO_SLOT, FRONTEND.code.at_least(6))])],
    served: Some(SERVED),
    code: Some(CODE_FILLS),
    memory_reads: MemoryReads::Events(READS_FROM_MEMORY, READS_LACK),
    l1d_loads: Some(LOADS_DISPATCHED),
    l2_misses: Some(DATA_MISSES_IN_L2),
};

/// Level 1 of Zen 4 and later, by the dispatch slots of a cycle.
pub(super) const fn methods<const SLOTS_PER_CYCLE: u32>() -> [Method; 2] {
    [
        Method::of_slots("dispatch slots", Lead::Cycles, &[FRONTEND, BACKEND, SMT, DISPATCHED, RETIRED], |counts| {
            by_six(counts, f64::from(SLOTS_PER_CYCLE))
        }),
        Method {
            notes: &["bad speculation is what the other parts leave: one counter less than it takes to \
                count it, or operations dispatched are not counted here"],
            ..Method::of_slots(
                "dispatch slots, bad speculation as the rest",
                Lead::Cycles,
                &[FRONTEND, BACKEND, SMT, RETIRED],
                |counts| by_five(counts, f64::from(SLOTS_PER_CYCLE)),
            )
        },
    ]
}

/// `pipeline.json` has this at level 2 as `frontend_bound_latency`: cycles in which all slots lacked instructions. Of level 3
/// the frontend has no events.
pub(super) const fn latency(events: &'static [NamedCode]) -> FrontEndSplit {
    FrontEndSplit {
        events,
        evaluate: |counts| FrontEndShares { latency: Some(counts.get(NO_SLOT) / counts.cycles()), waits: None },
    }
}
pub(super) const NO_SLOT: &str = "de_no_dispatch_per_slot.no_ops_from_frontend in all slots";

/// `pipeline.json` has this at level 2 as `backend_bound_memory`: cycles in which nothing retired because the oldest
/// operation waited for a load, of those in which it waited for anything.
const MEMORY: MemorySplit = MemorySplit {
    events: &[LOAD_NOT_COMPLETE, NOT_COMPLETE],
    evaluate: |counts, _| counts.get(LOAD_NOT_COMPLETE.name) / counts.get(NOT_COMPLETE.name),
};

/// Demand fills of the data cache by source. The third level's include caches of other complexes, near and far.
const SERVED: [NamedCode; 3] = [
    NamedCode::new("ls_dmnd_fills_from_sys.local_l2", Code::new(0x43, 0x01)),
    NamedCode::new("ls_dmnd_fills_from_sys.other_caches", Code::new(0x43, 0x02 | 0x04 | 0x10)),
    NamedCode::new("ls_dmnd_fills_from_sys.dram_io_all", Code::new(0x43, 0x08 | 0x40)),
];

/// Lines of code that the first level took from the second, and from beyond it: `cache.json`; `inst-cache.json` on Zen 5.
const CODE_FILLS: [NamedCode; 2] = [
    NamedCode::new("ic_cache_fill_l2", Code::new(0x82, 0x00)),
    NamedCode::new("ic_cache_fill_sys", Code::new(0x83, 0x00)),
];

/// Lines that came from memory of the own or another node: into the data cache, on demand or prefetched, and those that the
/// second level's own prefetchers fetched (the lower five bits of the mask; the upper three are the first level's, whose lines
/// are fills of the data cache).
const READS_FROM_MEMORY: &[NamedCode] =
    &[NamedCode::new("ls_any_fills_from_sys.dram_io_all", Code::new(0x44, 0x08 | 0x40)), L2_PREFETCHES];
pub(super) const L2_PREFETCHES: NamedCode = NamedCode::new("l2_pf_miss_l2_l3.l2_hwpf", Code::new(0x72, 0x1f));
pub(super) const READS_LACK: &str = "fills of the data cache from memory, and lines that the second level's prefetchers \
    fetched from beyond the third level, which may also be a cache of other cores; instructions are not in it";

const LOADS_DISPATCHED: NamedCode = NamedCode::always("ls_dispatch.ld_dispatch", Code::new(0x29, 0x01));
const DATA_MISSES_IN_L2: NamedCode = NamedCode::new("l2_cache_req_stat.ls_rd_blk_c", Code::new(0x64, 0x08));

/// With all six events of level 1.
fn by_six(counts: &Counts<'_>, slots_per_cycle: f64) -> Shares {
    let total = slots_per_cycle * counts.cycles();
    Shares {
        bad_speculation: Some((counts.get(DISPATCHED.name) - counts.get(RETIRED.name)) / total),
        ..stalls(counts, total)
    }
}

/// Without the operations dispatched. Every slot is either dispatched into or has one of the three reasons why not; in
/// published counts the four add up to all slots within 0.01 % (see the tests), so that the rest is bad speculation.
fn by_five(counts: &Counts<'_>, slots_per_cycle: f64) -> Shares {
    let shares = stalls(counts, slots_per_cycle * counts.cycles());
    let known = [shares.retiring, shares.frontend, shares.backend, shares.smt_contention];
    Shares { bad_speculation: Some(1.0 - known.into_iter().flatten().sum::<f64>()), ..shares }
}

fn stalls(counts: &Counts<'_>, total: f64) -> Shares {
    let share = |event: NamedCode| Some(counts.get(event.name) / total);
    Shares {
        retiring: share(RETIRED),
        frontend: share(FRONTEND),
        backend: share(BACKEND),
        smt_contention: share(SMT),
        ..Shares::default()
    }
}
