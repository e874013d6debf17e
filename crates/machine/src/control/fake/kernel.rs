//! The kernel of a fake machine: its control groups, threads and registers.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::io::Errno;

use crate::change::Changes;
use crate::control::cores;

#[derive(Debug)]
pub(super) struct FakeKernel {
    pub root: PathBuf,
    /// How many changes succeed, and how many then fail.
    pub trouble: Mutex<Option<(usize, usize)>>,
    /// A file, and its text at the first failed change, as a process killed there would leave it.
    pub left: Mutex<(PathBuf, Option<Vec<u8>>)>,
}

/// The files of a group, by controller, and their initial content.
const FILES_V1: [(&str, &[(&str, &str)]); 5] = [
    (
        "cpu",
        &[
            ("cpu.shares", "1024"),
            ("cpu.idle", "0"),
            ("cpu.cfs_quota_us", "-1"),
            ("cpu.cfs_period_us", "100000"),
            ("cpu.stat", "nr_periods 0\nnr_throttled 0\n"),
        ],
    ),
    ("cpuacct", &[("cpuacct.usage", "0")]),
    (
        "cpuset",
        &[("cpuset.cpus", ""), ("cpuset.mems", ""), ("cpuset.effective_cpus", "0-3"), ("cpuset.effective_mems", "0")],
    ),
    (
        "memory",
        &[
            ("memory.limit_in_bytes", "9223372036854771712"),
            ("memory.usage_in_bytes", "1048576"),
            ("memory.stat", "total_rss 0\ntotal_shmem 0\n"),
        ],
    ),
    (
        "blkio",
        &[
            ("blkio.throttle.read_bps_device", ""),
            ("blkio.throttle.write_bps_device", ""),
            ("blkio.throttle.read_iops_device", ""),
            ("blkio.throttle.write_iops_device", ""),
            ("blkio.throttle.io_service_bytes", ""),
            ("blkio.throttle.io_serviced", ""),
        ],
    ),
];
const FILES_V2: [(&str, &[(&str, &str)]); 4] = [
    (
        "cpu",
        &[
            ("cpu.weight", "100"),
            ("cpu.idle", "0"),
            ("cpu.max", "max 100000"),
            ("cpu.stat", "usage_usec 0\nnr_throttled 0\n"),
        ],
    ),
    ("cpuset", &[("cpuset.cpus", ""), ("cpuset.cpus.effective", "0-3")]),
    ("memory", &[("memory.max", "max"), ("memory.current", "1048576"), ("memory.stat", "anon 0\nshmem 0\n")]),
    ("io", &[("io.max", ""), ("io.stat", "")]),
];

pub(super) fn stat(id: i32, parent: i32, nice: i32, started: i64) -> String {
    let zeros = |count: usize| " 0".repeat(count);
    format!("{id} (x) S {parent}{}{} {nice} 1 0 {started}{} 17 1{}\n", zeros(13), " 20", zeros(15), zeros(13))
}

impl FakeKernel {
    fn group_root(&self, path: &Path) -> Option<(PathBuf, String)> {
        let below = path.strip_prefix(self.root.join("sys/fs/cgroup")).ok()?;
        let mount = below.iter().next()?.to_string_lossy().into_owned();
        Some((self.root.join("sys/fs/cgroup").join(&mount), mount))
    }

