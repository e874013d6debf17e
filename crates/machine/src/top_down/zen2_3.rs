//! AMD Zen 2 and Zen 3: an approximation from cycles, since no event of theirs counts lost slots.
//!
//! Events: kernel `tools/perf/pmu-events/arch/x86/amdzen2/` and `amdzen3/` (`other.json`, `cache.json`, `memory.json`). The
//! kernel has no top-down metrics for them. Retiring is in slots (six macro-operations a cycle); the frontend's share is the
//! cycles in which the operation queue was empty; the backend's is the cycles in which dispatch waited for a token of any
//! resource. A cycle may count for two resources, and on Zen 3 also while the other thread was dispatching, so that the
//! backend's share is an upper bound; it is cut to what retiring and frontend leave. Bad speculation is the rest.

use super::Unit;
use super::method::{Counts, FamilyTable, Lead, MemoryReads, Method, NamedCode, Shares};
use super::zen4::{self, L2_PREFETCHES, READS_LACK};
use crate::counters::source::Code;

const RETIRED: NamedCode = NamedCode::always("ex_ret_ops", Code::new(0xc1, 0x00));
const QUEUE_EMPTY: NamedCode = NamedCode::new("de_dis_uop_queue_empty_di0", Code::new(0xa9, 0x00));
const STALLS_FIRST: &str = "de_dis_dispatch_token_stalls1";
const STALLS_SECOND: &str = "de_dis_dispatch_token_stalls2";
const SLOTS_PER_CYCLE: f64 = 6.0;

const NOTES: &[&str] =
    &["cycle-based approximation: retiring is in slots, frontend and backend are in cycles, the backend is \
    an upper bound and bad speculation is the rest; not comparable with processors that count slots"];

const fn method(events: &'static [NamedCode]) -> Method {
    Method {
        name: "cycles of dispatch stalls",
        unit: Unit::Cycles,
        approximate: true,
        lead: Lead::Cycles,
        events,
        notes: NOTES,
        evaluate: approximate,
    }
}

/// The events of Zen 2. Its second event of stalls has other units than Zen 3's, and the first-level prefetches are counted
/// apart from demand.
pub(super) static ZEN2: FamilyTable = FamilyTable {
    methods: &[method(&[
        RETIRED,
        QUEUE_EMPTY,
        NamedCode::new(STALLS_FIRST, Code::new(0xae, 0xff)),
        NamedCode::new(STALLS_SECOND, Code::new(0xaf, 0x7f)),
    ])],
    memory: None,
    front_end: &[],
    served: Some([
        NamedCode::new("ls_dmnd_fills_from_sys.lcl_l2", Code::new(0x43, 0x01)),
        NamedCode::new("ls_dmnd_fills_from_sys.other_caches", Code::new(0x43, 0x02 | 0x10)),
        NamedCode::new("ls_dmnd_fills_from_sys.dram_all", Code::new(0x43, 0x08 | 0x40)),
    ]),
    memory_reads: MemoryReads::Events(
        &[
            NamedCode::new("ls_dmnd_fills_from_sys.dram_all", Code::new(0x43, 0x08 | 0x40)),
            NamedCode::new("ls_sw_pf_dc_fill.dram_all", Code::new(0x59, 0x08 | 0x40)),
            NamedCode::new("ls_hw_pf_dc_fill.dram_all", Code::new(0x5a, 0x08 | 0x40)),
            L2_PREFETCHES,
        ],
        READS_LACK,
    ),
    ..zen4::TABLE
};

pub(super) static ZEN3: FamilyTable = FamilyTable {
    methods: &[method(&[
        RETIRED,
        QUEUE_EMPTY,
        NamedCode::new(STALLS_FIRST, Code::new(0xae, 0xff)),
        NamedCode::new(STALLS_SECOND, Code::new(0xaf, 0x3f)),
    ])],
    memory: None,
    front_end: &[],
    ..zen4::TABLE
};

fn approximate(counts: &Counts<'_>) -> Shares {
    let cycles = counts.cycles();
    let retiring = (counts.get(RETIRED.name) / (SLOTS_PER_CYCLE * cycles)).min(1.0);
    let mut notes = Vec::new();
    let mut cut = |what: &str, share: f64, most: f64| {
        if share > most {
            notes.push(format!(
                "{what} counted {:.1} %, cut to the {:.1} % that are left",
                share * 100.0,
                most * 100.0
            ));
        }
        // NaN must stay NaN: `min` would drop it.
        if share > most { most } else { share }
    };
    let frontend = cut("frontend", counts.get(QUEUE_EMPTY.name) / cycles, 1.0 - retiring);
    let stalls = (counts.get(STALLS_FIRST) + counts.get(STALLS_SECOND)) / cycles;
    let backend = cut("backend", stalls, (1.0 - retiring - frontend).max(0.0));
    Shares {
        retiring: Some(retiring),
        bad_speculation: Some(1.0 - retiring - frontend - backend),
        frontend: Some(frontend),
        backend: Some(backend),
        notes,
        ..Shares::default()
    }
}
