//! Single promises of a pool.

use std::time::Duration;

use plimsoll_governor::settings::Settings;
use plimsoll_testing::until;

use super::canary::skip;
use super::client::{Client, Failure, PASSWORD, cancel};
use super::requests::query;
use super::world::World;

/// Long enough to see that nothing arrives.
const A_WHILE: Duration = Duration::from_millis(200);

fn state(result: Result<super::client::Answer, Failure>) -> String {
    match result {
        Ok(_) => "ok".to_owned(),
        Err(Failure::Refused(refusal)) => refusal.state,
        Err(Failure::Lost(error)) => panic!("{error}"),
    }
}

pub fn waiting(world: &World) -> usize {
    world.governor.pools.view().iter().map(|pool| pool.waiting).sum()
}

/// The server processes of clients.
fn processes(world: &World) -> String {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE usename IN ('ann', 'ben')";
    world.connection().text(sql).unwrap().unwrap()
}

#[test]
fn many_clients_share_few_connections() {
    let world = World::new(2, false, |_| {});
    let mut clients: Vec<Client> = (0..10).map(|_| world.client("ann")).collect();
    until("the connections of logins are closed", || processes(&world) == "2");
    for round in 0..3 {
        for client in &mut clients {
            assert_eq!(client.value(&format!("SELECT {round}")).unwrap(), round.to_string());
        }
    }
    assert_eq!(processes(&world), "2");
}

#[test]
fn the_important_class_goes_first_in_the_queue_for_connections() {
    let world = World::new(1, true, |settings| settings.pool.size = 1);
    // Users have pools of their own: both classes are one user's here.
    let mut holder = world.client("ben");
    let mut patient = world.client("ben");
    let mut urgent = {
        let user = [("user", "ben"), ("database", world.server.database()), ("plimsoll.class", "low")];
        Client::log_in(world.place(), &user, PASSWORD).unwrap()
    };
    holder.query("BEGIN").unwrap();
    patient.send_query("SELECT 1").unwrap();
    until("one waits", || waiting(&world) == 1);
    urgent.send_query("SELECT 2").unwrap();
    until("both wait", || waiting(&world) == 2);
    holder.query("COMMIT").unwrap();
    assert_eq!(patient.answer().unwrap().value(), Some("1"));
    assert_eq!(urgent.answer().unwrap().value(), Some("2"));
    assert_eq!(waiting(&world), 0);
}

/// The class of the clients has one transaction at a time.
fn one_at_a_time(settings: &mut Settings) {
    settings.set("class.high.mpl", "1").unwrap();
    let class = settings.class_named("high").unwrap();
    settings.rules.set_has_mpl(class, true);
}

/// A session kept its connection while its next transaction waited for admission; one that was admitted waited for that
/// connection, and neither went on.
#[test]
fn a_transaction_that_waits_for_admission_holds_no_connection() {
    let world = World::new(1, true, one_at_a_time);
    let (mut one, mut other) = (world.client("ann"), world.client("ann"));
    one.query("BEGIN").unwrap();
    other.send_query("SELECT 2").unwrap();
    until("the other is queued", || world.governor.waiting().len() == 1);
    // Its settings are asked for when its next statement is already there.
    one.send(&[query("SET app.x = 'y'; COMMIT"), query("SELECT 1")].concat()).unwrap();
    assert_eq!(other.answer().unwrap().value(), Some("2"));
    one.answer().unwrap();
    assert_eq!(one.answer().unwrap().value(), Some("1"));
}

/// A session that keeps its connection waited for admission behind one that was admitted and waited for that connection.
#[test]
fn a_session_that_keeps_its_connection_is_let_in_when_others_wait_for_that() {
    let world = World::new(1, true, one_at_a_time);
    let (mut keeper, mut other) = (world.client("ann"), world.client("ann"));
    keeper.query("LISTEN news").unwrap();
    other.send_query("SELECT 2").unwrap();
    until("the other waits for the connection", || waiting(&world) == 1);
    assert_eq!(keeper.value("SELECT 1").unwrap(), "1");
    keeper.query("DISCARD ALL").unwrap();
    assert_eq!(other.answer().unwrap().value(), Some("2"));
}

