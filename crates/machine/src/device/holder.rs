//! Which disk holds a file.

use std::path::{Path, PathBuf};

use procfs::process::MountInfos;
use thiserror::Error;

use crate::host::Host;

/// A whole disk, as limits on disk bandwidth name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// Its name below `/sys/block` and in `/proc/diskstats`.
    pub name: String,
    /// Its device number, `259:0`.
    pub number: String,
}

/// Why a path is on no disk that can be named.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NoDisk {
    /// The path cannot be looked up.
    #[error("cannot look up {path}: {error}")]
    NoPath {
        /// The path.
        path: String,
        /// The system's words.
        error: std::io::Error,
    },
    /// Its file system lies on no disk of its own: on memory, the network, or other file systems.
    #[error("{path} is on a file system of type {kind}, which has no disk of its own; name a folder on a disk")]
    NoDevice {
        /// The path.
        path: String,
        /// `overlay`, `btrfs`, `tmpfs`.
        kind: String,
    },
    /// `/sys` does not show the device.
    #[error("{path} is on device {number}, which /sys/dev/block does not show; mount /sys in the container")]
    Hidden {
        /// The path.
        path: String,
        /// The device number.
        number: String,
    },
    /// The device is made of several disks.
    #[error("{path} is on {device}, which is made of several disks ({disks}); name a folder on one disk")]
    Several {
        /// The path.
        path: String,
        /// `md0`, `dm-1`.
        device: String,
        /// Their names, with commas.
        disks: String,
    },
}

/// The whole disk that holds `path`, which must exist on this machine. Partitions are followed to their disk, mapped
/// devices (encryption, logical volumes) to the one that is below them.
pub fn disk_of(host: &Host, path: &Path) -> Result<Disk, NoDisk> {
    let told = || path.display().to_string();
    let stat = rustix::fs::stat(path).map_err(|errno| NoDisk::NoPath { path: told(), error: errno.into() })?;
    let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    if major == 0 {
        return Err(NoDisk::NoDevice { path: told(), kind: file_system(host, path) });
    }
    disk_with_number(host, &format!("{major}:{minor}"), path)
}

