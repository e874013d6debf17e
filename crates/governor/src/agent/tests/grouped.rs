//! Control groups of classes, on a made-up machine with version 2.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::made_up::{HIGH, LOW, Machine, POSTMASTER};
use crate::agent::groups::SETTLED;
use crate::agent::{Agent, EVERY};
use crate::registry::SessionCard;
use crate::settings::{CpuShare, Settings};

/// The class low has a group; the server is in another, as its unit has put it.
pub(super) fn machine(change: impl FnOnce(&mut Settings)) -> Machine {
    let machine = Machine::new(|settings| {
        settings.classes[1].control_groups = ["/sys/fs/cgroup/db/reports".into()].into();
        change(settings);
    });
    let mount = "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    machine.write("/proc/self/mountinfo", mount);
    for group in ["db", "db/reports"] {
        machine.write(&format!("/sys/fs/cgroup/{group}/cgroup.procs"), "");
    }
    machine
}

pub(super) fn member(machine: &Machine, process: i32) {
    machine.write(&format!("/proc/{process}/cgroup"), "0::/db\n");
}

/// Waits until a process is in a group, which another thread sees to.
pub(super) fn until(machine: &Machine, process: i32, group: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let file = machine.folder.path().join(format!("proc/{process}/cgroup"));
    while std::fs::read_to_string(&file).unwrap().trim() != format!("0::/{group}") {
        assert!(Instant::now() < deadline, "{process} is not in {group}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(super) fn walk_at(machine: &Machine, agent: &mut Agent, now: Instant) {
    agent.tend(&machine.governor.settings(), now.max(agent.next) + EVERY);
}

/// A session of class low whose process is in that class's group.
fn with_one_in_the_group() -> (Machine, Arc<SessionCard>, Agent) {
    let machine = machine(|_| {});
    let card = machine.session(201, LOW);
    member(&machine, 201);
    let mut agent = machine.agent();
    machine.walk(&mut agent);
    until(&machine, 201, "db/reports");
    (machine, card, agent)
}

#[test]
fn processes_and_workers_are_in_the_group_of_their_class_and_go_home() {
    let machine = machine(|_| {});
    let (_high, _low) = (machine.session(200, HIGH), machine.session(201, LOW));
    machine.process(300, POSTMASTER, "postgres", "postgres: parallel worker for PID 201 ");
    [200, 201, 300].iter().for_each(|process| member(&machine, *process));
    let mut agent = machine.agent();
    machine.walk(&mut agent);
    until(&machine, 201, "db/reports");
    until(&machine, 300, "db/reports");
    until(&machine, 200, "db");
    assert!(machine.lever("control groups").0, "{:?}", machine.lever("control groups"));
    drop(agent);
    until(&machine, 201, "db");
    until(&machine, 300, "db");
}

/// A session that changes its class with each transaction must not do something important within the limits of reports.
#[test]
fn who_changes_class_goes_home_at_once_and_comes_back_when_settled() {
    let (machine, card, mut agent) = with_one_in_the_group();
    let began = Instant::now();
    card.state().served = HIGH;
    walk_at(&machine, &mut agent, began);
    until(&machine, 201, "db");
    card.state().served = LOW;
    walk_at(&machine, &mut agent, began);
    walk_at(&machine, &mut agent, began + SETTLED / 2);
    std::thread::sleep(Duration::from_millis(20));
    until(&machine, 201, "db");
    walk_at(&machine, &mut agent, began + SETTLED * 2);
    until(&machine, 201, "db/reports");
}

#[test]
fn a_holder_that_inherits_is_not_held_back_by_its_group() {
    let (machine, card, mut agent) = with_one_in_the_group();
    let now = Instant::now();
    assert!(agent.inherit(&machine.governor.settings(), &card, 1, CpuShare::Untouched, now));
    until(&machine, 201, "db");
    card.state().transaction = 2;
    walk_at(&machine, &mut agent, now);
    walk_at(&machine, &mut agent, now + SETTLED * 2);
    until(&machine, 201, "db/reports");
}

#[test]
fn what_is_wrong_is_told() {
    let lacking = machine(|settings| settings.classes[1].control_groups = ["/sys/fs/cgroup/none".into()].into());
    lacking.session(201, LOW);
    member(&lacking, 201);
    let mut agent = lacking.agent();
    lacking.walk(&mut agent);
    let (is_on, why) = lacking.lever("control groups");
    assert!(!is_on && why.contains("/sys/fs/cgroup/none is not a control group"), "{why}");
    let deadline = Instant::now() + Duration::from_secs(20);
    while lacking.governor.health.lock().untouchable.is_empty() {
        assert!(Instant::now() < deadline, "nobody is listed");
        lacking.walk(&mut agent);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(lacking.governor.health.lock().untouchable[0].0, 201);
    lacking.governor.registry.all().iter().for_each(|card| lacking.governor.registry.remove(card.id));
    lacking.end(201);
    lacking.walk(&mut agent);
    assert!(lacking.governor.health.lock().untouchable.is_empty());

    let without = Machine::new(|_| {});
    without.walk(&mut without.agent());
    assert_eq!(without.lever("control groups"), (false, "no class names `control_groups`".to_owned()));
}
