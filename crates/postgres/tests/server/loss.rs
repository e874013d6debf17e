//! Connections that are lost during use.

use std::borrow::Cow;
use std::thread;
use std::time::Duration;

use plimsoll_pg::connection::{Connection, WireError};
use plimsoll_postgres::database::PostgresDatabase;
use plimsoll_testing::until;
use plimsoll_workload::database::{Database, DatabaseError, Session};
use plimsoll_workload::schema::Schema;
use plimsoll_workload::statement::{Rows, Statement, sql_only};
use rustix::process::{Pid, Signal, kill_process};

use super::shared::{connection, database, new_server, wait_until_asleep};

/// A schema without tables need not be created before a session is opened.
static NOTHING: Schema = Schema { name: Cow::Borrowed("nothing"), tables: &[] };

static ONE: Statement = Statement { name: "one", sql: "SELECT 1", native: &sql_only };
static SLEEP: Statement = Statement { name: "sleep", sql: "SELECT pg_sleep(60)", native: &sql_only };

/// The session is lost with these words, repeats them, and another one opens.
fn check_lost(session: &mut dyn Session, error: &DatabaseError, expect: &str) {
    assert!(
        matches!(error, DatabaseError::ConnectionLost(why) if why.contains(expect)),
        "{error:?}, expected {expect}"
    );
    assert!(!error.is_retryable());
    assert_eq!(&session.execute(&ONE, &[], &mut Rows::new()).unwrap_err(), error);
    assert!(matches!(session.begin(), Err(DatabaseError::ConnectionLost(_))));
}

#[test]
fn an_administrator_ends_a_session() {
    let database = database();
    let mut other = connection(&database);
    // While the session waits for its statement, and between two statements.
    for is_asleep in [true, false] {
        let mut session = database.session(&NOTHING).unwrap();
        let process = session.server_process().unwrap();
        session.begin().unwrap();
        let end = |other: &mut Connection| other.run(&format!("SELECT pg_terminate_backend({process})")).unwrap();
        let error = thread::scope(|scope| {
            if is_asleep {
                scope.spawn(|| {
                    wait_until_asleep(&mut other, process);
                    end(&mut other);
                });
                session.execute(&SLEEP, &[], &mut Rows::new()).unwrap_err()
            } else {
                end(&mut other);
                let there = format!("SELECT 1 FROM pg_stat_activity WHERE pid = {process}");
                until("the process to end", || other.text(&there).unwrap().is_none());
                session.commit().unwrap_err()
            }
        });
        check_lost(session.as_mut(), &error, "FATAL 57P01: terminating connection due to administrator command");
    }
    database.session(&NOTHING).unwrap().execute(&ONE, &[], &mut Rows::new()).unwrap();
}

#[test]
fn a_server_that_is_killed_is_lost_and_so_is_every_session() {
    let database = PostgresDatabase::private(new_server(&[]));
    let [mut idle, mut busy] = [0; 2].map(|_| database.session(&NOTHING).unwrap());
    let processes = [idle.server_process().unwrap(), busy.server_process().unwrap()];
    let mut other = connection(&database);
    let postmaster = database.footprint().processes[0];
    let kill = |process| kill_process(Pid::from_raw(process).unwrap(), Signal::KILL).unwrap();
    let error = thread::scope(|scope| {
        scope.spawn(|| {
            wait_until_asleep(&mut other, processes[1]);
            kill(postmaster);
            kill(processes[1]);
        });
        busy.execute(&SLEEP, &[], &mut Rows::new()).unwrap_err()
    });
    check_lost(busy.as_mut(), &error, "did it crash?");
    kill(processes[0]);
    let error = idle.execute(&ONE, &[], &mut Rows::new()).unwrap_err();
    check_lost(idle.as_mut(), &error, "");
    // Its socket may still accept a connection while it ends.
    let told = database.session(&NOTHING).err().expect("there is no server");
    assert!(told.is_server_lost(), "{told:?}");
}

#[test]
fn a_backend_that_crashes_takes_all_with_it_and_the_server_comes_back() {
    let database = PostgresDatabase::private(new_server(&[]));
    let [mut victim, mut bystander] = [0; 2].map(|_| database.session(&NOTHING).unwrap());
    kill_process(Pid::from_raw(victim.server_process().unwrap()).unwrap(), Signal::KILL).unwrap();
    let error = victim.execute(&ONE, &[], &mut Rows::new()).unwrap_err();
    check_lost(victim.as_mut(), &error, "");
    // The server ends all sessions, because the crash may have corrupted shared memory (57P02).
    let error = bystander.execute(&SLEEP, &[], &mut Rows::new()).unwrap_err();
    // The server's error is lost if the process ended before the statement was sent.
    check_lost(bystander.as_mut(), &error, "");
    let back = (0..100_000).find_map(|_| match database.session(&NOTHING) {
        Ok(session) => Some(session),
        // The server refuses while it recovers (57P03).
        Err(refused) if refused.is_server_lost() => {
            thread::yield_now();
            None
        }
        Err(other) => panic!("{other:?}"),
    });
    back.expect("the server recovers").execute(&ONE, &[], &mut Rows::new()).unwrap();
}

/// Ctrl-C in the middle of a statement of 40 seconds left it running at the server.
#[test]
fn the_statements_of_all_sessions_are_cancelled_and_the_sessions_live() {
    let database = PostgresDatabase::private(new_server(&[]));
    let mut sessions = [0; 3].map(|_| database.session(&NOTHING).unwrap());
    thread::scope(|scope| {
        let sleepers: Vec<_> = sessions
            .iter_mut()
            .map(|session| scope.spawn(move || session.execute(&SLEEP, &[], &mut Rows::new())))
            .collect();
        while sleepers.iter().any(|sleeper| !sleeper.is_finished()) {
            database.cancel_statements();
            thread::sleep(Duration::from_millis(20));
        }
        for sleeper in sleepers {
            let error = sleeper.join().unwrap().unwrap_err();
            assert!(error.to_string().contains("canceling statement due to user request"), "{error}");
        }
    });
    for session in &mut sessions {
        session.execute(&ONE, &[], &mut Rows::new()).unwrap();
    }
}

#[test]
fn a_full_server_says_what_to_do() {
    let server = new_server(&[("max_connections", "10")]);
    let database = PostgresDatabase::private(server);
    // Told before clients connect: the user of a private server may use the reserved connections, too.
    assert_eq!(database.sessions_free().unwrap(), Some(10));
    let mut open = vec![Connection::open(database.url()).unwrap()];
    assert_eq!(database.sessions_free().unwrap(), Some(9));
    let error = loop {
        match Connection::open(database.url()) {
            Ok(connection) => open.push(connection),
            Err(error) => break error,
        }
        assert!(open.len() <= 10, "there is a limit");
    };
    assert!(matches!(&error, WireError::Server(server) if server.code == "53300"), "{error:?}");
    assert!(error.to_string().contains("use fewer clients, or raise max_connections"), "{error}");
}
