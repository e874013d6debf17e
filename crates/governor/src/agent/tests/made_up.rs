//! A simulated machine whose `/proc` behaves as the kernel's does for the few processes of a server.

mod resctrl;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use plimsoll_machine::change::Changes;
use plimsoll_machine::host::Host;
use plimsoll_machine::resctrl::fake::{FakeKernel as FakeResctrl, Mirror};
use plimsoll_policy::ClassIndex;
use plimsoll_testing::until;

use crate::agent::{Agent, EVERY, ServerHere};
use crate::governor::Governor;
use crate::registry::SessionCard;
use crate::settings::{Cpu, CpuShare, Settings};
use crate::testing;

pub(super) const HIGH: ClassIndex = ClassIndex(0);
pub(super) const LOW: ClassIndex = ClassIndex(1);

pub(super) const POSTMASTER: i32 = 100;
/// The process behind the control connection.
pub(super) const CONTROL: i32 = 101;
/// When all processes began, in seconds since 1970, and since boot.
pub(super) const BEGAN: u64 = 1_000_050;

pub(super) const MOUNT_OF_GROUPS: &str = "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

#[derive(Debug)]
struct FakeKernel {
    proc: PathBuf,
    /// Processes for which the kernel refuses changes.
    refused: Mutex<BTreeSet<i32>>,
    /// Whether nice values can be lowered again.
    may_raise: bool,
    /// The state of resctrl, where it is mounted, and the directory that shows it.
    resctrl: OnceLock<(Arc<FakeResctrl>, Mirror)>,
    /// How often a thread was moved between its groups.
    moves: AtomicUsize,
}

impl FakeKernel {
    /// The directory of resctrl, if it contains the path.
    fn mirror(&self, path: &Path) -> Option<&Mirror> {
        self.resctrl.get().map(|(_, mirror)| mirror).filter(|mirror| mirror.has(path))
    }

    fn fields(&self, process: i32) -> io::Result<Vec<String>> {
        let stat = fs::read_to_string(self.proc.join(format!("{process}/stat")))
            .map_err(|_| io::Error::from_raw_os_error(3))?;
        Ok(stat.split_whitespace().map(str::to_owned).collect())
    }

    /// Lists the members in the files of each group.
    fn list_members(&self) -> io::Result<()> {
        let mount = self.proc.with_file_name("sys").join("fs/cgroup");
        let mut members: BTreeMap<PathBuf, String> = BTreeMap::new();
        for process in fs::read_dir(&self.proc)?.flatten() {
            if let Ok(text) = fs::read_to_string(process.path().join("cgroup")) {
                let group = mount.join(text.trim().trim_start_matches("0::/"));
                *members.entry(group).or_default() += &format!("{}\n", process.file_name().to_string_lossy());
            }
        }
        let groups = fs::read_dir(mount.join("db"))?.flatten().map(|group| group.path());
        for group in groups.filter(|group| group.is_dir()).chain([mount.join("db"), mount.clone()]) {
            if group.join("cgroup.procs").exists() {
                fs::write(group.join("cgroup.procs"), members.get(&group).map_or("", String::as_str))?;
            }
        }
        Ok(())
    }

    fn set(&self, process: i32, field: usize, value: i32) -> io::Result<()> {
        let mut fields = self.fields(process)?;
        let is_less: bool = fields[field].parse::<i32>().is_ok_and(|now| value < now);
        if self.refused.lock().unwrap().contains(&process) || is_less && !self.may_raise {
            return Err(io::Error::from_raw_os_error(13));
        }
        fields[field] = value.to_string();
        // Atomically, like the kernel's files: another thread may be reading it.
        let new = self.proc.join(format!("{process}/new"));
        fs::write(&new, fields.join(" "))?;
        fs::rename(new, self.proc.join(format!("{process}/stat")))
    }
}