    pub fn fill(&self, folder: &Path, unified: bool, controllers: &str) {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("cgroup.procs"), "").unwrap();
        if unified {
            fs::write(folder.join("cgroup.controllers"), format!("{controllers}\n")).unwrap();
            fs::write(folder.join("cgroup.subtree_control"), format!("{controllers}\n")).unwrap();
        }
        let all: &[(&str, &[(&str, &str)])] = if unified { &FILES_V2 } else { &FILES_V1 };
        for (controller, files) in all {
            if controllers.split_whitespace().any(|name| name == *controller) {
                for (file, text) in *files {
                    let end = if text.is_empty() { "" } else { "\n" };
                    fs::write(folder.join(file), format!("{text}{end}")).unwrap();
                }
            }
        }
    }

    /// A new group has the controllers that the one above offers, and offers none itself.
    pub(crate) fn new_group(&self, folder: &Path) -> io::Result<()> {
        let (_, mount) = self.group_root(folder).expect("a folder of control groups");
        fs::create_dir(folder)?;
        let above = folder.parent().unwrap();
        let unified = above.join("cgroup.subtree_control").exists();
        let offered = match unified {
            true => fs::read_to_string(above.join("cgroup.subtree_control"))?.trim().to_owned(),
            false => mount,
        };
        self.fill(folder, unified, &offered);
        if unified {
            fs::write(folder.join("cgroup.subtree_control"), "\n")?;
        }
        Ok(())
    }

    pub fn join(&self, file: &Path, process: i32) -> io::Result<()> {
        let folder = file.parent().unwrap();
        let (root, mount) = self.group_root(folder).expect("a folder of control groups");
        if !self.root.join(format!("proc/{process}")).exists() {
            return Err(Errno::SRCH.into());
        }
        if fs::read_to_string(folder.join("cpuset.mems")).is_ok_and(|text| text.trim().is_empty()) {
            return Err(Errno::NOSPC.into());
        }
        let offers = fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
        if !offers.trim().is_empty() && folder != root {
            return Err(Errno::BUSY.into());
        }
        members(&root, &mut |procs, mut listed| {
            listed.retain(|member| *member != process);
            fs::write(procs, lines(&listed)).unwrap();
        });
        let mut listed = numbers(file);
        listed.push(process);
        listed.sort_unstable();
        fs::write(file, lines(&listed))?;
        let below = folder.strip_prefix(&root).unwrap().display();
        let name = if root.join("cgroup.controllers").exists() { "" } else { &mount };
        let membership = self.root.join(format!("proc/{process}/cgroup"));
        let mut text: BTreeMap<String, String> = fs::read_to_string(&membership)
            .unwrap_or_default()
            .lines()
            .filter_map(|line| Some((line.split(':').nth(1)?.to_owned(), line.to_owned())))
            .collect();
        text.insert(name.to_owned(), format!("{}:{name}:/{below}", if name.is_empty() { 0 } else { 1 }));
        let text: String = text.values().map(|line| format!("{line}\n")).collect();
        for thread in fs::read_dir(self.root.join(format!("proc/{process}/task")))? {
            fs::write(thread?.path().join("cgroup"), &text)?;
        }
        fs::write(membership, text)?;
        self.bind(folder)
    }

    /// Lets the members of a group run on its cores only.
    fn bind(&self, folder: &Path) -> io::Result<()> {
        let (root, _) = self.group_root(folder).expect("a folder of control groups");
        let above = folder.ancestors().take_while(|above| above.starts_with(&root));
        let text = |folder: &Path, file: &str| fs::read_to_string(folder.join(file)).ok();
        // A group without the controller, or without a list of its own, uses that of the group above.
        let bound = above.filter_map(|above| text(above, "cpuset.cpus")).find(|list| !list.trim().is_empty());
        let Some(list) = bound.or_else(|| text(&root, "cpuset.cpus.effective")) else { return Ok(()) };
        for process in numbers(&folder.join("cgroup.procs")) {
            for thread in fs::read_dir(self.root.join(format!("proc/{process}/task")))? {
                let thread = thread?.file_name().to_string_lossy().parse().unwrap();
                self.on_thread(thread, "status", |_| format!("Name:\tx\nCpus_allowed_list:\t{}\n", list.trim()))?;
            }
        }
        Ok(())
    }

    fn step(&self) -> io::Result<()> {
        let mut trouble = self.trouble.lock().unwrap();
        match &mut *trouble {
            Some((0, 0)) | None => Ok(()),
            Some((0, bad)) => {
                *bad -= 1;
                let (file, text) = &mut *self.left.lock().unwrap();
                text.get_or_insert_with(|| fs::read(file).unwrap_or_default());
                Err(Errno::IO.into())
            }
            Some((good, _)) => {
                *good -= 1;
                Ok(())
            }
        }
    }
}

fn numbers(file: &Path) -> Vec<i32> {
    fs::read_to_string(file).unwrap_or_default().lines().filter_map(|line| line.parse().ok()).collect()
}

pub(super) fn lines(numbers: &[i32]) -> String {
    numbers.iter().map(|number| format!("{number}\n")).collect()
}

pub(super) fn members(folder: &Path, change: &mut dyn FnMut(&Path, Vec<i32>)) {
    let file = folder.join("cgroup.procs");
    change(&file, numbers(&file));
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            members(&path, change);
        }
    }
}

