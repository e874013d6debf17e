//! Reading `/proc` and `/sys` below a root, so that a test can read a folder that looks like another machine.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use procfs::FromRead;
use procfs::process::{MountInfo, MountInfos};

use crate::change::{Changes, Kernel};

/// A machine as its file systems show it. A missing file gives `None`; nothing panics.
#[derive(Debug, Clone)]
pub struct Host {
    root: PathBuf,
    changes: Arc<dyn Changes>,
}

impl Host {
    /// The machine this process runs on.
    pub fn real() -> Host {
        Host::at("/")
    }

    /// A machine whose `/proc` and `/sys` lie below `root`.
    pub fn at(root: impl Into<PathBuf>) -> Host {
        let root = root.into();
        let changes = Arc::new(Kernel { is_real: root == Path::new("/") });
        Host { root, changes }
    }

    /// A machine whose `/proc` and `/sys` lie below `root`, and on which `changes` acts as the kernel.
    pub fn changed_by(root: impl Into<PathBuf>, changes: Arc<dyn Changes>) -> Host {
        Host { root: root.into(), changes }
    }

    /// Whether this is the machine this process runs on, so that system calls apply to it too.
    pub(crate) fn is_real(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The place on this machine of `path`, which is absolute on that machine.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Whether the file or folder exists.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.path(path).exists()
    }

    /// The text of a file without the white space around it; `None` if it cannot be read or is not text.
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        std::fs::read_to_string(self.path(path)).ok().map(|text| text.trim().to_owned())
    }

    /// The value a file holds; `None` if it holds something else, `max` for one.
    pub fn value<T: FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// The logical cores a file lists, as in `0-3,8`.
    pub fn cores(&self, path: impl AsRef<Path>) -> Option<Vec<usize>> {
        parse_core_list(&self.text(path)?)
    }

    /// The value of the line that begins with `key`, as in `MemTotal:  1024 kB` or `inactive_file 4096`.
    pub(crate) fn line_value(&self, path: impl AsRef<Path>, key: &str) -> Option<u64> {
        let text = self.text(path)?;
        let mut fields = text
            .lines()
            .map(str::split_whitespace)
            .find_map(|mut line| (line.next()?.trim_end_matches(':') == key).then_some(line))?;
        let value: u64 = fields.next()?.parse().ok()?;
        match fields.next() {
            Some("kB") => value.checked_mul(1024),
            _ => Some(value),
        }
    }

    /// The names in a folder, in order; none if there is no such folder.
    pub fn names(&self, folder: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(folder)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// The names in a folder that are numbers, as those of processes in `/proc` and of threads in `/proc/PID/task`.
    pub(crate) fn numbers(&self, folder: impl AsRef<Path>) -> Vec<i32> {
        self.names(folder).iter().filter_map(|name| name.parse().ok()).collect()
    }

    /// The mount table as this process sees it.
    pub(crate) fn mounts(&self) -> Vec<MountInfo> {
        self.parsed::<MountInfos>("/proc/self/mountinfo").map(|mounts| mounts.0).unwrap_or_default()
    }

    /// The mount that holds a folder. If several are mounted over each other, the last one is visible.
    pub(crate) fn mount_of(&self, folder: &Path) -> Option<MountInfo> {
        let within = self.mounts().into_iter().filter(|mount| folder.starts_with(&mount.mount_point));
        within.max_by_key(|mount| mount.mount_point.as_os_str().len())
    }

    /// A file in a format that `procfs` can parse.
    pub(crate) fn parsed<T: FromRead>(&self, path: impl AsRef<Path>) -> Option<T> {
        T::from_read(File::open(self.path(path)).ok()?).ok()
    }

    /// Writes a text to an existing file in a single write, as the kernel's files require.
    pub fn write(&self, path: impl AsRef<Path>, text: &str) -> io::Result<()> {
        self.changes.write(&self.path(path), text)
    }

    /// Makes a folder in an existing one.
    pub fn make_folder(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.changes.make_folder(&self.path(path))
    }

    /// Removes a folder; a control group must have no members and no groups below it.
    pub fn remove_folder(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.changes.remove_folder(&self.path(path))
    }

    /// Lets a thread run on these cores only.
    pub fn set_affinity(&self, thread: i32, cores: &[usize]) -> io::Result<()> {
        self.changes.set_affinity(thread, cores)
    }

    /// Gives a thread a nice value.
    pub fn set_nice(&self, thread: i32, nice: i32) -> io::Result<()> {
        self.changes.set_nice(thread, nice)
    }

    /// Gives a thread a scheduling policy without real-time guarantees, as the kernel numbers them (sched(7)).
    pub fn set_scheduling_policy(&self, thread: i32, policy: i32) -> io::Result<()> {
        self.changes.set_scheduling_policy(thread, policy)
    }

    /// For how long a thread keeps a core while others wait for it; `None` where the kernel does not report it (Linux
    /// before 6.12).
    pub fn slice(&self, thread: i32) -> Option<Duration> {
        self.changes.slice(thread)
    }

    /// Sets that time, 0.1 to 100 ms. It has no effect on a thread with `SCHED_IDLE`.
    pub fn set_slice(&self, thread: i32, slice: Duration) -> io::Result<()> {
        self.changes.set_slice(thread, slice)
    }

    /// The value of a model-specific register of a core.
    pub fn register(&self, core: usize, register: u32) -> io::Result<u64> {
        let mut value = [0; 8];
        File::open(self.path(register_file(core)))?.read_exact_at(&mut value, register.into())?;
        Ok(u64::from_le_bytes(value))
    }

    /// Gives a model-specific register of a core a value.
    pub fn set_register(&self, core: usize, register: u32, value: u64) -> io::Result<()> {
        self.changes.set_register(&self.path(register_file(core)), register, value)
    }

    /// Whether this process may write to a file or folder. Asks, and changes nothing.
    pub fn writable(&self, path: impl AsRef<Path>) -> bool {
        rustix::fs::access(self.path(path), rustix::fs::Access::WRITE_OK).is_ok()
    }
}

