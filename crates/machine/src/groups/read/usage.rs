//! The resource use of a control group: memory, processors, throttling by a quota, bytes to and from disks.
//!
//! Version 1 has a folder for each controller, version 2 one for all; where both are mounted, each figure comes from the
//! one that has its controller. Under version 1 bytes that the kernel writes back later are not counted in the group that wrote them,
//! but in the root group: only direct and synchronous writes are the group's.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::groups::Cgroups;
use crate::host::Host;
use crate::processor_time::share;

/// The totals of a control group up to one moment. Two samples make a [`GroupUse`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupSample {
    memory_bytes: Option<u64>,
    cpu: Option<Duration>,
    periods: Option<Periods>,
    disks: Option<BTreeMap<String, DiskBytes>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Periods {
    /// Periods in which the group ran.
    all: u64,
    /// Periods in which it used up its quota and was stopped.
    throttled: u64,
}

/// A group's transfers to and from one disk, bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct DiskBytes {
    read: u64,
    written: u64,
}

/// The resource use of a group, including groups within it, between two samples. `None` means that the kernel does not
/// report it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupUse {
    /// Memory in use at the end, including page cache, MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<f64>,
    /// Cores that it kept busy, on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_cores: Option<f64>,
    /// Share of the periods of its CPU quota in which it had used the quota up and was stopped, 0 to 1; `None` also if it has
    /// no quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<f64>,
    /// Megabytes (10^6 bytes) read from disks per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_mb_s: Option<f64>,
    /// Megabytes (10^6 bytes) written to disks per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_mb_s: Option<f64>,
}

impl GroupSample {
    /// Samples the groups of a process.
    pub fn read(host: &Host, groups: &Cgroups) -> GroupSample {
        // Where both versions are mounted, a controller is in one of them.
        let folder = |controller: &str| match groups.version_1_folder(controller) {
            Some(folder) => Some((folder, false)),
            None => groups.version_2_folder().map(|folder| (folder, true)),
        };
        GroupSample {
            memory_bytes: folder("memory").and_then(|(folder, unified)| {
                host.value(folder.join(if unified { "memory.current" } else { "memory.usage_in_bytes" }))
            }),
            cpu: folder("cpuacct").and_then(|(folder, unified)| match unified {
                true => host.line_value(folder.join("cpu.stat"), "usage_usec").map(Duration::from_micros),
                false => host.value(folder.join("cpuacct.usage")).map(Duration::from_nanos),
            }),
            periods: folder("cpu").and_then(|(folder, _)| periods(host, folder)),
            disks: folder("blkio").and_then(|(folder, unified)| match unified {
                true => host.text(folder.join("io.stat")).map(|text| version_2_disks(host, &text)),
                false => version_1_disks(host, folder),
            }),
        }
    }

    /// The use in the `window` between `earlier` and this sample of the same group. A disk that the earlier sample
    /// lacks was first used in between.
    pub fn since(&self, earlier: &GroupSample, window: Duration) -> GroupUse {
        let seconds = window.as_secs_f64();
        let moved = |of: fn(&DiskBytes) -> u64| {
            let (now, then) = (self.disks.as_ref()?, earlier.disks.as_ref()?);
            let since = |(number, now)| of(now).saturating_sub(then.get(number).map_or(0, of));
            Some(now.iter().map(since).sum::<u64>() as f64 / 1e6 / seconds)
        };
        let cpu = self.cpu.zip(earlier.cpu).map(|(now, then)| now.saturating_sub(then));
        let throttled = self.periods.zip(earlier.periods).and_then(|(now, then)| {
            let all = now.all.saturating_sub(then.all);
            share(now.throttled.saturating_sub(then.throttled) as f64, all as f64)
        });
        GroupUse {
            memory_mib: self.memory_bytes.map(|bytes| bytes as f64 / f64::from(1 << 20)),
            busy_cores: cpu.map(|cpu| cpu.as_secs_f64() / seconds),
            throttled,
            read_mb_s: moved(|disk| disk.read),
            write_mb_s: moved(|disk| disk.written),
        }
    }