/// asyncpg, postgres.js and others say goodbye, and wait until the server closes the connection. They waited for ever.
#[test]
fn a_client_that_says_goodbye_is_let_go() {
    const GOODBYE: &[u8] = &[b'X', 0, 0, 0, 4];
    let world = World::new(1, true, |_| {});
    world.connection().run("CREATE TABLE said (what text); GRANT ALL ON said TO public").unwrap();
    for before in ["", "BEGIN; INSERT INTO said VALUES ('lost')", "INSERT INTO said VALUES ('kept')", "LISTEN news"] {
        let mut client = world.client("ann");
        if !before.is_empty() {
            client.send(&query(before)).unwrap();
        }
        client.send(GOODBYE).unwrap();
        while client.answer().is_ok() {}
    }
    // The only connection serves others.
    assert_eq!(world.client("ann").value("SELECT string_agg(what, ' ') FROM said").unwrap(), "kept");
}

#[test]
fn a_cancel_meets_its_own_statement_and_nobody_elses() {
    let world = World::new(1, true, |_| {});
    let (mut one, mut other) = (world.client("ann"), world.client("ann"));
    one.send_query("SELECT pg_sleep(30)").unwrap();
    other.send_query("SELECT 7").unwrap();
    until("the other waits", || waiting(&world) == 1);
    // One that waits is cancelled in the queue; the one that runs is not.
    cancel(world.place(), &other.key).unwrap();
    assert_eq!(other.answer().unwrap().refusal.unwrap().state, "57014");
    assert_eq!(waiting(&world), 0);
    other.send_query("SELECT 8").unwrap();
    until("the other waits again", || waiting(&world) == 1);
    cancel(world.place(), &one.key).unwrap();
    assert_eq!(one.answer().unwrap().refusal.unwrap().state, "57014");
    assert_eq!(other.answer().unwrap().value(), Some("8"));
    // A cancel of a client that runs nothing meets nothing.
    cancel(world.place(), &one.key).unwrap();
    assert_eq!(other.value("SELECT 9").unwrap(), "9");
}

/// A cancel that came while the pool put the client's settings in force met that. The statement ran without them, and the
/// session was ended with 08006.
#[test]
fn a_cancel_that_meets_the_preparation_of_a_connection_waits_for_the_statement() {
    // The setting is put in force only when nobody holds that lock.
    let (sets, locks) = (b"pg_catalog.set_config(E'app.waiting'", b"(pg_catalog.pg_advisory_xact_lock(7)");
    let world = World::new(1, true, |settings| skip(settings, sets, locks));
    let mut observer = world.connection();
    let (mut one, mut other) = (world.client("ann"), world.client("ann"));
    one.query("SET app.waiting = 'yes'").unwrap();
    other.query("SELECT 1").unwrap();
    observer.run("SELECT pg_advisory_lock(7)").unwrap();
    one.send_query("SELECT pg_sleep(600)").unwrap();
    let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    until("the connection is being prepared", || observer.text(waits).unwrap().as_deref() == Some("1"));
    cancel(world.place(), &one.key).unwrap();
    assert_eq!(observer.text(waits).unwrap().as_deref(), Some("1"), "the preparation goes on");
    observer.run("SELECT pg_advisory_unlock(7)").unwrap();
    assert_eq!(one.answer().unwrap().refusal.unwrap().state, "57014");
    assert_eq!(one.value("SELECT 1").unwrap(), "1");
}

#[test]
fn who_waits_for_too_long_is_told_and_goes_on() {
    let world = World::new(1, true, |settings| {
        settings.classes.iter_mut().for_each(|class| class.limits.timeout = Some(Duration::from_millis(300)));
    });
    let (mut holder, mut waiter) = (world.client("ann"), world.client("ann"));
    holder.query("BEGIN").unwrap();
    assert_eq!(state(waiter.query("SELECT 1")), "53300");
    holder.query("COMMIT").unwrap();
    assert_eq!(waiter.value("SELECT 1").unwrap(), "1");
}

