//! The group on fake machines with every kind of failure or kill, and on this machine.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::control::fake::{EVERY, Groups, Machine, quick_folder};
use crate::groups::make::own::tests::is_over_when_killed_after;
use crate::groups::{GroupFolder, restore_left_over};

const MB: u64 = 1_000_000;

struct World {
    machine: Machine,
    state: tempfile::TempDir,
}

impl World {
    /// The server is process 100; 200 is a child of it, in its group.
    fn new(groups: Groups) -> World {
        let machine = Machine::new(groups);
        std::os::unix::fs::symlink(machine.path("/data"), machine.path("/proc/100/cwd")).unwrap();
        machine.process(200, 100, &[200], "db");
        World { machine, state: quick_folder() }
    }

    fn make(&self, limit: u64) -> Result<DiskGroup, OwnGroupError> {
        DiskGroup::make(&self.machine.host(), self.state.path(), self.server(), limit)
    }

    fn server(&self) -> ProcessIdentity {
        ProcessIdentity::of(&self.machine.host(), 100).unwrap()
    }

    fn take(&self, group: &DiskGroup, process: i32) {
        let process = ProcessIdentity::of(&self.machine.host(), process).unwrap();
        let host = self.machine.host();
        GroupFolder::at(&host, group.group().folder()).unwrap().take(&host, process).unwrap();
    }

    /// The limit of a folder below the hierarchy that limits disks.
    fn limit(&self, folder: &Path) -> Option<u64> {
        let device = device_of(&self.machine.host(), 100).unwrap();
        READS.limit_of(&self.machine.host(), folder, self.machine.groups != Groups::V1, &device)
    }

    fn home(&self) -> PathBuf {
        site_of_server(&self.machine.host(), 100, DISK).unwrap_or_else(|why| panic!("{why}")).home
    }

    fn limit_home(&self, limit: Option<u64>) {
        let device = device_of(&self.machine.host(), 100).unwrap();
        let order = READS.order(false, &device, limit);
        self.machine.host().write(self.home().join(READS.file(false)), &order).unwrap();
    }
}

#[test]
fn a_group_limits_those_who_are_moved_to_it_and_leaves_nothing_behind() {
    for groups in EVERY {
        let world = World::new(groups);
        let before = world.machine.snapshot();
        let mut group = world.make(60 * MB).unwrap();
        assert_eq!(
            (world.limit(group.group().folder()), group.in_force()),
            (Some(60 * MB), Some(60 * MB)),
            "{groups:?}"
        );
        assert!(group.group().is_empty());
        world.take(&group, 200);
        assert!(!group.group().is_empty());
        group.limit(30 * MB).unwrap();
        assert_eq!(world.limit(group.group().folder()), Some(30 * MB));
        drop(group);
        assert_eq!(world.machine.snapshot(), before, "{groups:?}");
        assert!(fs::read_dir(world.state.path()).unwrap().next().is_none(), "no folder of state is left");
    }
}

/// Version 1 limits each group separately: without a division the new group would have its limit on top of the
/// server's.
#[test]
fn a_limit_that_the_server_has_is_divided_and_put_together_again() {
    let world = World::new(Groups::V1);
    world.limit_home(Some(125 * MB));
    let before = world.machine.snapshot();
    let mut group = world.make(100 * MB).unwrap();
    let both = |group: &DiskGroup| (world.limit(group.group().folder()), world.limit(&world.home()));
    assert_eq!(both(&group), (Some(93_750_000), Some(31_250_000)), "three quarters at most");
    group.limit(25 * MB).unwrap();
    assert_eq!(both(&group), (Some(25 * MB), Some(100 * MB)));
    // Another process changes the server's limit, as an experiment does between two points: the new limit is divided
    // from now on.
    world.limit_home(Some(80 * MB));
    group.limit(20 * MB).unwrap();
    assert_eq!(both(&group), (Some(20 * MB), Some(60 * MB)));
    world.limit_home(Some(125 * MB));
    group.limit(20 * MB).unwrap();
    world.limit_home(Some(125 * MB));
    group.limit(20 * MB).unwrap();
    assert_eq!(both(&group), (Some(20 * MB), Some(105 * MB)), "the same limit was set again");
    drop(group);
    assert_eq!(world.machine.snapshot(), before);

    let mut group = world.make(40 * MB).unwrap();
    world.limit_home(None);
    group.limit(30 * MB).unwrap();
    assert_eq!(both(&group), (Some(30 * MB), None), "nothing is left to divide");
    drop(group);
    assert_eq!(world.limit(&world.home()), None, "a limit that others have lifted is not set again");
}

