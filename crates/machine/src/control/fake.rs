//! A fake machine whose control groups behave as the kernel's do: a new group has its files, a process is in one group
//! of each hierarchy, a group with members cannot be removed. Changes can be made to fail at a chosen moment.

mod kernel;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::host::Host;
use kernel::{FakeKernel, lines, members, stat};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Groups {
    /// Every controller in a hierarchy of its own.
    V1,
    /// All controllers in one hierarchy.
    V2,
    /// Version 1, but for the disk, which is in version 2.
    Hybrid,
}

pub(crate) const EVERY: [Groups; 3] = [Groups::V1, Groups::V2, Groups::Hybrid];

/// The machine. Dropping it removes its files.
pub(crate) struct Machine {
    folder: tempfile::TempDir,
    kernel: Arc<FakeKernel>,
    pub groups: Groups,
}

const V1: [&str; 5] = ["cpu", "cpuacct", "cpuset", "memory", "blkio"];
const V2_ALL: &str = "cpuset cpu io memory";

impl Machine {
    /// A machine with four cores, and processes 100, of threads 100 and 101, and 200, a child of 100; 100 is in the
    /// group `db`, 200 in `db/sub` (in version 2: below groups that offer all controllers).
    pub fn new(groups: Groups) -> Machine {
        let folder = quick_folder();
        let kernel =
            Arc::new(FakeKernel { root: folder.path().to_owned(), trouble: Mutex::default(), left: Mutex::default() });
        let machine = Machine { folder, kernel, groups };
        let mut mounts = String::new();
        for (at, mount) in machine.hierarchies().iter().enumerate() {
            let (kind, options) =
                if mount.1 { ("cgroup2", "rw".to_owned()) } else { ("cgroup", format!("rw,{}", mount.0)) };
            mounts += &format!("{} 1 0:{at} / /sys/fs/cgroup/{} rw - {kind} none {options}\n", 30 + at, mount.0);
            let root = machine.path(&format!("/sys/fs/cgroup/{}", mount.0));
            machine.kernel.fill(&root, mount.1, if mount.1 { machine.offered() } else { mount.0 });
            for group in ["db", "db/sub"] {
                machine.kernel.new_group(&root.join(group)).unwrap();
            }
            if mount.0 == "cpuset" {
                for group in ["", "db", "db/sub"] {
                    fs::write(root.join(group).join("cpuset.cpus"), "0-3\n").unwrap();
                    fs::write(root.join(group).join("cpuset.mems"), "0\n").unwrap();
                }
            }
        }
        machine.write("/proc/self/mountinfo", &mounts);
        machine.write("/proc/uptime", "50.00 100.00\n");
        machine.write("/proc/meminfo", "MemTotal: 8388608 kB\n");
        machine.write("/sys/devices/system/cpu/online", "0-3\n");
        machine.write("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        machine.write("/proc/sys/kernel/sched_autogroup_enabled", "1\n");
        machine.write("/proc/self/status", "CapEff:\t000001ffffffffff\n");
        for core in 0..4 {
            // Cores 0 and 2 are hardware threads of one physical core.
            let siblings = if core % 2 == 0 { "0,2\n" } else { "1,3\n" };
            machine.write(&format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list"), siblings);
        }
        machine.process(100, 1, &[100, 101], "db");
        machine.process(200, 100, &[200], "db/sub");
        machine.write("/proc/self/cgroup", &fs::read_to_string(machine.path("/proc/100/cgroup")).unwrap());
        machine.disk();
        machine
    }

    /// The folders below `/sys/fs/cgroup`, and whether they are of version 2.
    fn hierarchies(&self) -> Vec<(&'static str, bool)> {
        let v1 = V1.iter().filter(|name| self.groups == Groups::V1 || **name != "blkio").map(|name| (*name, false));
        match self.groups {
            Groups::V1 => v1.collect(),
            Groups::V2 => vec![("unified", true)],
            Groups::Hybrid => v1.chain([("unified", true)]).collect(),
        }
    }

    fn offered(&self) -> &'static str {
        if self.groups == Groups::V2 { V2_ALL } else { "io" }
    }

    /// A disk below `/data`, by the number of the real one below the folder of this machine.
    fn disk(&self) {
        fs::create_dir_all(self.path("/data")).unwrap();
        let number = fs::metadata(self.path("/data")).unwrap().dev();
        let (major, minor) = match rustix::fs::major(number) {
            0 => (254, 0),
            major => (major, rustix::fs::minor(number)),
        };
        let mounts = fs::read_to_string(self.path("/proc/self/mountinfo")).unwrap();
        self.write("/proc/self/mountinfo", &format!("{mounts}29 1 {major}:{minor} / /data rw - ext4 /dev/disk rw\n"));
        self.write("/sys/class/block/disk/dev", &format!("{major}:{minor}\n"));
        self.write("/proc/diskstats", &format!("{major} {minor} disk 0 0 0 0 0 0 0 0 0 0 0\n"));
    }

    /// Begins a process in a group of each hierarchy.
    pub fn process(&self, process: i32, parent: i32, threads: &[i32], group: &str) {
        for thread in threads {
            for folder in [format!("/proc/{thread}/task/{thread}"), format!("/proc/{process}/task/{thread}")] {
                self.write(&format!("{folder}/stat"), &stat(*thread, parent, 0, i64::from(*thread)));
                self.write(&format!("{folder}/status"), "Name:\tx\nCpus_allowed_list:\t0-3\n");
            }
        }
        self.write(&format!("/proc/{process}/stat"), &stat(process, parent, 0, i64::from(process)));
        self.write(&format!("/proc/{process}/smaps_rollup"), "x [rollup]\nPss_Anon: 1024 kB\nPss_Shmem: 0 kB\n");
        self.write(&format!("/proc/{process}/io"), "read_bytes: 0\nwrite_bytes: 0\n");
        for (mount, _) in self.hierarchies() {
            self.kernel.join(&self.path(&format!("/sys/fs/cgroup/{mount}/{group}/cgroup.procs")), process).unwrap();
        }
    }

    /// Ends a process.
    pub fn end(&self, process: i32) {
        members(&self.path("/sys/fs/cgroup"), &mut |procs, mut listed| {
            listed.retain(|member| *member != process);
            if procs.exists() {
                fs::write(procs, lines(&listed)).unwrap();
            }
        });
        self.remove(&format!("/proc/{process}"));
    }

    pub fn host(&self) -> Host {
        Host::changed_by(self.folder.path(), self.kernel.clone())
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path.trim_start_matches('/'))
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn remove(&self, path: &str) {
        let path = self.path(path);
        if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
    }

    /// From now on `good` changes succeed and `bad` fail, before all succeed again.
    pub fn trouble(&self, good: usize, bad: usize) {
        *self.kernel.trouble.lock().unwrap() = Some((good, bad));
        self.kernel.left.lock().unwrap().1 = None;
    }

    /// Reads this file whenever a change fails.
    pub fn watch(&self, file: PathBuf) {
        self.kernel.left.lock().unwrap().0 = file;
    }

    /// The content of the watched file at the first failed change; `None` if none has failed.
    pub fn left(&self) -> Option<Vec<u8>> {
        self.kernel.left.lock().unwrap().1.clone()
    }

    /// Drops `made` while all changes fail, as if its process had been killed. The journal is then the one at the first
    /// failed change, or else the present one.
    pub fn kill<T>(&self, made: T, journal: &Path) {
        let text = self.left().map_or_else(|| fs::read(journal).ok(), Some);
        self.trouble(0, usize::MAX);
        drop(made);
        self.trouble(0, 0);
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            fs::create_dir_all(journal.parent().unwrap()).unwrap();
            fs::write(journal, text).unwrap();
        }
    }

    /// Whether none of the planned failures has occurred yet.
    pub(crate) fn is_trouble_ahead(&self) -> bool {
        self.kernel.trouble.lock().unwrap().is_some_and(|(_, bad)| bad > 0)
    }

    /// Every file with its text, and every folder.
    pub fn snapshot(&self) -> BTreeMap<PathBuf, String> {
        fn walk(folder: &Path, found: &mut BTreeMap<PathBuf, String>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, found);
                    found.insert(path, String::new());
                } else {
                    let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
                    found.insert(path, text);
                }
            }
        }
        let mut found = BTreeMap::new();
        walk(self.folder.path(), &mut found);
        found
    }
}

/// A folder for a test, in memory if such a file system exists: a thousand syncs are slow on a disk.
pub(crate) fn quick_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}