#[test]
fn a_client_that_leaves_within_a_transaction_leaves_nothing() {
    let world = World::new(1, true, |_| {});
    world.connection().run("CREATE TABLE t (a int); INSERT INTO t VALUES (1); GRANT ALL ON t TO public").unwrap();
    let mut leaver = world.client("ann");
    leaver.query("BEGIN; UPDATE t SET a = 2; SELECT pg_advisory_lock(1)").unwrap();
    drop(leaver);
    let mut next = world.client("ann");
    assert_eq!(next.value("UPDATE t SET a = a + 10 RETURNING a").unwrap(), "11");
    assert_eq!(next.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").unwrap(), "0");
}

/// A client that closes its connection right behind a statement has it run, as by a server of its own.
#[test]
fn the_last_words_of_a_client_are_carried_out() {
    let world = World::new(1, true, |_| {});
    world.connection().run("CREATE TABLE t (a int); GRANT ALL ON t TO public").unwrap();
    let mut holder = world.client("ann");
    holder.query("BEGIN").unwrap();
    let mut leaver = world.client("ann");
    leaver.send_query("INSERT INTO t VALUES (1)").unwrap();
    until("it waits", || waiting(&world) == 1);
    leaver.close_sending().unwrap();
    std::thread::sleep(A_WHILE);
    holder.query("COMMIT").unwrap();
    until("the row is there", || world.connection().text("SELECT count(*) FROM t").unwrap().as_deref() == Some("1"));
}

#[test]
fn clients_live_through_a_restart_of_the_server_if_the_governor_can_log_in() {
    let mut world = World::new(2, true, |_| {});
    let (mut idle, mut busy) = (world.client("ann"), world.client("ann"));
    busy.query("BEGIN").unwrap();
    world.server.restart().unwrap();
    assert!(busy.query("SELECT 1").is_err(), "its transaction is lost, and it must know");
    assert_eq!(idle.value("SELECT 1").unwrap(), "1");
    assert_eq!(world.client("ann").value("SELECT 2").unwrap(), "2");
}

/// The server's operator changes a parameter that the server reports: every client of the connection hears of it.
#[test]
fn clients_are_told_what_the_server_changes_under_them() {
    let world = World::new(1, true, |_| {});
    let mut clients = [world.client("ann"), world.client("ann")];
    world.connection().run("ALTER SYSTEM SET datestyle = 'German'").unwrap();
    world.connection().run("SELECT pg_reload_conf()").unwrap();
    for client in &mut clients {
        until("it is in force", || client.value("SHOW datestyle").unwrap().starts_with("German"));
        let shown = client.value("SHOW datestyle").unwrap();
        assert_eq!(client.parameters["DateStyle"], shown);
        assert_eq!(client.value("SELECT date '2026-12-31'").unwrap(), "31.12.2026");
    }
}

#[test]
fn without_credentials_clients_are_told_to_connect_again() {
    let mut world = World::new(2, false, |_| {});
    let mut idle = world.client("ann");
    assert_eq!(idle.value("SELECT 1").unwrap(), "1");
    world.server.restart().unwrap();
    until("the lost connections are noticed", || world.governor.pools.view().iter().all(|pool| pool.open == 0));
    let told = idle.query("SELECT 1").unwrap_err().to_string();
    assert!(told.contains("57P01"), "{told}");
    assert_eq!(world.client("ann").value("SELECT 2").unwrap(), "2");
}

#[test]
fn passwords_are_checked_by_whoever_knows_them() {
    for has_users in [false, true] {
        let world = World::new(2, has_users, |_| {});
        let log_in = |user: &str, password: &str| {
            let parameters = [("user", user), ("database", world.server.database())];
            Client::log_in(world.place(), &parameters, password).map(drop)
        };
        for (user, password) in [("ann", "wrong"), ("nobody", PASSWORD), ("ann", "")] {
            assert_eq!(log_in(user, password).unwrap_err().state(), Some("28P01"), "{user} {password} {has_users}");
        }
        log_in("ann", PASSWORD).unwrap();
    }
}

/// `currval` in another connection must not return what another client has taken.
#[test]
fn values_of_sequences_are_the_clients_own() {
    let world = World::new(1, true, |_| {});
    world.connection().run("CREATE SEQUENCE s; GRANT ALL ON s TO public").unwrap();
    let (mut one, mut other) = (world.client("ann"), world.client("ann"));
    assert_eq!(one.value("SELECT nextval('s')").unwrap(), "1");
    assert_eq!(state(other.query("SELECT currval('s')")), "55000");
    // In one transaction it works, and a client that has asked once keeps its connection with its next value.
    let both = other.query("BEGIN; SELECT nextval('s'); SELECT currval('s'); COMMIT").unwrap();
    assert_eq!(both.rows.concat(), [Some("2".to_owned()), Some("2".to_owned())]);
    assert_eq!(other.value("SELECT currval('s')").unwrap(), "2");
}

#[test]
fn a_session_that_keeps_something_keeps_its_connection_and_says_why() {
    let world = World::new(2, true, |_| {});
    let mut client = world.client("ann");
    client.query("LISTEN news").unwrap();
    let mut teller = world.client("ann");
    teller.query("NOTIFY news").unwrap();
    let why = || world.governor.registry.all().iter().find_map(|card| card.state().pinned.clone());
    until("the reason is known", || why().is_some());
    assert!(why().unwrap().contains("notifications"), "{:?}", why());
    assert_eq!(client.message().unwrap().tag, b'A');
    client.query("DISCARD ALL").unwrap();
    until("it is free again", || why().is_none());
}

#[test]
fn the_console_shows_who_has_a_connection_and_who_waits() {
    let world = World::new(2, true, |_| {});
    let pool = |columns: &[&str]| world.console("SHOW POOLS", columns).concat().join(" ");
    let counts = ["cl_active", "cl_waiting", "sv_active", "sv_idle", "pool_mode"];
    let (mut keeps, mut other) = (world.client("ann"), world.client("ann"));
    keeps.query("LISTEN news").unwrap();
    other.query("SELECT 1").unwrap();
    until("one connection is kept and one is idle", || pool(&counts) == "2 0 1 1 transaction");
    let pinned = || world.console("SHOW CLIENTS", &["pinned"]).concat().concat();
    until("the reason is shown", || pinned().contains("notifications"));
    other.query("BEGIN").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| world.client("ann").query("SELECT 1").unwrap());
        until("a client waits", || pool(&counts) == "2 1 2 0 transaction");
        until("its wait is counted", || pool(&["maxwait_us"]) != "0");
        let states = world.console("SHOW CLIENTS", &["state"]).concat();
        assert_eq!(states.iter().filter(|state| *state == "waiting").count(), 1, "{states:?}");
        other.query("COMMIT").unwrap();
    });
}

