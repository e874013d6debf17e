//! The cache sizes that probes and hogs use.

use serde::{Deserialize, Serialize};

use crate::facts::{Cache, MachineFacts};
use crate::host::Host;

/// The size of a buffer whose reads come from memory, in multiples of the last-level cache.
const BEYOND: u64 = 4;

/// A buffer larger than any cache we know, used where the kernel does not report caches.
const BEYOND_UNKNOWN: u64 = 256 << 20;

/// The smallest buffer of a thread, so that passes are long compared to clock readings.
const BEYOND_MIN: u64 = 32 << 20;

/// The largest buffer of a thread.
const BEYOND_MAX: u64 = 1 << 30;

/// Caches of core 0 that hold data, bytes; `None` where the kernel does not report them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheSizes {
    /// First level, data.
    pub l1: Option<u64>,
    /// Second level.
    pub l2: Option<u64>,
    /// The last level, which cores share; also `None` if the second level is the last.
    pub llc: Option<u64>,
    /// Logical cores that share the last level, at least 1.
    pub llc_shared_by: usize,
    /// Whether the last level holds only lines that the second has evicted (a victim cache: AMD since Zen; Intel's
    /// servers since Skylake, for lines that were read).
    pub is_victim: bool,
}

impl CacheSizes {
    /// The caches of a machine.
    pub fn of(facts: &MachineFacts) -> CacheSizes {
        let level = |level: u8| {
            let data = |cache: &&Cache| cache.level == level && cache.kind != "instruction";
            facts.caches.iter().find(data)
        };
        let last = facts.caches.iter().filter(|cache| cache.level >= 3).max_by_key(|cache| cache.level);
        CacheSizes {
            l1: level(1).map(|cache| cache.size_bytes),
            l2: level(2).map(|cache| cache.size_bytes),
            llc: last.map(|cache| cache.size_bytes),
            llc_shared_by: last.map_or(1, |cache| cache.shared_by.max(1)),
            is_victim: is_victim(&facts.cpu_id),
        }
    }

    /// The caches of this machine. Takes some ten milliseconds.
    pub fn here() -> CacheSizes {
        CacheSizes::of(&MachineFacts::of(&Host::real()))
    }

    /// Bytes of a buffer for each of `threads` threads, so that their sequential reads come from memory.
    pub(crate) fn beyond_caches(&self, threads: usize) -> usize {
        let Some(llc) = self.llc.or(self.l2) else { return BEYOND_UNKNOWN as usize };
        // Threads that share a cache fill it together.
        let together = threads.clamp(1, self.llc_shared_by) as u64;
        (llc * BEYOND / together).clamp(BEYOND_MIN, BEYOND_MAX) as usize
    }

    /// Bytes that a thread must sweep to have `wanted` bytes of the last level: a victim cache holds only lines that no
    /// longer fit into the second level.
    pub(crate) fn sweep_for(&self, wanted: u64) -> u64 {
        wanted + self.beside_llc()
    }

    /// Bytes that a core can hold in addition to the last level.
    pub(crate) fn beside_llc(&self) -> u64 {
        if self.is_victim { self.l2.unwrap_or(0) } else { 0 }
    }
}

/// Whether the last level of this processor is a victim cache, by `maker-family-model-stepping`. An unknown processor
/// counts as having none: a pirate may then hold less than it reports, by at most its second level.
fn is_victim(cpu_id: &str) -> bool {
    /// AMD Zen and later.
    const ZEN_FAMILY: u32 = 0x17;
    /// Skylake, Ice Lake, Sapphire, Emerald and Granite Rapids: `intel-family.h` of the kernel.
    const INTEL_SERVERS: [u32; 8] = [0x55, 0x6a, 0x6c, 0x8f, 0xcf, 0xad, 0xae, 0xaf];
    let parts: Vec<&str> = cpu_id.split('-').collect();
    let number = |at: usize| parts.get(at).and_then(|part| part.parse::<u32>().ok());
    match parts.first() {
        Some(&"AuthenticAMD" | &"HygonGenuine") => number(1) >= Some(ZEN_FAMILY),
        Some(&"GenuineIntel") => number(1) == Some(6) && number(2).is_some_and(|model| INTEL_SERVERS.contains(&model)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_a_victim_cache() {
        let check = |cpu_id: &str, expect| assert_eq!(is_victim(cpu_id), expect, "{cpu_id}");
        check("AuthenticAMD-25-17-1", true);
        check("AuthenticAMD-21-2-0", false);
        check("GenuineIntel-6-85-7", true);
        check("GenuineIntel-6-79-1", false);
        check("0x41-8-0xd0c-1", false);
        check("unknown", false);
        check("", false);
    }

    #[test]
    fn buffers_beyond_caches() {
        let sizes =
            |llc, llc_shared_by| CacheSizes { l1: None, l2: Some(1 << 20), llc, llc_shared_by, is_victim: true };
        let check = |sizes: CacheSizes, threads, mib: usize| assert_eq!(sizes.beyond_caches(threads), mib << 20);
        check(sizes(Some(32 << 20), 2), 1, 128);
        check(sizes(Some(32 << 20), 2), 2, 64);
        check(sizes(Some(32 << 20), 2), 64, 64);
        check(sizes(Some(32 << 20), 16), 64, 32);
        check(sizes(Some(1 << 30), 1), 1, 1024);
        check(sizes(None, 1), 1, 32);
        check(CacheSizes { l2: None, ..sizes(None, 1) }, 1, 256);
        assert_eq!(sizes(Some(32 << 20), 2).sweep_for(8 << 20), 9 << 20);
    }
}
