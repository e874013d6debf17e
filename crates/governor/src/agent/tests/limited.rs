//! Limits of the disk: on a simulated machine with version 2, and on this one with a real server.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_testing::until;

use super::made_up::{HIGH, LOW, Machine, POSTMASTER};
use crate::agent::disk::WINDOW;
use crate::agent::{Agent, EVERY};
use crate::governor::DiskReading;
use crate::registry::{Phase, SessionCard};
use crate::settings::{CpuShare, DiskLimits, DiskUse, Held, Settings};

/// A reading session of class low, one of class high that waits for the disk, and an agent.
struct World {
    machine: Machine,
    high: Arc<SessionCard>,
    low: Arc<SessionCard>,
    agent: Agent,
    now: Instant,
    read: u64,
}

const MB: u64 = 1_000_000;

fn settings(settings: &mut Settings) {
    settings.disk = DiskLimits { limits: true, floor_percent: 50 };
    settings.classes[1].disk = DiskUse::Yields;
}

impl World {
    fn new(change: impl FnOnce(&mut Settings)) -> World {
        let machine = Machine::new(|all| {
            settings(all);
            change(all);
        });
        machine.mount_groups("io\n");
        let (high, low) = (machine.session(200, HIGH), machine.session(201, LOW));
        machine.put(&[POSTMASTER, 200, 201], "db/server");
        machine.write("/data/PG_VERSION", "15\n");
        let root = machine.folder.path();
        symlink(root.join("data"), root.join(format!("proc/{POSTMASTER}/cwd"))).unwrap();
        disk(&machine, 0);
        machine.write(&format!("/proc/{POSTMASTER}/io"), "read_bytes: 0\n");
        waits(&machine, true);
        let agent = machine.agent();
        World { machine, high, low, agent, now: Instant::now(), read: 0 }
    }

    /// A world in which the reading session is limited.
    fn limited() -> World {
        let mut world = World::new(|_| {});
        world.pass(Duration::from_secs(3));
        world.machine.until_in(201, &ours());
        world
    }

    /// Sets the disk limit of a target for class low.
    fn hold(&self, disk: Option<u64>) {
        self.machine.governor.hold(&[Held::default(), Held { disk, ..Held::default() }]);
    }

    /// Lets time pass, in which class low reads as much as its limit allows, at most 125 MB/s.
    fn pass(&mut self, time: Duration) {
        for _ in 0..time.as_millis() / EVERY.as_millis() {
            let limit = self.limit().unwrap_or(u64::MAX).min(125 * MB);
            self.read += limit * EVERY.as_millis() as u64 / 1000;
            disk(&self.machine, self.read);
            self.now = self.now.max(self.agent.next);
            self.agent.tend(&self.machine.governor.settings(), self.now);
        }
    }

    /// A file of the group with the limit.
    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.machine.group_file(&ours()).join(name)).unwrap().trim().to_owned()
    }

    fn limit(&self) -> Option<u64> {
        self.machine.governor.health.lock().disk_limit
    }

    /// Walks until the empty group is removed.
    fn until_gone(&mut self) {
        until("the group has gone", || {
            self.pass(EVERY);
            self.groups().is_empty()
        });
        assert_eq!(self.limit(), None);
    }

    fn groups(&self) -> Vec<String> {
        let entries = fs::read_dir(self.machine.group_file("db")).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("plimsoll-")).collect()
    }
}

/// Sets the kernel's counters of the disk and of the reads for the session of class low.
fn disk(machine: &Machine, read: u64) {
    let number = fs::metadata(machine.folder.path()).unwrap().dev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let (sectors, busy) = (read / 512, read / 125_000);
    machine.write("/proc/diskstats", &format!("{major} {minor} disk 1 0 {sectors} 1 0 0 0 0 1 {busy} 1\n"));
    machine.write("/proc/201/io", &format!("read_bytes: {read}\n"));
}