/// The content of a file with a line per device, after a write to it.
fn merged(old: &str, text: &str) -> String {
    let split = |line: &str| line.split_once(' ').map(|(device, rest)| (device.to_owned(), rest.trim().to_owned()));
    let mut devices: BTreeMap<String, String> = old.lines().filter_map(split).collect();
    let (device, rest) = split(text).expect("a device and what is allowed");
    if rest.contains('=') {
        let mut keys: BTreeMap<String, String> =
            ["rbps", "riops", "wbps", "wiops"].map(|key| (key.to_owned(), "max".to_owned())).into();
        let old = devices.remove(&device).unwrap_or_default();
        for pair in old.split_whitespace().chain(rest.split_whitespace()) {
            let (key, value) = pair.split_once('=').expect("a key and a value");
            keys.insert(key.to_owned(), value.to_owned());
        }
        if keys.values().any(|value| value != "max") {
            devices.insert(device, keys.iter().map(|(key, value)| format!("{key}={value} ")).collect());
        }
    } else if rest == "0" {
        devices.remove(&device);
    } else {
        devices.insert(device, rest);
    }
    devices.iter().map(|(device, rest)| format!("{device} {}\n", rest.trim())).collect()
}

impl Changes for FakeKernel {
    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        self.step()?;
        let old = fs::read_to_string(path)?;
        let name = path.file_name().unwrap().to_string_lossy();
        let new = match &*name {
            "cgroup.procs" => return self.join(path, text.trim().parse().map_err(|_| Errno::INVAL)?),
            "io.max" => merged(&old, text),
            device if device.ends_with("_device") => merged(&old, text),
            "cpu.max" if text == "max" => "max 100000\n".to_owned(),
            "memory.limit_in_bytes" if text == "-1" => "9223372036854771712\n".to_owned(),
            "cpuset.cpus" | "cpuset.mems" if text.is_empty() => return Err(Errno::INVAL.into()),
            "enabled" => {
                ["always", "madvise", "never"]
                    .map(|word| if word == text { format!("[{word}]") } else { word.to_owned() })
                    .join(" ")
                    + "\n"
            }
            _ => format!("{}\n", text.trim()),
        };
        let is_cores = name == "cpuset.cpus";
        fs::write(path, new)?;
        if is_cores { self.bind(path.parent().unwrap()) } else { Ok(()) }
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        self.new_group(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        let below = fs::read_dir(path)?.any(|entry| entry.unwrap().path().is_dir());
        if below || !numbers(&path.join("cgroup.procs")).is_empty() {
            return Err(Errno::BUSY.into());
        }
        fs::remove_dir_all(path)
    }

    fn set_affinity(&self, thread: i32, cores: &[usize]) -> io::Result<()> {
        self.step()?;
        let list = cores::list(cores.iter().copied());
        self.on_thread(thread, "status", |_| format!("Name:\tx\nCpus_allowed_list:\t{list}\n"))
    }

    fn set_nice(&self, thread: i32, nice: i32) -> io::Result<()> {
        self.step()?;
        self.on_thread(thread, "stat", |old| {
            let fields: Vec<&str> = old.split_whitespace().collect();
            let number = |at: usize| fields[at].parse::<i64>().unwrap();
            stat(number(0) as i32, number(3) as i32, nice, number(21))
        })
    }

    fn set_register(&self, path: &Path, register: u32, value: u64) -> io::Result<()> {
        use std::os::unix::fs::FileExt;

        self.step()?;
        fs::OpenOptions::new().write(true).open(path)?.write_all_at(&value.to_le_bytes(), register.into())
    }
}

impl FakeKernel {
    /// Changes a file of a thread wherever `/proc` shows it.
    fn on_thread(&self, thread: i32, file: &str, change: impl Fn(&str) -> String) -> io::Result<()> {
        let mut found = false;
        for process in fs::read_dir(self.root.join("proc"))? {
            let path = process?.path().join(format!("task/{thread}/{file}"));
            if let Ok(old) = fs::read_to_string(&path) {
                fs::write(path, change(&old))?;
                found = true;
            }
        }
        if found { Ok(()) } else { Err(Errno::SRCH.into()) }
    }
}
