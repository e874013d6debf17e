//! How the kernel is asked for an event.

use std::fmt;

use perf_event::Builder;
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware, Raw, Software};

use crate::host::Host;

/// An event as the processor's vendor numbers it. The place of the numbers in the kernel's configuration word is read
/// from `/sys/bus/event_source/devices/<pmu>/format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// The event number.
    pub event: u64,
    /// The unit mask.
    pub unit_mask: u64,
    /// Counts cycles in which the event happened at least this often; 0 counts the event itself.
    pub count_mask: u64,
    /// Counts how often the condition begins to hold, not for how long it holds.
    pub edge: bool,
    /// The value of Intel's off-core response register; 0 if the event has none.
    pub offcore_response: u64,
}

impl Code {
    /// An event by its number and unit mask.
    pub const fn new(event: u64, unit_mask: u64) -> Code {
        Code { event, unit_mask, count_mask: 0, edge: false, offcore_response: 0 }
    }

    /// The same, counting how often it begins.
    pub const fn beginnings(self) -> Code {
        Code { count_mask: 1, edge: true, ..self }
    }

    /// The same, counting cycles in which it happens at least `times`.
    pub const fn at_least(self, times: u64) -> Code {
        Code { count_mask: times, ..self }
    }

    /// The same, for responses of a kind.
    pub(crate) const fn with_offcore_response(self, offcore_response: u64) -> Code {
        Code { offcore_response, ..self }
    }

    /// The kernel's configuration words. `None` if it does not say where a field belongs, or a value does not fit.
    fn compose(self, host: &Host) -> Option<Raw> {
        let folder = core_pmu(host)?;
        let place = |field: &str, word: &str, value: u64| match value {
            0 => Some(0),
            value => deposit(&host.text(format!("{folder}/format/{field}"))?, word, value),
        };
        let config = place("event", "config", self.event)?
            | place("umask", "config", self.unit_mask)?
            | place("cmask", "config", self.count_mask)?
            | place("edge", "config", u64::from(self.edge))?;
        Some(Raw::new(config).config1(place("offcore_rsp", "config1", self.offcore_response)?))
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {:#x}, mask {:#x}", self.event, self.unit_mask)
    }
}

/// The folder of the cores' counters. Raw events go to it: `cpu` on x86, `armv8_…` on Arm. `None` if there are two
/// kinds of cores (`cpu_core` and `cpu_atom`), because a code has two meanings there.
pub(super) fn core_pmu(host: &Host) -> Option<String> {
    const DEVICES: &str = "/sys/bus/event_source/devices";
    let names = host.names(DEVICES);
    let mut cores = names.iter().filter(|name| *name == "cpu" || name.starts_with("armv8"));
    match (cores.next(), cores.next()) {
        (Some(only), None) => Some(format!("{DEVICES}/{only}")),
        _ => None,
    }
}

/// Spreads `value` over the bits of a format such as `config:0-7,32-35`, lowest first. `None` if it does not fit or the
/// format is of another word.
fn deposit(format: &str, word: &str, mut value: u64) -> Option<u64> {
    let mut config = 0u64;
    for range in format.strip_prefix(word)?.strip_prefix(':')?.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (low, high): (u32, u32) = (low.parse().ok()?, high.parse().ok()?);
        for bit in low..=high.min(63) {
            config |= (value & 1) << bit;
            value >>= 1;
        }
    }
    (value == 0).then_some(config)
}

/// An event as the kernel knows it on this machine.
#[derive(Clone)]
pub(super) struct Source {
    name: String,
    /// Caveat for the reader if the figure comes from this source.
    caveat: Option<&'static str>,
    /// Counts the event in user mode: a builder leaves kernel and hypervisor out by itself.
    builder: Builder<'static>,
}

impl Source {
    fn new(name: impl Into<String>, event: impl perf_event::events::Event) -> Source {
        Source { name: name.into(), caveat: None, builder: Builder::new(event) }
    }

    /// One of the kernel's general events.
    pub(super) fn hardware(name: &str, event: Hardware) -> Source {
        Source::new(name, event)
    }

    /// An event that the kernel counts by itself.
    pub(super) fn software(name: &str, event: Software) -> Source {
        Source::new(name, event)
    }

