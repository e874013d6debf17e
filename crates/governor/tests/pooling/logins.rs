//! Clients that log in at the server through the governor, many at once.

use std::thread;
use std::time::Duration;

use plimsoll_testing::until;
use postgres_protocol::message::frontend;

use super::client::{Client, PASSWORD};
use super::world::World;

/// The size of the pool, the logins that may be under way, and the clients that come at once.
const SIZE: u32 = 3;
const LOGINS: u32 = 4;
const CLIENTS: usize = 200;

/// A client that has begun its login and says nothing more.
fn silent(world: &World) -> Client {
    let mut client = Client::bare(world.place()).unwrap();
    let mut startup = bytes::BytesMut::new();
    let parameters = [("user", "ann"), ("database", world.server.database())];
    frontend::startup_message(parameters, &mut startup).unwrap();
    client.send(&startup).unwrap();
    client
}

/// Each client that logs in at the server costs a process there. Clients that came at once had as many processes, though
/// their pool had few connections, and the server refused those beyond `max_connections`.
#[test]
fn clients_that_come_at_once_log_in_in_turn() {
    // The server refuses one connection more than the pool and the logins may have. One of its own role observes.
    let world = World::before(SIZE + LOGINS + 1, SIZE, false, |settings| settings.pool.logins_max = LOGINS);
    let mut observer = world.connection();
    until("nobody else is connected", || {
        let others = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'";
        observer.text(others).unwrap().as_deref() == Some("1")
    });
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let world = &world;
            scope.spawn(move || match number % 10 {
                // Some leave while they log in, or have a wrong password.
                7 => drop(silent(world)),
                8 => {
                    let parameters = [("user", "ann"), ("database", world.server.database())];
                    let refused = Client::log_in(world.place(), &parameters, "wrong").map(drop).unwrap_err();
                    assert_eq!(refused.state(), Some("28P01"), "{refused}");
                }
                _ => assert_eq!(world.client("ann").value("SELECT 1").unwrap(), "1"),
            });
        }
    });
    until("the pool has its connections and no more", || {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'ann'";
        observer.text(sql).unwrap() == Some(SIZE.to_string())
    });
}

#[test]
fn a_client_whose_turn_to_log_in_does_not_come_is_told_what_to_do() {
    let world = World::new(SIZE, false, |settings| {
        settings.pool.logins_max = 1;
        settings.listen.login_timeout = Duration::from_secs(600);
    });
    let mut first = silent(&world);
    // The server asks it for a password: its turn has come.
    assert_eq!(first.message().unwrap().tag, b'R');
    world.governor.change(|settings| settings.listen.login_timeout = Duration::from_millis(300)).unwrap();
    let refused = Client::connect(world.place(), "ann", world.server.database()).map(drop).unwrap_err();
    assert_eq!(refused.state(), Some("53300"), "{refused}");
    drop(first);
    world.governor.change(|settings| settings.listen.login_timeout = Duration::from_secs(600)).unwrap();
    assert_eq!(world.client("ann").value("SELECT 1").unwrap(), "1");
    assert!(Client::log_in(world.place(), &[("user", "ann")], PASSWORD).is_err(), "there is no such database");
}
