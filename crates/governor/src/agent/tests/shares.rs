//! Shares of the cores on a simulated machine: given, inherited, refused, and put back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::made_up::{BEGAN, CONTROL, HIGH, LOW, Machine, POSTMASTER};
use crate::agent::{CHANGES_EVERY, EVERY, ServerHere};
use crate::governor::Heard;
use crate::registry::Phase;
use crate::settings::{Cpu, CpuShare};

#[test]
fn sessions_have_the_share_of_their_class_and_get_back_what_they_had() {
    let machine = Machine::new(|_| {});
    let (high, low) = (machine.session(200, HIGH), machine.session(201, LOW));
    let mut agent = machine.agent();
    assert!(agent.due(Instant::now()).is_none(), "it has not seen the settings yet");
    machine.walk(&mut agent);
    assert!(agent.due(Instant::now()).is_some());
    assert_eq!((machine.share(200), machine.share(201)), ((0, 0, 0), (10, 0, 10)));
    assert_eq!(machine.share(CONTROL), (0, 0, 0), "it was tried out and put back");
    high.state().served = LOW;
    low.state().served = HIGH;
    machine.walk(&mut agent);
    assert_eq!((machine.share(200), machine.share(201)), ((10, 0, 10), (0, 0, 0)));
    assert!(machine.lever("cpu shares").0 && machine.lever("inheritance").0);
    drop(agent);
    assert_eq!((machine.share(200), machine.share(201)), ((0, 0, 0), (0, 0, 0)));
}

#[test]
fn a_transaction_of_another_class_gets_its_share_before_the_next_walk() {
    let (machine, card, mut agent) = Machine::with_low(|_| {});
    let now = agent.next - EVERY / 2;
    // Between transactions nothing changes, even if the session's next class would be another.
    card.state().class = HIGH;
    agent.tend(&machine.governor.settings(), now);
    assert_eq!(machine.share(201), (10, 0, 10));
    card.state().served = HIGH;
    machine.governor.change_shares();
    assert_eq!(machine.governor.bell.wait(Duration::ZERO), Heard::Shares);
    agent.tend(&machine.governor.settings(), now);
    assert_eq!(machine.share(201), (0, 0, 0));
    // A session that changes class all the time waits for a millisecond.
    card.state().served = LOW;
    machine.governor.change_shares();
    agent.tend(&machine.governor.settings(), now);
    assert_eq!((machine.share(201), agent.due(now)), ((0, 0, 0), Some(CHANGES_EVERY)));
    agent.tend(&machine.governor.settings(), now + CHANGES_EVERY);
    assert_eq!(machine.share(201), (10, 0, 10));
}

#[test]
fn only_what_nobody_else_wants() {
    let (machine, _low, agent) = Machine::with_low(|settings| settings.classes[1].cpu = CpuShare::Idle);
    assert_eq!(machine.share(201), (0, 5, 19));
    assert!(machine.lever("cpu shares").1.contains("sched_autogroup_enabled=0"));
    drop(agent);
    assert_eq!(machine.share(201), (0, 0, 0));
    machine.write("/proc/sys/kernel/sched_autogroup_enabled", "0\n");
    machine.walk(&mut machine.agent());
    assert!(!machine.lever("cpu shares").1.contains("autogroup"));
}

#[test]
fn a_holder_inherits_until_its_transaction_ends() {
    let (machine, low, mut agent) = Machine::with_low(|settings| settings.classes[0].cpu = CpuShare::Nice(-5));
    let settings = machine.governor.settings();
    assert!(agent.inherit(&settings, &low, 1, CpuShare::Nice(-5), Instant::now()));
    assert_eq!(machine.share(201).0, -5, "at once");
    assert!(!agent.inherit(&settings, &low, 1, CpuShare::Nice(-5), Instant::now()), "it has it");
    low.state().phase = Phase::IdleInTransaction;
    machine.walk(&mut agent);
    assert_eq!(machine.share(201).0, -5);
    low.state().transaction = 2;
    machine.walk(&mut agent);
    assert_eq!(machine.share(201).0, 10);
    // A decision about a transaction that has ended has no effect.
    agent.inherit(&settings, &low, 1, CpuShare::Nice(-5), Instant::now());
    assert_eq!(machine.share(201).0, 10);
}

