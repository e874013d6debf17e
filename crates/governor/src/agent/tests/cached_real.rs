//! Processes of a real server and a resctrl that follows the kernel's rules: this machine as it is, with resctrl mounted.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll_machine::change::Changes;
use plimsoll_machine::host::Host;
use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_machine::process_share::{began_at, children};
use plimsoll_machine::resctrl::ResctrlFiles;
use plimsoll_machine::resctrl::fake::{FakeKernel, Mirror, Shape};
use plimsoll_pg::connection::Connection;
use plimsoll_policy::ClassIndex;
use plimsoll_policy::cache_class::CacheClass;
use plimsoll_policy::cache_use::CacheUse;
use plimsoll_testing::{Need, skip, until};

use super::real::{governor, scan_in_parallel, server, session, workers};
use crate::agent::groups::SETTLED;
use crate::agent::{Agent, EVERY, ServerHere};
use crate::settings::Cpu;

/// Directs writes to resctrl, or to this machine.
#[derive(Debug)]
struct Joined {
    mirror: Mirror,
    real: Host,
}

impl Changes for Joined {
    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        // Files of processes are links to this machine's.
        if self.mirror.has(path) { self.mirror.write(path, text) } else { fs::write(path, text) }
    }
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.mirror.make_folder(path)
    }
    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.mirror.remove_folder(path)
    }
    fn set_affinity(&self, thread: i32, cores: &[usize]) -> io::Result<()> {
        self.real.set_affinity(thread, cores)
    }
    fn set_nice(&self, thread: i32, nice: i32) -> io::Result<()> {
        self.real.set_nice(thread, nice)
    }
    fn set_scheduling_policy(&self, thread: i32, policy: i32) -> io::Result<()> {
        self.real.set_scheduling_policy(thread, policy)
    }
    fn slice(&self, thread: i32) -> Option<Duration> {
        self.real.slice(thread)
    }
    fn set_slice(&self, thread: i32, slice: Duration) -> io::Result<()> {
        self.real.set_slice(thread, slice)
    }
    fn set_register(&self, path: &Path, _register: u32, _value: u64) -> io::Result<()> {
        panic!("{path:?}")
    }
}

/// A directory with links to the processes of a server, and with resctrl.
struct World {
    folder: tempfile::TempDir,
    postmaster: i32,
    resctrl: Arc<FakeKernel>,
    joined: Arc<Joined>,
    known: Mutex<BTreeSet<i32>>,
}

impl World {
    fn of(postmaster: i32) -> World {
        let folder = tempfile::tempdir().unwrap();
        let proc = folder.path().join("proc");
        fs::create_dir_all(proc.join("self")).unwrap();
        fs::write(proc.join("cpuinfo"), "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: cat_l3\n").unwrap();
        let mount = "40 30 0:35 / /sys/fs/resctrl rw,relatime - resctrl resctrl rw\n";
        fs::write(proc.join("self/mountinfo"), mount).unwrap();
        for file in ["stat", "loadavg", "sys"] {
            symlink(Path::new("/proc").join(file), proc.join(file)).unwrap();
        }
        symlink(format!("/proc/{postmaster}"), proc.join(postmaster.to_string())).unwrap();
        let resctrl = Arc::new(FakeKernel::new(Shape::intel(), [1, postmaster]));
        let mirror = Mirror::of(resctrl.clone(), folder.path().join("sys/fs/resctrl"));
        let joined = Arc::new(Joined { mirror, real: Host::real() });
        let world = World { folder, postmaster, resctrl, joined, known: Mutex::default() };
        world.follow();
        world
    }

    fn host(&self) -> Host {
        Host::changed_by(self.folder.path(), self.joined.clone())
    }

    /// Imitates the kernel when processes of the server begin, in its group, and end.
    fn follow(&self) {
        let now: BTreeSet<i32> =
            children(&Host::real(), self.postmaster).expect("children are listed").into_iter().collect();
        let mut known = self.known.lock().unwrap();
        for process in known.difference(&now) {
            fs::remove_file(self.folder.path().join(format!("proc/{process}"))).unwrap();
            self.resctrl.exit(*process);
        }
        for process in now.difference(&known) {
            symlink(format!("/proc/{process}"), self.folder.path().join(format!("proc/{process}"))).unwrap();
            self.resctrl.fork(self.postmaster, *process);
        }
        *known = now;
        self.joined.mirror.show();
    }

    /// The processes in the group of a part of the cache.
    fn confined(&self, part: &str) -> BTreeSet<i32> {
        let group = format!("plimsoll-{}-{}-{part}", std::process::id(), self.postmaster);
        let tasks = self.resctrl.read(&format!("{group}/tasks")).unwrap_or_default();
        tasks.lines().map(|line| line.parse().unwrap()).collect()
    }
}

#[test]
fn backends_and_their_workers_are_confined_by_the_class_that_they_serve() {
    let (server, url) = server();
    let governor = governor(&url, |settings| {
        settings.cpu = Cpu { shares: false, inheritance: true, awake: false };
        settings.classes[1].cache = CacheUse::Class(CacheClass::Polluting);
    });
    let (control, scan) = (Connection::open(&url).unwrap(), Connection::open(&url).unwrap());
    let (other, process) = (Connection::open(&url).unwrap(), scan.process_id());
    let world = World::of(server.postmaster());
    let before = world.resctrl.snapshot();
    let card = session(&governor, &scan);
    session(&governor, &other).state().served = ClassIndex(0);
    let mut agent = Agent::on(governor.clone(), world.host());
    let identity = ProcessIdentity::of(&Host::real(), control.process_id()).unwrap();
    let backend_began = began_at(&Host::real(), identity).unwrap();
    agent.server(Ok(ServerHere { backend: control.process_id(), backend_began }));
    let lever = || governor.lever("cache").expect("it is told");
    let walk = |agent: &mut Agent| {
        world.follow();
        agent.tend(&governor.settings(), agent.next + EVERY);
    };
    walk(&mut agent);
    if !lever().is_on {
        assert_eq!(world.resctrl.snapshot(), before);
        return skip(Need::Root, lever().why);
    }
    assert_eq!(world.confined("polluting"), BTreeSet::from([process]), "{:?}", lever());

    let cancel = scan.canceller();
    let running = scan_in_parallel(scan);
    let workers = || workers(&server, process);
    until("there are workers", || !workers().is_empty());
    until("the workers are confined as their leader", || {
        walk(&mut agent);
        let confined = world.confined("polluting");
        confined.contains(&process) && confined.len() > 1 && workers().is_subset(&confined)
    });
    card.state().served = ClassIndex(0);
    walk(&mut agent);
    assert!(world.confined("polluting").is_empty(), "all are free at once");
    card.state().served = ClassIndex(1);
    walk(&mut agent);
    assert!(world.confined("polluting").is_empty(), "it has not settled");
    agent.tend(&governor.settings(), agent.next + SETTLED * 2);
    walk(&mut agent);
    assert!(world.confined("polluting").contains(&process));
    cancel.send().unwrap();
    let _scan = running.join().unwrap();
    until("the workers have ended", || workers().is_empty());
    walk(&mut agent);
    assert_eq!(world.confined("polluting"), BTreeSet::from([process]));
    assert_eq!(governor.health.lock().cache_confined, 1);
    drop(agent);
    world.follow();
    let left = world.resctrl.folders("").unwrap().into_iter().filter(|name| name.starts_with("plimsoll-"));
    assert_eq!(left.count(), 0, "a governor that ends puts everything back");
    assert!(world.resctrl.read("tasks").unwrap().lines().any(|line| line == process.to_string()));
}
