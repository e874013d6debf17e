//! What becomes of a transaction of class low that holds a row for which class high waits.

use std::thread;
use std::time::Duration;

use plimsoll_testing::until;

use super::governed::Governed;
use super::server::Server;

/// The row that everybody wants; [`contend`] holds the gate.
pub const TABLES: &str = "
    CREATE TABLE gate (id int PRIMARY KEY, passed bigint NOT NULL DEFAULT 0);
    INSERT INTO gate VALUES (1);
    GRANT ALL ON gate TO public;";

/// The last statement of a transaction that contends.
pub const PASS: &str = "UPDATE gate SET passed = passed + 1 WHERE id = 1";

/// What has become of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It was rolled back, and its client did not notice.
    Replayed,
    /// Its client received 40001.
    Told,
    /// It kept its locks.
    LeftAlone,
}

/// Starts a transaction by `begin`, which sends its last statement, [`PASS`], and does not wait for the answer. While it waits at
/// the gate, a client of class high runs `wanted`. Then the gate opens, and `end` returns the SQLSTATE of the transaction's
/// error, if there was one.
pub fn contend(
    server: &Server,
    governed: &Governed,
    wanted: &str,
    begin: impl FnOnce(),
    end: impl FnOnce() -> Option<String>,
) -> Fate {
    let waits = |query: &str| {
        let sql = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND lower(query) LIKE lower('{query}%')"
        );
        server.value(&sql) != "0"
    };
    let mut gate = server.connection();
    gate.run(&format!("BEGIN; {PASS}")).unwrap();
    begin();
    until("the transaction waits at the gate", || waits("UPDATE%gate"));
    let mut high = governed.client("high", server.database());
    let mut console = governed.console().unwrap();
    let mut is_immune = || {
        let clients = console.query("SHOW CLIENTS").unwrap().rows;
        let (class, immune) = (Governed::column("class"), Governed::column("immune"));
        clients.iter().any(|row| row[class].as_deref() == Some("low") && row[immune].as_deref() == Some("no-retry"))
    };
    thread::scope(|scope| {
        let waiter = scope.spawn(|| high.query(wanted).map(drop));
        until("class high gets the row, or it is known that it does not", || {
            waiter.is_finished() || waits(wanted) && is_immune()
        });
        // Time for a mistake.
        thread::sleep(Duration::from_millis(50));
        let is_freed = waiter.is_finished();
        gate.run("ROLLBACK").unwrap();
        let state = end();
        waiter.join().unwrap().unwrap();
        match (state.as_deref(), is_freed) {
            (None, true) => Fate::Replayed,
            (None, false) => Fate::LeftAlone,
            (Some("40001"), true) => Fate::Told,
            (state, _) => panic!("{state:?}, freed: {is_freed}\n{}", governed.said()),
        }
    })
}
