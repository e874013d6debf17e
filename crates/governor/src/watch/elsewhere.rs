//! Connections to further databases. Only a session of a database sees its functions, and the control connection is of one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use plimsoll_pg::connection::{Connection, Prepared, WireError};
use plimsoll_pg::url::ServerUrl;

use super::control::session;
use super::statements;

/// How many databases are asked; deadlocks in others are left to the server.
const DATABASES_MAX: usize = 8;

/// How long a connection stays without a question, and a database that could not be asked is left alone. A connection that stayed
/// for good would keep its database from being dropped.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// Not the name of the control connection, by which governors recognize each other.
const NAME: &str = "plimsoll governor functions";

/// The databases other than that of the control connection that were asked lately.
#[derive(Debug, Default)]
pub(super) struct Elsewhere {
    /// The URL of the control connection; without it no other database is asked.
    url: Option<ServerUrl>,
    databases: BTreeMap<String, AskedDatabase>,
}

#[derive(Debug)]
struct AskedDatabase {
    /// When it was asked last, or could not be.
    at: Instant,
    session: Option<(Connection, Prepared)>,
}

impl Elsewhere {
    pub fn of(url: &ServerUrl) -> Self {
        let url = ServerUrl { application_name: NAME.to_owned(), ..url.clone() };
        Elsewhere { url: Some(url), databases: BTreeMap::new() }
    }

    /// Closes connections that have been idle.
    pub fn tend(&mut self, now: Instant) {
        self.databases.retain(|_, asked| now.saturating_duration_since(asked.at) < KEPT_FOR);
    }

    /// Asks a database which of its processes may give up: the rows of [`statements::GIVES_UP`]. There are none if it cannot be
    /// asked.
    pub fn gives_up(&mut self, database: &str, processes: &str, now: Instant, each: &mut dyn FnMut(&[Option<&str>])) {
        let Some(url) = &self.url else { return };
        if !self.databases.contains_key(database) {
            if self.databases.len() >= DATABASES_MAX {
                return;
            }
            let session = connect(url, database).map_err(|error| left_alone(database, &error)).ok();
            self.databases.insert(database.to_owned(), AskedDatabase { at: now, session });
        }
        let Some(asked) = self.databases.get_mut(database) else { return };
        let Some((connection, gives_up)) = &mut asked.session else { return };
        asked.at = now;
        if let Err(error) = connection.prepared_text_rows(gives_up, &[processes], each) {
            left_alone(database, &error);
            asked.session = None;
        }
    }
}

fn left_alone(database: &str, error: &WireError) {
    tracing::warn!(database, %error, "its functions are not known, so its deadlocks are left to the server");
}

fn connect(url: &ServerUrl, database: &str) -> Result<(Connection, Prepared), WireError> {
    let url = ServerUrl { database: database.to_owned(), ..url.clone() };
    let mut connection = session(&url)?;
    let gives_up = connection.prepare_text("gives_up", statements::GIVES_UP)?;
    Ok((connection, gives_up))
}
