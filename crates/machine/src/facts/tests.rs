//! Facts of other machines than this.

use super::*;
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

#[test]
fn a_small_guest_without_counters() {
    let fake = small_guest();
    let facts = MachineFacts::of(&fake.host());
    assert_eq!(facts.cpu_id, "AuthenticAMD-25-17-1");
    assert_eq!((facts.cores_usable, facts.cores_online), (1, 2), "a quota of one and a half cores");
    assert_eq!(facts.cpu_quota, Some(1.5));
    assert_eq!(facts.memory_bytes, 24_684_084 * 1024);
    assert_eq!(facts.memory_limit_bytes, Some(8 << 30));
    assert_eq!(facts.virtualised.as_deref(), Some("kvm"));
    let llc = facts.caches.last().unwrap();
    assert_eq!((facts.caches.len(), llc.level, llc.ways, llc.shared_by, llc.count), (4, 3, None, 2, 1));
    assert_eq!(facts.cgroup_version.as_deref(), Some("1"));
    let names: Vec<&str> = facts.cgroup_controllers.iter().map(|controller| controller.name.as_str()).collect();
    assert_eq!(names, ["cpu", "memory"]);
}

#[test]
fn every_no_has_a_reason() {
    let fake = FakeHost::new(&[]);
    let empty = fake.host();
    let facts = MachineFacts::of(&empty);
    assert_eq!((facts.cores_usable, facts.sockets, facts.memory_bytes), (1, 1, 0));
    assert_eq!((facts.kernel.as_str(), facts.virtualised), ("unknown", None));
    assert_eq!((facts.numa_nodes.len(), facts.cgroup_version), (0, None));
    let capabilities = capabilities(&empty);
    assert_eq!(capabilities.len(), SENSORS.len() + CONTROLS.len());
    for capability in capabilities {
        assert!(!capability.reason.is_empty(), "{capability:?}");
    }
}

/// From "not in the processor" to "ready", one obstacle less at a time.
#[test]
fn resctrl_monitoring_tells_the_next_obstacle() {
    let fake = FakeHost::new(&[]);
    let check = |path: &str, text: &str, available: bool, reason: &str| {
        fake.write(path, text);
        let found = capabilities(&fake.host()).into_iter().find(|found| found.name == "resctrl monitoring").unwrap();
        assert_eq!(found.available, available, "{found:?}");
        assert!(found.reason.contains(reason), "{found:?}");
    };
    let cpuinfo = |flags: &str| format!("processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: {flags}\n");
    check("/proc/cpuinfo", &cpuinfo("fpu hypervisor"), false, "of this guest");
    check("/proc/cpuinfo", &cpuinfo("fpu"), false, "the processor does not have it");
    check("/proc/cpuinfo", &cpuinfo("fpu cqm_llc"), false, "no resctrl file system");
    check("/proc/filesystems", "nodev\tresctrl\n", false, "not mounted");
    let mount = "50 23 0:40 / /sys/fs/resctrl rw,relatime - resctrl resctrl rw\n";
    check("/proc/self/mountinfo", mount, false, "not ours to write");
    check("/sys/fs/resctrl/tasks", "1\n", false, "none of cqm_occup_llc");
    check("/proc/cpuinfo", &cpuinfo("fpu cqm_llc cqm_occup_llc"), false, "counts nothing (no info/L3_MON)");
    check("/sys/fs/resctrl/info/L3_MON/num_rmids", "256\n", false, "counts nothing");
    check("/sys/fs/resctrl/info/L3_MON/mon_features", "llc_occupancy\n", true, "cache occupancy of 256 groups");
    check("/proc/9/comm", "pcm-memory\n", false, "pcm-memory (process 9)");
}

#[test]
fn a_document_of_before_is_read() {
    let text = r#"{"cpu_model": "x", "cpu_id": "y", "cores_usable": 1, "cores_online": 2, "threads_per_core": 1,
        "sockets": 1, "caches": [], "memory_bytes": 5, "memory_limit_bytes": null, "kernel": "6", "virtualised": null,
        "capabilities": [{"name": "a", "available": false, "reason": "b", "remedy": null}]}"#;
    let facts: MachineFacts = serde_json::from_str(text).unwrap();
    assert_eq!((facts.capabilities.len(), facts.numa_nodes.len(), facts.warnings.len()), (1, 0, 0));
}

#[test]
fn this_machine_is_read_and_survives_the_results_document() {
    let facts = MachineFacts::read();
    assert!(facts.cores_usable >= 1 && facts.cores_usable <= facts.cores_online);
    assert!(facts.memory_bytes > 0 && !facts.capabilities.is_empty());
    assert_eq!(cores_usable(), facts.cores_usable);
    let text = serde_json::to_string(&facts).unwrap();
    let back: MachineFacts = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&back).unwrap(), text);
}
