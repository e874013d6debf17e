//! Level 3 of the backend: which level of memory was waited for, as SI splits its Dcache stalls (SI tab. 3.2).

use serde::{Deserialize, Serialize};

use super::method::{Counts, NamedCode};

/// How memory's share is split, by a group of its own.
#[derive(Debug)]
pub struct MemoryLevelSplit {
    /// The events, all in one group, which has cycles as well.
    pub events: &'static [NamedCode],
    /// Cycles that waited for the first level, the second, the third, memory, and room for stores.
    pub evaluate: fn(&Counts<'_>) -> [f64; 5],
}

/// Memory's share of the slots by the level that was waited for: shares of all slots, 0 to 1, which add up to memory's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MemoryLevels {
    /// The first-level cache: loads that hit it, and waited for a store or an address.
    pub l1: f64,
    /// The second-level cache.
    pub l2: f64,
    /// The third-level cache.
    pub l3: f64,
    /// Memory.
    pub dram: f64,
    /// Room for stores.
    pub store: f64,
}

impl MemoryLevels {
    /// Divides memory's share in proportion to cycles: the makers' parts may overlap, and are cycles while the share is
    /// slots. `None` if no cycle waited, or some count is missing.
    pub(super) fn divide(memory: f64, cycles: [f64; 5]) -> Option<MemoryLevels> {
        // A difference of two counts may come out a little below 0.
        let cycles = cycles.map(|part| if part.is_nan() { part } else { part.max(0.0) });
        let sum: f64 = cycles.iter().sum();
        let [l1, l2, l3, dram, store] = cycles.map(|part| memory * part / sum);
        (sum.is_finite() && sum > 0.0).then_some(MemoryLevels { l1, l2, l3, dram, store })
    }
}
