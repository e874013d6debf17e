//! The exact text for other machines than this.

use super::*;
use crate::facts::tests::small_guest;
use crate::host::fake::FakeHost;
use plimsoll_display::WIDTH;

const SMALL_GUEST: &str = "\
Machine
  processor   AMD EPYC (AuthenticAMD-25-17-1)
  cores       1 usable of 2 online, CPU quota 1.50 cores; 1 socket, 1 hardware
              thread per core
  L1d cache   32 KiB, 8 ways, own of each logical core; 2 in all
  L1i cache   32 KiB, 8 ways, own of each logical core; 2 in all
  L2 cache    1 MiB, 8 ways, own of each logical core; 2 in all
  L3 cache    32 MiB, ways unknown, shared by 2 logical cores; 1 in all
  memory      23.5 GiB, 8 GiB by cgroup limit
  huge pages  none offered; transparent: not offered
  cgroups     version 1; writable: cpu, memory
  kernel      Linux 6.18.44
  guest of    kvm

Warning: a cgroup quota of 1.50 cores: threads are stopped when it is used up,
         which shows as waiting; start the container without a CPU limit, or
         give it a cpuset instead

What can be measured here
";

const PRESSURE: &str = "
  pressure
    the kernel has no /proc/pressure: pressure stall information is off
    remedy: boot with psi=1 (a kernel with CONFIG_PSI, 4.20 or later)
";

fn text(fake: &FakeHost) -> String {
    let description = Description { controls: made_up_controls(), ..Description::read(&fake.host()) };
    let text = description.to_text();
    for line in text.lines() {
        assert!(line.chars().count() <= WIDTH && line.trim_end() == line, "{line:?}");
    }
    text
}

fn made_up_controls() -> Vec<ControlReport> {
    let control = |key: &str, unit: &str| ControlReport {
        key: key.to_owned(),
        unit: unit.to_owned(),
        meaning: "how much of the last-level cache may be filled".to_owned(),
        available: false,
        reason: "the processor does not have it".to_owned(),
        remedy: None,
    };
    vec![control("llc_ways", "ways"), control("llc_mib", "MiB")]
}

#[test]
fn a_small_guest() {
    let text = text(&small_guest());
    assert!(text.starts_with(SMALL_GUEST), "{text}");
    assert!(text.contains(PRESSURE), "{text}");
    assert!(text.contains("\n  sensor              cost"), "{text}");
    assert!(text.contains("\n  pressure            no "), "{text}");
    assert!(text.contains("\n  control   here  limits (in)\n  llc_ways  no    how much"), "{text}");
    assert!(text.ends_with("\n  llc_ways, llc_mib\n    the processor does not have it\n"), "{text}");
}

#[test]
fn a_machine_that_tells_nothing() {
    let text = text(&FakeHost::new(&[]));
    assert!(text.contains("caches      unknown"), "{text}");
    assert!(text.contains("memory      unknown"), "{text}");
    assert!(text.contains("cgroups     none mounted"), "{text}");
}

#[test]
fn two_nodes_and_a_read_only_hierarchy() {
    let fake = FakeHost::new(&[
        ("/sys/devices/system/node/node0/cpulist", "0-3\n"),
        ("/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 1048576 kB\n"),
        ("/sys/devices/system/node/node1/cpulist", "\n"),
        ("/proc/meminfo", "MemTotal: 2097152 kB\nHugePages_Total: 8\nHugePages_Free: 2\nHugepagesize: 2048 kB\n"),
        ("/proc/self/mountinfo", "41 31 0:38 / /sys/fs/cgroup ro - cgroup2 cgroup2 ro\n"),
        ("/proc/self/cgroup", "0::/gone\n"),
    ]);
    let text = text(&fake);
    assert!(text.contains("memory      2 GiB; 2 nodes: 1 GiB at cores 0-3, unknown at no cores"), "{text}");
    assert!(text.contains("huge pages  8 of 2 MiB, 2 free; transparent: not offered"), "{text}");
    assert!(text.contains("cgroups     version 2; no controllers of CPU, memory or I/O"), "{text}");
}

#[test]
fn costs_have_two_digits() {
    let check = |microseconds, expect: &str| assert_eq!(cost(microseconds), expect);
    check(0.84, "0.8 µs");
    check(9.96, "10 µs");
    check(994.4, "994 µs");
    check(995.5, "1.0 ms");
    check(12_345.0, "12.3 ms");
}

#[test]
fn this_machine_survives_the_document() {
    let description = Description::read(&Host::real());
    assert!(description.machine.capabilities.is_empty() && !description.sensors.is_empty());
    let text = serde_json::to_string(&description).unwrap();
    let back: Description = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&back).unwrap(), text);
    assert!(description.to_text().lines().all(|line| line.chars().count() <= WIDTH), "{}", description.to_text());
}
