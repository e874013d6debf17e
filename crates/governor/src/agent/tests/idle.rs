//! The group of classes with `cpu = "idle"`, on a simulated machine with version 2 and autogroups.

use std::fs;
use std::time::Duration;

use plimsoll_testing::until;

use super::made_up::{HIGH, LOW, Machine, POSTMASTER};
use crate::agent::Agent;
use crate::agent::groups::SETTLED;
use crate::settings::{CpuShare, Settings};

fn machine(change: impl FnOnce(&mut Settings)) -> Machine {
    let machine = Machine::new(|settings| {
        settings.classes[1].cpu = CpuShare::Idle;
        change(settings);
    });
    machine.mount_groups("cpu\n");
    machine
}

fn ours() -> String {
    format!("db/plimsoll-{}-{POSTMASTER}-idle", std::process::id())
}

fn has_group(machine: &Machine) -> bool {
    machine.group_file(&ours()).exists()
}

#[test]
fn who_gets_idle_cores_only_is_in_a_group_that_is_idle_until_that_ends() {
    let machine = machine(|_| {});
    let _high = machine.session(200, HIGH);
    machine.put(&[POSTMASTER, 200], "db/server");
    let mut agent = machine.agent();
    machine.walk(&mut agent);
    assert!(!has_group(&machine), "nobody needs it");

    let _low = machine.session(201, LOW);
    machine.put(&[201], "db/server");
    machine.walk(&mut agent);
    machine.until_in(201, &ours());
    machine.until_in(200, "db/server");
    assert_eq!(fs::read_to_string(machine.group_file(&ours()).join("cpu.idle")).unwrap(), "1");
    assert_eq!(machine.share(201), (0, 5, 19), "until it is moved its policy says the same");
    machine.check_lever("cpu shares", true, &["`idle` gives way at once, by a group of its own"]);

    // Shares are turned off, and on again.
    machine.governor.change(|settings| settings.cpu.shares = false).unwrap();
    machine.walk(&mut agent);
    machine.until_in(201, "db/server");
    // The group's list of processes is written after the process's group.
    until("the empty group has gone", || {
        machine.walk(&mut agent);
        !has_group(&machine)
    });
    machine.governor.change(|settings| settings.cpu.shares = true).unwrap();
    // Walks are ahead of the clock.
    let settled = agent.next + SETTLED;
    machine.walk_at(&mut agent, settled);
    machine.until_in(201, &ours());
    drop(agent);
    machine.until_in(201, "db/server");
    assert!(!has_group(&machine));
}

/// Two cores, and a process in the group whose class has a floor of a fifth of them.
fn with_floor() -> (Machine, Agent) {
    let machine = machine(|settings| settings.classes[1].cpu_floor_percent = Some(20));
    machine.governor.health.lock().server_cores = Some(2);
    machine.session(201, LOW);
    machine.put(&[POSTMASTER, 201], "db/server");
    let mut agent = machine.agent();
    machine.walk(&mut agent);
    machine.until_in(201, &ours());
    (machine, agent)
}

/// Clients that never pause leave no core idle: reports once got next to nothing.
#[test]
fn who_gets_less_than_the_floor_has_a_weight_until_more_is_left() {
    let (machine, mut agent) = with_floor();
    machine.check_lever("cpu shares", true, &["with a weight while it gets less than 20 % of the cores"]);

    let read = |file: &str| fs::read_to_string(machine.group_file(&ours()).join(file)).unwrap().parse::<u32>().ok();
    // It always waits or runs; times of the process so far in milliseconds.
    let (mut ran, mut waited, mut now) = (0, 0, agent.next);
    let mut play = |windows: u64, runs_for_ms: u64| {
        for _ in 0..windows {
            (ran, waited) = (ran + runs_for_ms, waited + 100);
            now += Duration::from_millis(250);
            machine.write("/proc/201/schedstat", &format!("{}000000 {}000000 7\n", ran, waited));
            machine.walk_at(&mut agent, now);
        }
        (read("cpu.idle"), read("cpu.weight"))
    };
    assert_eq!(play(2, 125), (Some(1), None), "a quarter of two cores is enough");
    let (idle, weight) = play(4, 50);
    assert!(idle == Some(0) && weight.is_some_and(|weight| weight > 10), "a tenth is not: {weight:?}");
    assert_eq!(play(3, 100), (Some(0), weight), "a fifth is what was asked for");
    assert_eq!(play(20, 400).0, Some(1), "more is left than it needs");
    play(4, 50);
    machine.governor.change(|settings| settings.classes[1].cpu_floor_percent = None).unwrap();
    assert_eq!(play(1, 50).0, Some(1), "no floor is asked for any more");
}

/// A group that is neither idle nor has its weight would have the weight of an important process.
#[test]
fn a_group_that_is_refused_its_weight_is_idle_again() {
    let (machine, mut agent) = with_floor();
    let folder = machine.group_file(&ours());
    fs::remove_file(folder.join("cpu.weight")).unwrap();
    fs::create_dir(folder.join("cpu.weight")).unwrap();
    let mut now = agent.next;
    for waited in 1..8 {
        now += Duration::from_millis(250);
        machine.write("/proc/201/schedstat", &format!("0 {}00000000 7\n", waited));
        machine.walk_at(&mut agent, now);
        assert_eq!(fs::read_to_string(folder.join("cpu.idle")).unwrap(), "1", "after {waited} windows");
    }
    fs::remove_dir(folder.join("cpu.weight")).unwrap();
    fs::write(folder.join("cpu.weight"), "").unwrap();
    for waited in 8..12 {
        now += Duration::from_secs(60);
        machine.write("/proc/201/schedstat", &format!("0 {}00000000000 7\n", waited));
        machine.walk_at(&mut agent, now);
    }
    assert_eq!(fs::read_to_string(folder.join("cpu.idle")).unwrap(), "0", "a minute later it is tried again");
}

#[test]
fn where_no_group_can_be_made_or_an_operator_has_named_one_none_is_made() {
    let lacking = machine(|_| {});
    lacking.write("/sys/fs/cgroup/db/cgroup.subtree_control", "memory\n");
    lacking.write("/sys/fs/cgroup/cgroup.subtree_control", "memory\n");
    let _low = lacking.session(201, LOW);
    lacking.put(&[POSTMASTER, 201], "db/server");
    let mut agent = lacking.agent();
    lacking.walk(&mut agent);
    lacking.check_lever("cpu shares", true, &["after milliseconds only", "offers the cpu controller"]);
    assert_eq!(lacking.share(201), (0, 5, 19));

    let named = machine(|settings| settings.classes[1].control_groups = ["/sys/fs/cgroup/db/reports".into()].into());
    named.write("/sys/fs/cgroup/db/reports/cgroup.procs", "");
    let _low = named.session(201, LOW);
    named.put(&[POSTMASTER, 201], "db/server");
    let mut agent = named.agent();
    named.walk(&mut agent);
    named.until_in(201, "db/reports");
    assert!(!has_group(&named));
}
