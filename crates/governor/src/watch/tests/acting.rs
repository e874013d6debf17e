//! What is done to victims, and what must never be done.

use std::time::{Duration, Instant};

use plimsoll_pg::connection::{Connection, WireError};
use plimsoll_pg::url::ServerUrl;

use super::stage::{Client, HIGH, LOW, Stage, url};
use crate::governor::{Governor, Outcome, PreemptionEvent, SessionCommand};
use crate::registry::{Cancels, Stake};
use crate::testing::preemption;
use crate::watch::act::{LookedAt, Target, cancel};
use crate::watch::control::{Signals, Up};

/// A low client that waits for a stranger's lock and blocks a high one; returns all three, the holder first.
pub(super) fn scene(stage: &Stage, key: u32) -> (Client, Client, Client) {
    scene_of(stage, (stage.stranger(), stage.client(LOW), stage.client(HIGH)), key)
}

/// The same with existing clients, all of one database.
pub(super) fn scene_of(stage: &Stage, clients: (Client, Client, Client), key: u32) -> (Client, Client, Client) {
    let (holder, low, high) = clients;
    holder.run(&format!("begin; select pg_advisory_xact_lock({key}, 0)"));
    low.run(&format!("begin; select pg_advisory_xact_lock({key}, 1)"));
    low.send(&format!("select pg_advisory_xact_lock({key}, 0)"));
    stage.until_it_waits(&low);
    high.send(&format!("begin; select pg_advisory_xact_lock({key}, 1)"));
    stage.until_it_waits(&high);
    (holder, low, high)
}

/// The target that a look at such a scene would find, with an event that was noted.
pub(super) fn target(governor: &Governor, low: &Client, high: &Client) -> Target {
    let (transaction, unit) = low.place();
    let (victim, waiter) = ((low.card.id, low.process()), (high.card.id, high.process()));
    let event = governor.note(PreemptionEvent { victim, waiter, ..preemption() });
    let chain = vec![(high.process(), low.process())];
    Target {
        card: low.card.clone(),
        process: low.process(),
        transaction,
        unit,
        breaks_cycle: false,
        exceeds: None,
        if_waiting: true,
        may_commit: false,
        event,
        stake: Stake { lost: Duration::ZERO, won: None, waiter: HIGH, looked: Instant::now() },
        chain,
    }
}

/// The outcome of the last event.
fn last_outcome(stage: &Stage) -> Outcome {
    stage.governor.events().last().expect("it was noted").outcome
}

/// Cancels a target as if the look had just happened.
fn strike(stage: &mut Stage, target: &Target) -> Result<bool, WireError> {
    let looked_at = looked_now(stage.control.connection().expect("it is up"));
    strike_at(stage, target, looked_at)
}

fn strike_at(stage: &mut Stage, target: &Target, looked_at: LookedAt) -> Result<bool, WireError> {
    let up = stage.control.connection().expect("it is up");
    let settings = stage.governor.settings();
    cancel(up, &stage.governor, &settings, std::slice::from_ref(target), looked_at).map(|done| done[0])
}

/// A look that happened just now.
pub(super) fn looked_now(up: &mut Up) -> LookedAt {
    let here = Instant::now();
    let server = up.connection.text("select extract(epoch from clock_timestamp())").unwrap().unwrap();
    LookedAt { server: server.parse().unwrap(), here }
}

/// Ends a scene in which the victim was hit.
pub(super) fn end_hit((holder, low, high): (Client, Client, Client)) {
    low.run("rollback");
    high.outcome().unwrap();
    high.run("rollback");
    holder.run("rollback");
}

/// Ends a scene in which the victim was not hit: its next statements succeed.
fn end_unharmed((holder, low, high): (Client, Client, Client)) {
    holder.run("rollback");
    low.outcome().unwrap();
    low.run("select pg_sleep(0.02)");
    low.run("rollback");
    high.outcome().unwrap();
    high.run("rollback");
}

