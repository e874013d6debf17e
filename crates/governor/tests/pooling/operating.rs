//! An operator at the console: databases are paused, and connections replaced, while clients go on.

use std::thread;

use plimsoll_testing::until;

use super::client::{Client, PASSWORD};
use super::stories::waiting;
use super::world::World;

/// A world with another database, a client of each, and one more of the first within a transaction.
fn world_of_two_databases() -> (World, Client, Client, Client) {
    let world = World::new(2, true, |_| {});
    world.connection().run("CREATE DATABASE elsewhere").unwrap();
    let (idle, mut busy) = (world.client("ann"), world.client("ann"));
    let mut elsewhere = Client::connect(world.place(), "ann", "elsewhere").unwrap();
    busy.query("BEGIN").unwrap();
    elsewhere.query("SELECT 1").unwrap();
    (world, idle, busy, elsewhere)
}

fn process(client: &mut Client) -> String {
    client.value("SELECT pg_backend_pid()").unwrap()
}

#[test]
fn a_paused_database_keeps_its_clients_and_has_no_connections() {
    let (world, mut idle, mut busy, mut elsewhere) = world_of_two_databases();
    let database = world.server.database();
    idle.query("SELECT 1").unwrap();
    let shown = || world.console("SHOW SERVERS", &["state", "user", "database"]);
    until("an idle connection is shown", || shown().contains(&["idle", "ann", database].map(str::to_owned).to_vec()));
    thread::scope(|scope| {
        let pausing = scope.spawn(|| world.operator().run(&format!("PAUSE {database}")).unwrap());
        until("it is paused", || world.governor.pools.is_paused(database));
        idle.send_query("SELECT 2").unwrap();
        until("the other client waits", || waiting(&world) == 1);
        assert_eq!(busy.value("SELECT 3").unwrap(), "3", "its transaction goes on");
        assert!(!pausing.is_finished());
        busy.query("COMMIT").unwrap();
        pausing.join().unwrap();
    });
    let connected = format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}' AND usename = 'ann'");
    until("no process is left", || world.connection().text(&connected).unwrap().as_deref() == Some("0"));
    assert_eq!(elsewhere.value("SELECT 4").unwrap(), "4", "another database is not paused");
    let mut comer = world.client("ann");
    comer.send_query("SELECT 5").unwrap();
    until("both wait", || waiting(&world) == 2);
    world.operator().run(&format!("RESUME {database}")).unwrap();
    assert_eq!(idle.answer().unwrap().value(), Some("2"));
    assert_eq!(comer.answer().unwrap().value(), Some("5"));
    let again = world.operator().run(&format!("RESUME {database}")).unwrap_err().to_string();
    assert!(again.contains("there is no class"), "{again}");
}

#[test]
fn connections_are_replaced_as_they_come_free_and_clients_do_not_notice() {
    let (world, mut idle, mut busy, mut elsewhere) = world_of_two_databases();
    let before = [process(&mut idle), process(&mut busy), process(&mut elsewhere)];
    let database = world.server.database();
    world.operator().run(&format!("RECONNECT {database}")).unwrap();
    assert_ne!(process(&mut idle), before[0]);
    assert_eq!(process(&mut busy), before[1], "a transaction keeps its connection");
    thread::scope(|scope| {
        let closing = scope.spawn(|| world.operator().run(&format!("WAIT_CLOSE {database}")).unwrap());
        busy.query("SELECT 1").unwrap();
        assert!(!closing.is_finished());
        busy.query("COMMIT").unwrap();
        closing.join().unwrap();
    });
    assert_ne!(process(&mut busy), before[1]);
    assert_eq!(process(&mut elsewhere), before[2], "another database keeps its connections");
}

/// A governor without credentials cannot open connections again, and clients would have to log in at the server.
#[test]
fn clients_of_a_paused_database_that_log_in_at_the_server_connect_again() {
    let world = World::new(2, false, |_| {});
    let database = world.server.database();
    let mut client = world.client("ann");
    client.query("SELECT 1").unwrap();
    world.operator().run(&format!("PAUSE {database}")).unwrap();
    client.send_query("SELECT 2").unwrap();
    until("it waits", || waiting(&world) == 1);
    let parameters = [("user", "ann"), ("database", database)];
    let refused = Client::log_in(world.place(), &parameters, PASSWORD).map(drop).unwrap_err();
    assert_eq!(refused.state(), Some("57P03"), "{refused}");
    world.operator().run(&format!("RESUME {database}")).unwrap();
    let told = client.message().unwrap();
    assert!(told.tag == b'E' && String::from_utf8_lossy(&told.body).contains("57P01"), "{told:?}");
    assert_eq!(world.client("ann").value("SELECT 3").unwrap(), "3");
}
