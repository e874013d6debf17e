//! Passwords, keys and privileges.

use std::thread;

use plimsoll_pg::connection::Connection;
use plimsoll_testing::until;
use postgres_protocol::message::frontend;

use super::super::client::{Client, Failure, cancel, cancel_request, message};
use super::super::governed::CONSOLE;
use super::super::requests::{parse, sync};
use super::super::server::PASSWORD;
use super::Attacked;

/// Logs in at a console or the server and must be refused with one of these.
fn check_refused(attacked: &Attacked, user: &str, database: &str, password: &str, states: &[&str]) {
    let login = Client::log_in(attacked.address(), &[("user", user), ("database", database)], password);
    match login {
        Err(Failure::Refused(refusal)) if states.contains(&refusal.state.as_str()) => {
            assert!(password.is_empty() || !refusal.message.contains(password), "the password is told: {refusal:?}");
        }
        Err(other) => panic!("{user} at {database}: {other}, expected {states:?}"),
        Ok(_) => panic!("{user} is let in at {database}"),
    }
}

#[test]
fn a_storm_of_wrong_passwords_passes() {
    let attacked = Attacked::start();
    thread::scope(|scope| {
        for number in 0..8 {
            let attacked = &attacked;
            scope.spawn(move || {
                for _ in 0..40 {
                    let (user, database) =
                        if number % 2 == 0 { ("operator", CONSOLE) } else { ("low", attacked.server.database()) };
                    check_refused(attacked, user, database, "not the password", &["28P01"]);
                }
            });
        }
    });
    assert_eq!(attacked.client("low").value("SELECT 1").unwrap(), "1");
    attacked.governed.console().unwrap();
    attacked.stop();
}

#[test]
fn the_console_lets_in_its_own_users_only() {
    let attacked = Attacked::start();
    let refused = ["28P01", "28000"];
    check_refused(&attacked, "low", CONSOLE, PASSWORD, &refused);
    check_refused(&attacked, "nobody", CONSOLE, PASSWORD, &refused);
    check_refused(&attacked, "operator", CONSOLE, "", &refused);
    check_refused(&attacked, "operator ", CONSOLE, PASSWORD, &refused);
    // The console's users do not exist at the server.
    check_refused(&attacked, "operator", attacked.server.database(), PASSWORD, &refused);
    attacked.stop();
}

#[test]
fn who_may_look_may_not_change() {
    let attacked = Attacked::start();
    let mut viewer = Client::connect(attacked.address(), "viewer", CONSOLE).unwrap();
    viewer.query("SHOW CLIENTS").unwrap();
    let commands = [
        "PAUSE",
        "RESUME",
        "RELOAD",
        "SHUTDOWN",
        "SHUTDOWN WAIT_FOR_CLIENTS",
        "DISABLE",
        "ENABLE",
        "KILL 1",
        "KILL_CLIENT 1",
        "SET policy = 'never'",
        "show clients; KILL 1",
        "/* hidden */ SHUTDOWN",
        "ShUtDoWn;",
    ];
    for command in commands {
        let failure = viewer.query(command).expect_err(command);
        // Unknown, not understood, or not permitted.
        let states = ["42501", "42601", "0A000", "42704", "22023"];
        assert!(failure.state().is_some_and(|state| states.contains(&state)), "{command}: {failure}");
    }
    assert_eq!(attacked.client("low").value("SELECT 1").unwrap(), "1");
    attacked.stop();
}