    /// The names of the figures that are present, and of those that are missing.
    pub(crate) fn figures(&self) -> (Vec<&'static str>, Vec<&'static str>) {
        let all = [
            ("memory", self.memory_bytes.is_some()),
            ("CPU", self.cpu.is_some()),
            ("throttling", self.periods.is_some()),
            ("disk bytes", self.disks.is_some()),
        ];
        let names = |wanted: bool| all.iter().filter(|(_, there)| *there == wanted).map(|(name, _)| *name).collect();
        (names(true), names(false))
    }
}

/// Both versions report periods in `cpu.stat`.
fn periods(host: &Host, folder: &Path) -> Option<Periods> {
    let value = |key: &str| host.line_value(folder.join("cpu.stat"), key);
    Some(Periods { all: value("nr_periods")?, throttled: value("nr_throttled")? })
}

/// Whether a device number is that of a whole physical disk. Mapped devices would count the same bytes again.
fn is_disk(host: &Host, number: &str) -> bool {
    host.exists(format!("/sys/dev/block/{number}/device"))
}

/// Lines as `254:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0`. A group that used no disk has an empty file.
fn version_2_disks(host: &Host, text: &str) -> BTreeMap<String, DiskBytes> {
    let disk = |line: &str| {
        let (number, fields) = line.split_once(' ').filter(|(number, _)| is_disk(host, number))?;
        Some((number.to_owned(), DiskBytes { read: field(fields, "rbytes")?, written: field(fields, "wbytes")? }))
    };
    text.lines().filter_map(disk).collect()
}

/// The number of a field in a line such as `rbytes=4096 wbytes=0`.
pub(crate) fn field(line: &str, name: &str) -> Option<u64> {
    line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

/// A file of version 1 that counts transfers, including groups within the group where the kernel adds them up.
pub(crate) fn recursive_text(host: &Host, group: &Path, file: &str) -> Option<String> {
    host.text(group.join(format!("{file}_recursive"))).or_else(|| host.text(group.join(file)))
}

/// Lines as `254:0 Read 4096`.
fn version_1_disks(host: &Host, folder: &Path) -> Option<BTreeMap<String, DiskBytes>> {
    let text = recursive_text(host, folder, "blkio.throttle.io_service_bytes")?;
    let mut disks: BTreeMap<String, DiskBytes> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(number), Some(kind), Some(bytes)) = (words.next(), words.next(), words.next()) else { continue };
        let Ok(bytes) = bytes.parse() else { continue };
        if !is_disk(host, number) {
            continue;
        }
        match kind {
            "Read" => disks.entry(number.to_owned()).or_default().read = bytes,
            "Write" => disks.entry(number.to_owned()).or_default().written = bytes,
            _ => {}
        }
    }
    Some(disks)
}

#[cfg(test)]
mod tests {
    use plimsoll_testing::{Need, skip, until};

    use super::*;
    use crate::host::fake::FakeHost;

    fn sample(fake: &FakeHost) -> GroupSample {
        GroupSample::read(&fake.host(), &Cgroups::read(&fake.host()))
    }

