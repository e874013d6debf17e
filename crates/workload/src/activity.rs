//! The activity of a server's processes, for sampling, and the server's own counts.

use std::time::Duration;

use plimsoll_policy::Doing;

use crate::database::DatabaseError;

/// Samples the activity of a server's processes.
///
/// After an error the watch cannot be used again: the server, or the connection to it, is gone.
pub trait ActivityWatch: Send {
    /// Adds the current activity of each process that serves a session, and of each parallel worker. Processes without
    /// a session are left out, and so is the one that serves the watch itself.
    fn look(&mut self, seen: &mut Vec<Activity>) -> Result<(), DatabaseError>;

    /// The server's process that serves the watch itself, so that its cost is known; `None` if that cannot be seen.
    fn server_process(&self) -> Option<i32> {
        None
    }

    /// The server's background work for its own upkeep so far.
    fn upkeep(&mut self) -> Result<Upkeep, DatabaseError> {
        Ok(Upkeep::default())
    }

    /// The server's counts for each statement so far. `with_text` asks for the statements' texts, which cost more.
    fn statements(&mut self, with_text: bool) -> Result<Statements, DatabaseError> {
        let _ = with_text;
        Ok(Statements::NotKept("this target keeps no statistics of statements".to_owned()))
    }
}

/// The activity of one process when it was sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// Its id.
    pub process: i32,
    /// For a parallel worker, the process of the session that it helps.
    pub leader: Option<i32>,
    /// Its activity.
    pub doing: Doing,
}

/// A server's work for its own upkeep since it began to count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// Checkpoints that have begun or, for short ones, ended. A count; `None` if the server does not report it.
    pub checkpoints_begun: Option<u64>,
    /// Time spent on writing pages in checkpoints that have ended; `None` if the server does not report it.
    pub checkpoint_write: Option<Duration>,
    /// The tables that are being vacuumed now, sorted.
    pub vacuums: Vec<String>,
}

/// A server's counts for each statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Statements {
    /// One entry for each kind of statement.
    Kept(Vec<StatementTotals>),
    /// The server keeps no counts; the text gives the reason and the remedy.
    NotKept(String),
}

/// A server's counts for one kind of statement since it began to count. Statements that differ only in constants are of
/// one kind.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StatementTotals {
    /// Tells kinds apart.
    pub id: i64,
    /// The statement, without its constants; empty unless asked for.
    pub text: String,
    /// How often it was run. A count.
    pub calls: u64,
    /// Time spent in running it, planning left out.
    pub time: Duration,
    /// Rows returned or changed. A count.
    pub rows: u64,
    /// Pages found in the server's own cache. A count.
    pub pages_hit: u64,
    /// Pages that had to be read from outside of it, perhaps from the cache of the system. A count.
    pub pages_read: u64,
}