/// Ends the server's process behind the control connection.
fn kill_control(stage: &mut Stage) {
    let process = stage.control.connection().unwrap().connection.process_id();
    let mut killer = Connection::open(&url(&stage.server)).unwrap();
    killer.run(&format!("select pg_terminate_backend({process}, 5000)")).unwrap();
}

fn cancels(client: &Client) -> (u32, Option<u64>) {
    let Cancels { in_flight, preempting, .. } = client.card.state().cancels;
    (in_flight, preempting)
}

/// A whole preemption by a control connection with that role; `signals` is the expected way of signalling.
fn check_role(role: &str, victim: &str, key: u32, signals: Signals) {
    let mut stage = Stage::with("pow", |settings| {
        let control = settings.control.as_mut().unwrap();
        role.clone_into(&mut control.user);
    });
    assert_eq!(stage.control.connection().unwrap().signals, signals, "{role}");
    let of_victim = ServerUrl { user: victim.to_owned(), ..url(&stage.server) };
    let low = Client::new(&stage.governor, &of_victim, LOW);
    let (holder, low, high) = scene_of(&stage, (stage.stranger(), low, stage.client(HIGH)), key);
    stage.round().unwrap();
    assert_eq!(low.failure(), "57014", "{role} {victim}");
    assert_eq!(cancels(&low), (0, Some(low.place().1)), "the session knows whose cancel it was");
    assert_eq!(stage.told(), [(low.card.id, SessionCommand::CancelArrived)]);
    assert!(low.card.state().cancels.was_waiting);
    let event = &stage.governor.events()[0];
    assert_eq!((event.victim_was, event.done), ("waited for a lock", "cancelled"));
    assert_eq!((event.victim.1, event.waiter.1, event.lever.as_str()), (low.process(), high.process(), "pow"));
    // Its session, which knows the outcome, is to settle the event.
    assert_eq!((event.outcome, low.card.state().cancels.event), (Outcome::Pending, Some(event.id)));
    end_hit((holder, low, high));
}

#[test]
fn a_role_that_may_signals() {
    let server = super::stage::server();
    let owner = server.user().to_owned();
    check_role(&owner, &owner, 201, Signals::ByRight);
    check_role("signaller", "customer", 202, Signals::ByRight);
}

#[test]
fn a_role_that_may_not_cancels_by_keys() {
    let server = super::stage::server();
    let owner = server.user().to_owned();
    check_role("timid", "customer", 211, Signals::ByKey);
    // This role may signal, but not superusers.
    check_role("signaller", &owner, 212, Signals::ByRight);
}

#[test]
fn without_a_way_to_the_server_nobody_is_hit() {
    let mut stage = Stage::with("pow", |settings| {
        "timid".clone_into(&mut settings.control.as_mut().unwrap().user);
        settings.server = ServerUrl::of_socket("/nowhere", 1, "nobody", "none");
    });
    let scene = scene(&stage, 221);
    let seen = target(&stage.governor, &scene.1, &scene.2);
    assert!(!strike(&mut stage, &seen).unwrap(), "there is no way to the server");
    assert_eq!((cancels(&scene.1), stage.told().len()), ((0, None), 1));
    let lever = stage.governor.lever("preemption").unwrap();
    assert!(!lever.is_on && lever.why.contains("keys"), "{lever:?}");
    end_unharmed(scene);
}

