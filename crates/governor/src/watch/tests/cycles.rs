//! Cycles of waiters: which transaction is rolled back, and what looks must have shown before.

use std::time::Instant;

use plimsoll_policy::CycleLoss;

use super::stage::{Client, HIGH, LOW, Stage};
use crate::governor::Outcome;
use crate::watch::cycle;

/// Two clients of these classes wait for each other; the second is the younger. Distinct lock numbers keep tests apart.
fn cycle(stage: &Stage, classes: [plimsoll_policy::ClassIndex; 2], locks: [u32; 2]) -> [Client; 2] {
    assert!(cycle::are_broken(&stage.governor.settings()));
    let clients = classes.map(|class| stage.client(class));
    for (at, client) in clients.iter().enumerate() {
        client.run(&format!("begin; select pg_advisory_xact_lock({})", locks[at]));
        client.card.state().transaction_since = Instant::now();
    }
    for (at, client) in clients.iter().enumerate() {
        client.send(&format!("select pg_advisory_xact_lock({})", locks[1 - at]));
        client.card.state().cycle_loss = Some(CycleLoss::Unnoticed);
        stage.until_it_waits(client);
    }
    clients
}

/// Looks once, beginning with both; returns whether another look has to confirm a cycle.
fn look(stage: &mut Stage, clients: &[Client; 2]) -> bool {
    let settings = stage.governor.settings();
    let up = stage.control.connection().unwrap();
    stage.round.go(up, &settings, &clients.each_ref().map(Client::process), &mut stage.agent).unwrap();
    stage.round.has_pending_cycle
}

/// Ends a cycle in which one client was cancelled.
fn end(victim: &Client, other: &Client) {
    assert_eq!(victim.failure(), "57014");
    victim.run("rollback");
    other.outcome().unwrap();
    other.run("rollback");
}

#[test]
fn the_youngest_of_equals_is_cancelled_when_the_cycle_has_been_seen_twice() {
    let mut stage = Stage::new("pow");
    let clients = cycle(&stage, [LOW, LOW], [401, 402]);
    assert!(look(&mut stage, &clients), "it was seen once");
    assert_eq!((stage.told(), stage.governor.events().len()), (vec![], 0));
    assert!(!look(&mut stage, &clients), "it is broken");
    end(&clients[1], &clients[0]);
    let events = stage.governor.events();
    assert_eq!((events.len(), events[0].lever.as_str()), (1, "cycle"));
    assert_eq!((events[0].victim.0, events[0].waiter.0), (clients[1].card.id, clients[0].card.id));
    assert_eq!(events[0].outcome, Outcome::Pending, "the session settles it");
}

#[test]
fn a_cycle_between_an_important_one_and_another_is_broken_in_two_rounds() {
    let mut stage = Stage::new("pow");
    let [low, high] = cycle(&stage, [LOW, HIGH], [403, 404]);
    stage.round().unwrap();
    stage.round().unwrap();
    end(&low, &high);
}

/// Two writers wait for two readers, each of which then requests the other table and is queued behind its writer. The
/// four wait in a circle, but no session holds a lock that the readers request, so the server lets them pass. The
/// governor once rolled back a reader in this situation.
#[test]
fn who_is_only_behind_another_one_in_a_queue_is_left_to_the_server() {
    let mut stage = Stage::new("pow");
    let owner = stage.client(LOW);
    owner.run("create table if not exists queue_a (); create table if not exists queue_b ()");
    let clients = [LOW; 4].map(|class| stage.client(class));
    for client in &clients {
        client.run("begin");
        client.card.state().transaction_since = Instant::now();
        client.card.state().cycle_loss = Some(CycleLoss::Unnoticed);
    }
    let [first, second, first_writer, second_writer] = &clients;
    // Its deadlock check must come after this test's look; the others do not check.
    second_writer.run("set local deadlock_timeout = '2s'");
    first.run("lock table queue_a in access share mode");
    second.run("lock table queue_b in access share mode");
    for (client, lock) in [
        (first_writer, "queue_a in access exclusive mode"),
        (second_writer, "queue_b in access exclusive mode"),
        (first, "queue_b in access share mode"),
        (second, "queue_a in access share mode"),
    ] {
        client.send(&format!("lock table {lock}"));
        stage.until_it_waits(client);
    }
    let settings = stage.governor.settings();
    let processes = clients.each_ref().map(Client::process);
    for _ in 0..3 {
        let up = stage.control.connection().unwrap();
        stage.round.go(up, &settings, &processes, &mut stage.agent).unwrap();
    }
    assert_eq!(stage.governor.events().len(), 0);
    std::thread::scope(|scope| {
        for client in clients {
            scope.spawn(move || {
                client.outcome().unwrap();
                client.run("rollback");
            });
        }
    });
    owner.run("drop table queue_a, queue_b");
}

/// A session that sends another statement has not waited all the time.
#[test]
fn links_of_other_statements_are_not_the_same_cycle() {
    let mut stage = Stage::new("pow");
    let clients = cycle(&stage, [LOW, LOW], [405, 406]);
    assert!(look(&mut stage, &clients));
    clients[0].card.state().unit += 1;
    assert!(look(&mut stage, &clients), "it is another statement");
    assert_eq!(stage.governor.events().len(), 0);
    assert!(!look(&mut stage, &clients));
    end(&clients[1], &clients[0]);
}

#[test]
fn nobody_is_cancelled_whose_card_forbids_it() {
    let mut stage = Stage::new("pow");
    let clients = cycle(&stage, [LOW, LOW], [407, 408]);
    clients.iter().for_each(|client| client.card.state().cycle_loss = None);
    assert!(!look(&mut stage, &clients) && !look(&mut stage, &clients), "nothing is to be confirmed");
    assert_eq!(stage.governor.events().len(), 0);
    // The card may change at the last moment.
    clients.iter().for_each(|client| client.card.state().cycle_loss = Some(CycleLoss::Unnoticed));
    let (transaction, unit) = clients[0].place();
    clients[0].card.state().cycle_loss = None;
    assert!(!clients[0].card.aim_at_cycle(transaction, unit));
    look(&mut stage, &clients);
    look(&mut stage, &clients);
    end(&clients[1], &clients[0]);
}
