//! The disk below a folder.

use std::path::Path;
use std::time::Duration;

use crate::host::Host;

/// The unit of `/proc/diskstats`, independent of the disk's sector size (kernel Documentation/admin-guide/iostats.rst).
const SECTOR_BYTES: u64 = 512;

/// A disk, or a mapped or striped device that the kernel treats as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Device {
    major: u32,
    minor: u32,
    /// As in `/proc/diskstats`.
    pub name: String,
}

impl Device {
    /// The disk that holds a folder; for a partition, its disk. Otherwise the reason why there is none.
    pub fn of(host: &Host, folder: &Path) -> Result<Device, String> {
        use std::os::unix::fs::MetadataExt;

        // A relative path is relative to this process's working directory.
        let there = if host.is_real() { folder.to_owned() } else { host.path(folder) };
        let told = |error| format!("cannot look at {}: {error}", folder.display());
        let metadata = std::fs::metadata(&there).map_err(told)?;
        let (mut major, mut minor) = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
        if major == 0 {
            // A file system without a device (tmpfs, overlay), or with several devices (btrfs). The mount table does
            // not resolve links.
            let there = std::fs::canonicalize(&there).map_err(told)?;
            let there =
                there.strip_prefix(host.path("/")).map_or(folder.to_owned(), |there| Path::new("/").join(there));
            (major, minor) = mounted_device(host, &there)?;
        }
        if host.exists(format!("/sys/dev/block/{major}:{minor}/partition")) {
            // The link leads into the folder of the disk, in which the partition's folder lies.
            let number = host.text(format!("/sys/dev/block/{major}:{minor}/../dev"));
            (major, minor) = number
                .and_then(|text| numbers(&text))
                .ok_or_else(|| format!("the disk of partition {major}:{minor} is not told"))?;
        }
        let name = name(host, major, minor).ok_or_else(|| {
            format!("the device {major}:{minor} that holds {} is not a disk of this machine", folder.display())
        })?;
        Ok(Device { major, minor, name })
    }

    /// As control groups write it.
    pub fn number(&self) -> String {
        format!("{}:{}", self.major, self.minor)
    }

    /// The rest of the first line that begins with the device's number.
    pub fn line<'a>(&self, text: &'a str) -> Option<&'a str> {
        let number = self.number();
        text.lines().find_map(|line| line.trim_start().strip_prefix(number.as_str())?.strip_prefix(' '))
    }

    /// Bytes written to the disk so far by all processes.
    pub fn written_bytes(&self, host: &Host) -> Option<u64> {
        Some(self.statistics(host)?.sectors_written.saturating_mul(SECTOR_BYTES))
    }

    /// Bytes read from the disk so far by all processes, and for how long it was busy. The busy time wraps to 0 after
    /// 49 days.
    pub(crate) fn read_bytes_and_busy(&self, host: &Host) -> Option<(u64, Duration)> {
        let disk = self.statistics(host)?;
        Some((disk.sectors_read.saturating_mul(SECTOR_BYTES), Duration::from_millis(disk.time_in_progress)))
    }

    /// How much the kernel reads ahead of a process that reads one page after another, bytes.
    pub fn read_ahead_bytes(&self, host: &Host) -> Option<u64> {
        let kib: u64 = host.value(format!("/sys/class/bdi/{}/read_ahead_kb", self.number()))?;
        kib.checked_mul(1024)
    }

    /// Its line of `/proc/diskstats`.
    pub(crate) fn statistics(&self, host: &Host) -> Option<procfs::DiskStat> {
        let statistics: procfs::DiskStats = host.parsed("/proc/diskstats")?;
        statistics.0.into_iter().find(|disk| disk.name == self.name)
    }
}

fn numbers(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn name(host: &Host, major: u32, minor: u32) -> Option<String> {
    let statistics: procfs::DiskStats = host.parsed("/proc/diskstats")?;
    let is_it = |disk: &procfs::DiskStat| disk.major == major as i32 && disk.minor == minor as i32;
    statistics.0.into_iter().find(is_it).map(|disk| disk.name)
}

/// The device that the mount table names for the folder's file system.
fn mounted_device(host: &Host, folder: &Path) -> Result<(u32, u32), String> {
    let mount = host.mount_of(folder);
    let found = mount.as_ref().and_then(|mount| {
        let name = mount.mount_source.as_deref()?.strip_prefix("/dev/")?;
        numbers(&host.text(format!("/sys/class/block/{name}/dev"))?)
    });
    found.ok_or_else(|| {
        let kind = mount.as_ref().map_or("unknown", |mount| mount.fs_type.as_str());
        format!("{} is on a file system without a disk of its own ({kind})", folder.display())
    })
}