#[test]
fn packets_of_the_password_exchange_may_say_anything() {
    let attacked = Attacked::start();
    let mechanism = b"SCRAM-SHA-256\0";
    let initial = |length: i32, data: &[u8]| [&mechanism[..], &length.to_be_bytes(), data].concat();
    let long = "n".repeat(60_000);
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("nothing", message(b'p', b"")),
        ("an unknown mechanism", message(b'p', b"SCRAM-SHA-1024\0\0\0\0\x01n")),
        ("no length", message(b'p', mechanism)),
        ("length -1", message(b'p', &initial(-1, b""))),
        ("length -2", message(b'p', &initial(-2, b"n,,n=,r=abc"))),
        ("the smallest length", message(b'p', &initial(i32::MIN, b"n,,n=,r=abc"))),
        ("the largest length", message(b'p', &initial(i32::MAX, b"n,,n=,r=abc"))),
        ("one more than there is", message(b'p', &initial(12, b"n,,n=,r=abc"))),
        ("one less than there is", message(b'p', &initial(10, b"n,,n=,r=abc"))),
        ("no nonce", message(b'p', &initial(8, b"n,,n=,r="))),
        ("a nonce of 60 kB", message(b'p', &initial(8 + 60_000, format!("n,,n=,r={long}").as_bytes()))),
        ("a demand for channel binding", message(b'p', &initial(27, b"p=tls-unique,,n=,r=abcdefgh"))),
        ("an extension that must be known", message(b'p', &initial(17, b"n,,m=x,n=,r=abcde"))),
        ("bytes that are no text", message(b'p', &initial(4, &[0xff, 0xfe, 0, 0x80]))),
        ("a message of 2 GB", b"p\x7f\xff\xff\xff".to_vec()),
        ("a negative length", b"p\xff\xff\xff\xf0abc".to_vec()),
        ("length 3", b"p\0\0\0\x03".to_vec()),
        ("length 0", b"p\0\0\0\0".to_vec()),
        ("another message", message(b'Q', b"SELECT 1\0")),
        ("an end", message(b'X', b"")),
    ];
    for (user, database) in [("operator", CONSOLE), ("low", attacked.server.database())] {
        for (what, bytes) in &cases {
            let mut client = attacked.bare();
            client.write(|out| frontend::startup_message([("user", user), ("database", database)], out)).unwrap();
            assert_eq!(client.message().unwrap().tag, b'R');
            let _ = client.send(bytes);
            assert!(client.is_closed(), "{what} at {database}: the connection stays open");
            attacked.assert_small();
        }
        // The second message of the exchange.
        for last in ["", "c=biws", "c=biws,r=another,p=AAAA", "p=", &format!("c=biws,r={long},p=AAAA")] {
            let mut client = attacked.bare();
            client.write(|out| frontend::startup_message([("user", user), ("database", database)], out)).unwrap();
            client.message().unwrap();
            client.send(&message(b'p', &initial(18, b"n,,n=,r=abcdefghij"))).unwrap();
            assert_eq!(client.message().unwrap().tag, b'R');
            let _ = client.send(&message(b'p', last.as_bytes()));
            assert!(client.is_closed(), "{last:.20} at {database}: the connection stays open");
        }
    }
    attacked.stop();
}

#[test]
fn only_the_right_key_cancels() {
    let attacked = Attacked::start();
    let mut sleeper = attacked.client("low");
    let other = attacked.client("low");
    let key = sleeper.key.clone();
    let process = sleeper.process();
    // It sleeps until it is released, however long the wrong keys take.
    let mut own = attacked.server.connection();
    own.run("SELECT pg_advisory_lock(4711)").unwrap();
    sleeper.send_query("SELECT pg_advisory_xact_lock(4711), 'slept'").unwrap();
    until_it_waits(&mut own, process, "advisory");
    let changed = |place: usize| {
        let mut wrong = key.clone();
        wrong[place] ^= 1;
        wrong
    };
    let mut wrong = (0..key.len()).map(changed).collect::<Vec<_>>();
    wrong.extend([other.key.clone(), vec![], key[..4].to_vec(), key[..key.len() - 1].to_vec()]);
    wrong.extend([[&key[..], &[0]].concat(), [&key[..4], &[7; 256][..]].concat(), vec![0; key.len()]]);
    for key in &wrong {
        cancel(attacked.address(), key).unwrap();
    }
    own.run("SELECT pg_advisory_unlock(4711)").unwrap();
    let answer = sleeper.answer().unwrap();
    assert_eq!(answer.refusal, None, "a wrong key cancels");
    assert_eq!(answer.rows[0][1].as_deref(), Some("slept"));

    // A backend that no longer sleeps is not hit, whatever its next statement is.
    for _ in 0..20 {
        cancel(attacked.address(), &key).unwrap();
        assert_eq!(sleeper.value("SELECT 'awake'").unwrap(), "awake", "a cancel came after its time");
    }
    sleeper.send_query("SELECT pg_sleep(600)").unwrap();
    until_it_waits(&mut own, process, "PgSleep");
    cancel(attacked.address(), &key).unwrap();
    assert_eq!(sleeper.answer().unwrap().refusal.unwrap().state, "57014");
    drop((sleeper, other));
    attacked.stop();
}

/// Waits until a server process waits for that: earlier, a cancel would have nothing to hit.
fn until_it_waits(own: &mut Connection, process: i32, wait_event: &str) {
    let sql = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE pid = {process} AND state = 'active' AND wait_event = '{wait_event}'"
    );
    until(&format!("it waits for {wait_event}"), || own.text(&sql).unwrap().as_deref() == Some("1"));
}

