//! What the errors of a connection mean to a workload.

use plimsoll_pg::connection::WireError;
use plimsoll_workload::database::DatabaseError;

/// How often a read is attempted while a standby's replay cancels it. Replay cancels queries that block the clean-up of
/// a page; the next attempt begins when that is done.
const BEGUN_MAX: usize = 1000;

pub(crate) fn database_error(error: WireError) -> DatabaseError {
    match error {
        WireError::Unreachable(why) => DatabaseError::Unreachable(why),
        WireError::Lost(why) => DatabaseError::ConnectionLost(why),
        WireError::Server(error) if error.code == "40001" => DatabaseError::Conflict(error.message),
        other => DatabaseError::Failed(other.to_string()),
    }
}

/// Reads, and tries again while a standby's replay cancels it. Opening a session reads catalogs, and is cancelled like
/// a query: its connection is lost (`FATAL: canceling statement due to conflict with recovery`).
pub(crate) fn past_conflicts<T>(mut read: impl FnMut() -> Result<T, DatabaseError>) -> Result<T, DatabaseError> {
    for _ in 1..BEGUN_MAX {
        match read() {
            Err(DatabaseError::Conflict(_)) => {}
            ended => return ended,
        }
    }
    read()
}
