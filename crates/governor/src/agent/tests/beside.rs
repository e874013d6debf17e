//! Beside a server: sessions outlive a killed governor, and so do the shares and groups that it set.

use std::time::Duration;

use super::grouped::machine as with_groups;
use super::made_up::{HIGH, LOW, Machine, POSTMASTER};
use crate::settings::CpuShare;

/// Ends an agent without restoring anything, as when its process is killed.
fn killed(agent: crate::agent::Agent) {
    std::mem::forget(agent);
}

#[test]
fn shares_that_a_killed_governor_left_are_restored() {
    let machine = Machine::new(|settings| settings.is_beside = true);
    let (_high, low) = (machine.session(200, HIGH), machine.session(201, LOW));
    let mut agent = machine.agent();
    machine.walk(&mut agent);
    assert_eq!((machine.share(200), machine.share(201)), ((0, 0, 0), (10, 0, 10)));
    killed(agent);
    // The session has since become important, and its process still has its old share.
    low.state().served = HIGH;
    let mut agent = machine.agent();
    machine.walk(&mut agent);
    assert_eq!(machine.share(201), (0, 0, 0));
    low.state().served = LOW;
    machine.walk(&mut agent);
    killed(agent);
    let mut agent = machine.agent();
    machine.walk(&mut agent);
    assert_eq!(machine.share(201), (10, 0, 10));
    drop(agent);
    assert_eq!(machine.share(201), (0, 0, 0), "what the server gave it, not what was found");
}

/// A server that was started with a reduced share has sessions that begin with that share.
#[test]
fn sessions_get_back_what_their_server_has() {
    let machine = Machine::new(|settings| {
        settings.is_beside = true;
        settings.classes[1].cpu = CpuShare::Idle;
    });
    machine.nice(POSTMASTER, 3);
    let _low = machine.session(201, LOW);
    machine.nice(201, 3);
    let mut agent = machine.agent();
    machine.walk(&mut agent);
    assert_eq!(machine.share(201), (3, 5, 19));
    drop(agent);
    assert_eq!(machine.share(201), (3, 0, 0));
}

/// A session that is no longer governed, because its user is now in `break_glass`, gets its original share back.
#[test]
fn a_session_that_is_not_governed_any_more_has_what_it_had() {
    let (machine, low, mut agent) = Machine::with_low(|settings| settings.is_beside = true);
    assert_eq!(machine.share(201), (10, 0, 10));
    machine.governor.registry.remove(low.id);
    machine.walk(&mut agent);
    assert_eq!(machine.share(201), (0, 0, 0));
}

#[test]
fn groups_in_which_a_killed_governor_left_processes_are_left() {
    let machine = with_groups(|settings| settings.is_beside = true);
    let (low, _other) = (machine.session(201, LOW), machine.session(202, LOW));
    machine.put(&[POSTMASTER, 201, 202], "db");
    let mut agent = machine.agent();
    machine.walk(&mut agent);
    machine.until_in(201, "db/reports");
    machine.until_in(202, "db/reports");
    killed(agent);
    low.state().served = HIGH;
    let mut agent = machine.agent();
    machine.walk(&mut agent);
    machine.until_in(201, "db");
    let later = agent.next + Duration::from_secs(5);
    machine.walk_at(&mut agent, later);
    drop(agent);
    machine.until_in(202, "db");
}
