//! Free memory and disk space, and whether a folder lies on a disk.

use std::io;
use std::path::Path;

use crate::groups::Cgroups;
use crate::host::Host;

/// Memory this process can still take without swapping, bytes: what the kernel has to give, and no more than the room
/// below the memory limits of its control groups. `None` if the kernel does not say.
pub fn available_memory() -> Option<u64> {
    available_memory_on(&Host::real())
}

fn available_memory_on(host: &Host) -> Option<u64> {
    let machine = host.line_value("/proc/meminfo", "MemAvailable")?;
    Some(Cgroups::read(host).memory_room().map_or(machine, |room| room.min(machine)))
}

/// Bytes that an ordinary user can still write to the file system that holds `path`, which must exist.
pub fn free_disk(path: &Path) -> io::Result<u64> {
    let space = rustix::fs::statvfs(path)?;
    Ok(space.f_bavail.saturating_mul(space.f_frsize))
}

/// File systems that keep files in memory, by the magic numbers of the kernel's `magic.h`.
const IN_MEMORY: [(u64, &str); 3] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs"), (0x9584_58f6, "hugetlbfs")];

/// The kind of the file system that holds `path` if it keeps files in memory: measurements there do not measure a disk.
pub fn memory_file_system(path: &Path) -> io::Result<Option<&'static str>> {
    // The type is 32 bits wide on some kernels and sign-extended.
    let kind = rustix::fs::statfs(path)?.f_type as u64 & 0xffff_ffff;
    Ok(IN_MEMORY.iter().find(|(magic, _)| *magic == kind).map(|(_, name)| *name))
}

/// Whether the file system that holds `path` takes no writes at all.
pub fn is_read_only(path: &Path) -> io::Result<bool> {
    Ok(rustix::fs::statvfs(path)?.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::FakeHost;

    #[test]
    fn memory_is_bounded_by_the_group() {
        let fake = FakeHost::new(&[("/proc/meminfo", "MemTotal: 4096 kB\nMemAvailable: 2048 kB\n")]);
        assert_eq!(available_memory_on(&fake.host()), Some(2048 * 1024));
        fake.write("/proc/self/mountinfo", "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        fake.write("/proc/self/cgroup", "0::/\n");
        fake.write("/sys/fs/cgroup/cgroup.controllers", "memory\n");
        fake.write("/sys/fs/cgroup/memory.max", "1000000\n");
        fake.write("/sys/fs/cgroup/memory.current", "400000\n");
        assert_eq!(available_memory_on(&fake.host()), Some(600_000));
        assert_eq!(available_memory_on(&FakeHost::new(&[]).host()), None);
    }

    #[test]
    fn this_machine_has_memory_and_disk() {
        assert_eq!(memory_file_system(Path::new("/proc")).unwrap(), None);
        if Path::new("/dev/shm").exists() {
            assert_eq!(memory_file_system(Path::new("/dev/shm")).unwrap(), Some("tmpfs"));
        }
        assert!(!is_read_only(&std::env::temp_dir()).unwrap());
        assert!(available_memory().is_some_and(|bytes| bytes > 1 << 20));
        assert!(free_disk(Path::new("/")).is_ok());
        assert_eq!(free_disk(Path::new("/no/such/folder")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
