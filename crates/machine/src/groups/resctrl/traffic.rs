//! The bytes that groups hold in the last level, and transfer to and from memory between two moments.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::group::{Group, NotRead, Traffic};

/// The bytes that groups held and transferred between two samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CacheUse {
    /// Last-level cache held at the end, MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_mib: Option<f64>,
    /// Megabytes (10^6 bytes) moved between caches and memory per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb_s: Option<f64>,
}

/// The bytes that groups held at one moment, and had transferred until then.
#[derive(Debug)]
pub struct CacheSample {
    held: Option<u64>,
    /// By group.
    moved: Option<BTreeMap<String, u64>>,
}

impl CacheSample {
    /// Samples groups. If a counter cannot be read, its figure is unknown for all of them.
    pub fn read(groups: &[Group]) -> CacheSample {
        let sum = |counted: Result<super::ByDomain, NotRead>| counted.ok().map(|by_domain| by_domain.values().sum());
        let moved = |group: &Group| Some((group.path().to_owned(), sum(group.memory_bytes(Traffic::Total))?));
        CacheSample {
            held: groups.iter().map(|group| sum(group.occupancy())).sum::<Option<u64>>(),
            moved: groups.iter().map(moved).collect(),
        }
    }

    /// The bytes transferred in the `window` since `earlier`, and the bytes held now. A group made within the window
    /// began at 0; if a counter was reset, the sum is unknown.
    pub fn since(&self, earlier: &CacheSample, window: Duration) -> CacheUse {
        let moved = || {
            let (now, then) = (self.moved.as_ref()?, earlier.moved.as_ref()?);
            let bytes = |(path, now): (&String, &u64)| now.checked_sub(then.get(path).copied().unwrap_or(0));
            let bytes = now.iter().map(bytes).sum::<Option<u64>>()?;
            Some(bytes as f64 / 1e6 / window.as_secs_f64())
        };
        CacheUse { held_mib: self.held.map(|bytes| bytes as f64 / f64::from(1 << 20)), memory_mb_s: moved() }
    }
}
