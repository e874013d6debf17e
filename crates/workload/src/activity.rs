//! What the processes of a server are doing at a moment, for those who sample it.

use crate::database::DatabaseError;

/// Looks at a server's processes, as often as it is asked to.
pub trait ActivityWatch: Send {
    /// Adds what each process that serves a session, or helps one that does, is doing now. Processes that serve nobody are
    /// left out.
    fn look(&mut self, seen: &mut Vec<Activity>) -> Result<(), DatabaseError>;
}

/// What one process was doing when it was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// Its id.
    pub process: i32,
    /// The process of the session that it helps, for a parallel worker.
    pub leader: Option<i32>,
    /// What it was doing.
    pub doing: Doing,
}

/// What a process can be doing (MW 2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doing {
    /// It waits for nothing: it is on a core or waits for one.
    Running,
    /// It waits for a lock that another transaction holds.
    Lock,
    /// It waits for a device.
    Io,
    /// It waits for another process that reads or writes the same page, or the log: short waits behind a device, which MW
    /// counts as waits for devices.
    IoLatch,
    /// It waits for its client within a transaction.
    Client,
    /// It waits for something else: a latch of another kind, a worker, a timer.
    Other,
    /// It serves no request.
    Idle,
}