/// Sets whether the process of class high waits for the disk.
fn waits(machine: &Machine, waits: bool) {
    let stat = fs::read_to_string(machine.folder.path().join("proc/200/stat")).unwrap();
    let (from, to) = if waits { (") S ", ") D ") } else { (") D ", ") S ") };
    machine.write("/proc/200/stat", &stat.replace(from, to));
}

fn ours() -> String {
    format!("db/plimsoll-{}-{POSTMASTER}-disk", std::process::id())
}

#[test]
fn a_class_that_yields_is_limited_while_an_important_one_waits_and_then_no_more() {
    let mut world = World::new(|_| {});
    world.pass(Duration::from_millis(100));
    let (is_on, why) = world.machine.lever("disk limits");
    assert!(is_on && why.starts_with("low: not limited (nothing important waits"), "{why}");
    world.pass(Duration::from_secs(3));
    world.machine.until_in(201, &ours());
    let limit = world.limit().unwrap();
    assert!((55 * MB..70 * MB).contains(&limit), "half of what the disk gave, {limit}");
    let max = world.file("io.max");
    assert!(max.ends_with(&format!(" rbps={limit}")), "{max}");
    assert_eq!(world.machine.group_of(200), "db/server", "nobody else is moved");
    // An important process whose read has completed must not wait for a scan that computes.
    assert_eq!((world.file("cpu.idle").as_str(), world.machine.share(201).1), ("1", 5));
    let (is_on, why) = world.machine.lever("disk limits");
    assert!(is_on && why.starts_with("low: limited to ") && why.contains("floor"), "{why}");

    world.high.state().phase = Phase::Idle;
    world.pass(Duration::from_secs(6));
    world.machine.until_in(201, "db/server");
    world.until_gone();
    assert_eq!(world.machine.share(201), (10, 0, 10), "its nice value again");
}

/// A scan that holds one of the server's internal locks must finish beside work that never pauses.
#[test]
fn a_class_that_is_limited_keeps_a_floor_of_the_cores() {
    let mut world = World::new(|_| {});
    world.machine.governor.health.lock().server_cores = Some(2);
    // A limit that helps no session is lifted after 4 s.
    world.pass(Duration::from_millis(1500));
    world.machine.until_in(201, &ours());
    // It always waits or runs; times of the process so far in milliseconds.
    let (mut ran, mut waited) = (0, 0);
    let mut play = |world: &mut World, runs_for_ms: u64| {
        for _ in 0..3 {
            (ran, waited) = (ran + runs_for_ms, waited + 300);
            world.machine.write("/proc/201/schedstat", &format!("{ran}000000 {waited}000000 7\n"));
            world.pass(Duration::from_millis(300));
        }
        world.file("cpu.idle")
    };
    assert_eq!(play(&mut world, 150), "1", "a quarter of two cores is more than a tenth");
    assert_eq!(play(&mut world, 6), "0", "it has a weight now");
}

/// No session waits for the disk, so only the target limits; its limit stays in force while the yielding sessions are
/// idle.
#[test]
fn what_a_target_leaves_of_the_disk_is_in_force_until_it_leaves_more() {
    let mut world = World::new(|_| {});
    waits(&world.machine, false);
    let reading = |world: &World| world.machine.governor.health.lock().disk_reading;
    assert_eq!(reading(&world), None, "nothing is known, so targets have no lever");
    world.pass(Duration::from_secs(3));
    let DiskReading { read_bytes_per_s, least } = reading(&world).unwrap();
    assert!((100 * MB..150 * MB).contains(&read_bytes_per_s), "{read_bytes_per_s}");
    assert!((55 * MB..=63 * MB).contains(&least), "half of what the disk gave, {least}");
    assert_eq!(world.limit(), None);

    world.hold(Some(80 * MB));
    world.pass(Duration::from_secs(1));
    world.machine.until_in(201, &ours());
    assert_eq!(world.limit(), Some(80 * MB));
    let (is_on, why) = world.machine.lever("disk limits");
    assert!(is_on && why.starts_with("low: limited to 80.0 MB/s together (for the target of a class above)"), "{why}");

    world.low.state().phase = Phase::Idle;
    world.pass(Duration::from_secs(2));
    assert_eq!((world.limit(), reading(&world).unwrap().read_bytes_per_s), (Some(80 * MB), 0));
    world.hold(None);
    world.pass(EVERY);
    world.machine.until_in(201, "db/server");
    world.until_gone();
}