/// After a kill at any change, the next start restores everything.
#[test]
fn whatever_a_kill_leaves_is_undone_at_the_next_start() {
    for groups in EVERY {
        for changes in 0.. {
            let world = World::new(groups);
            if groups == Groups::V1 {
                world.limit_home(Some(125 * MB));
            }
            let make = || {
                let mut group = world.make(60 * MB)?;
                let process = ProcessIdentity::of(&world.machine.host(), 200).unwrap();
                let host = world.machine.host();
                let _ = GroupFolder::at(&host, group.group().folder()).unwrap().take(&host, process);
                group.limit(90 * MB).map(|()| group)
            };
            if is_over_when_killed_after(changes, &world.machine, world.state.path(), NAME, make) {
                break;
            }
        }
    }
}

/// In version 2 the group is also a scheduling group: without a share of its own it would get as much as the server's
/// group.
#[test]
fn in_version_2_the_group_says_what_its_processes_get_of_the_cores() {
    for groups in EVERY {
        let world = World::new(groups);
        let group = world.make(60 * MB).unwrap();
        assert_eq!(group.cores().is_some(), groups == Groups::V2, "{groups:?}");
        let Some(cores) = group.cores() else { continue };
        let has = |file: &str| {
            let text = fs::read_to_string(world.machine.path(&group.group().folder().join(file).display().to_string()));
            text.unwrap().trim().to_owned()
        };
        cores.give_cores(None).unwrap();
        assert_eq!(has("cpu.idle"), "1");
        cores.give_cores(Some(11)).unwrap();
        assert_eq!((has("cpu.idle").as_str(), has("cpu.weight").as_str()), ("0", "11"));
        // Linux before 5.15.
        fs::remove_file(world.machine.path(&group.group().folder().join("cpu.idle").display().to_string())).unwrap();
        cores.give_cores(None).unwrap();
        assert_eq!(has("cpu.weight"), "1");
    }
}

#[test]
fn what_a_running_process_has_is_left_alone() {
    let world = World::new(Groups::V2);
    let group = world.make(60 * MB).unwrap();
    assert!(restore_left_over(&world.machine.host(), world.state.path()).is_empty());
    assert_eq!(world.limit(group.group().folder()), Some(60 * MB));
}

#[test]
fn where_no_group_can_be_made_the_reason_is_told() {
    let world = World::new(Groups::V2);
    assert!(probe(&world.machine.host(), 100).unwrap().starts_with("control groups version 2 below"));
    world.machine.write("/sys/fs/cgroup/unified/cgroup.subtree_control", "cpu memory\n");
    let why = probe(&world.machine.host(), 100).unwrap_err();
    assert!(why.contains("offers the io controller"), "{why}");
    let error = world.make(60 * MB).unwrap_err().to_string();
    assert_eq!(error, why);
    world.machine.write("/sys/fs/cgroup/unified/cgroup.subtree_control", "io memory\n");
    world.machine.write("/proc/100/io", "");
    let why = probe(&world.machine.host(), 100).unwrap_err();
    assert!(why.contains("is not shown to this user"), "{why}");
    world.machine.end(100);
    assert!(probe(&world.machine.host(), 100).is_err());
}

/// A server within an experiment's group, which limits the disk: the experiment's limit applies to the whole server,
/// and the experiment can end while the governor's group still exists.
#[test]
fn an_experiment_that_limits_the_server_knows_of_groups_within_its_own() {
    use crate::control::{Amount, Subject};
    use crate::limiter::Limiter;

    let world = World::new(Groups::V1);
    let before = world.machine.snapshot();
    let host = world.machine.host();
    let subject = Subject { processes: vec![100, 200], data_folder: Some(PathBuf::from("/data")) };
    let experiment = quick_folder();
    let mut limiter = Limiter::begin(host.clone(), subject, experiment.path()).unwrap();
    let limits = [("read_mb_s".to_owned(), Amount::Number(125.0))].into();
    limiter.set(&limits).unwrap();
    // In one process with the limiter, both groups would have our process number; another governor's group has another
    // number.
    let group = world.make(50 * MB).unwrap();
    world.take(&group, 200);
    assert!(group.group().folder().starts_with(world.home()), "{:?}", group.group().folder());
    let verdicts = limiter.verify(&limiter.observe());
    let why_not = verdicts["read_mb_s"].why_not.clone().unwrap_or_default();
    assert!(!why_not.contains("limit in force") && !why_not.contains("is not in the group"), "{why_not}");
    // Setting the same limits again takes no process out of the governor's group.
    limiter.set(&limits).unwrap();
    assert!(!group.group().is_empty());
    let why_not = limiter.verify(&limiter.observe())["read_mb_s"].why_not.clone().unwrap();
    assert!(
        why_not.contains("Some(175000000)"),
        "until the governor divides the limit again, it does not hold: {why_not}"
    );
    limiter.restore().unwrap();
    drop(group);
    assert_eq!(world.machine.snapshot(), before);
}