/// Follows a device, given by its number, to its whole disk.
fn disk_with_number(host: &Host, number: &str, path: &Path) -> Result<Disk, NoDisk> {
    let told = || path.display().to_string();
    let hidden = || NoDisk::Hidden { path: told(), number: number.to_owned() };
    // The folder is reached by a link; within it `..` is the disk of a partition only after the link is followed.
    let folder = std::fs::canonicalize(host.path(format!("/sys/dev/block/{number}"))).map_err(|_| hidden())?;
    let folder = match folder.join("partition").exists() {
        true => folder.parent().map(PathBuf::from).ok_or_else(hidden)?,
        false => folder,
    };
    let device = folder.file_name().ok_or_else(hidden)?.to_string_lossy().into_owned();
    let read_number = |folder: &Path| std::fs::read_to_string(folder.join("dev")).map(|text| text.trim().to_owned());
    let mut below: Vec<String> = std::fs::read_dir(folder.join("slaves"))
        .map(|entries| entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
        .unwrap_or_default();
    below.sort();
    match below.as_slice() {
        [] => Ok(Disk { number: read_number(&folder).map_err(|_| hidden())?, name: device.replace('!', "/") }),
        [one] => {
            let below = read_number(&folder.join("slaves").join(one)).map_err(|_| hidden())?;
            disk_with_number(host, &below, path)
        }
        several => Err(NoDisk::Several { path: told(), device, disks: several.join(", ") }),
    }
}

/// The type of the file system that holds `path`, by the mount point nearest above it.
fn file_system(host: &Host, path: &Path) -> String {
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mounts = host.parsed::<MountInfos>("/proc/self/mountinfo").map(|mounts| mounts.0).unwrap_or_default();
    let above = mounts.into_iter().filter(|mount| path.starts_with(&mount.mount_point));
    // Of two at one place the later covers the earlier.
    let nearest = above.max_by_key(|mount| mount.mount_point.components().count());
    nearest.map_or_else(|| "unknown".to_owned(), |mount| mount.fs_type)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::host::fake::FakeHost;

    /// A disk with a partition, encrypted; a volume over two disks; all as `/sys` shows them.
    fn machine() -> FakeHost {
        let fake = FakeHost::new(&[
            ("/sys/devices/pci/block/sda/dev", "8:0\n"),
            ("/sys/devices/pci/block/sda/sda2/dev", "8:2\n"),
            ("/sys/devices/pci/block/sda/sda2/partition", "2\n"),
            ("/sys/devices/pci/block/sdb/dev", "8:16\n"),
            ("/sys/devices/virtual/block/dm-0/dev", "253:0\n"),
            ("/sys/devices/virtual/block/md0/dev", "9:0\n"),
            ("/sys/devices/virtual/block/md0/slaves/sdb/dev", "8:16\n"),
            ("/sys/devices/virtual/block/md0/slaves/sda2/dev", "8:2\n"),
            ("/sys/devices/pci/block/cciss!c0d0/dev", "104:0\n"),
            ("/sys/dev/block/README", ""),
            ("/sys/devices/virtual/block/dm-0/slaves/README", ""),
        ]);
        let host = fake.host();
        std::fs::remove_file(host.path("/sys/devices/virtual/block/dm-0/slaves/README")).unwrap();
        let link = |to: &str, from: &str| symlink(host.path(to), host.path(from)).unwrap();
        link("/sys/devices/pci/block/sda/sda2", "/sys/devices/virtual/block/dm-0/slaves/sda2");
        for (number, folder) in [
            ("8:0", "pci/block/sda"),
            ("8:2", "pci/block/sda/sda2"),
            ("253:0", "virtual/block/dm-0"),
            ("9:0", "virtual/block/md0"),
            ("104:0", "pci/block/cciss!c0d0"),
        ] {
            link(&format!("/sys/devices/{folder}"), &format!("/sys/dev/block/{number}"));
        }
        fake
    }

    #[test]
    fn devices_lead_to_their_disk() {
        let fake = machine();
        let check = |number: &str, expect: Result<(&str, &str), &str>| {
            let found = disk_with_number(&fake.host(), number, Path::new("/data"));
            match (found, expect) {
                (Ok(disk), Ok(expect)) => assert_eq!((disk.name.as_str(), disk.number.as_str()), expect),
                (Err(why), Err(expect)) => assert!(why.to_string().contains(expect), "{why}"),
                (found, expect) => panic!("{number}: {found:?}, not {expect:?}"),
            }
        };
        check("8:0", Ok(("sda", "8:0")));
        check("8:2", Ok(("sda", "8:0")));
        check("253:0", Ok(("sda", "8:0")));
        check("104:0", Ok(("cciss/c0d0", "104:0")));
        check("9:0", Err("/data is on md0, which is made of several disks (sda2, sdb)"));
        check("7:7", Err("on device 7:7, which /sys/dev/block does not show"));
    }

    #[test]
    fn file_systems_without_a_disk_are_named() {
        let host = Host::real();
        let missing = disk_of(&host, Path::new("/no/such/folder"));
        assert!(missing.is_err_and(|why| why.to_string().contains("/no/such/folder")));
        let memory = disk_of(&host, Path::new("/proc/self")).map_err(|why| why.to_string());
        assert!(memory.as_ref().is_err_and(|why| why.contains("type proc,")), "{memory:?}");
        let mounts = "27 1 254:0 / / rw - ext4 /dev/vda rw\n40 27 0:50 / /tmp rw - overlay none rw\n\
                      41 27 0:51 / /tmp rw - tmpfs none rw\n";
        let fake = FakeHost::new(&[("/proc/self/mountinfo", mounts)]);
        assert_eq!(file_system(&fake.host(), Path::new("/tmp")), "tmpfs");
        assert_eq!(file_system(&FakeHost::new(&[]).host(), Path::new("/tmp")), "unknown");
    }

    #[test]
    fn the_disk_of_this_machine_is_one_that_the_kernel_counts() {
        match disk_of(&Host::real(), Path::new(env!("CARGO_MANIFEST_DIR"))) {
            Ok(disk) => {
                let stats = Host::real().text("/proc/diskstats").unwrap_or_default();
                let line = format!(" {} ", disk.name);
                assert!(stats.lines().any(|stat| format!("{stat} ").contains(&line)), "{disk:?}");
            }
            Err(why) => eprintln!("left out: {why}"),
        }
    }
}