impl Changes for FakeKernel {
    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        if let Some(mirror) = self.mirror(path) {
            self.moves.fetch_add(usize::from(path.ends_with("tasks")), Ordering::Relaxed);
            return mirror.write(path, text);
        }
        assert!(path.exists(), "{path:?}");
        if path.ends_with("cgroup.procs") {
            let mount = self.proc.with_file_name("sys").join("fs/cgroup");
            let group = path.parent().unwrap().strip_prefix(mount).unwrap();
            let own = self.proc.join(text);
            fs::write(own.join("new group"), format!("0::/{}\n", group.display()))?;
            fs::rename(own.join("new group"), own.join("cgroup"))?;
            return self.list_members();
        }
        if ["io.max", "cpu.idle", "cpu.weight"].iter().any(|file| path.ends_with(file)) {
            return fs::write(path, text);
        }
        assert!(path.ends_with("autogroup"), "{path:?}");
        fs::write(path, format!("/autogroup-1 nice {text}\n"))
    }
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        if let Some(mirror) = self.mirror(path) {
            return mirror.make_folder(path);
        }
        fs::create_dir(path)?;
        ["cgroup.procs", "io.max", "cpu.idle", "cpu.weight"].iter().try_for_each(|file| fs::write(path.join(file), ""))
    }
    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        if let Some(mirror) = self.mirror(path) {
            return mirror.remove_folder(path);
        }
        match fs::read_to_string(path.join("cgroup.procs"))?.is_empty() {
            true => fs::remove_dir_all(path),
            false => Err(io::ErrorKind::ResourceBusy.into()),
        }
    }
    fn set_affinity(&self, thread: i32, _cores: &[usize]) -> io::Result<()> {
        panic!("{thread}")
    }
    fn set_nice(&self, thread: i32, nice: i32) -> io::Result<()> {
        self.set(thread, 18, nice)
    }
    fn set_scheduling_policy(&self, thread: i32, policy: i32) -> io::Result<()> {
        self.set(thread, 40, policy)
    }
    fn set_register(&self, path: &Path, _register: u32, _value: u64) -> io::Result<()> {
        panic!("{path:?}")
    }
}

pub(super) struct Machine {
    pub(super) folder: tempfile::TempDir,
    kernel: Arc<FakeKernel>,
    pub(super) governor: Arc<Governor>,
    children: Mutex<BTreeSet<i32>>,
}

impl Machine {
    pub(super) fn new(change: impl FnOnce(&mut Settings)) -> Machine {
        Machine::with(true, change)
    }

    /// With a session of class low, and an agent that has updated it.
    pub(super) fn with_low(change: impl FnOnce(&mut Settings)) -> (Machine, Arc<SessionCard>, Agent) {
        let machine = Machine::new(change);
        let low = machine.session(201, LOW);
        let mut agent = machine.agent();
        machine.walk(&mut agent);
        (machine, low, agent)
    }

