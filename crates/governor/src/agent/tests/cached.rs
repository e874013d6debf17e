//! Parts of the last-level cache for classes, on a simulated machine with resctrl.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::time::Instant;

use plimsoll_machine::resctrl::ResctrlFiles;
use plimsoll_machine::resctrl::fake::Shape;
use plimsoll_policy::cache_class::{CacheClass, WayMask};
use plimsoll_policy::cache_use::CacheUse;

use super::made_up::{HIGH, LOW, Machine, POSTMASTER};
use crate::agent::cache::LOOK_EVERY;
use crate::agent::groups::SETTLED;
use crate::agent::{Agent, EVERY, REFUSED_FOR};
use crate::registry::SessionCard;
use crate::settings::{CpuShare, Settings};

const POLLUTING: CacheUse = CacheUse::Class(CacheClass::Polluting);
const DEPENDS: CacheUse = CacheUse::Class(CacheClass::Depends);

fn ways(mask: u32) -> CacheUse {
    CacheUse::Ways(WayMask(mask))
}

/// Class low may fill a tenth of the cache, on a processor with 11 ways in two sockets.
fn machine(change: impl FnOnce(&mut Settings)) -> Machine {
    let machine = Machine::new(|settings| {
        settings.classes[1].cache = POLLUTING;
        change(settings);
    });
    machine.mount_resctrl(Shape::intel());
    machine
}

fn group(part: &str) -> String {
    format!("plimsoll-{}-{POSTMASTER}-{part}", std::process::id())
}

