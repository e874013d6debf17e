//! The shapes of the simulated caches.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::facts::Cache;

/// Bytes of a line, on every processor that we know.
const LINE: u64 = 64;

/// Ways of a cache whose associativity the kernel does not report: those of most processors.
const WAYS_FIRST: u64 = 8;
const WAYS_LAST: u64 = 16;

/// The sizes of a machine that reports none: those of a small server of 2015, which later ones exceed.
const FIRST_DEFAULT: u64 = 32 << 10;
const LAST_DEFAULT: u64 = 8 << 20;

/// The shape of a cache that can be simulated: its number of sets is a power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheShape {
    /// Bytes.
    pub size_bytes: u64,
    /// Associativity.
    pub ways: u64,
}

/// As in an option of Valgrind.
impl fmt::Display for CacheShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{LINE}", self.size_bytes, self.ways)
    }
}

impl CacheShape {
    /// The largest shape with these ways that is no larger than the size. If even one set is, the cache has fewer ways.
    fn within(size_bytes: u64, ways: u64) -> Self {
        let ways = ways.clamp(1, (size_bytes / LINE).max(1));
        let sets = (size_bytes / (ways * LINE)).max(1);
        let sets = 1 << sets.ilog2();
        CacheShape { size_bytes: sets * ways * LINE, ways }
    }
}

/// The two levels that are simulated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimulatedCaches {
    /// The first level, of code.
    pub code: CacheShape,
    /// The first level, of data.
    pub data: CacheShape,
    /// The last level, which a process has for itself.
    pub last: CacheShape,
    /// Where they differ from the machine's caches.
    pub notes: Vec<String>,
}

impl SimulatedCaches {
    /// Caches like those of a machine.
    pub fn like(caches: &[Cache]) -> Self {
        let first =
            |kind: &str| caches.iter().find(|cache| cache.level == 1 && [kind, "unified"].contains(&&*cache.kind));
        let last = caches.iter().filter(|cache| cache.level > 1).max_by_key(|cache| cache.level);
        let mut notes = Vec::new();
        let mut shape = |what: &str, cache: Option<&Cache>, size: u64, ways: u64| {
            let size = cache.map_or(size, |cache| cache.size_bytes);
            let ways = cache.and_then(|cache| cache.ways).map_or(ways, u64::from);
            let shape = CacheShape::within(size, ways);
            let simulated = plimsoll_display::bytes(shape.size_bytes);
            if cache.is_none() {
                notes.push(format!("the machine reports no {what} cache; {simulated} are simulated"));
            } else if shape.size_bytes != size {
                let real = plimsoll_display::bytes(size);
                notes.push(format!(
                    "the {what} cache has {real}; {simulated} are simulated, for its number of sets is a power of two there"
                ));
            }
            shape
        };
        SimulatedCaches {
            code: shape("first-level code", first("instruction"), FIRST_DEFAULT, WAYS_FIRST),
            data: shape("first-level data", first("data"), FIRST_DEFAULT, WAYS_FIRST),
            last: shape("last-level", last, LAST_DEFAULT, WAYS_LAST),
            notes,
        }
    }
}
