//! Parallel workers on a simulated machine.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::made_up::{HIGH, LOW, Machine, POSTMASTER};
use crate::agent::{Agent, EVERY, WORKERS_EVERY};

#[test]
fn workers_have_what_their_leader_has() {
    let machine = Machine::new(|_| {});
    let low = machine.session(201, LOW);
    let mut agent = machine.agent();
    machine.process(300, POSTMASTER, "postgres", "postgres: parallel worker for PID 201 ");
    machine.process(301, POSTMASTER, "postgres", "postgres: parallel worker for PID 4711 ");
    machine.process(302, POSTMASTER, "postgres", "/usr/bin/postgres -D /data");
    machine.walk(&mut agent);
    let nice = |process| machine.share(process).0;
    assert_eq!((nice(300), nice(301), nice(302)), (10, 0, 0));
    machine.write("/proc/302/cmdline", "postgres: parallel worker for PID 201 \0");
    machine.end(300);
    machine.walk(&mut agent);
    assert_eq!(nice(302), 10, "it had its parent's title for a moment");
    low.state().served = HIGH;
    machine.walk(&mut agent);
    assert_eq!((nice(201), nice(302)), (0, 0));
}

/// Workers were once looked for only in the walks, and ran for up to 50 ms with the server's own share.
#[test]
fn new_workers_are_looked_for_often_while_somebody_may_have_some() {
    let (machine, _low, mut agent) = Machine::with_low(|_| {});
    let (settings, began) = (machine.governor.settings(), agent.next - EVERY);
    assert_eq!(agent.due(began), Some(EVERY), "nobody is at work");
    machine.governor.statistics.class(LOW).inside.store(1, Ordering::Relaxed);
    // A look that took long is followed by a longer pause.
    let next = agent.next_workers;
    assert!(next >= began + WORKERS_EVERY);
    assert_eq!(agent.due(began), Some((next - began).min(EVERY)));
    machine.process(300, POSTMASTER, "postgres", "postgres: parallel worker for PID 201 ");
    agent.tend(&settings, began + WORKERS_EVERY / 2);
    assert_eq!(machine.share(300).0, 0);
    agent.tend(&settings, next);
    assert_eq!(machine.share(300).0, 10);
}

#[test]
fn the_servers_children_are_listed_if_a_process_has_begun_or_one_has_no_title_yet() {
    let machine = Machine::new(|_| {});
    let newest = |process| machine.write("/proc/loadavg", &format!("0.10 0.20 0.30 2/150 {process}\n"));
    let nice = |process| machine.share(process).0;
    let works_for_low = "postgres: parallel worker for PID 201 ";
    machine.session(201, LOW);
    newest(201);
    let mut agent = machine.agent();
    machine.walk(&mut agent);
    machine.governor.statistics.class(LOW).inside.store(1, Ordering::Relaxed);
    let settings = machine.governor.settings();
    let look = |agent: &mut Agent| {
        // No walk is due.
        (agent.next, agent.next_workers) = (Instant::now() + EVERY, Instant::now());
        agent.tend(&settings, Instant::now());
    };
    machine.process(300, POSTMASTER, "postgres", works_for_low);
    look(&mut agent);
    assert_eq!(nice(300), 0, "as far as the kernel tells nobody has begun");
    newest(300);
    look(&mut agent);
    assert_eq!(nice(300), 10);
    machine.process(301, POSTMASTER, "postgres", "/usr/bin/postgres -D /data");
    newest(301);
    look(&mut agent);
    machine.write("/proc/301/cmdline", works_for_low);
    look(&mut agent);
    assert_eq!(nice(301), 10, "it had its parent's title for a moment");
    machine.process(302, POSTMASTER, "postgres", works_for_low);
    machine.walk(&mut agent);
    assert_eq!(nice(302), 10, "walks do not ask");
}