/// The kernel's file of a core's model-specific registers.
fn register_file(core: usize) -> String {
    format!("/dev/cpu/{core}/msr")
}

/// Reads `0-3,8`. `None` if any part is not a number or a range, or a range runs backwards.
pub fn parse_core_list(text: &str) -> Option<Vec<usize>> {
    /// More cores than Linux can be built for; a longer range is invalid and is not expanded.
    const CORES_MAX: usize = 1 << 16;
    let mut cores = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= CORES_MAX {
            return None;
        }
        cores.extend(first..=last);
    }
    (!cores.is_empty()).then_some(cores)
}

/// Folders that represent fake machines.
#[cfg(test)]
pub(crate) mod fake {
    use super::Host;

    /// A machine made of `(path, text)` pairs, removed when dropped.
    pub(crate) struct FakeHost {
        folder: tempfile::TempDir,
    }

    impl FakeHost {
        pub(crate) fn new(files: &[(&str, &str)]) -> FakeHost {
            let fake = FakeHost { folder: tempfile::tempdir().unwrap() };
            for (path, text) in files {
                fake.write(path, text);
            }
            fake
        }

        pub(crate) fn write(&self, path: &str, text: &str) {
            let path = self.host().path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        pub(crate) fn host(&self) -> Host {
            Host::at(self.folder.path())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fake::FakeHost;
    use super::parse_core_list;

    #[test]
    fn core_lists() {
        let check =
            |text: &str, expect: Option<&[usize]>| assert_eq!(parse_core_list(text).as_deref(), expect, "{text}");
        check("0", Some(&[0]));
        check("0-3", Some(&[0, 1, 2, 3]));
        check("0-1,8,10-11", Some(&[0, 1, 8, 10, 11]));
        check("", None);
        check("3-1", None);
        check("0-99999999999", None);
        check("none", None);
    }

    #[test]
    fn lines_with_and_without_unit() {
        let fake =
            FakeHost::new(&[("/a", "MemTotal:   2 kB\nHugePages:  7\ninactive_file 5\nMemTotal: 9 kB\nbad x\n")]);
        let check = |key: &str, expect: Option<u64>| assert_eq!(fake.host().line_value("/a", key), expect, "{key}");
        check("MemTotal", Some(2048));
        check("HugePages", Some(7));
        check("inactive_file", Some(5));
        check("bad", None);
        check("Mem", None);
    }

    #[test]
    fn what_is_not_there_is_none() {
        let fake = FakeHost::new(&[("/limit", "max\n")]);
        assert_eq!(fake.host().value::<u64>("/limit"), None);
        assert_eq!(fake.host().text("/none"), None);
        assert!(fake.host().names("/none").is_empty());
        assert!(!fake.host().writable("/none"));
    }
}
