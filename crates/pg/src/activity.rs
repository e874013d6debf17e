//! The meaning of a backend's wait: the wait events of PostgreSQL 13 to 18 as states of MW 2.6.
//!
//! Names and meanings are those of PostgreSQL's manual, chapter "Monitoring Database Activity", and of
//! `wait_event_names.txt` (17) or `wait_event.c` and `lwlock.c` (before) in its sources.

use plimsoll_policy::Doing;

/// Light-weight locks that admit one process at a time to a page or to the log. A process that waits for one waits for
/// another that reads or writes, or is about to.
const IO_LATCHES: [&str; 15] = [
    // A page of the buffer pool: its contents, its place, and, up to version 13, its being read or written.
    "BufferContent",
    "BufferMapping",
    "BufferIO",
    // The log: being written and flushed, a place in its buffers, a page of them, a new file.
    "WALWrite",
    "WALInsert",
    "WALBufMapping",
    "ControlFile",
    // Pages of transaction states and similar data being read or written ("waiting for I/O on ... SLRU buffer").
    "XactBuffer",
    "CommitTsBuffer",
    "SubtransBuffer",
    "MultiXactOffsetBuffer",
    "MultiXactMemberBuffer",
    "NotifyBuffer",
    "SerialBuffer",
    // From version 18 on, reads and writes that other processes have begun.
    "AioUringCompletion",
];

/// What a backend is doing: its `state`, `wait_event_type` and `wait_event` of `pg_stat_activity`.
///
/// A wait of a kind that is not known here is [`Doing::Other`].
pub fn doing(state: &str, wait_type: Option<&str>, wait: Option<&str>) -> Doing {
    if state == "idle" {
        return Doing::Idle;
    }
    match (wait_type, wait.unwrap_or_default()) {
        (None, _) => Doing::Running,
        // Not a lock of a transaction: it is held while a file is extended.
        (Some("Lock"), "extend") => Doing::IoLatch,
        (Some("Lock"), _) => Doing::Lock,
        (Some("IO"), _) => Doing::Io,
        (Some("LWLock"), latch) if IO_LATCHES.contains(&latch) => Doing::IoLatch,
        // From version 14 on, a page that another process reads or writes.
        (Some("IPC"), "BufferIO" | "BufferIo") => Doing::IoLatch,
        (Some("Client"), _) => Doing::Client,
        // Light-weight locks of other structures; parallel workers and group commits (IPC); pg_sleep and other timeouts
        // (Timeout); buffer pins (BufferPin); extensions.
        (Some(_), _) => Doing::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_of_every_kind() {
        let check = |expect, wait_type: &str, waits: &[&str]| {
            for wait in waits {
                assert_eq!(doing("active", Some(wait_type), Some(wait)), expect, "{wait_type} {wait}");
            }
        };
        check(
            Doing::Lock,
            "Lock",
            &["transactionid", "tuple", "relation", "advisory", "page", "virtualxid", "userlock"],
        );
        check(Doing::IoLatch, "Lock", &["extend"]);
        check(Doing::Io, "IO", &["DataFileRead", "DataFileExtend", "WALSync", "WALWrite", "WalSync", "WalWrite"]);
        check(Doing::Io, "IO", &["BufFileRead", "BuffileRead", "SLRURead", "SlruRead", "AioIoCompletion"]);
        check(Doing::IoLatch, "LWLock", &IO_LATCHES);
        check(Doing::Other, "LWLock", &["LockManager", "ProcArray", "XactSLRU", "XidGen", "ParallelHashJoin"]);
        check(Doing::IoLatch, "IPC", &["BufferIO", "BufferIo"]);
        check(Doing::Other, "IPC", &["ExecuteGather", "BgWorkerShutdown", "BgworkerShutdown", "HashBuildHashInner"]);
        check(Doing::Other, "IPC", &["ProcArrayGroupUpdate", "ProcarrayGroupUpdate", "XactGroupUpdate", "SyncRep"]);
        check(Doing::Client, "Client", &["ClientRead", "ClientWrite"]);
        check(Doing::Other, "Timeout", &["PgSleep", "VacuumDelay", "SpinDelay", "CommitDelay"]);
        check(Doing::Other, "BufferPin", &["BufferPin"]);
        check(Doing::Other, "Extension", &["Extension"]);
        check(Doing::Other, "Activity", &["CheckpointerMain"]);
        check(Doing::Other, "Tomorrow", &["Unheard"]);
    }

    #[test]
    fn states_without_a_request() {
        let check = |state, wait: Option<(&str, &str)>, expect| {
            assert_eq!(doing(state, wait.map(|wait| wait.0), wait.map(|wait| wait.1)), expect, "{state} {wait:?}");
        };
        let client = Some(("Client", "ClientRead"));
        check("idle", client, Doing::Idle);
        check("idle", None, Doing::Idle);
        check("idle in transaction", client, Doing::Client);
        check("idle in transaction (aborted)", client, Doing::Client);
        // It has just got its next statement.
        check("idle in transaction", None, Doing::Running);
        check("active", None, Doing::Running);
        // Between the messages of one statement.
        check("active", client, Doing::Client);
        check("fastpath function call", None, Doing::Running);
    }
}