    /// Reads of a cache, all or those that missed, by the kernel's table for the processor.
    pub(super) fn cache(name: &str, which: CacheId, result: CacheResult) -> Source {
        Source::new(name, Cache { which, operation: CacheOp::READ, result })
    }

    /// An event of the vendor. `None` if the kernel does not describe its encoding.
    pub(super) fn code(host: &Host, code: Code) -> Option<Source> {
        Some(Source::new(code.to_string(), code.compose(host)?))
    }

    pub(super) fn with_caveat(self, caveat: &'static str) -> Source {
        Source { caveat: Some(caveat), ..self }
    }

    pub(super) fn with_kernel(mut self) -> Source {
        self.builder.include_kernel();
        self
    }

    pub(super) fn in_kernel(mut self) -> Source {
        self.builder.include_kernel().exclude_user(true);
        self
    }

    pub(super) fn caveat(&self) -> Option<&'static str> {
        self.caveat
    }

    /// Receives the threads to count.
    pub(super) fn builder(&self) -> Builder<'static> {
        self.builder.clone()
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::FakeHost;

    #[test]
    fn formats_may_be_in_pieces() {
        let check = |format: &str, value: u64, expect: Option<u64>| {
            assert_eq!(deposit(format, "config", value), expect, "{format} {value:#x}");
        };
        check("config:0-7", 0x43, Some(0x43));
        check("config:8-15", 0x48, Some(0x4800));
        check("config:0-7,32-35", 0x1a0, Some(0x1_0000_00a0));
        check("config:0-7,32-35", 0x1fff, None);
        check("config:23", 1, Some(1 << 23));
        check("config:23", 2, None);
        check("config1:0-7", 1, None);
        check("config:a-b", 1, None);
        assert_eq!(deposit("config1:0-63", "config1", u64::MAX), Some(u64::MAX));
    }

    #[test]
    fn codes_go_where_the_kernel_says() {
        let amd = FakeHost::new(&[
            ("/sys/bus/event_source/devices/cpu/format/event", "config:0-7,32-35\n"),
            ("/sys/bus/event_source/devices/cpu/format/umask", "config:8-15\n"),
        ]);
        let check = |fake: &FakeHost, code: Code, expect: Option<(u64, u64)>| {
            assert_eq!(code.compose(&fake.host()).map(|raw| (raw.config, raw.config1)), expect, "{code}");
        };
        check(&amd, Code::new(0x1a0, 0x1e), Some((0x1_0000_1ea0, 0)));
        check(&amd, Code::new(0x43, 0x48), Some((0x4843, 0)));
        check(&amd, Code::new(0x0d, 0x01).beginnings(), None);

        let intel = FakeHost::new(&[
            ("/sys/bus/event_source/devices/cpu/format/event", "config:0-7\n"),
            ("/sys/bus/event_source/devices/cpu/format/umask", "config:8-15\n"),
            ("/sys/bus/event_source/devices/cpu/format/edge", "config:18\n"),
            ("/sys/bus/event_source/devices/cpu/format/cmask", "config:24-31\n"),
            ("/sys/bus/event_source/devices/cpu/format/offcore_rsp", "config1:0-63\n"),
        ]);
        // The kernel's own documentation gives slots as 0x0400 and topdown-retiring as 0x8000 (perf/Documentation/topdown.txt).
        check(&intel, Code::new(0x00, 0x04), Some((0x0400, 0)));
        check(&intel, Code::new(0x00, 0x80), Some((0x8000, 0)));
        check(&intel, Code::new(0x0d, 0x01).beginnings(), Some((0x0104_010d, 0)));
        check(&intel, Code::new(0xb7, 0x01).with_offcore_response(0x477), Some((0x01b7, 0x477)));

        let arm = FakeHost::new(&[("/sys/bus/event_source/devices/armv8_pmuv3_0/format/event", "config:0-15\n")]);
        check(&arm, Code::new(0x3f, 0), Some((0x3f, 0)));
        let hybrid = FakeHost::new(&[
            ("/sys/bus/event_source/devices/cpu_core/format/event", "config:0-7\n"),
            ("/sys/bus/event_source/devices/cpu_atom/format/event", "config:0-7\n"),
        ]);
        check(&hybrid, Code::new(0x3c, 0), None);
    }
}