fn tasks(machine: &Machine, group: &str) -> BTreeSet<i32> {
    let path = if group.is_empty() { "tasks".to_owned() } else { format!("{group}/tasks") };
    machine.resctrl().read(&path).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

fn groups(machine: &Machine) -> Vec<String> {
    let mut folders = machine.resctrl().folders("").unwrap();
    folders.retain(|name| !["info", "mon_data", "mon_groups"].contains(&name.as_str()));
    folders
}

/// Puts the server and the given processes into an operator's group.
fn operators_group(machine: &Machine, processes: &[i32], schemata: &str) {
    machine.change_resctrl(|resctrl| {
        resctrl.make_group("db")?;
        resctrl.write("db/schemata", schemata)?;
        processes.iter().try_for_each(|process| resctrl.write("db/tasks", &format!("{process}\n")))
    });
}

fn walk_after(machine: &Machine, agent: &mut Agent, pause: std::time::Duration) {
    let now = agent.next + pause;
    machine.walk_at(agent, now);
}

/// A confined session of class low.
fn with_one_confined() -> (Machine, Arc<SessionCard>, Agent) {
    let machine = machine(|_| {});
    let card = machine.session(201, LOW);
    let mut agent = machine.agent();
    machine.walk(&mut agent);
    assert_eq!(tasks(&machine, &group("polluting")), BTreeSet::from([201]));
    (machine, card, agent)
}

#[test]
fn processes_and_workers_of_a_class_are_confined_until_the_governor_ends() {
    let machine = machine(|_| {});
    let (_high, _low) = (machine.session(200, HIGH), machine.session(201, LOW));
    machine.process(300, POSTMASTER, "postgres", "postgres: parallel worker for PID 201 ");
    let before = machine.resctrl().snapshot();
    let mut agent = machine.agent();
    assert_eq!(machine.resctrl().snapshot(), before, "finding out what there is changes nothing");
    machine.walk(&mut agent);
    assert_eq!(tasks(&machine, &group("polluting")), BTreeSet::from([201, 300]));
    assert!(tasks(&machine, "").contains(&200) && tasks(&machine, "").contains(&POSTMASTER));
    assert_eq!(
        machine.resctrl().read(&format!("{}/schemata", group("polluting"))).unwrap().lines().next(),
        Some("    L3:0=3;1=3")
    );
    let expect = "low (polluting) may fill 0x3 (2.50 MiB), of the ways 0x7ff (13.75 MiB) of /sys/fs/resctrl";
    assert_eq!(machine.lever("cache"), (true, expect.to_owned()));
    assert_eq!(machine.governor.health.lock().cache_confined, 2);
    drop(agent);
    assert_eq!(machine.resctrl().snapshot(), before);
    assert!(fs::read_dir(state(&machine)).unwrap().next().is_none(), "no folder of state is left");
}

fn state(machine: &Machine) -> std::path::PathBuf {
    let state = plimsoll_machine::limiter::default_state_folder();
    machine.folder.path().join(state.strip_prefix("/").unwrap())
}

/// A session that changes its class with each transaction keeps the whole cache, and no process is moved unnecessarily.
#[test]
fn who_changes_class_is_freed_at_once_and_confined_when_settled() {
    let (machine, card, mut agent) = with_one_confined();
    let began = Instant::now();
    let is_confined = || tasks(&machine, &group("polluting")).contains(&201);
    let moves = machine.moves();
    (0..10).for_each(|walk| machine.walk_at(&mut agent, began + EVERY * walk));
    assert_eq!(machine.moves(), moves, "it is there already");
    let began = agent.next;
    card.state().served = HIGH;
    machine.walk_at(&mut agent, began);
    assert!(!is_confined());
    card.state().served = LOW;
    machine.walk_at(&mut agent, began + EVERY);
    machine.walk_at(&mut agent, began + SETTLED / 2);
    assert!(!is_confined());
    machine.walk_at(&mut agent, began + SETTLED * 2);
    assert!(is_confined());
    assert_eq!(machine.moves(), moves + 2);
}

#[test]
fn a_holder_that_inherits_has_the_whole_cache_and_so_have_its_workers() {
    let (machine, card, mut agent) = with_one_confined();
    machine.process(300, POSTMASTER, "postgres", "postgres: parallel worker for PID 201 ");
    let now = Instant::now();
    machine.walk_at(&mut agent, now);
    assert_eq!(tasks(&machine, &group("polluting")), BTreeSet::from([201, 300]));
    assert!(agent.inherit(&machine.governor.settings(), &card, 1, CpuShare::Untouched, now));
    assert_eq!(tasks(&machine, &group("polluting")), BTreeSet::from([300]), "at once");
    machine.walk_at(&mut agent, now);
    assert!(tasks(&machine, &group("polluting")).is_empty());
    card.state().transaction = 2;
    machine.walk_at(&mut agent, now + EVERY * 2);
    machine.walk_at(&mut agent, now + SETTLED * 3);
    assert_eq!(tasks(&machine, &group("polluting")), BTreeSet::from([201, 300]));
}

/// The server is in an operator's group: its processes return there, including those that the kernel has moved to the
/// default group.
#[test]
fn a_group_that_vanishes_is_told_and_made_again() {
    let machine = machine(|_| {});
    let _low = machine.session(201, LOW);
    operators_group(&machine, &[POSTMASTER, 101, 201], "L3:0=3f;1=3f\n");
    let before = machine.resctrl().snapshot();
    let mut agent = machine.agent();
    machine.walk(&mut agent);
    machine.check_lever("cache", true, &["of the ways 0x3f (7.50 MiB) of /sys/fs/resctrl/db"]);
    machine.change_resctrl(|resctrl| resctrl.remove_group(&group("polluting")));
    assert!(tasks(&machine, "").contains(&201));
    let now = agent.next + LOOK_EVERY;
    machine.walk_at(&mut agent, now);
    assert_eq!(machine.resctrl().snapshot(), before, "it is in the operator's group again");
    machine.check_lever("cache", false, &["polluting is gone; another process has removed it", "within a minute"]);
    machine.walk_at(&mut agent, now + REFUSED_FOR / 2);
    assert_eq!(groups(&machine), ["db"]);
    machine.walk_at(&mut agent, now + REFUSED_FOR * 2);
    assert_eq!(tasks(&machine, &group("polluting")), BTreeSet::from([201]));
    assert!(machine.lever("cache").0);
    // Moving a process reveals it, too.
    machine.change_resctrl(|resctrl| resctrl.remove_group(&group("polluting")));
    let _another = machine.session(202, LOW);
    walk_after(&machine, &mut agent, EVERY);
    assert_eq!((machine.lever("cache").0, groups(&machine)), (false, vec!["db".to_owned()]));
}

#[test]
fn ways_of_the_server_and_parts_of_classes_that_change_are_followed() {
    let machine = machine(|settings| settings.classes[0].cache = ways(0x7fe));
    let (_high, _low) = (machine.session(200, HIGH), machine.session(201, LOW));
    let before = machine.resctrl().snapshot();
    let mut agent = machine.agent();
    machine.walk(&mut agent);
    assert_eq!(tasks(&machine, &group("0x7fe")), BTreeSet::from([200]));
    machine.governor.change(|settings| settings.classes[0].cache = CacheUse::ALL).unwrap();
    machine.governor.change(|settings| settings.classes[1].cache = DEPENDS).unwrap();
    let now = agent.next;
    machine.walk_at(&mut agent, now);
    assert_eq!((groups(&machine), tasks(&machine, &group("depends"))), (vec![group("depends")], BTreeSet::from([201])));
    let schemata = || machine.resctrl().read(&format!("{}/schemata", group("depends"))).unwrap();
    assert!(schemata().contains("L3:0=7f;1=7f"), "{}", schemata());

    machine.change_resctrl(|resctrl| resctrl.write("schemata", "L3:0=1f;1=1f\n"));
    machine.walk_at(&mut agent, now + LOOK_EVERY * 2);
    machine.walk_at(&mut agent, now + LOOK_EVERY * 2 + EVERY);
    assert!(schemata().contains("L3:0=7;1=7") && tasks(&machine, &group("depends")).contains(&201), "{}", schemata());
    machine.change_resctrl(|resctrl| resctrl.write("schemata", "L3:0=7ff;1=7ff\n"));

    machine.governor.change(|settings| settings.classes[1].cache = CacheUse::ALL).unwrap();
    walk_after(&machine, &mut agent, EVERY);
    assert_eq!(machine.resctrl().snapshot(), before);
    assert!(machine.lever("cache").1.contains("every class has cache = \"sensitive\""));
}

#[test]
fn who_is_elsewhere_by_the_hand_of_another_stays_there_and_is_listed() {
    let machine = machine(|_| {});
    let _sessions = [201, 202].map(|process| machine.session(process, LOW));
    machine.change_resctrl(|resctrl| {
        resctrl.make_group("batch")?;
        resctrl.write("batch/tasks", "202\n")
    });
    let mut agent = machine.agent();
    machine.walk(&mut agent);
    let is_listed = |process: i32, part: &str| {
        let untouchable = machine.governor.health.lock().untouchable.clone();
        assert!(untouchable[0].0 == process && untouchable[0].1.contains(part), "{untouchable:?}");
    };
    assert_eq!(tasks(&machine, "batch"), BTreeSet::from([202]));
    is_listed(202, "group /sys/fs/resctrl/batch");
    machine.change_resctrl(|resctrl| resctrl.write("batch/tasks", "201\n"));
    walk_after(&machine, &mut agent, LOOK_EVERY);
    is_listed(201, "out of its group");
    machine.change_resctrl(|resctrl| resctrl.write(&format!("{}/schemata", group("polluting")), "L3:0=7;1=3\n"));
    walk_after(&machine, &mut agent, LOOK_EVERY * 2);
    machine.check_lever("cache", false, &["polluting is 0x7 and not 0x3"]);
    drop(agent);
    assert_eq!((tasks(&machine, "batch"), groups(&machine)), (BTreeSet::from([201, 202]), vec!["batch".to_owned()]));
}

/// Each reason has its numbers and a remedy.
#[test]
fn where_classes_cannot_be_confined_the_reason_is_told_and_nothing_is_changed() {
    let check = |change: &dyn Fn(&mut Settings), prepare: &dyn Fn(&Machine), expect: &str| {
        let machine = machine(change);
        let _sessions = (machine.session(200, HIGH), machine.session(201, LOW));
        prepare(&machine);
        let before = machine.resctrl().snapshot();
        let mut agent = machine.agent();
        (0..3).for_each(|_| machine.walk(&mut agent));
        machine.check_lever("cache", false, &[expect]);
        assert_eq!(machine.resctrl().snapshot(), before, "{expect}");
    };
    let as_it_is: &dyn Fn(&mut Settings) = &|_| {};
    let with = |part: CacheUse| move |settings: &mut Settings| settings.classes[1].cache = part;
    let nothing: &dyn Fn(&Machine) = &|_| {};
    let limited = |machine: &Machine| machine.change_resctrl(|resctrl| resctrl.write("schemata", "MB:0=50\n"));
    check(as_it_is, &limited, "memory bandwidth of /sys/fs/resctrl is limited (MB:0=50 of 100)");
    check(as_it_is, &limited, "remedy: write MB:0=100 to /sys/fs/resctrl/schemata");
    // Eight groups, the limit of bandwidth control.
    let taken = |machine: &Machine| {
        machine.change_resctrl(|resctrl| (0..7).try_for_each(|number| resctrl.make_group(&format!("db{number}"))))
    };
    check(
        as_it_is,
        &taken,
        "the classes have 1 different masks, and 0 groups (CLOSIDs) are free; give classes equal masks",
    );
    check(
        &with(ways(0x505)),
        nothing,
        "the mask 0x505 of low has holes, and this processor takes neighbouring ways only; use 0x7ff",
    );
    check(
        &with(ways(0x1800)),
        nothing,
        "the mask 0x1800 of low has the ways 0x1800 outside of the server's group (0x7ff, 11 ways)",
    );
    let one = |machine: &Machine| machine.change_resctrl(|resctrl| resctrl.write("schemata", "L3:0=1;1=1\n"));
    check(as_it_is, &one, "the mask 0x1 of the server's group has 1 way");
    let two = |machine: &Machine| machine.change_resctrl(|resctrl| resctrl.write("schemata", "L3:0=3;1=3\n"));
    check(as_it_is, &two, "the ways 0x3 of /sys/fs/resctrl are too few to be divided");
    let other = |machine: &Machine| {
        machine.change_resctrl(|resctrl| {
            resctrl.make_group("plimsoll-4711-100")?;
            resctrl.write("plimsoll-4711-100/tasks", "100\n")
        });
    };
    check(as_it_is, &other, "which another Plimsoll uses or left behind");
}

#[test]
fn without_resctrl_the_lever_is_off_and_comes_when_it_is_mounted() {
    let (machine, _low, mut agent) = Machine::with_low(|settings| settings.classes[1].cache = POLLUTING);
    machine.check_lever("cache", false, &["the kernel has no resctrl file system", "remedy"]);
    machine.mount_resctrl(Shape::intel());
    let now = agent.next;
    machine.walk_at(&mut agent, now + REFUSED_FOR * 2);
    assert_eq!(tasks(&machine, &group("polluting")), BTreeSet::from([201]));
    assert!(machine.lever("cache").0);

    let unset = Machine::new(|_| {});
    unset.walk(&mut unset.agent());
    assert!(!unset.lever("cache").0);
}

/// Beside a server, whose sessions live on. The remains of a killed governor are listed in a journal, in a directory
/// named after its process ID.
#[test]
fn what_a_killed_governor_has_left_is_put_back_by_the_next_one() {
    let machine = machine(|settings| settings.is_beside = true);
    let low = machine.session(201, LOW);
    operators_group(&machine, &[POSTMASTER, 101, 201], "L3:0=3f;1=3f\n");
    let before = machine.resctrl().snapshot();
    let mut agent = machine.agent();
    machine.walk(&mut agent);
    assert_eq!(tasks(&machine, &group("polluting")), BTreeSet::from([201]));
    std::mem::forget(agent);
    let (own, killed) = (format!("governor-{}-cache-{POSTMASTER}", std::process::id()), "governor-1-cache-100");
    let journal = fs::read(state(&machine).join(&own).join("restore.jsonl")).unwrap();
    fs::remove_dir_all(state(&machine).join(own)).unwrap();
    fs::create_dir(state(&machine).join(killed)).unwrap();
    fs::write(state(&machine).join(killed).join("restore.jsonl"), journal).unwrap();
    low.state().served = HIGH;
    let mut agent = machine.agent();
    assert_eq!(machine.resctrl().snapshot(), before, "it is in the operator's group again");
    machine.walk(&mut agent);
    assert_eq!(machine.resctrl().snapshot(), before);
    assert!(!state(&machine).join(killed).exists());
}

/// A session that is no longer governed, and one whose process ID belongs to another process now.
#[test]
fn who_has_ended_or_is_not_governed_any_more_is_forgotten() {
    let machine = machine(|settings| settings.is_beside = true);
    let (low, other) = (machine.session(201, LOW), machine.session(202, LOW));
    let mut agent = machine.agent();
    machine.walk(&mut agent);
    assert_eq!(machine.governor.health.lock().cache_confined, 2);
    machine.governor.registry.remove(low.id);
    machine.end(202);
    machine.process(202, 1, "sleep", "sleep 100");
    machine.walk(&mut agent);
    machine.governor.registry.remove(other.id);
    machine.walk(&mut agent);
    assert!(tasks(&machine, &group("polluting")).is_empty() && tasks(&machine, "").contains(&201));
    assert_eq!(machine.governor.health.lock().cache_confined, 0);
}
