//! The list as a whole.

use std::collections::BTreeSet;

use super::*;
use crate::host::fake::FakeHost;

#[test]
fn every_sensor_says_what_it_is() {
    let names: BTreeSet<&str> = SENSORS.iter().map(|sensor| sensor.name()).collect();
    assert_eq!(names.len(), SENSORS.len(), "a name is taken twice");
    for sensor in SENSORS {
        assert!(!sensor.figures().is_empty() && !sensor.scopes().is_empty(), "{}", sensor.name());
    }
}

#[test]
fn nothing_can_be_measured_where_there_is_nothing() {
    for report in describe_sensors(&FakeHost::new(&[]).host()) {
        assert!(!report.available && report.cost_us.is_none(), "{report:?}");
        assert!(!report.reason.is_empty(), "{report:?}");
    }
}

/// Files that exist but cannot be parsed.
#[test]
fn broken_files_are_no_figures() {
    let broken = FakeHost::new(&[
        ("/proc/stat", "cpu  x\n"),
        ("/proc/diskstats", "254 0\n"),
        ("/proc/pressure/cpu", "some\n"),
        ("/proc/cpuinfo", "processor\t: 0\ncpu MHz\t\t: fast\nflags\t: aperfmperf\n"),
        ("/proc/uptime", "long"),
        ("/proc/7/stat", "("),
        ("/proc/self/stat", ")"),
        ("/proc/self/mountinfo", "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
        ("/proc/self/cgroup", "0::/\n"),
        ("/sys/fs/cgroup/cpu.stat", "usage_usec\n"),
        ("/proc/sys/kernel/task_delayacct", "maybe"),
    ]);
    for report in describe_sensors(&broken.host()) {
        assert!(!report.available && !report.reason.is_empty(), "{report:?}");
    }
}

#[test]
fn a_cost_is_measured_of_what_works() {
    for report in describe_sensors(&Host::real()) {
        assert_eq!(report.cost_us.is_some(), report.available, "{report:?}");
        assert!(report.cost_us.is_none_or(|cost| cost > 0.0), "{report:?}");
        assert!(!report.available || report.remedy.is_none(), "{report:?}");
    }
}

/// The figures of all sensors for a subject while `between` runs.
fn watch(instruments: &Instruments, observed: &Observed, between: impl FnOnce()) -> Figures {
    let mut sensors = Sensors::open(instruments, observed, |_| true);
    let begun = sensors.read();
    assert_eq!((begun.times, begun.group, begun.pressure, begun.stolen), (None, None, None, None));
    between();
    sensors.second();
    sensors.read()
}

#[test]
fn a_made_up_machine_between_two_moments() {
    let fake = FakeHost::new(&[
        ("/proc/stat", "cpu  100 0 0 800 0 0 0 0 0 0\ncpu0 1\n"),
        ("/proc/diskstats", "254 0 vda 0 0 0 0 0 0 0 0 0 0 0\n"),
        ("/sys/block/vda/device/vendor", "x"),
        ("/proc/pressure/io", "some avg10=0 avg60=0 avg300=0 total=0\n"),
        ("/sys/devices/system/cpu/online", "0\n"),
        ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2000000\n"),
    ]);
    let figures = watch(&Instruments::of(fake.host()), &Observed::Machine, || {
        fake.write("/proc/stat", "cpu  150 0 0 830 0 0 0 20 0 0\ncpu0 1\n");
        fake.write("/proc/diskstats", "254 0 vda 10 0 0 20 0 0 0 0 0 9999 0\n");
        fake.write("/proc/pressure/io", "some avg10=0 avg60=0 avg300=0 total=99999999\n");
        fake.write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "3000000\n");
    });
    assert_eq!(figures.devices.busy_cores, Some(0.7), "stolen time was wanted by somebody here");
    assert_eq!((figures.devices.io_busy, figures.devices.read.ms), (Some(1.0), Some(2.0)));
    assert_eq!(figures.pressure.and_then(|pressure| pressure.io_some), Some(1.0));
    assert_eq!(figures.stolen, Some(0.2));
    assert!(figures.notes.iter().any(|note| note.contains("took 20.0 %")), "{:?}", figures.notes);
    assert!(
        figures.mhz.is_some_and(|mhz| (mhz - 8000.0 / 3.0).abs() < 1e-6),
        "2000, then 3000 twice: {:?}",
        figures.mhz
    );
    assert_eq!(figures.missing.keys().copied().collect::<Vec<_>>(), ["resctrl monitoring"]);
    assert_eq!(figures.cache, None);
}

#[test]
fn a_made_up_group_between_two_moments() {
    let fake = FakeHost::new(&[
        ("/proc/self/mountinfo", "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
        ("/proc/self/cgroup", "0::/\n"),
        ("/proc/7/cgroup", "0::/db\n"),
        ("/sys/fs/cgroup/memory.current", "1\n"),
        ("/sys/fs/cgroup/db/memory.current", "1048576\n"),
        ("/sys/fs/cgroup/db/cpu.pressure", "some avg10=0 avg60=0 avg300=0 total=0\n"),
    ]);
    let figures = watch(&Instruments::of(fake.host()), &Observed::ControlGroup(7), || {
        fake.write("/sys/fs/cgroup/db/memory.current", "2097152\n");
    });
    assert_eq!(figures.group.and_then(|group| group.memory_mib), Some(2.0), "the database's, not ours");
    assert_eq!(figures.pressure.and_then(|pressure| pressure.cpu_some), Some(0.0));
    let why = &figures.missing["hardware counters"].reason;
    assert!(why.contains("only the machine this process runs on"), "{why}");
    assert_eq!(figures.missing.keys().copied().collect::<Vec<_>>(), ["hardware counters", "resctrl monitoring"]);
}

#[test]
fn this_thread_works_and_everything_that_can_be_seen_of_it_is() {
    let instruments = Instruments::here();
    let began = crate::cpu_time::process_cpu_time();
    let work = || while crate::cpu_time::process_cpu_time() - began < Duration::from_millis(50) {};
    let figures = watch(&instruments, &Observed::own(Scope::Thread), work);
    for (sensor, is_there) in
        [("hardware counters", figures.counters.is_some()), ("thread times", figures.times.is_some())]
    {
        let why = figures.missing.get(sensor);
        assert_eq!(is_there, why.is_none(), "{sensor}: {why:?}");
    }
    let tree = watch(&instruments, &Observed::own(Scope::ProcessTree), || ());
    assert!(tree.cpu_time.is_some(), "{tree:?}");
}
