//! Shared by tests: one server for all tests that leave it unchanged.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use plimsoll_pg::connection::Connection;
use plimsoll_postgres::database::PostgresDatabase;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};
use plimsoll_testing::until;

/// A server for one test. Nothing waits for the disk, because no test is about a crash of the machine.
pub fn new_server(options: &[(&str, &str)]) -> PrivateServer {
    let small = [("shared_buffers", "64MB"), ("fsync", "off"), ("max_wal_size", "256MB"), ("deadlock_timeout", "50ms")];
    let settings = ServerSettings::for_this_machine().with(&[&small, options].concat()).unwrap();
    PrivateServer::start(settings).unwrap_or_else(|error| panic!("these tests need a PostgreSQL server: {error}"))
}

/// The server that most tests share; it ends with the last of them.
pub fn database() -> Arc<PostgresDatabase> {
    static SHARED: Mutex<Weak<PostgresDatabase>> = Mutex::new(Weak::new());
    // A test that fails while it starts the server fails alone; the next one tries again.
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let database = Arc::new(PostgresDatabase::private(new_server(&[])));
        *shared = Arc::downgrade(&database);
        database
    })
}

/// A connection to it that belongs to no session.
pub fn connection(database: &PostgresDatabase) -> Connection {
    Connection::open(database.url()).unwrap()
}

/// Waits until a process sleeps in `pg_sleep`.
pub fn wait_until_asleep(other: &mut Connection, process: i32) {
    let asleep = format!("SELECT 1 FROM pg_stat_activity WHERE pid = {process} AND wait_event = 'PgSleep'");
    until("the process to sleep", || other.text(&asleep).unwrap().is_some());
}