#[test]
fn who_has_got_a_number_since_and_who_is_no_child_of_the_server_is_not_touched() {
    let (machine, _low, agent) = Machine::with_low(|_| {});
    // The session has ended, though its card still exists, and its process ID is another backend's.
    machine.end(201);
    machine.begin(201, POSTMASTER, "postgres", "postgres: bob shop [local] idle", 9000);
    drop(agent);
    assert_eq!(machine.share(201), (0, 0, 0), "what was changed was another");
    let mut agent = machine.agent();
    for (parent, program) in [(1, "postgres"), (POSTMASTER, "sleep")] {
        machine.end(201);
        machine.begin(201, parent, program, "sleep", 9500);
        machine.walk(&mut agent);
        assert_eq!(machine.share(201), (0, 0, 0), "{program}");
    }
}

#[test]
fn those_that_cannot_be_touched_are_listed() {
    let machine = Machine::new(|_| {});
    let low = machine.session(201, LOW);
    let mut agent = machine.agent();
    machine.refuse(201, true);
    machine.walk(&mut agent);
    let untouchable = || machine.governor.health.lock().untouchable.clone();
    assert_eq!(untouchable().len(), 1);
    assert!(untouchable()[0].0 == 201 && untouchable()[0].1.contains("nice 10"), "{:?}", untouchable());
    machine.refuse(201, false);
    low.state().served = HIGH;
    machine.walk(&mut agent);
    assert_eq!(untouchable(), []);
    low.state().served = LOW;
    machine.walk(&mut agent);
    assert_eq!(machine.share(201).0, 10);
}

#[test]
fn where_shares_cannot_be_taken_back_none_are_given() {
    let machine = Machine::with(false, |_| {});
    machine.session(201, LOW);
    let mut agent = machine.agent();
    machine.walk(&mut agent);
    assert_eq!(machine.share(201), (0, 0, 0));
    machine.check_lever("cpu shares", false, &["CAP_SYS_NICE"]);
}

#[test]
fn a_server_whose_processes_are_not_here_is_left_alone() {
    let machine = Machine::new(|_| {});
    machine.session(201, LOW);
    let check = |here: Result<ServerHere, String>, expect: &str| {
        let mut agent = machine.lost_agent();
        agent.server(here);
        machine.walk(&mut agent);
        machine.check_lever("inheritance", false, &[expect]);
        assert_eq!(machine.share(201), (0, 0, 0));
    };
    let found = ServerHere { backend: CONTROL, backend_began: BEGAN };
    check(Err("the server is on another machine".to_owned()), "on another machine");
    check(Ok(ServerHere { backend: 4711, ..found }), "in a container");
    check(Ok(ServerHere { backend_began: BEGAN + 60, ..found }), "in a container");
    machine.write(&format!("/proc/{CONTROL}/status"), &format!("NSpid:\t{CONTROL}\t7\n"));
    check(Ok(found.clone()), "in a container");
    machine.end(CONTROL);
    machine.process(CONTROL, POSTMASTER, "bash", "bash");
    check(Ok(found), "in a container");
}

#[test]
fn turned_off_everything_is_put_back() {
    let (machine, _low, mut agent) = Machine::with_low(|_| {});
    assert_eq!(machine.share(201).0, 10);
    let mut off = (*machine.governor.settings()).clone();
    off.cpu = Cpu { shares: false, inheritance: false, awake: false };
    let off = Arc::new(off);
    agent.tend(&off, agent.next + Duration::from_secs(1));
    assert_eq!((machine.share(201), agent.due(Instant::now())), ((0, 0, 0), None));
    assert_eq!(machine.lever("cpu shares"), (false, "turned off in the settings".to_owned()));
}
