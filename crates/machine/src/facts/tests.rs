//! Facts of machines that are not this one.

use std::time::Duration;

use super::*;
use crate::counters::reading::tests::reading_of;
use crate::host::fake::FakeHost;

/// A guest with two cores, version 1 control groups and no performance counters.
pub(crate) fn small_guest() -> FakeHost {
    let fake = FakeHost::new(&[
        (
            "/proc/cpuinfo",
            "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n\
             stepping\t: 1\nflags\t\t: fpu sse2 hypervisor\n\nprocessor\t: 1\nvendor_id\t: AuthenticAMD\n",
        ),
        ("/proc/meminfo", "MemTotal:       24684084 kB\nMemAvailable:   23328392 kB\n"),
        ("/proc/sys/kernel/osrelease", "6.18.44\n"),
        ("/proc/sys/kernel/perf_event_paranoid", "2\n"),
        ("/proc/filesystems", "nodev\tsysfs\n\text4\n"),
        ("/proc/diskstats", "254 0 vda 10 0 2000 5 10 0 4000 5 0 100 10\n"),
        ("/sys/block/vda/device/vendor", "x"),
        (
            "/proc/self/mountinfo",
            "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
             35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n",
        ),
        ("/proc/self/cgroup", "4:memory:/\n1:cpu:/\n"),
        ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n"),
        ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "8589934592\n"),
        ("/sys/devices/system/cpu/online", "0-1\n"),
        ("/sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc kvm-clock\n"),
    ]);
    for core in 0..2 {
        let own = core.to_string();
        for (index, level, kind, size, ways, shared) in [
            (0, "1", "Data", "32K", "8", own.as_str()),
            (1, "1", "Instruction", "32K", "8", own.as_str()),
            (2, "2", "Unified", "1024K", "8", own.as_str()),
            (3, "3", "Unified", "32768K", "0", "0-1"),
        ] {
            let folder = format!("/sys/devices/system/cpu/cpu{core}/cache/index{index}");
            for (file, text) in [("level", level), ("type", kind), ("size", size), ("ways_of_associativity", ways)] {
                fake.write(&format!("{folder}/{file}"), text);
            }
            fake.write(&format!("{folder}/shared_cpu_list"), shared);
        }
    }
    fake
}

/// What system calls would tell on [`small_guest`].
pub(crate) fn small_guest_live(fake: &FakeHost) -> Live {
    let refused = std::io::Error::from(rustix::io::Errno::NOENT);
    Live {
        affinity: Some(2),
        counters: Err(CountersUnavailable::explain(&refused, &fake.host())),
        thread_times: Some(ThreadTimes { run: Duration::from_millis(1), wait: Duration::ZERO }),
    }
}

fn capability<'a>(facts: &'a MachineFacts, name: &str) -> &'a Capability {
    facts.capabilities.iter().find(|capability| capability.name == name).unwrap()
}

#[test]
fn a_small_guest_without_counters() {
    let fake = small_guest();
    let facts = MachineFacts::of(&fake.host(), &small_guest_live(&fake));
    assert_eq!(facts.cpu_id, "AuthenticAMD-25-17-1");
    assert_eq!((facts.cores_usable, facts.cores_online), (1, 2), "a quota of one and a half cores");
    assert_eq!(facts.memory_bytes, 24_684_084 * 1024);
    assert_eq!(facts.memory_limit_bytes, Some(8 << 30));
    assert_eq!(facts.virtualised.as_deref(), Some("kvm"));
    let llc = facts.caches.last().unwrap();
    assert_eq!((facts.caches.len(), llc.level, llc.ways, llc.shared_by, llc.count), (4, 3, None, 2, 1));

    let counters = capability(&facts, "hardware counters");
    assert!(!counters.available && counters.reason.contains("sees no performance counters"), "{counters:?}");
    assert!(counters.remedy.as_ref().unwrap().contains("virtual PMU"));
    assert!(capability(&facts, "thread scheduling times").available);
    assert!(capability(&facts, "disk statistics").reason.ends_with("vda"));
    assert!(!capability(&facts, "CPU without quota").available);
    assert_eq!(
        capability(&facts, "cgroup controllers").reason,
        "cgroup version 1; writable: cpu memory; absent: cpuset io"
    );
    assert!(capability(&facts, "cache allocation (resctrl)").reason.contains("of this guest"));
}

#[test]
fn every_no_has_a_reason() {
    let empty = FakeHost::new(&[]);
    let live = Live { affinity: None, counters: Err(CountersUnavailable::NoThreads { asked: 1 }), thread_times: None };
    let facts = MachineFacts::of(&empty.host(), &live);
    assert_eq!((facts.cores_usable, facts.sockets, facts.memory_bytes), (1, 1, 0));
    assert_eq!((facts.kernel.as_str(), facts.virtualised), ("unknown", None));
    for capability in facts.capabilities {
        assert!(!capability.reason.is_empty(), "{capability:?}");
        assert_eq!(capability.available, capability.name == "CPU without quota", "{capability:?}");
    }
}

/// From "not in the processor" to "ready", one obstacle less at a time.
#[test]
fn cache_allocation_tells_the_next_obstacle() {
    const NAME: &str = "cache allocation (resctrl)";
    let fake = FakeHost::new(&[]);
    let live = Live { affinity: None, counters: Err(CountersUnavailable::NoThreads { asked: 1 }), thread_times: None };
    let check = |path: &str, text: &str, available: bool, reason: &str| {
        fake.write(path, text);
        let facts = MachineFacts::of(&fake.host(), &live);
        let found = capability(&facts, NAME);
        assert_eq!(found.available, available, "{found:?}");
        assert!(found.reason.contains(reason), "{found:?}");
    };
    let cpuinfo = |flags: &str| format!("processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: {flags}\n");
    check("/proc/cpuinfo", &cpuinfo("fpu"), false, "the processor does not have it");
    check("/proc/cpuinfo", &cpuinfo("fpu cat_l3"), false, "no resctrl file system");
    check("/proc/filesystems", "nodev\tresctrl\n", false, "not mounted");
    let mount = "50 23 0:40 / /sys/fs/resctrl rw,relatime - resctrl resctrl rw\n";
    check("/proc/self/mountinfo", mount, false, "mounted without it");
    check("/sys/fs/resctrl/info/L3/cbm_mask", "7ff\n", true, "mounted and writable");
    check("/sys/fs/resctrl/info/L3/num_closids", "16\n", true, "11 ways in 16 groups");
}

#[test]
fn counters_that_stand_still_are_not_available() {
    let fake = small_guest();
    let mut live = small_guest_live(&fake);
    let note = "the counters open but stand still".to_owned();
    live.counters = Ok(CounterReading { notes: vec![note], ..CounterReading::default() });
    let facts = MachineFacts::of(&fake.host(), &live);
    assert!(!capability(&facts, "hardware counters").available);
    live.counters = Ok(reading_of(&[(10, 5, &[("cycles", 5)])]));
    let facts = MachineFacts::of(&fake.host(), &live);
    assert_eq!(capability(&facts, "hardware counters").reason, "they count; coverage 50 %");
}

#[test]
fn this_machine_is_read_and_survives_the_results_document() {
    let facts = MachineFacts::read();
    assert!(facts.cores_usable >= 1 && facts.cores_usable <= facts.cores_online);
    assert!(facts.memory_bytes > 0);
    assert_eq!(cores_usable(), facts.cores_usable);
    let text = serde_json::to_string(&facts).unwrap();
    let back: MachineFacts = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&back).unwrap(), text);
}