/// The connection began with another client's name, and RESET goes back to that.
#[test]
fn the_name_of_an_application_is_the_clients_own_again_after_a_reset() {
    let world = World::new(1, false, |_| {});
    let log_in = |name: &str| {
        let parameters = [("user", "ann"), ("database", world.server.database()), ("application_name", name)];
        Client::log_in(world.place(), &parameters, PASSWORD).unwrap()
    };
    let (mut one, mut other) = (log_in("one"), log_in("other"));
    for client in [&mut one, &mut other] {
        let own = client.parameters["application_name"].clone();
        for reset in ["RESET application_name", "RESET ALL", "DISCARD ALL"] {
            client.query("SET application_name = 'x'").unwrap();
            assert_eq!(client.value("SHOW application_name").unwrap(), "x");
            client.query(reset).unwrap();
            assert_eq!(client.parameters["application_name"], own, "{reset}");
            assert_eq!(client.value("SHOW application_name").unwrap(), own, "{reset}");
        }
    }
}

/// Clients that ask and leave in any state, many at once: afterwards the pool has all its connections again.
#[test]
fn clients_that_leave_in_any_state_leave_the_pool_whole() {
    let world = World::new(3, true, |_| {});
    std::thread::scope(|scope| {
        for worker in 0..6 {
            let world = &world;
            scope.spawn(move || {
                for round in 0..25 {
                    let mut client = world.client("ann");
                    let said = match (worker + round) % 5 {
                        0 => client.send_query("SELECT pg_sleep(0.01)"),
                        1 => client.send_query("BEGIN"),
                        2 => client.query("BEGIN; SELECT 1").map_or(Ok(()), |_| Ok(())),
                        3 => client.send(b"P\0\0\0\x10x\0select"),
                        _ => client.send_query("SELECT 1/0"),
                    };
                    said.unwrap();
                }
            });
        }
    });
    until("nothing is in use", || world.governor.pools.view().iter().all(|pool| pool.in_use == 0 && pool.waiting == 0));
    let mut clients: Vec<Client> = (0..3).map(|_| world.client("ann")).collect();
    clients.iter_mut().for_each(|client| drop(client.query("BEGIN").unwrap()));
    clients.iter_mut().for_each(|client| drop(client.query("COMMIT").unwrap()));
}
