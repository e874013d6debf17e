//! Another client of the pool, which has the session's server connection whenever the session leaves it free.

use std::time::Instant;

use super::wire::{Client, Destination, Failure, PASSWORD, PATIENCE, bind, execute, parse, tagged};
use super::world::PARAMETERS;

/// The name of its application, by which the interposer knows it, and which has a class of its own.
pub const RIVAL: &str = "rival";

/// How long the rival waits for the connection, which the session may keep.
pub const WAITS: &str = "50ms";

/// What it has set, and what another session would have left on the connection.
const STATE: &str = "
    SELECT current_setting('work_mem'), current_setting('search_path'), current_setting('application_name'),
      (SELECT count(*) FROM pg_cursors WHERE is_holdable),
      (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
      (SELECT count(*) FROM pg_prepared_statements WHERE from_sql),
      (SELECT count(*) FROM pg_listening_channels()),
      (SELECT count(*) FROM pg_class WHERE relpersistence = 't' AND relkind = 'r' AND pg_table_is_visible(oid)),
      current_setting('default_transaction_isolation'), current_setting('transaction_read_only')";
const EXPECTED: &str = "7MB pg_catalog, public rival 0 0 0 0 0 read committed off";

#[derive(Debug)]
pub struct Rival {
    client: Client,
}

impl Rival {
    /// Connects, sets what is its own, and prepares statements. A pool may have connections that have just ended.
    pub fn connect(place: &Destination, user: &str, database: &str) -> Rival {
        let began = Instant::now();
        loop {
            match Rival::try_connect(place, user, database) {
                Ok(rival) => return rival,
                Err(failure) => assert!(began.elapsed() < PATIENCE, "the rival cannot connect: {failure}"),
            }
        }
    }

    fn try_connect(place: &Destination, user: &str, database: &str) -> Result<Rival, Failure> {
        let own = [&[("user", user), ("database", database), ("application_name", RIVAL)][..], &PARAMETERS].concat();
        let mut client = Client::log_in(place, &own, PASSWORD)?;
        client.query("SET work_mem = '7MB'")?;
        client.query("SET search_path = pg_catalog, public")?;
        let prepared = [parse("e0", "SELECT 'rival'"), parse("e1", STATE), parse("", "SELECT 'nameless'")];
        client.send(&[prepared.concat(), tagged(b'S', &[])].concat())?;
        client.answer()?;
        Ok(Rival { client })
    }

    /// Uses the connection, if the session has left it. Returns whether it did; an error says what it found.
    pub fn intrude(&mut self) -> Result<bool, String> {
        let lost = |error: std::io::Error| format!("the rival: {error}");
        let mut found = Vec::new();
        for name in ["", "e0", "e1"] {
            self.client.send(&[bind("", name, &[]), execute("", 0), tagged(b'S', &[])].concat()).map_err(lost)?;
            let answer = self.client.answer().map_err(lost)?;
            match answer.refusal {
                // The session keeps the connection.
                Some(refusal) if refusal.state == "53300" => return Ok(false),
                Some(refusal) => return Err(format!("the rival was told {refusal:?}")),
                None => found.extend(answer.rows.into_iter().flatten().map(Option::unwrap_or_default)),
            }
        }
        let expected = format!("nameless rival {EXPECTED}");
        if found.join(" ") != expected {
            return Err(format!("the rival has found {} and not {expected}", found.join(" ")));
        }
        Ok(true)
    }
}