    pub(super) fn with(may_raise: bool, change: impl FnOnce(&mut Settings)) -> Machine {
        let folder = tempfile::tempdir().unwrap();
        let kernel = FakeKernel {
            proc: folder.path().join("proc"),
            refused: Mutex::default(),
            may_raise,
            resctrl: OnceLock::new(),
            moves: AtomicUsize::new(0),
        };
        let governor = testing::governor(|settings| {
            settings.cpu = Cpu { shares: true, inheritance: true, awake: false };
            settings.classes[1].cpu = CpuShare::Nice(10);
            change(settings);
        });
        let machine = Machine { folder, kernel: Arc::new(kernel), governor, children: Mutex::default() };
        machine.write("/proc/stat", "cpu 0 0\nbtime 1000000\n");
        machine.write("/proc/sys/kernel/sched_autogroup_enabled", "1\n");
        machine.process(POSTMASTER, 1, "postgres", "/usr/bin/postgres -D /data");
        machine.process(CONTROL, POSTMASTER, "postgres", "postgres: plimsoll shop [local] idle");
        machine
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Begins a process that leads a session of its own, 50 s after the machine.
    pub(super) fn process(&self, process: i32, parent: i32, program: &str, title: &str) {
        self.begin(process, parent, program, title, 5000);
    }

    pub(super) fn begin(&self, process: i32, parent: i32, program: &str, title: &str, ticks: u64) {
        let zeros = |count: usize| " 0".repeat(count);
        let stat = format!(
            "{process} ({program}) S {parent} {process} {process}{} 20 0 1 0 {ticks}{} 17 1{}\n",
            zeros(11),
            zeros(15),
            zeros(13)
        );
        self.write(&format!("/proc/{process}/stat"), &stat);
        self.write(&format!("/proc/{process}/autogroup"), "/autogroup-1 nice 0\n");
        self.write(&format!("/proc/{process}/cmdline"), &format!("{title}\0"));
        if parent == POSTMASTER {
            self.children.lock().unwrap().insert(process);
            if let Some((resctrl, mirror)) = self.kernel.resctrl.get() {
                resctrl.fork(POSTMASTER, process);
                mirror.show();
            }
        }
        self.list();
    }

    pub(super) fn end(&self, process: i32) {
        fs::remove_dir_all(self.folder.path().join(format!("proc/{process}"))).unwrap();
        self.children.lock().unwrap().remove(&process);
        if let Some((resctrl, mirror)) = self.kernel.resctrl.get() {
            resctrl.exit(process);
            mirror.show();
        }
        self.list();
    }

    fn list(&self) {
        let children: Vec<String> = self.children.lock().unwrap().iter().map(i32::to_string).collect();
        self.write(&format!("/proc/{POSTMASTER}/task/{POSTMASTER}/children"), &children.join(" "));
    }

    /// Nice value, scheduling policy, nice value of the autogroup.
    pub(super) fn share(&self, process: i32) -> (i32, i32, i32) {
        let fields = self.kernel.fields(process).unwrap();
        let group = fs::read_to_string(self.folder.path().join(format!("proc/{process}/autogroup"))).unwrap();
        let group = group.trim().rsplit_once(' ').unwrap().1.parse().unwrap();
        (fields[18].parse().unwrap(), fields[40].parse().unwrap(), group)
    }

    /// Sets the nice value that a process was started with.
    pub(super) fn nice(&self, process: i32, nice: i32) {
        self.kernel.set(process, 18, nice).unwrap();
    }

    /// An agent that has found the server.
    pub(super) fn agent(&self) -> Agent {
        let mut agent = self.lost_agent();
        agent.server(Ok(ServerHere { backend: CONTROL, backend_began: BEGAN }));
        agent
    }

    /// Whether the kernel refuses changes of a process.
    pub(super) fn refuse(&self, process: i32, refuses: bool) {
        let mut refused = self.kernel.refused.lock().unwrap();
        if refuses {
            refused.insert(process)
        } else {
            refused.remove(&process)
        };
    }

    pub(super) fn lost_agent(&self) -> Agent {
        Agent::on(self.governor.clone(), Host::changed_by(self.folder.path(), self.kernel.clone()))
    }

    /// A session with a running process.
    pub(super) fn session(&self, process: i32, class: ClassIndex) -> Arc<SessionCard> {
        self.process(process, POSTMASTER, "postgres", "postgres: ann shop [local] idle");
        testing::session(&self.governor, process, class, Instant::now())
    }

    /// Runs the next walk of an agent.
    pub(super) fn walk(&self, agent: &mut Agent) {
        agent.tend(&self.governor.settings(), agent.next + EVERY);
    }

    /// Runs a walk at the given time, or when the next one is due if that is later.
    pub(super) fn walk_at(&self, agent: &mut Agent, now: Instant) {
        agent.tend(&self.governor.settings(), now.max(agent.next) + EVERY);
    }

    /// Mounts control groups of version 2 with the given controller; the server is in `db/server`.
    pub(super) fn mount_groups(&self, controller: &str) {
        self.write("/proc/self/mountinfo", MOUNT_OF_GROUPS);
        for (group, children, processes) in
            [("", controller, ""), ("db/", controller, ""), ("db/server/", "", "100\n200\n201\n")]
        {
            let file = |name: &str| format!("/sys/fs/cgroup/{group}{name}");
            self.write(&file("cgroup.controllers"), controller);
            self.write(&file("cgroup.subtree_control"), children);
            self.write(&file("cgroup.procs"), processes);
        }
    }

    /// The path of a control group's file, or of its directory.
    pub(super) fn group_file(&self, path: &str) -> PathBuf {
        self.folder.path().join("sys/fs/cgroup").join(path)
    }

    /// Records that processes are in a group.
    pub(super) fn put(&self, processes: &[i32], group: &str) {
        let write = |process: &i32| self.write(&format!("/proc/{process}/cgroup"), &format!("0::/{group}\n"));
        processes.iter().for_each(write);
    }

    pub(super) fn group_of(&self, process: i32) -> String {
        let text = fs::read_to_string(self.folder.path().join(format!("proc/{process}/cgroup"))).unwrap();
        text.trim().trim_start_matches("0::/").to_owned()
    }

    /// Waits until another thread has moved a process to a group.
    pub(super) fn until_in(&self, process: i32, group: &str) {
        until(&format!("{process} is in {group}"), || self.group_of(process) == group);
    }

    /// Checks whether a lever works, and its description.
    #[track_caller]
    pub(super) fn check_lever(&self, name: &str, works: bool, parts: &[&str]) {
        let (is_on, why) = self.lever(name);
        let says_all = parts.iter().all(|part| why.contains(part));
        assert!(is_on == works && says_all, "{is_on}, {why}, and not {works}, {parts:?}");
    }

    pub(super) fn lever(&self, name: &str) -> (bool, String) {
        let lever = self.governor.lever(name).unwrap();
        (lever.is_on, lever.why)
    }
}
