//! What a control group uses: memory, processor time, time it was throttled, bytes to and from disks.
//!
//! Version 1 has a folder for each controller, version 2 one for all; where both are mounted, each figure comes from the
//! one that has it. Under version 1 bytes that the kernel writes back later are not counted in the group that wrote them,
//! but in the root group: only direct and synchronous writes are the group's.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::cgroup::Cgroups;
use crate::host::Host;

/// What a control group had used up to one moment. Two of them make a [`GroupUse`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupSample {
    memory_bytes: Option<u64>,
    cpu: Option<Duration>,
    throttled: Option<Throttled>,
    disks: Option<BTreeMap<String, DiskBytes>>,
}

/// How a CPU quota held a group back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttled {
    /// Periods of the quota in which the group ran.
    pub periods: u64,
    /// Periods in which it used its quota up and was stopped.
    pub throttled_periods: u64,
    /// How long it was stopped, summed over cores.
    pub time: Duration,
}

/// What a group moved to and from one disk, bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskBytes {
    /// Read.
    pub read: u64,
    /// Written.
    pub written: u64,
}

/// What a group used between two samples. `None` is "the kernel does not tell".
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupUse {
    /// Memory in use at the end, page cache included, bytes.
    pub memory_bytes: Option<u64>,
    /// Time on cores, of all tasks of the group and of groups within it.
    pub cpu: Option<Duration>,
    /// How a quota held it back.
    pub throttled: Option<Throttled>,
    /// Bytes by device number, `254:0`. A disk that was not used is not listed.
    pub disks: Option<BTreeMap<String, DiskBytes>>,
}

impl GroupSample {
    /// Samples the groups of a process.
    pub fn read(host: &Host, groups: &Cgroups) -> GroupSample {
        let version_1 = |controller: &str| groups.version_1_folder(controller);
        let version_2 = groups.version_2_folder();
        let sample = version_2.map(|folder| version_2_sample(host, folder)).unwrap_or_default();
        GroupSample {
            memory_bytes: version_1("memory")
                .and_then(|folder| host.value(folder.join("memory.usage_in_bytes")))
                .or(sample.memory_bytes),
            cpu: version_1("cpuacct")
                .and_then(|folder| host.value(folder.join("cpuacct.usage")))
                .map(Duration::from_nanos)
                .or(sample.cpu),
            throttled: version_1("cpu")
                .and_then(|folder| throttled(host, folder, "throttled_time", Duration::from_nanos))
                .or(sample.throttled),
            disks: version_1("blkio").and_then(|folder| version_1_disks(host, folder)).or(sample.disks),
        }
    }

    /// What was used between `earlier` and this sample of the same group. A disk of which nothing was told earlier was
    /// first used in between.
    pub fn since(&self, earlier: &GroupSample) -> GroupUse {
        let disks = |now: &BTreeMap<String, DiskBytes>, then: &BTreeMap<String, DiskBytes>| {
            let since = |(number, now): (&String, &DiskBytes)| {
                let then = then.get(number).copied().unwrap_or_default();
                let read = now.read.saturating_sub(then.read);
                (number.clone(), DiskBytes { read, written: now.written.saturating_sub(then.written) })
            };
            now.iter().map(since).collect()
        };
        GroupUse {
            memory_bytes: self.memory_bytes,
            cpu: self.cpu.zip(earlier.cpu).map(|(now, then)| now.saturating_sub(then)),
            throttled: self.throttled.zip(earlier.throttled).map(|(now, then)| Throttled {
                periods: now.periods.saturating_sub(then.periods),
                throttled_periods: now.throttled_periods.saturating_sub(then.throttled_periods),
                time: now.time.saturating_sub(then.time),
            }),
            disks: self.disks.as_ref().zip(earlier.disks.as_ref()).map(|(now, then)| disks(now, then)),
        }
    }

    /// The names of the figures that are there, and of those that are not.
    pub(crate) fn figures(&self) -> (Vec<&'static str>, Vec<&'static str>) {
        let all = [
            ("memory", self.memory_bytes.is_some()),
            ("CPU", self.cpu.is_some()),
            ("throttling", self.throttled.is_some()),
            ("disk bytes", self.disks.is_some()),
        ];
        let names = |wanted: bool| all.iter().filter(|(_, there)| *there == wanted).map(|(name, _)| *name).collect();
        (names(true), names(false))
    }
}

