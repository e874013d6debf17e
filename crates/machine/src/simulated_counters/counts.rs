//! What the simulator counts.

use serde::{Deserialize, Serialize};

/// Counts of a process, all of its threads together. Every access, miss and branch was counted, at the same moments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimulatedCounts {
    /// Instructions.
    pub instructions: u64,
    /// Instructions whose line was not in the first-level cache.
    pub code_misses: u64,
    /// Reads of data.
    pub reads: u64,
    /// Reads that missed the first-level cache.
    pub read_misses: u64,
    /// Writes of data.
    pub writes: u64,
    /// Writes that missed the first-level cache.
    pub write_misses: u64,
    /// Instructions, reads and writes that missed the last level.
    pub last_level_misses: u64,
    /// Conditional branches.
    pub conditional_branches: u64,
    /// Those that were mispredicted.
    pub conditional_mispredictions: u64,
    /// Jumps to a computed address.
    pub indirect_branches: u64,
    /// Those whose address was mispredicted.
    pub indirect_mispredictions: u64,
}

impl SimulatedCounts {
    /// Reads the totals of a file of Callgrind's format: `events:` has the names of columns, `summary:` or `totals:` their
    /// sums, without the zeros at the end of the line.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::split_whitespace);
        let events: Vec<&str> = line("events:").ok_or("it has no line `events:`")?.collect();
        let sums = line("summary:").or_else(|| line("totals:")).ok_or("it has no line `summary:`")?;
        let sums: Vec<u64> =
            sums.map(|sum| sum.parse().map_err(|_| format!("`{sum}` is not a count"))).collect::<Result<_, _>>()?;
        let of = |event: &str| {
            let column = events.iter().position(|known| *known == event);
            column.map(|at| sums.get(at).copied().unwrap_or(0)).ok_or_else(|| format!("it has no event `{event}`"))
        };
        Ok(SimulatedCounts {
            instructions: of("Ir")?,
            code_misses: of("I1mr")?,
            reads: of("Dr")?,
            read_misses: of("D1mr")?,
            writes: of("Dw")?,
            write_misses: of("D1mw")?,
            last_level_misses: of("ILmr")? + of("DLmr")? + of("DLmw")?,
            conditional_branches: of("Bc")?,
            conditional_mispredictions: of("Bcm")?,
            indirect_branches: of("Bi")?,
            indirect_mispredictions: of("Bim")?,
        })
    }

    /// All branches.
    pub fn branches(&self) -> u64 {
        self.conditional_branches + self.indirect_branches
    }

    /// All mispredicted branches.
    pub fn mispredictions(&self) -> u64 {
        self.conditional_mispredictions + self.indirect_mispredictions
    }
}