#[test]
fn a_storm_of_cancels_passes() {
    let attacked = Attacked::start();
    let mut client = attacked.client("low");
    let request = cancel_request(&[1; 260]);
    for _ in 0..500 {
        let mut bare = attacked.bare();
        bare.send(&request).unwrap();
    }
    assert_eq!(client.value("SELECT 1").unwrap(), "1");
    drop(client);
    attacked.stop();
}

#[test]
fn what_a_session_sets_is_its_own() {
    let attacked = Attacked::start();
    // A search path in the first message affects the session only: neither console nor governor runs any SQL under it.
    let mut own = attacked.server.connection();
    own.run(
        "DROP SCHEMA IF EXISTS evil CASCADE; CREATE SCHEMA evil; GRANT USAGE ON SCHEMA evil TO public;
         CREATE FUNCTION evil.pg_blocking_pids(int) RETURNS int[] LANGUAGE plpgsql AS $$ BEGIN RAISE 'evil'; END $$;
         CREATE FUNCTION evil.pg_cancel_backend(int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE 'evil'; END $$",
    )
    .unwrap();
    let database = attacked.server.database();
    for (name, value) in
        [("search_path", "evil, pg_catalog"), ("options", "-c search_path=evil,pg_catalog -c work_mem=3MB")]
    {
        let parameters = [("user", "low"), ("database", database), (name, value)];
        let mut client = Client::log_in(attacked.address(), &parameters, PASSWORD).unwrap();
        assert!(client.value("SHOW search_path").unwrap().starts_with("evil"));
        client.query("SET statement_timeout = '7min'; SET plimsoll.class = 'low'").unwrap();
        let parameters = [("user", "operator"), ("database", CONSOLE), (name, value)];
        let mut console = Client::log_in(attacked.address(), &parameters, PASSWORD).unwrap();
        console.query("SHOW CLIENTS").unwrap();
        let mut next = attacked.client("low");
        assert_eq!(next.value("SHOW statement_timeout").unwrap(), "0");
        assert!(!next.value("SHOW search_path").unwrap().contains("evil"));
    }
    own.run("DROP SCHEMA evil CASCADE").unwrap();
    attacked.stop();
}

#[test]
fn a_class_above_ones_own_cannot_be_chosen() {
    let attacked = Attacked::start();
    let mut client = attacked.client("low");
    assert!(client.query("SET plimsoll.class = 'high'").is_err(), "low becomes high by asking");
    let _ = client.query("SET plimsoll.class = 'high'; SELECT 1");
    // A tag that the user may not choose is ignored.
    let before = attacked.governed.count(Some("low"), "transactions");
    client.query("BEGIN /*class='high'*/; SELECT 1; COMMIT").unwrap();
    client.send(&[parse("", "SELECT 1 /*class='high'*/"), sync()].concat()).unwrap();
    client.answer().unwrap();
    assert_eq!(attacked.governed.count(Some("low"), "transactions"), before + 2);
    drop(client);
    attacked.stop();
}

/// A client has a line break in the name of its user, of its database or of its application, followed by words like a
/// message of the governor. These were a log line of their own, as if the governor had written it.
#[test]
fn names_with_line_breaks_make_no_lines_in_the_log() {
    let attacked = Attacked::start();
    let database = attacked.server.database();
    let forged = |name: &str| format!("{name}\r\nforged: all is well\nforged: truly");
    for (user, database, application) in [
        (forged("low"), database.to_owned(), String::new()),
        ("low".to_owned(), forged(database), String::new()),
        ("low".to_owned(), database.to_owned(), forged("psql")),
        (forged("operator"), CONSOLE.to_owned(), String::new()),
        ("operator".to_owned(), CONSOLE.to_owned(), forged("psql")),
    ] {
        let parameters = [("user", &*user), ("database", &*database), ("application_name", &*application)];
        // Some can log in and some cannot; the log may mention any of them.
        let _ = Client::log_in(attacked.address(), &parameters, PASSWORD);
        let _ = Client::log_in(attacked.address(), &parameters, "wrong");
    }
    let said = attacked.governed.said();
    let lines = said.lines().filter(|line| line.trim_start().starts_with("forged")).collect::<Vec<_>>();
    assert!(lines.is_empty(), "lines of clients in the log: {lines:?}");
    attacked.stop();
}
