//! Operators' actions while sessions are active.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use super::super::client::{Client, PATIENCE};
use super::super::governed::Governed;
use super::super::server::{PASSWORD, Server};

/// The server is restarted under sessions that are idle, in a transaction and active: these end, and new ones succeed
/// as soon as it is back.
#[test]
fn a_server_may_be_restarted() {
    let mut server = Server::start();
    let mut governed = Governed::start_with(&server, "", "mpl = 4");
    let mut clients: Vec<Client> = (0..3).map(|_| governed.client("low", server.database())).collect();
    clients[1].query("BEGIN").unwrap();
    clients[2].send_query("SELECT pg_sleep(60)").unwrap();
    let at_work = || server.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "1";
    plimsoll_testing::until("it sleeps", at_work);
    server.restart();
    for client in &mut clients {
        assert!(client.is_closed(), "a session outlives its server");
    }
    let began = Instant::now();
    loop {
        let own = [("user", "low"), ("database", server.database())];
        match Client::log_in(governed.address, &own, PASSWORD) {
            Ok(mut client) => break assert_eq!(client.value("SELECT 1").unwrap(), "1"),
            Err(failure) => assert!(began.elapsed() < PATIENCE, "{failure}"),
        }
    }
    let classes = governed.console().unwrap().query("SHOW CLASSES").unwrap();
    let inside = classes.rows.iter().map(|row| row[3].as_deref()).collect::<Vec<_>>();
    assert_eq!(inside, [Some("0"); 2], "somebody is left inside");
    governed.assert_alive();
}

/// Work continues through several pauses, and no client gets an error. While the console has paused all classes, no
/// transaction is inside.
#[test]
fn pauses_hold_work_up_and_lose_none() {
    let server = Server::start();
    let mut governed = Governed::start_with(&server, "", "mpl = 4");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let clients = ["low", "low_other", "high"].map(|user| {
            let (mut client, is_over) = (governed.client(user, server.database()), &is_over);
            scope.spawn(move || {
                let mut done = 0;
                // It ends also if an assertion fails.
                let began = Instant::now();
                while !is_over.load(Ordering::Relaxed) && began.elapsed() < PATIENCE {
                    client.query("BEGIN; SELECT pg_sleep(0.005); COMMIT").unwrap();
                    done += 1;
                }
                done
            })
        });
        let mut console = governed.console().unwrap();
        let inside = |console: &mut Client| {
            let classes = console.query("SHOW CLASSES").unwrap();
            classes.rows.iter().map(|row| row[3].as_deref().unwrap().parse::<u32>().unwrap()).sum::<u32>()
        };
        for _ in 0..5 {
            console.query("PAUSE").unwrap();
            plimsoll_testing::until("all have left", || inside(&mut console) == 0);
            let waits = |console: &mut Client| console.query("SHOW QUEUE").unwrap().rows.len();
            plimsoll_testing::until("all wait", || waits(&mut console) == 3);
            console.query("RESUME").unwrap();
            plimsoll_testing::until("all go on", || waits(&mut console) == 0);
        }
        is_over.store(true, Ordering::Relaxed);
        for client in clients {
            assert!(client.join().unwrap() > 0);
        }
    });
    governed.assert_alive();
}

/// One session is ended by its number, and its client gets the reason; its transaction is rolled back. An unknown
/// number is refused.
#[test]
fn a_session_can_be_killed() {
    let server = Server::start();
    let mut governed = Governed::start(&server);
    let mut console = governed.console().unwrap();
    for (wrong, state) in [("KILL_CLIENT", "42601"), ("KILL 999999", "42704"), ("KILL x", "3D000")] {
        assert_eq!(console.query(wrong).expect_err(wrong).state(), Some(state), "{wrong}");
    }
    for sql in ["SELECT 1", "BEGIN; UPDATE hot SET low = low + 1 WHERE id = 1", "SELECT pg_sleep(60)"] {
        let (mut client, mut other) =
            (governed.client("low", server.database()), governed.client("low_other", server.database()));
        if sql.contains("pg_sleep") {
            client.send_query(sql).unwrap();
            let sleeps = || server.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "1";
            plimsoll_testing::until("it sleeps", sleeps);
        } else {
            client.query(sql).unwrap();
        }
        let clients = console.query("SHOW CLIENTS").unwrap();
        let row = clients.rows.iter().find(|row| row[Governed::column("user")].as_deref() == Some("low")).unwrap();
        let began = Instant::now();
        console.query(&format!("KILL {}", row[Governed::column("id")].as_deref().unwrap())).unwrap();
        let error = client.answer().expect_err("it was ended");
        assert!(error.to_string().contains("57P01"), "{sql}: {error}");
        assert_eq!(other.value("SELECT 1").unwrap(), "1", "another session was ended with it");
        // Its statement is cancelled, and does not hold its locks for the minute that it would take.
        let is_left = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'low'";
        plimsoll_testing::until("its server process ends", || server.value(is_left) == "0");
        assert!(began.elapsed() < PATIENCE, "{sql}: its server process went on for {:?}", began.elapsed());
    }
    governed.assert_alive();
}

/// The sessions of a database are ended at once and its clients kept out, or ended as each becomes idle.
#[test]
fn the_sessions_of_a_database_are_ended() {
    let server = Server::start();
    let mut governed = Governed::start(&server);
    let mut console = governed.console().unwrap();
    let database = server.database();
    let (mut idle, mut busy) = (governed.client("low", database), governed.client("low_other", database));
    busy.query("BEGIN").unwrap();
    console.query(&format!("RECONNECT {database}")).unwrap();
    assert!(idle.answer().expect_err("it was idle").to_string().contains("57P01"));
    assert_eq!(busy.value("SELECT 1").unwrap(), "1", "its transaction goes on");
    console.send_query(&format!("WAIT_CLOSE {database}")).unwrap();
    busy.query("COMMIT").unwrap();
    assert!(busy.answer().expect_err("its transaction has ended").to_string().contains("57P01"));
    assert_eq!(console.answer().unwrap().status, b'I', "all have ended");
    let mut back = governed.client("low", database);
    assert_eq!(back.value("SELECT 1").unwrap(), "1", "it has connected again");
    console.query(&format!("KILL {database}")).unwrap();
    assert!(back.answer().expect_err("it was ended").to_string().contains("57P01"));
    let refused = governed.try_client("low", database).expect_err("the database is closed");
    assert_eq!(refused.state(), Some("57P03"), "{refused}");
    console.query(&format!("RESUME {database}")).unwrap();
    console.query(&format!("DISABLE {database}")).unwrap();
    assert!(governed.try_client("low", database).is_err());
    console.query(&format!("ENABLE {database}")).unwrap();
    assert_eq!(governed.client("low", database).value("SELECT 1").unwrap(), "1");
    let stats = console.query("SHOW STATS").unwrap();
    let row = stats.rows.iter().find(|row| row[0].as_deref() == Some(database)).unwrap();
    let number = |place: usize| row[place].as_deref().unwrap().parse::<u64>().unwrap();
    // Logins, transactions, queries, bytes of both sides, and times.
    assert!(number(12) >= 4 && number(2) >= 3 && number(3) >= 5, "{row:?}");
    assert!((4..8).all(|place| number(place) > 0), "{row:?}");
    governed.assert_alive();
}
