//! Which event of the processor stands for which figure.

use std::fmt;

use perf_event::Builder;
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware, Raw};

use crate::facts::processor::Identity;
use crate::host::Host;

/// A figure we want, in the order of [`GroupReading::values`](super::reading::GroupReading::values).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Core cycles.
    Cycles,
    /// Instructions retired.
    Instructions,
    /// Loads that missed the first-level data cache.
    L1dMisses,
    /// Loads that missed the last-level cache.
    LlcMisses,
    /// Branches that were mispredicted.
    BranchMisses,
}

impl Event {
    /// Every event.
    pub const ALL: [Event; 5] =
        [Event::Cycles, Event::Instructions, Event::L1dMisses, Event::LlcMisses, Event::BranchMisses];

    /// What can stand for this figure on `host`, best first.
    pub fn sources(self, host: &Host) -> Vec<Source> {
        match self {
            Event::Cycles => vec![Source::CYCLES],
            Event::Instructions => vec![Source::Generic(Hardware::INSTRUCTIONS, "instructions")],
            Event::L1dMisses => vec![Source::CacheReadMiss(CacheId::L1D, "L1-dcache-load-misses")],
            Event::LlcMisses => last_level_sources(host),
            Event::BranchMisses => vec![Source::Generic(Hardware::BRANCH_MISSES, "branch-misses")],
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Event::Cycles => "cycles",
            Event::Instructions => "instructions",
            Event::L1dMisses => "first-level data cache misses",
            Event::LlcMisses => "last-level cache misses",
            Event::BranchMisses => "branch misses",
        })
    }
}

/// An event as the kernel knows it, with the name `perf` gives it.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// One of the kernel's few generic events.
    Generic(Hardware, &'static str),
    /// Reads that missed a cache, by the kernel's table for the processor.
    CacheReadMiss(CacheId, &'static str),
    /// A processor's own event: demand fills of the first-level data cache from memory, by AMD Zen.
    DramFills(u64),
}

impl Source {
    /// Cycles lead every group.
    pub const CYCLES: Source = Source::Generic(Hardware::CPU_CYCLES, "cycles");

    /// A counter to be configured further.
    pub(super) fn builder(&self) -> Builder<'static> {
        match self {
            Source::Generic(event, _) => Builder::new(*event),
            Source::CacheReadMiss(cache, _) => {
                Builder::new(Cache { which: *cache, operation: CacheOp::READ, result: CacheResult::MISS })
            }
            Source::DramFills(config) => Builder::new(Raw::new(*config)),
        }
    }

    /// What a reader must know if this source stands for the figure.
    pub(super) fn caveat(&self) -> Option<&'static str> {
        match self {
            Source::DramFills(_) => Some("demand fills from memory on this processor (event 0x43); prefetches are not in it"),
            Source::Generic(Hardware::CACHE_MISSES, _) => Some("the kernel's generic cache-misses on this processor"),
            Source::Generic(..) | Source::CacheReadMiss(..) => None,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Generic(_, name) | Source::CacheReadMiss(_, name) => f.write_str(name),
            Source::DramFills(config) => write!(f, "raw event {config:#x}"),
        }
    }
}

/// AMD Zen counts misses of its last level outside of the cores, for nobody in particular; within the core it tells demand
/// fills by where they came from, and from memory means that every cache was missed. The kernel's `cache-misses` are misses
/// of the second level there, so it must not stand in.
fn last_level_sources(host: &Host) -> Vec<Source> {
    /// Zen, and whatever came after it.
    const ZEN_FAMILY: u32 = 0x17;
    /// Demand fills by source, and its units "memory of the own node" and "memory of another node".
    const DEMAND_FILLS: (u64, u64) = (0x43, 0x08 | 0x40);
    let generic = Source::CacheReadMiss(CacheId::LL, "LLC-load-misses");
    let identity = Identity::read(host);
    if identity.vendor != "AuthenticAMD" {
        return vec![generic, Source::Generic(Hardware::CACHE_MISSES, "cache-misses")];
    }
    let raw = (identity.family >= Some(ZEN_FAMILY)).then(|| raw_config(host, DEMAND_FILLS.0, DEMAND_FILLS.1)).flatten();
    raw.map(Source::DramFills).into_iter().chain([generic]).collect()
}

/// Puts an event number and its unit mask where the kernel says they belong. `None` if it does not say, or they do not fit.
fn raw_config(host: &Host, event: u64, unit_mask: u64) -> Option<u64> {
    let place = |field: &str, value: u64| {
        deposit(&host.text(format!("/sys/bus/event_source/devices/cpu/format/{field}"))?, value)
    };
    Some(place("event", event)? | place("umask", unit_mask)?)
}

/// Spreads `value` over the bits of a format such as `config:0-7,32-35`, lowest first. `None` if it does not fit.
fn deposit(format: &str, mut value: u64) -> Option<u64> {
    let mut config = 0u64;
    for range in format.strip_prefix("config:")?.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (low, high): (u32, u32) = (low.parse().ok()?, high.parse().ok()?);
        for bit in low..=high.min(63) {
            config |= (value & 1) << bit;
            value >>= 1;
        }
    }
    (value == 0).then_some(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::FakeHost;

    #[test]
    fn formats_may_be_in_pieces() {
        let check = |format: &str, value: u64, expect: Option<u64>| {
            assert_eq!(deposit(format, value), expect, "{format} {value:#x}");
        };
        check("config:0-7", 0x43, Some(0x43));
        check("config:8-15", 0x48, Some(0x4800));
        check("config:0-7,32-35", 0x1a0, Some(0x1_0000_00a0));
        check("config:0-7,32-35", 0x1fff, None);
        check("config:23", 1, Some(1 << 23));
        check("config:23", 2, None);
        check("config1:0-7", 1, None);
        check("config:a-b", 1, None);
    }

    #[test]
    fn each_processor_has_its_last_level_event() {
        let check = |cpuinfo: &str, formats: bool, expect: &[&str]| {
            let fake = FakeHost::new(&[("/proc/cpuinfo", cpuinfo)]);
            if formats {
                fake.write("/sys/bus/event_source/devices/cpu/format/event", "config:0-7,32-35\n");
                fake.write("/sys/bus/event_source/devices/cpu/format/umask", "config:8-15\n");
            }
            let sources: Vec<String> =
                Event::LlcMisses.sources(&fake.host()).iter().map(Source::to_string).collect();
            assert_eq!(sources, expect, "{cpuinfo}");
        };
        let zen = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\n";
        check(zen, true, &["raw event 0x4843", "LLC-load-misses"]);
        check(zen, false, &["LLC-load-misses"]);
        let bulldozer = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 21\n";
        check(bulldozer, true, &["LLC-load-misses"]);
        let intel = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\n";
        check(intel, true, &["LLC-load-misses", "cache-misses"]);
        check("", true, &["LLC-load-misses", "cache-misses"]);
    }
}