/// The governor's own limit, for sessions that wait for the disk, and a target's limit: the lower one is in force.
#[test]
fn of_two_limits_of_the_disk_the_lower_one_is_in_force() {
    let mut world = World::new(|_| {});
    world.pass(Duration::from_secs(3));
    let own = world.limit().unwrap();
    world.hold(Some(100 * MB));
    world.pass(Duration::from_secs(1));
    assert!(world.limit().is_some_and(|limit| limit.abs_diff(own) < own / 10), "{:?}, not {own}", world.limit());
    world.hold(Some(own / 2));
    world.pass(Duration::from_secs(1));
    assert_eq!(world.limit(), Some(own / 2));
}

/// A holder that blocks important work must not be held back by the disk limit.
#[test]
fn a_holder_that_inherits_leaves_the_group() {
    let mut world = World::limited();
    let (settings, now) = (world.machine.governor.settings(), world.now);
    assert!(world.agent.inherit(&settings, &world.low, 1, CpuShare::Untouched, now));
    world.machine.until_in(201, "db/server");
}

#[test]
fn everything_is_put_back_when_the_agent_ends_or_limits_are_turned_off() {
    let mut world = World::limited();
    world.agent = Agent::new(world.machine.governor.clone());
    assert_eq!((world.machine.group_of(201).as_str(), world.groups()), ("db/server", vec![]));

    let mut world = World::limited();
    world.machine.governor.change(|settings| settings.disk.limits = false).unwrap();
    world.pass(EVERY);
    world.machine.until_in(201, "db/server");
    world.until_gone();
    assert_eq!(world.machine.lever("disk limits"), (false, "turned off in the settings".to_owned()));
}

#[test]
fn who_does_not_yield_is_left_alone_and_why_nothing_works_is_told() {
    // No session waits.
    let mut world = World::new(|_| {});
    waits(&world.machine, false);
    world.pass(Duration::from_secs(5));
    assert_eq!((world.limit(), world.groups()), (None, vec![]));

    // The operator's own group contains the class.
    let mut grouped = World::new(|settings| settings.classes[1].control_groups = ["/sys/fs/cgroup/none".into()].into());
    grouped.pass(Duration::from_secs(3));
    assert_eq!((grouped.limit(), grouped.groups()), (None, vec![]));
    assert!(grouped.machine.lever("disk limits").1.starts_with("no class has disk"));

    // No group can be created.
    let mut lacking = World::new(|_| {});
    lacking.machine.write("/sys/fs/cgroup/db/cgroup.subtree_control", "memory\n");
    lacking.machine.write("/sys/fs/cgroup/cgroup.subtree_control", "memory\n");
    lacking.agent = lacking.machine.agent();
    lacking.pass(Duration::from_secs(3));
    lacking.machine.check_lever("disk limits", false, &["offers the io controller"]);
    assert_eq!(lacking.limit(), None);
}

#[test]
fn a_kernel_that_refuses_is_left_alone_for_a_while() {
    let mut world = World::new(|_| {});
    // The journal's directory cannot be created.
    let state = plimsoll_machine::limiter::default_state_folder();
    world.machine.write(&state.display().to_string(), "not a folder");
    world.pass(WINDOW * 10);
    world.machine.check_lever("disk limits", false, &["tried again within a minute"]);
    assert_eq!((world.limit(), world.groups()), (None, vec![]));
    fs::remove_file(world.machine.folder.path().join(state.strip_prefix("/").unwrap())).unwrap();
    world.pass(Duration::from_secs(62));
    assert!(world.limit().is_some());
}
