//! Control groups of classes, on a simulated machine with version 2.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_testing::until;

use super::made_up::{HIGH, LOW, MOUNT_OF_GROUPS, Machine, POSTMASTER};
use crate::agent::Agent;
use crate::agent::groups::SETTLED;
use crate::registry::SessionCard;
use crate::settings::{CpuShare, Settings};

/// Class low has a group; the server is in another, where its unit put it.
pub(super) fn machine(change: impl FnOnce(&mut Settings)) -> Machine {
    let machine = Machine::new(|settings| {
        settings.classes[1].control_groups = ["/sys/fs/cgroup/db/reports".into()].into();
        change(settings);
    });
    machine.write("/proc/self/mountinfo", MOUNT_OF_GROUPS);
    for group in ["db", "db/reports"] {
        machine.write(&format!("/sys/fs/cgroup/{group}/cgroup.procs"), "");
    }
    machine
}

/// A session of class low whose process is in that class's group.
fn with_one_in_the_group() -> (Machine, Arc<SessionCard>, Agent) {
    let machine = machine(|_| {});
    let card = machine.session(201, LOW);
    machine.put(&[201], "db");
    let mut agent = machine.agent();
    machine.walk(&mut agent);
    machine.until_in(201, "db/reports");
    (machine, card, agent)
}

#[test]
fn processes_and_workers_are_in_the_group_of_their_class_and_go_home() {
    let machine = machine(|_| {});
    let (_high, _low) = (machine.session(200, HIGH), machine.session(201, LOW));
    machine.process(300, POSTMASTER, "postgres", "postgres: parallel worker for PID 201 ");
    machine.put(&[200, 201, 300], "db");
    let mut agent = machine.agent();
    machine.walk(&mut agent);
    machine.until_in(201, "db/reports");
    machine.until_in(300, "db/reports");
    machine.until_in(200, "db");
    assert!(machine.lever("control groups").0, "{:?}", machine.lever("control groups"));
    drop(agent);
    machine.until_in(201, "db");
    machine.until_in(300, "db");
}

/// A session that changes its class with each transaction must not do important work within the limits of reports.
#[test]
fn who_changes_class_goes_home_at_once_and_comes_back_when_settled() {
    let (machine, card, mut agent) = with_one_in_the_group();
    let began = Instant::now();
    card.state().served = HIGH;
    machine.walk_at(&mut agent, began);
    machine.until_in(201, "db");
    card.state().served = LOW;
    machine.walk_at(&mut agent, began);
    machine.walk_at(&mut agent, began + SETTLED / 2);
    std::thread::sleep(Duration::from_millis(20));
    machine.until_in(201, "db");
    machine.walk_at(&mut agent, began + SETTLED * 2);
    machine.until_in(201, "db/reports");
}

#[test]
fn a_holder_that_inherits_is_not_held_back_by_its_group() {
    let (machine, card, mut agent) = with_one_in_the_group();
    let now = Instant::now();
    assert!(agent.inherit(&machine.governor.settings(), &card, 1, CpuShare::Untouched, now));
    machine.until_in(201, "db");
    card.state().transaction = 2;
    machine.walk_at(&mut agent, now);
    machine.walk_at(&mut agent, now + SETTLED * 2);
    machine.until_in(201, "db/reports");
}

#[test]
fn what_is_wrong_is_told() {
    let lacking = machine(|settings| settings.classes[1].control_groups = ["/sys/fs/cgroup/none".into()].into());
    lacking.session(201, LOW);
    lacking.put(&[201], "db");
    let mut agent = lacking.agent();
    lacking.walk(&mut agent);
    lacking.check_lever("control groups", false, &["/sys/fs/cgroup/none is not a control group"]);
    until("somebody is listed", || {
        lacking.walk(&mut agent);
        !lacking.governor.health.lock().untouchable.is_empty()
    });
    assert_eq!(lacking.governor.health.lock().untouchable[0].0, 201);
    lacking.governor.registry.all().iter().for_each(|card| lacking.governor.registry.remove(card.id));
    lacking.end(201);
    lacking.walk(&mut agent);
    assert!(lacking.governor.health.lock().untouchable.is_empty());

    let without = Machine::new(|_| {});
    without.walk(&mut without.agent());
    assert_eq!(without.lever("control groups"), (false, "no class names `control_groups`".to_owned()));
}
