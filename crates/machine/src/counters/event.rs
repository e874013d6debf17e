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
            Event::Cycles => vec![Source::new("cycles", Hardware::CPU_CYCLES)],
            Event::Instructions => vec![Source::new("instructions", Hardware::INSTRUCTIONS)],
            Event::L1dMisses => vec![read_misses("L1-dcache-load-misses", CacheId::L1D)],
            Event::LlcMisses => last_level_sources(host),
            Event::BranchMisses => vec![Source::new("branch-misses", Hardware::BRANCH_MISSES)],
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

/// An event as the kernel knows it.
#[derive(Debug, Clone)]
pub struct Source {
    /// The name that `perf` gives it.
    name: String,
    /// What a reader must know if it stands for a figure.
    caveat: Option<&'static str>,
    /// Counts the event in user mode: a builder leaves kernel and hypervisor out by itself.
    builder: Builder<'static>,
}

impl Source {
    /// Any event, under the name that `perf` gives it.
    pub(super) fn new(name: impl Into<String>, event: impl perf_event::events::Event) -> Source {
        Source { name: name.into(), caveat: None, builder: Builder::new(event) }
    }

    fn with_caveat(self, caveat: &'static str) -> Source {
        Source { caveat: Some(caveat), ..self }
    }

    /// What a reader must know if this source stands for a figure.
    pub(super) fn caveat(&self) -> Option<&'static str> {
        self.caveat
    }

    /// A counter of this event for one thread, to be configured further.
    pub(super) fn builder(&self, tid: i32) -> Builder<'static> {
        let mut builder = self.builder.clone();
        builder.observe_pid(tid).any_cpu();
        builder
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Reads that missed a cache, by the kernel's table for the processor.
fn read_misses(name: &str, cache: CacheId) -> Source {
    Source::new(name, Cache { which: cache, operation: CacheOp::READ, result: CacheResult::MISS })
}

/// AMD Zen counts misses of its last level outside of the cores, for nobody in particular; within the core it tells demand
/// fills by where they came from, and from memory means that every cache was missed. The kernel's `cache-misses` are misses
/// of the second level there, so it must not stand in.
fn last_level_sources(host: &Host) -> Vec<Source> {
    /// Zen, and whatever came after it.
    const ZEN_FAMILY: u32 = 0x17;
    /// Demand fills by source, and its units "memory of the own node" and "memory of another node".
    const DEMAND_FILLS: (u64, u64) = (0x43, 0x08 | 0x40);
    let generic = read_misses("LLC-load-misses", CacheId::LL);
    let identity = Identity::read(host);
    if identity.vendor != "AuthenticAMD" {
        let any = Source::new("cache-misses", Hardware::CACHE_MISSES);
        return vec![generic, any.with_caveat("the kernel's generic cache-misses on this processor")];
    }
    let raw = (identity.family >= Some(ZEN_FAMILY)).then(|| raw_config(host, DEMAND_FILLS.0, DEMAND_FILLS.1)).flatten();
    let fills = raw.map(|config| {
        Source::new(format!("raw event {config:#x}"), Raw::new(config))
            .with_caveat("demand fills from memory on this processor (event 0x43); prefetches are not in it")
    });
    fills.into_iter().chain([generic]).collect()
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
            let sources: Vec<String> = Event::LlcMisses.sources(&fake.host()).iter().map(Source::to_string).collect();
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