fn version_2_sample(host: &Host, folder: &Path) -> GroupSample {
    let cpu = host.line_value(folder.join("cpu.stat"), "usage_usec").map(Duration::from_micros);
    GroupSample {
        memory_bytes: host.value(folder.join("memory.current")),
        cpu,
        throttled: throttled(host, folder, "throttled_usec", Duration::from_micros),
        disks: host.text(folder.join("io.stat")).map(|text| version_2_disks(&text)),
    }
}

/// Both versions tell it in `cpu.stat`, with another name and unit for the time.
fn throttled(host: &Host, folder: &Path, time: &str, unit: fn(u64) -> Duration) -> Option<Throttled> {
    let value = |key: &str| host.line_value(folder.join("cpu.stat"), key);
    Some(Throttled {
        periods: value("nr_periods")?,
        throttled_periods: value("nr_throttled")?,
        time: unit(value(time)?),
    })
}

/// Lines as `254:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0`. A group that used no disk has an empty file.
fn version_2_disks(text: &str) -> BTreeMap<String, DiskBytes> {
    let disk = |line: &str| {
        let (number, fields) = line.split_once(' ')?;
        let bytes = |name: &str| {
            let value = |field: &'_ str| field.strip_prefix(name)?.strip_prefix('=')?.parse().ok();
            fields.split_whitespace().find_map(value)
        };
        Some((number.to_owned(), DiskBytes { read: bytes("rbytes")?, written: bytes("wbytes")? }))
    };
    text.lines().filter_map(disk).collect()
}

/// Lines as `254:0 Read 4096`, of the group and those within it where the kernel adds them up.
fn version_1_disks(host: &Host, folder: &Path) -> Option<BTreeMap<String, DiskBytes>> {
    let files = ["blkio.throttle.io_service_bytes_recursive", "blkio.throttle.io_service_bytes"];
    let text = files.iter().find_map(|file| host.text(folder.join(file)))?;
    let mut disks: BTreeMap<String, DiskBytes> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(number), Some(kind), Some(bytes)) = (words.next(), words.next(), words.next()) else { continue };
        let Ok(bytes) = bytes.parse() else { continue };
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
        ]);
        let earlier = sample(&fake);
        fake.write("/sys/fs/cgroup/a/memory.current", "8192\n");
        fake.write("/sys/fs/cgroup/a/cpu.stat", "usage_usec 1010\nnr_periods 9\nnr_throttled 4\nthrottled_usec 107\n");
        fake.write("/sys/fs/cgroup/a/io.stat", "8:0 rbytes=1 wbytes=52 rios=1 wios=2\n254:0 rbytes=9 wbytes=0\n");
        let usage = sample(&fake).since(&earlier);
        assert_eq!((usage.memory_bytes, usage.cpu), (Some(8192), Some(Duration::from_millis(1))));
        let throttled = Throttled { periods: 4, throttled_periods: 3, time: Duration::from_micros(100) };
        assert_eq!(usage.throttled, Some(throttled));
        let bytes = |read, written| DiskBytes { read, written };
        assert_eq!(usage.disks, Some([("8:0".into(), bytes(0, 50)), ("254:0".into(), bytes(9, 0))].into()));
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
            ("/c/blkio/b/blkio.throttle.io_service_bytes", "254:0 Read 9\n254:0 Write 1\n254:0 Total 10\nTotal 10\n"),
            ("/c/unified/cpu.stat", "usage_usec 99\n"),
            ("/c/unified/memory.current", "77\n"),
        ]);
        let found = sample(&fake);
        assert_eq!(found.cpu, Some(Duration::from_micros(5)), "version 1 has the controller, so its group counts");
        assert_eq!(found.throttled.map(|throttled| throttled.time), Some(Duration::from_micros(3)));
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
        assert_eq!(none.since(&none), GroupUse::default());
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
        assert!(later().since(&earlier).cpu.is_some_and(|cpu| cpu > Duration::ZERO));
    }
}
