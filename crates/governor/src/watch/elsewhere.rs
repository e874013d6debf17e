//! Connections to further databases. Only a session of a database sees its functions, and the control connection is of one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use plimsoll_pg::connection::{Connection, Prepared, WireError};
use plimsoll_pg::url::ServerUrl;

use super::control::session;
use super::statements;

/// How many databases are asked; deadlocks in others are left to the server.
const DATABASES_MAX: usize = 8;

/// How long a database that could not be asked is left alone.
const RETRY: Duration = Duration::from_secs(10);

/// Not the name of the control connection, by which governors recognize each other.
const NAME: &str = "plimsoll governor functions";

/// The databases other than that of the control connection that were asked.
#[derive(Debug, Default)]
pub(super) struct Elsewhere {
    /// The URL of the control connection; without it no other database is asked.
    url: Option<ServerUrl>,
    /// A connection, or when there was none.
    databases: BTreeMap<String, Result<(Connection, Prepared), Instant>>,
}

impl Elsewhere {
    pub fn of(url: &ServerUrl) -> Self {
        let url = ServerUrl { application_name: NAME.to_owned(), ..url.clone() };
        Elsewhere { url: Some(url), databases: BTreeMap::new() }
    }

    /// Asks a database which of its processes may give up: the rows of [`statements::GIVES_UP`]. There are none if it cannot be
    /// asked.
    pub fn gives_up(&mut self, database: &str, processes: &str, now: Instant, each: &mut dyn FnMut(&[Option<&str>])) {
        let Some(url) = &self.url else { return };
        let is_full = self.databases.len() >= DATABASES_MAX;
        let connected = match self.databases.remove(database) {
            Some(Err(failed)) if now.saturating_duration_since(failed) < RETRY => {
                self.databases.insert(database.to_owned(), Err(failed));
                return;
            }
            Some(Ok(connected)) => Ok(connected),
            None if is_full => return,
            _ => connect(url, database),
        };
        let asked = connected.and_then(|(mut connection, gives_up)| {
            connection.prepared_text_rows(&gives_up, &[processes], each)?;
            Ok((connection, gives_up))
        });
        let noted = asked.map_err(|error| {
            tracing::warn!(database, %error, "its functions are not known, so its deadlocks are left to the server");
            now
        });
        self.databases.insert(database.to_owned(), noted);
    }
}

fn connect(url: &ServerUrl, database: &str) -> Result<(Connection, Prepared), WireError> {
    let url = ServerUrl { database: database.to_owned(), ..url.clone() };
    let mut connection = session(&url)?;
    let gives_up = connection.prepare_text("gives_up", statements::GIVES_UP)?;
    Ok((connection, gives_up))
}
