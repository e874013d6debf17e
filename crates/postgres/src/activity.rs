//! Observes a server's backends through its own statistics: [`Watch`] queries them, [`doing`] interprets the answers.
//!
//! # What is visible
//!
//! A user sees the states and waits of its own sessions. Those of other users need the role `pg_monitor` or a
//! superuser, and are left out here. Of a vacuum run by another user, such as autovacuum, only its existence is
//! visible. Statements are visible if the extension `pg_stat_statements` is loaded and created in this database.
//!
//! A process that reads a page from the system's cache is reported as waiting for a device, even if no device is busy.
//! A process in a page fault, or spinning on a spinlock, is reported as not waiting.

mod connection;

use std::time::Duration;

use plimsoll_pg::activity::doing;
use plimsoll_workload::activity::{Activity, ActivityWatch, StatementTotals, Statements, Upkeep};
use plimsoll_workload::database::DatabaseError;

pub use connection::Asker;

/// Queries a server over a dedicated connection.
pub trait Ask: Send {
    /// Runs a statement without parameters, and passes each row of its answer to `each` in text form. Callers repeat
    /// the same texts, so they are worth preparing.
    fn rows(&mut self, sql: &str, each: &mut dyn FnMut(&[Option<&str>])) -> Result<(), DatabaseError>;

    /// The id of the backend that answers, if it is a process of this machine.
    fn server_process(&self) -> Option<i32>;

    /// The server's major version.
    fn major_version(&self) -> u32;
}

/// Every statement of a watch contains this mark, which distinguishes it from those of the workloads.
const MARK: &str = "/* plimsoll watch */";

/// Looks at a server's backends.
pub struct Watch<A> {
    ask: A,
    sessions: String,
    checkpoints: String,
    vacuums: String,
    /// The schema of `pg_stat_statements`, or why there is none.
    statements: Result<String, String>,
}

impl<A: Ask> Watch<A> {
    /// A watch over this connection.
    pub fn new(mut ask: A) -> Result<Self, DatabaseError> {
        let user = one(&mut ask, &format!("select {MARK} oid from pg_roles where rolname = session_user"))?;
        let user = user.ok_or_else(|| DatabaseError::Failed("the server does not know who asks".to_owned()))?;
        let extension = "select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace \
             where e.extname = 'pg_stat_statements'";
        let why = "the extension pg_stat_statements is not created in this database; load it by \
             shared_preload_libraries and run `create extension pg_stat_statements`";
        let statements = one(&mut ask, extension)?.ok_or_else(|| why.to_owned());
        // The function under the view pg_stat_activity, which would also look up the names of users and databases.
        let sessions = format!(
            "select {MARK} pid, leader_pid, state, wait_event_type, wait_event from pg_stat_get_activity(null) \
             where backend_type in ('client backend', 'parallel worker') and usesysid = {user} \
             and pid <> pg_backend_pid()"
        );
        let checkpoints = if ask.major_version() < 17 {
            "checkpoints_timed + checkpoints_req, checkpoint_write_time from pg_stat_bgwriter"
        } else {
            "num_timed + num_requested, write_time from pg_stat_checkpointer"
        };
        let vacuums = format!(
            "select {MARK} coalesce(relid::regclass::text, 'a table') from pg_stat_progress_vacuum \
             where datname = current_database() group by 1 order by 1"
        );
        Ok(Watch { ask, sessions, checkpoints: format!("select {MARK} {checkpoints}"), vacuums, statements })
    }
}

/// The first value of the first row of an answer.
fn one(ask: &mut impl Ask, sql: &str) -> Result<Option<String>, DatabaseError> {
    let mut found = None;
    ask.rows(sql, &mut |row| {
        if found.is_none() {
            found = row.first().copied().flatten().map(str::to_owned);
        }
    })?;
    Ok(found)
}

impl<A: Ask> ActivityWatch for Watch<A> {
    fn look(&mut self, seen: &mut Vec<Activity>) -> Result<(), DatabaseError> {
        self.ask.rows(&self.sessions, &mut |row| seen.extend(activity(row)))
    }

    fn server_process(&self) -> Option<i32> {
        self.ask.server_process()
    }

    fn upkeep(&mut self) -> Result<Upkeep, DatabaseError> {
        let mut upkeep = Upkeep::default();
        self.ask.rows(&self.checkpoints, &mut |row| {
            upkeep.checkpoints_begun = figure(row, 0);
            upkeep.checkpoint_write = milliseconds(row, 1);
        })?;
        self.ask
            .rows(&self.vacuums, &mut |row| upkeep.vacuums.extend(row.first().copied().flatten().map(str::to_owned)))?;
        Ok(upkeep)
    }

    fn statements(&mut self, with_text: bool) -> Result<Statements, DatabaseError> {
        let schema = match &self.statements {
            Ok(schema) => schema,
            Err(why) => return Ok(Statements::NotKept(why.clone())),
        };
        let mut all = Vec::new();
        let asked = self.ask.rows(&statements_sql(schema, with_text), &mut |row| all.extend(totals(row)));
        match asked {
            Ok(()) => Ok(Statements::Kept(all)),
            // The extension exists, but its library is not loaded or is of another version.
            Err(DatabaseError::Failed(why)) => {
                self.statements = Err(why.clone());
                Ok(Statements::NotKept(why))
            }
            Err(error) => Err(error),
        }
    }
}

/// The counts of each kind of statement in this database, without the watch's own if texts are requested. One kind may
/// have several entries: inside and outside functions, and one per user.
fn statements_sql(schema: &str, with_text: bool) -> String {
    let schema = schema.replace('"', "\"\"");
    format!(
        "select {MARK} queryid, sum(calls), sum(total_exec_time), sum(rows), sum(shared_blks_hit), \
         sum(shared_blks_read), min(query) from \"{schema}\".pg_stat_statements({with_text}) \
         where dbid = (select oid from pg_database where datname = current_database()) and queryid is not null \
         and (query is null or position('plimsoll watch' in query) = 0) group by queryid"
    )
}

/// Reads a row of the sessions; `None` if its state is not visible.
fn activity(row: &[Option<&str>]) -> Option<Activity> {
    let [process, leader, state, wait_type, wait] = *row else { return None };
    Some(Activity {
        process: process?.parse().ok()?,
        leader: leader.and_then(|leader| leader.parse().ok()),
        doing: doing(state?, wait_type, wait),
    })
}

fn totals(row: &[Option<&str>]) -> Option<StatementTotals> {
    Some(StatementTotals {
        id: figure(row, 0)?,
        calls: figure(row, 1)?,
        time: milliseconds(row, 2)?,
        rows: figure(row, 3)?,
        pages_hit: figure(row, 4)?,
        pages_read: figure(row, 5)?,
        text: row.get(6).copied().flatten().unwrap_or_default().to_owned(),
    })
}

fn figure<T: std::str::FromStr>(row: &[Option<&str>], column: usize) -> Option<T> {
    row.get(column).copied().flatten()?.parse().ok()
}

fn milliseconds(row: &[Option<&str>], column: usize) -> Option<Duration> {
    Duration::try_from_secs_f64(figure::<f64>(row, column)? / 1e3).ok()
}

#[cfg(test)]
mod tests;
