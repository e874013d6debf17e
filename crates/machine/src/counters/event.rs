//! The events that are counted on every processor that has them. Further events of a family are in
//! [`top_down`](crate::top_down).

use std::fmt;

use serde::{Deserialize, Serialize};

/// An event with the same meaning on every processor, as far as processors agree. In user mode, unless its name says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// Core cycles.
    Cycles,
    /// Instructions retired.
    Instructions,
    /// Instructions retired in kernel mode.
    KernelInstructions,
    /// Instructions retired in user mode while waiting for spin locks, by samples; of programs whose functions are known.
    SpinInstructions,
    /// Branches retired.
    Branches,
    /// Branches that were mispredicted.
    BranchMisses,
    /// Loads that looked into the first-level data cache.
    L1dLoads,
    /// Loads that missed the first-level data cache.
    L1dMisses,
    /// Loads, or requests of the data cache, that missed the second-level cache.
    L2Misses,
    /// Loads that looked into the last-level cache.
    LlcLoads,
    /// Loads that missed the last-level cache.
    LlcMisses,
    /// Loads that looked for their page.
    DtlbLoads,
    /// Loads whose page had to be looked up in the page table.
    DtlbMisses,
    /// Misses of the first level on demand that were served by the second level.
    ServedByL2,
    /// Misses of the first level on demand that were served by the third level, or by a cache of other cores.
    ServedByL3,
    /// Misses of the first level on demand that were served by memory.
    ServedByMemory,
    /// Lines of code that missed the first level and came from the second.
    CodeFromL2,
    /// Lines of code that missed the second level, too.
    CodeBeyondL2,
    /// Time on a core, nanoseconds; counted by the kernel.
    TaskClock,
    /// Page faults; counted by the kernel.
    PageFaults,
    /// Times a thread left its core; counted by the kernel, in kernel mode.
    ContextSwitches,
}

impl Event {
    /// Every event that the processor counts, in the order in which they are reported.
    pub(crate) const HARDWARE: [Event; 18] = [
        Event::Cycles,
        Event::Instructions,
        Event::KernelInstructions,
        Event::SpinInstructions,
        Event::Branches,
        Event::BranchMisses,
        Event::L1dLoads,
        Event::L1dMisses,
        Event::L2Misses,
        Event::LlcLoads,
        Event::LlcMisses,
        Event::DtlbLoads,
        Event::DtlbMisses,
        Event::ServedByL2,
        Event::ServedByL3,
        Event::ServedByMemory,
        Event::CodeFromL2,
        Event::CodeBeyondL2,
    ];

    /// The key of its counts, as in result documents.
    pub const fn key(self) -> &'static str {
        self.key_and_words().0
    }

    const fn key_and_words(self) -> (&'static str, &'static str) {
        match self {
            Event::Cycles => ("cycles", "cycles"),
            Event::Instructions => ("instructions", "instructions"),
            Event::KernelInstructions => ("kernel_instructions", "instructions in kernel mode"),
            Event::SpinInstructions => ("spin_instructions", "instructions spent spinning"),
            Event::Branches => ("branches", "branches"),
            Event::BranchMisses => ("branch_misses", "branch misses"),
            Event::L1dLoads => ("l1d_loads", "first-level data cache loads"),
            Event::L1dMisses => ("l1d_misses", "first-level data cache misses"),
            Event::L2Misses => ("l2_misses", "second-level cache misses"),
            Event::LlcLoads => ("llc_loads", "last-level cache loads"),
            Event::LlcMisses => ("llc_misses", "last-level cache misses"),
            Event::DtlbLoads => ("dtlb_loads", "data TLB loads"),
            Event::DtlbMisses => ("dtlb_misses", "data TLB misses"),
            Event::ServedByL2 => ("served_by_l2", "misses served by L2"),
            Event::ServedByL3 => ("served_by_l3", "misses served by L3"),
            Event::ServedByMemory => ("served_by_memory", "misses served by memory"),
            Event::CodeFromL2 => ("code_from_l2", "lines of code from L2"),
            Event::CodeBeyondL2 => ("code_beyond_l2", "lines of code from beyond L2"),
            Event::TaskClock => ("task_clock_ns", "nanoseconds on a core"),
            Event::PageFaults => ("page_faults", "page faults"),
            Event::ContextSwitches => ("context_switches", "context switches"),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key_and_words().1)
    }
}