    #[test]
    fn version_2() {
        let fake = FakeHost::new(&[
            ("/proc/self/mountinfo", "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("/proc/self/cgroup", "0::/a\n"),
            ("/sys/fs/cgroup/a/memory.current", "4096\n"),
            ("/sys/fs/cgroup/a/cpu.stat", "usage_usec 10\nnr_periods 5\nnr_throttled 1\nthrottled_usec 7\n"),
            ("/sys/fs/cgroup/a/io.stat", "8:0 rbytes=1 wbytes=2 rios=1 wios=1 dbytes=0 dios=0\n7:0\n"),
            ("/sys/dev/block/8:0/device/x", ""),
            ("/sys/dev/block/254:0/device/x", ""),
        ]);
        let earlier = sample(&fake);
        fake.write("/sys/fs/cgroup/a/memory.current", "8192\n");
        fake.write("/sys/fs/cgroup/a/cpu.stat", "usage_usec 1010\nnr_periods 9\nnr_throttled 4\nthrottled_usec 107\n");
        fake.write(
            "/sys/fs/cgroup/a/io.stat",
            "8:0 rbytes=1 wbytes=52 rios=1 wios=2\n254:0 rbytes=9 wbytes=0\n252:0 rbytes=9 wbytes=50\n",
        );
        let usage = sample(&fake).since(&earlier, Duration::from_millis(2));
        assert_eq!((usage.memory_mib, usage.busy_cores), (Some(8192.0 / 1_048_576.0), Some(0.5)));
        assert_eq!(usage.throttled, Some(0.75));
        let moved = |mb: f64| Some(mb / 0.002);
        assert_eq!((usage.read_mb_s, usage.write_mb_s), (moved(9e-6), moved(50e-6)), "not the mapped device 252:0");
    }

    #[test]
    fn version_1_beside_version_2() {
        let fake = FakeHost::new(&[
            (
                "/proc/self/mountinfo",
                "32 31 0:29 / /c/cpu rw - cgroup cgroup rw,cpu\n33 31 0:30 / /c/cpuacct rw - cgroup cgroup rw,cpuacct\n\
                 38 31 0:35 / /c/blkio rw - cgroup cgroup rw,blkio\n41 31 0:38 / /c/unified rw - cgroup2 cgroup2 rw\n",
            ),
            ("/proc/self/cgroup", "7:blkio:/b\n2:cpuacct:/b\n1:cpu:/b\n0::/\n"),
            ("/c/cpu/b/cpu.stat", "nr_periods 2\nnr_throttled 1\nthrottled_time 3000\n"),
            ("/c/cpuacct/b/cpuacct.usage", "5000\n"),
            ("/sys/dev/block/254:0/device/x", ""),
            ("/c/blkio/b/blkio.throttle.io_service_bytes", "254:0 Read 9\n254:0 Write 1\n254:0 Total 10\nTotal 10\n"),
            ("/c/unified/cpu.stat", "usage_usec 99\n"),
            ("/c/unified/memory.current", "77\n"),
        ]);
        let found = sample(&fake);
        assert_eq!(found.cpu, Some(Duration::from_micros(5)), "version 1 has the controller, so its group counts");
        assert_eq!(found.periods, Some(Periods { all: 2, throttled: 1 }));
        assert_eq!(found.memory_bytes, Some(77));
        assert_eq!(found.disks, Some([("254:0".into(), DiskBytes { read: 9, written: 1 })].into()));
        fake.write("/c/blkio/b/blkio.throttle.io_service_bytes_recursive", "254:0 Read 29\n254:0 Write 1\n");
        assert_eq!(sample(&fake).disks.map(|disks| disks["254:0"].read), Some(29));
        assert_eq!(found.figures(), (vec!["memory", "CPU", "throttling", "disk bytes"], vec![]));
    }

    #[test]
    fn what_is_not_told_is_none() {
        let none = sample(&FakeHost::new(&[]));
        assert_eq!(none, GroupSample::default());
        assert_eq!(none.since(&none, Duration::from_secs(1)), GroupUse::default());
    }

    #[test]
    fn the_group_of_this_process_uses_time() {
        let host = Host::real();
        let groups = Cgroups::read(&host);
        let earlier = GroupSample::read(&host, &groups);
        let Some(before) = earlier.cpu else {
            return skip(Need::Accounting, "the control group of this process tells no CPU time");
        };
        let later = || GroupSample::read(&host, &groups);
        until("time to be counted", || later().cpu != Some(before));
        assert!(later().since(&earlier, Duration::from_secs(1)).busy_cores.is_some_and(|cores| cores > 0.0));
    }
}
