//! One of the two databases.

use std::time::{Duration, Instant};

use super::super::script::User;
use super::super::wire::{Client, Destination, Failure, PASSWORD, PATIENCE};
use super::{AT_REST, DATA, PARAMETERS, REST_MAX};

/// One of the two databases.
pub struct Side {
    /// How the session under test connects to it.
    pub(super) place: Destination,
    pub(super) database: String,
    /// A session that observes it from outside.
    pub(super) observer: Client,
}

impl Side {
    pub(super) fn connect(&self, user: User) -> Result<Client, Failure> {
        let own = [&[("user", user.name()), ("database", &self.database)][..], &PARAMETERS].concat();
        // The governor announces the session's class to the server, so that SHOW has an answer.
        let is_plain = matches!(self.place, Destination::Unix(_));
        let class = is_plain.then_some(("plimsoll.class", user.class()));
        let parameters: Vec<_> = own.into_iter().chain(class).collect();
        Client::log_in(&self.place, &parameters, PASSWORD)
    }

    /// Its contents, in no particular order.
    pub fn data(&mut self) -> Vec<Vec<Option<String>>> {
        self.observer.query(DATA).unwrap().rows
    }

    pub fn change(&mut self, sql: &str) {
        self.observer.query(sql).unwrap();
    }

    /// Makes a change unless somebody holds a lock on what it changes; returns whether it was made.
    pub fn try_change(&mut self, sql: &str) -> bool {
        self.observer.query(&format!("SET lock_timeout = '100ms'; {sql}; SET lock_timeout = '10s'")).is_ok()
    }

    /// What the server's process does, and whether a transaction is open; waits a moment for a session to come to rest.
    pub fn state(&mut self, process: i32) -> String {
        let sql = format!(
            "SELECT coalesce(state, 'none') || ', ' || coalesce(xact_start::text, 'no transaction')
             FROM pg_stat_activity WHERE pid = {process}"
        );
        let deadline = Instant::now() + REST_MAX;
        loop {
            let answer = self.observer.query(&sql).unwrap();
            let state = answer.value().unwrap_or("gone").to_owned();
            if state == AT_REST || Instant::now() > deadline {
                return state;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn advisory_locks(&mut self, process: i32) -> String {
        let sql = format!("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = {process}");
        self.observer.value(&sql).unwrap()
    }

    pub fn until_gone(&mut self, process: i32) -> Result<(), String> {
        let sql = format!("SELECT 1 FROM pg_stat_activity WHERE pid = {process}");
        let deadline = Instant::now() + PATIENCE;
        while !self.observer.query(&sql).unwrap().rows.is_empty() {
            if Instant::now() > deadline {
                return Err(format!("the server's process {process} stays though its client has left"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}
