//! The group of classes with `cpu = "idle"`, on a made-up machine with version 2 and autogroups.

use std::fs;
use std::time::{Duration, Instant};

use super::grouped::{until, walk_at};
use super::made_up::{HIGH, LOW, Machine, POSTMASTER};
use crate::agent::Agent;
use crate::agent::groups::SETTLED;
use crate::settings::{CpuShare, Settings};

fn machine(change: impl FnOnce(&mut Settings)) -> Machine {
    let machine = Machine::new(|settings| {
        settings.classes[1].cpu = CpuShare::Idle;
        change(settings);
    });
    machine.write("/proc/self/mountinfo", "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    for group in ["", "db/", "db/server/"] {
        let file = |name: &str| format!("/sys/fs/cgroup/{group}{name}");
        machine.write(&file("cgroup.controllers"), "cpu\n");
        machine.write(&file("cgroup.subtree_control"), if group == "db/server/" { "" } else { "cpu\n" });
        machine.write(&file("cgroup.procs"), if group == "db/server/" { "100\n200\n201\n" } else { "" });
    }
    machine
}

fn member(machine: &Machine, process: i32) {
    machine.write(&format!("/proc/{process}/cgroup"), "0::/db/server\n");
}

fn ours() -> String {
    format!("db/plimsoll-{}-{POSTMASTER}-idle", std::process::id())
}

fn has_group(machine: &Machine) -> bool {
    machine.folder.path().join("sys/fs/cgroup").join(ours()).exists()
}

#[test]
fn who_gets_idle_cores_only_is_in_a_group_that_is_idle_until_that_ends() {
    let machine = machine(|_| {});
    let _high = machine.session(200, HIGH);
    [POSTMASTER, 200].iter().for_each(|process| member(&machine, *process));
    let mut agent = machine.agent();
    machine.walk(&mut agent);
    assert!(!has_group(&machine), "nobody needs it");

    let _low = machine.session(201, LOW);
    member(&machine, 201);
    machine.walk(&mut agent);
    until(&machine, 201, &ours());
    until(&machine, 200, "db/server");
    let file = machine.folder.path().join("sys/fs/cgroup").join(ours()).join("cpu.idle");
    assert_eq!(fs::read_to_string(file).unwrap(), "1");
    assert_eq!(machine.share(201), (0, 5, 19), "until it is moved its policy says the same");
    let (is_on, why) = machine.lever("cpu shares");
    assert!(is_on && why.contains("`idle` gives way at once, by a group of its own"), "{why}");

    // Shares are turned off, and on again.
    machine.governor.change(|settings| settings.cpu.shares = false).unwrap();
    machine.walk(&mut agent);
    until(&machine, 201, "db/server");
    let deadline = Instant::now() + Duration::from_secs(20);
    // The group's list of processes is written after the process's group.
    while has_group(&machine) {
        assert!(Instant::now() < deadline, "the empty group stays");
        machine.walk(&mut agent);
    }
    machine.governor.change(|settings| settings.cpu.shares = true).unwrap();
    // Walks are ahead of the clock.
    let settled = agent.next + SETTLED;
    walk_at(&machine, &mut agent, settled);
    until(&machine, 201, &ours());
    drop(agent);
    until(&machine, 201, "db/server");
    assert!(!has_group(&machine));
}

/// Two cores, and a process in the group whose class keeps a fifth of them.
fn with_floor() -> (Machine, Agent) {
    let machine = machine(|settings| settings.classes[1].cpu_floor_percent = Some(20));
    machine.governor.health.lock().server_cores = Some(2);
    machine.session(201, LOW);
    [POSTMASTER, 201].iter().for_each(|process| member(&machine, *process));
    let mut agent = machine.agent();
    machine.walk(&mut agent);
    until(&machine, 201, &ours());
    (machine, agent)
}

/// Clients that never pause leave no core idle: reports got next to nothing.
#[test]
fn who_gets_less_than_the_floor_has_a_weight_until_more_is_left() {
    let (machine, mut agent) = with_floor();
    let (is_on, why) = machine.lever("cpu shares");
    assert!(is_on && why.contains("with a weight while it gets less than 20 % of the cores"), "{why}");

    let read = |file: &str| {
        let path = machine.folder.path().join("sys/fs/cgroup").join(ours()).join(file);
        fs::read_to_string(path).unwrap().parse::<u32>().ok()
    };
    // It waits all the time, and runs for a share of it; milliseconds of the process so far.
    let (mut ran, mut waited, mut now) = (0, 0, agent.next);
    let mut play = |windows: u64, runs_for_ms: u64| {
        for _ in 0..windows {
            (ran, waited) = (ran + runs_for_ms, waited + 100);
            now += Duration::from_millis(250);
            machine.write("/proc/201/schedstat", &format!("{}000000 {}000000 7\n", ran, waited));
            walk_at(&machine, &mut agent, now);
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

/// A group that is neither idle nor has its weight would have that of an important process.
#[test]
fn a_group_that_is_refused_its_weight_is_idle_again() {
    let (machine, mut agent) = with_floor();
    let folder = machine.folder.path().join("sys/fs/cgroup").join(ours());
    fs::remove_file(folder.join("cpu.weight")).unwrap();
    fs::create_dir(folder.join("cpu.weight")).unwrap();
    let mut now = agent.next;
    for waited in 1..8 {
        now += Duration::from_millis(250);
        machine.write("/proc/201/schedstat", &format!("0 {}00000000 7\n", waited));
        walk_at(&machine, &mut agent, now);
        assert_eq!(fs::read_to_string(folder.join("cpu.idle")).unwrap(), "1", "after {waited} windows");
    }
    fs::remove_dir(folder.join("cpu.weight")).unwrap();
    fs::write(folder.join("cpu.weight"), "").unwrap();
    for waited in 8..12 {
        now += Duration::from_secs(60);
        machine.write("/proc/201/schedstat", &format!("0 {}00000000000 7\n", waited));
        walk_at(&machine, &mut agent, now);
    }
    assert_eq!(fs::read_to_string(folder.join("cpu.idle")).unwrap(), "0", "a minute later it is tried again");
}

#[test]
fn where_no_group_can_be_made_or_an_operator_has_named_one_none_is_made() {
    let lacking = machine(|_| {});
    lacking.write("/sys/fs/cgroup/db/cgroup.subtree_control", "memory\n");
    lacking.write("/sys/fs/cgroup/cgroup.subtree_control", "memory\n");
    let _low = lacking.session(201, LOW);
    [POSTMASTER, 201].iter().for_each(|process| member(&lacking, *process));
    let mut agent = lacking.agent();
    lacking.walk(&mut agent);
    let (is_on, why) = lacking.lever("cpu shares");
    assert!(is_on && why.contains("after milliseconds only") && why.contains("offers the cpu controller"), "{why}");
    assert_eq!(lacking.share(201), (0, 5, 19));

    let named = machine(|settings| settings.classes[1].control_groups = ["/sys/fs/cgroup/db/reports".into()].into());
    named.write("/sys/fs/cgroup/db/reports/cgroup.procs", "");
    let _low = named.session(201, LOW);
    [POSTMASTER, 201].iter().for_each(|process| member(&named, *process));
    let mut agent = named.agent();
    named.walk(&mut agent);
    until(&named, 201, "db/reports");
    assert!(!has_group(&named));
}
