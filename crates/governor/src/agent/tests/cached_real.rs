//! Processes of a real server and a resctrl that follows the kernel's rules: this machine as it is, with resctrl mounted.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plimsoll_machine::change::Changes;
use plimsoll_machine::host::Host;
use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_machine::process_share::{began_at, children, title};
use plimsoll_machine::resctrl::ResctrlFiles;
use plimsoll_machine::resctrl::fake::{FakeKernel, Mirror, Shape};
use plimsoll_policy::ClassIndex;
use plimsoll_policy::cache_class::CacheClass;
use plimsoll_policy::cache_use::CacheUse;
use plimsoll_postgres::connection::Connection;
use plimsoll_testing::{Need, skip};

use super::real::{server, session, until};
use crate::agent::groups::SETTLED;
use crate::agent::{Agent, EVERY, ServerHere};
use crate::governor::Governor;
use crate::settings::{Cpu, for_tests};

/// Changes go to resctrl, or to this machine.
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

/// A folder with links to the processes of a server, and with resctrl.
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

    /// Does what the kernel does as processes of the server begin, in its group, and end.
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

/// A query with parallel workers, which runs until it is cancelled.
fn scan_in_parallel(mut connection: Connection) -> Connection {
    let prepare = [
        "create table scanned as select g from generate_series(1, 20000) g",
        "set min_parallel_table_scan_size = 0",
        "set parallel_setup_cost = 0",
        "set parallel_tuple_cost = 0",
    ];
    prepare.iter().for_each(|statement| connection.run(statement).unwrap());
    let error = connection.run("select count(*) from scanned where pg_sleep(0.01)::text = 'never'").unwrap_err();
    assert_eq!(error.server().unwrap().code, "57014");
    connection
}

#[test]
fn backends_and_their_workers_are_confined_by_the_class_that_they_serve() {
    let (server, url) = server();
    let mut settings = for_tests();
    (settings.server, settings.control) = (url.clone(), Some(url.clone()));
    settings.cpu = Cpu { shares: false, inheritance: true, awake: false };
    settings.classes[1].cache = CacheUse::Class(CacheClass::Polluting);
    let governor = Arc::new(Governor::new(settings, Instant::now()));
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
    let lever =
        || governor.health.lock().levers.iter().find(|lever| lever.name == "cache").cloned().expect("it is told");
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
    let running = std::thread::spawn(move || scan_in_parallel(scan));
    let worker_title = format!("parallel worker for PID {process}");
    let workers = || -> BTreeSet<i32> {
        let all = children(&Host::real(), server.postmaster()).expect("children are listed").into_iter();
        all.filter(|child| title(&Host::real(), *child).is_some_and(|title| title.ends_with(&worker_title))).collect()
    };
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
