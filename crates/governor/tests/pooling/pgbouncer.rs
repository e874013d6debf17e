//! Subjects of pgbouncer's tests that only a pool has; the others are played in `traffic/pooler_cases`, through a pool as
//! well. `../pgbouncer.md` lists them all.

use std::time::Duration;

use plimsoll_testing::until;

use super::client::{Client, PASSWORD, cancel};
use super::world::World;

/// Clients of the storm of cancels, and how often each of them is cancelled.
const CLIENTS: usize = 12;
const CANCELS: usize = 8;

fn open(world: &World) -> u32 {
    world.governor.pools.view().iter().map(|pool| pool.open).sum()
}

/// `server_lifetime`: a connection that is too old serves no other transaction.
#[test]
fn connections_that_are_too_old_are_replaced() {
    let world = World::new(1, true, |settings| settings.pool.lifetime = Some(Duration::from_millis(1)));
    let mut client = world.client("ann");
    let mut process = || client.value("SELECT pg_backend_pid()").unwrap();
    let first = process();
    until("another connection serves it", || process() != first);
    world.governor.change(|settings| settings.pool.lifetime = None).unwrap();
    let last = process();
    assert_eq!(process(), last);
}

/// `server_idle_timeout` and `pool_idle_timeout`: connections that nobody uses are closed, and opened again.
#[test]
fn connections_that_are_idle_for_too_long_are_closed() {
    let world = World::new(2, true, |settings| settings.pool.idle_timeout = Some(Duration::from_millis(100)));
    let mut client = world.client("ann");
    assert_eq!(client.value("SELECT 1").unwrap(), "1");
    until("the pool is empty", || open(&world) == 0);
    assert_eq!(client.value("SELECT 2").unwrap(), "2");
}

/// `cancel_race`: cancels of many clients at once, whose statements take turns on few connections, meet nobody else.
#[test]
fn a_storm_of_cancels_meets_nobody_else() {
    let world = World::new(2, true, |settings| settings.listen.workers = 2);
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let world = &world;
            scope.spawn(move || {
                let (mut sleeper, mut bystander) = (world.client("ann"), world.client("ann"));
                for _ in 0..CANCELS {
                    sleeper.send_query("SELECT pg_sleep(600)").unwrap();
                    bystander.send_query(&format!("SELECT {number}")).unwrap();
                    cancel(world.place(), &sleeper.key).unwrap();
                    // A cancel that comes before its statement meets nothing.
                    let answer = loop {
                        sleeper.set_patience(Duration::from_millis(500)).unwrap();
                        match sleeper.answer() {
                            Ok(answer) => break answer,
                            Err(_) => cancel(world.place(), &sleeper.key).unwrap(),
                        }
                    };
                    assert_eq!(answer.refusal.unwrap().state, "57014");
                    assert_eq!(bystander.answer().unwrap().value(), Some(&*number.to_string()));
                }
            });
        }
    });
    until("nothing is in use", || world.governor.pools.view().iter().all(|pool| pool.in_use == 0 && pool.waiting == 0));
}

/// `kill_client`: the session ends, its statement too, and its connection serves nobody else.
#[test]
fn a_killed_session_holds_nothing_up() {
    let world = World::new(1, true, |_| {});
    for statement in ["BEGIN", "SELECT pg_sleep(600)", "LISTEN news"] {
        let (mut victim, mut other) = (world.client("ann"), world.client("ann"));
        victim.send_query(statement).unwrap();
        until("it has the connection", || world.governor.pools.view().iter().any(|pool| pool.in_use == 1));
        other.send_query("SELECT 1").unwrap();
        let cards = world.governor.registry.all();
        let card = cards.iter().find(|card| card.key.get().is_some_and(|key| key.process == victim.process()));
        world.operator().run(&format!("KILL_CLIENT {}", card.unwrap().id.0)).unwrap();
        assert_eq!(other.answer().unwrap().value(), Some("1"), "{statement}");
        until("it is told", || victim.answer().is_err());
    }
}

/// `idle_transaction_timeout`: a client that thinks for too long within a transaction gives its connection up.
#[test]
fn a_client_that_thinks_for_too_long_loses_its_connection() {
    let world = World::new(1, true, |settings| {
        settings.classes.iter_mut().for_each(|class| {
            class.idle_in_transaction_timeout = Some(Duration::from_millis(100));
        });
    });
    let (mut thinker, mut other) = (world.client("ann"), world.client("ann"));
    thinker.query("BEGIN").unwrap();
    assert_eq!(other.value("SELECT 1").unwrap(), "1");
    assert!(thinker.query("SELECT 2").is_err());
}

/// `max_user_connections`, `pool_size`: each user of each database has connections of its own, and no more than `size`.
#[test]
fn each_user_of_a_database_has_that_many_connections() {
    let world = World::new(2, true, |_| {});
    world.connection().run("CREATE DATABASE elsewhere").unwrap();
    let log_in = |user: &str, database: &str| {
        Client::log_in(world.place(), &[("user", user), ("database", database)], PASSWORD).unwrap()
    };
    let mut clients: Vec<Client> = Vec::new();
    for (user, database) in [("ann", world.server.database()), ("ben", world.server.database()), ("ann", "elsewhere")] {
        clients.extend((0..2).map(|_| log_in(user, database)));
    }
    clients.iter_mut().for_each(|client| drop(client.query("BEGIN").unwrap()));
    let mut waiter = log_in("ben", world.server.database());
    waiter.send_query("SELECT 1").unwrap();
    until("it waits", || super::stories::waiting(&world) == 1);
    assert_eq!(open(&world), 6);
    clients[2].query("COMMIT").unwrap();
    assert_eq!(waiter.answer().unwrap().value(), Some("1"));
}