#[test]
fn whoever_has_moved_on_is_not_hit() {
    let mut stage = Stage::new("pow");
    let scene = scene(&stage, 231);
    let seen = target(&stage.governor, &scene.1, &scene.2);
    // Its session has begun another unit, as far as it knows.
    scene.1.card.state().unit += 1;
    assert!(!strike(&mut stage, &seen).unwrap());
    assert_eq!((cancels(&scene.1), stage.told()), ((0, None), vec![]), "it was not even aimed at");
    assert_eq!((last_outcome(&stage), scene.1.card.state().cancels.event), (Outcome::TooLate, None));
    scene.1.card.state().unit -= 1;
    // It must not be rolled back any more.
    scene.1.card.state().preemptible = false;
    assert!(!strike(&mut stage, &seen).unwrap());
    scene.1.card.state().preemptible = true;
    // The server knows better: the victim no longer waits, and runs the unit that its card still shows.
    scene.0.run("rollback");
    scene.1.outcome().unwrap();
    scene.1.send("select pg_sleep(0.2)");
    scene.1.card.state().unit -= 1;
    assert!(!strike(&mut stage, &seen).unwrap());
    assert_eq!((cancels(&scene.1), stage.told()), ((0, None), vec![(scene.1.card.id, SessionCommand::CancelArrived)]));
    assert_eq!((last_outcome(&stage), scene.1.card.state().cancels.event), (Outcome::TooLate, None));
    scene.1.outcome().unwrap();
    scene.1.run("rollback");
    // No session blocks another.
    scene.2.outcome().unwrap();
    scene.1.send("select pg_sleep(0.2)");
    let running = Target { if_waiting: false, ..target(&stage.governor, &scene.1, &scene.2) };
    assert!(!strike(&mut stage, &running).unwrap());
    scene.1.outcome().unwrap();
    scene.2.run("rollback");
}

#[test]
fn what_was_seen_too_long_ago_is_not_done() {
    let mut stage = Stage::new("pow");
    let scene = scene(&stage, 241);
    let seen = target(&stage.governor, &scene.1, &scene.2);
    let done = strike_at(&mut stage, &seen, LookedAt { server: 1.0, here: Instant::now() }).unwrap();
    assert_eq!((done, cancels(&scene.1)), (false, (0, None)));
    assert_eq!(stage.told(), [(scene.1.card.id, SessionCommand::CancelArrived)]);
    end_unharmed(scene);
}

#[test]
fn a_lost_control_connection_lets_victims_go_on_and_comes_back() {
    let mut stage = Stage::new("pow");
    let scene = scene(&stage, 251);
    let seen = target(&stage.governor, &scene.1, &scene.2);
    let began = Instant::now();
    kill_control(&mut stage);
    let error = strike_at(&mut stage, &seen, LookedAt { server: 4e9, here: began }).unwrap_err();
    assert!(began.elapsed() >= Duration::from_millis(900), "it was held until nothing could come any more");
    assert_eq!(cancels(&scene.1).0, 0);
    assert_eq!(stage.told(), [(scene.1.card.id, SessionCommand::CancelArrived)]);
    assert!(stage.control.lost_or_refused(&error) && stage.control.connection().is_none());
    let health = stage.governor.health.lock().clone();
    assert!(health.control_up.is_none() && health.control_error.is_some());
    assert!(!stage.governor.lever("preemption").unwrap().is_on);
    stage.control.tend(&stage.governor.settings(), Instant::now() + Duration::from_secs(1));
    assert!(stage.governor.health.lock().control_up.is_some());
    // It is unknown whether it was cancelled, so it is not aimed at again in this unit.
    stage.round().unwrap();
    assert_eq!((cancels(&scene.1), stage.told()), ((0, Some(scene.1.place().1)), vec![]));
    end_unharmed(scene);
}

#[test]
fn a_look_over_a_killed_connection_is_an_error() {
    let mut stage = Stage::new("pow");
    let scene = scene(&stage, 261);
    kill_control(&mut stage);
    let error = stage.round().unwrap_err();
    assert!(error.to_string().contains("57P01"), "{error}");
    assert_eq!((cancels(&scene.1), stage.told()), ((0, None), vec![]));
    end_unharmed(scene);
}

#[test]
fn track_counts_once_and_does_nothing() {
    let mut stage = Stage::new("track");
    let scene = scene(&stage, 271);
    for _ in 0..3 {
        stage.round().unwrap();
    }
    assert_eq!((stage.counts(), stage.told()), ([0, 1], vec![]));
    assert_eq!(stage.governor.events().len(), 1);
    end_unharmed(scene);
}
