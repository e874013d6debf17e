//! Rows of answers as values.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use plimsoll_pg::activity::doing;
use plimsoll_pg::values::bytea;
use plimsoll_policy::Doing;

use crate::ledger::{HolderState, doing_of};
use crate::replication::{SenderRow, StandbyRow};
use crate::snapshot::{DatabaseCounter, Holder, LockRow, Login, Session, StatementCounter, Text};
use crate::windows::Backend;

type Row<'a> = [Option<&'a str>];

/// The server's clock, and the session with numbers for names, if it is not idle; `None` for an invalid row. The server
/// cuts texts off at `text_bytes`.
pub(super) fn session(row: &Row<'_>, text_bytes: usize) -> Option<(i64, Option<Session>)> {
    let (process, server_us) = (figure(row, 0)?, figure(row, 14)?);
    let text = |column| word(row, column).unwrap_or_default();
    let (leader, state, backend_type) = (figure(row, 1), text(5), text(13));
    let is_worker = backend_type == "parallel worker";
    let is_vacuum = backend_type == "autovacuum worker";
    // A worker has no state of its own before its query runs.
    let doing = doing(if state.is_empty() { "active" } else { state }, word(row, 6), word(row, 7));
    if state == "disabled" || doing == Doing::Idle || is_worker && leader.is_none() {
        return Some((server_us, None));
    }
    let user = if is_vacuum { "(autovacuum)" } else { text(2) };
    let session = Session {
        process,
        leader: leader.filter(|_| is_worker),
        login: Login { user: user.to_owned(), database: text(3).to_owned(), application: text(4).to_owned() },
        is_of_client: !is_vacuum,
        doing,
        is_in_statement: !state.starts_with("idle"),
        transaction_began_us: figure(row, 8),
        statement_began_us: figure(row, 9),
        state_changed_us: figure(row, 10),
        query_id: figure(row, 11).filter(|id| *id != 0),
        text: word(row, 12).and_then(bytea).map(|bytes| text_of(bytes, text_bytes)),
        times: None,
    };
    Some((server_us, Some(session)))
}

/// The user, as a number, of a session that shows that the server does not record what it does.
pub(super) fn untracked_user<'a>(row: &Row<'a>) -> Option<&'a str> {
    (word(row, 5)? == "disabled").then_some(word(row, 2)?)
}

/// A session with locks, with numbers for names.
pub(super) fn holder(row: &Row<'_>, text_bytes: usize) -> Option<Holder> {
    let text = |column| word(row, column).unwrap_or_default();
    let state = match text(5) {
        // A background process of the server has no state, and neither has a session that this role may not see.
        "" if text(13).is_empty() => HolderState::Unseen,
        "disabled" => HolderState::Untracked,
        state => doing_of(doing(if state.is_empty() { "active" } else { state }, word(row, 6), word(row, 7))),
    };
    // Walsenders and workers of logical replication have no user, or work for one without a client.
    let user = if text(2).is_empty() { format!("({})", text(13)) } else { text(2).to_owned() };
    let shows_text = !matches!(state, HolderState::Unseen | HolderState::Untracked);
    Some(Holder {
        process: figure(row, 0)?,
        login: Login { user, database: text(3).to_owned(), application: text(4).to_owned() },
        state,
        text: word(row, 12).filter(|_| shows_text).and_then(bytea).map(|bytes| text_of(bytes, text_bytes)),
    })
}

/// A text, of which the server may show only the beginning. It cuts at a whole character, of at most four bytes.
fn text_of(bytes: Vec<u8>, text_bytes: usize) -> Text {
    Text { is_cut: bytes.len() + 4 >= text_bytes || bytes.len() >= 8_192, bytes }
}

/// A row of `pg_locks`.
pub(super) fn lock(row: &Row<'_>) -> Option<LockRow> {
    Some(LockRow {
        process: figure(row, 0)?,
        object: word(row, 1)?.to_owned(),
        kind: word(row, 2)?.to_owned(),
        table: word(row, 3).map(str::to_owned),
        mode: word(row, 4)?.to_owned(),
        is_granted: word(row, 5)? == "t",
        wait_began_us: figure(row, 6),
    })
}

pub(super) fn database(row: &Row<'_>) -> Option<(String, DatabaseCounter)> {
    let counter = DatabaseCounter {
        commits: figure(row, 1)?,
        rollbacks: figure(row, 2)?,
        deadlocks: figure(row, 3)?,
        pages_read: figure(row, 4)?,
        temporary_bytes: figure(row, 5)?,
    };
    Some((word(row, 0)?.to_owned(), counter))
}

pub(super) fn vacuum(row: &Row<'_>) -> Option<String> {
    Some(format!("{} ({})", word(row, 0)?, word(row, 1).unwrap_or("phase not visible")))
}

/// User and database as numbers, the query id, and the counters.
pub(super) fn statement(row: &Row<'_>) -> Option<(String, String, i64, StatementCounter)> {
    let counter = StatementCounter {
        calls: figure(row, 3)?,
        time: milliseconds(row, 4)?,
        rows: figure(row, 5)?,
        pages: figure(row, 6)?,
    };
    Some((word(row, 0)?.to_owned(), word(row, 1)?.to_owned(), figure(row, 2)?, counter))
}

/// A session, with numbers for names and without times.
pub(super) fn backend(row: &Row<'_>) -> Option<Backend> {
    let text = |column| word(row, column).unwrap_or_default().to_owned();
    let login = Login { user: word(row, 1)?.to_owned(), database: text(2), application: text(3) };
    Some(Backend { process: figure(row, 0)?, login, run: None })
}

/// A query id, and whether it ends a transaction.
pub(super) fn control_statement(row: &Row<'_>) -> Option<(i64, bool)> {
    Some((figure(row, 0)?, word(row, 1)? == "t"))
}

pub(super) fn standby(row: &Row<'_>) -> StandbyRow {
    StandbyRow {
        received: figure(row, 0),
        replayed: figure(row, 1),
        lag_s: figure(row, 2),
        is_paused: word(row, 3) == Some("t"),
        waits_for: word(row, 4).filter(|wait| !wait.is_empty()).map(str::to_owned),
        conflicts: BTreeMap::new(),
    }
}

/// Queries cancelled for replay, by reason; one that this version does not count is left out.
pub(super) fn conflicts(row: &Row<'_>) -> BTreeMap<String, u64> {
    const KINDS: [&str; 6] = ["tablespace", "lock", "snapshot", "buffer pin", "deadlock", "logical slot"];
    let kind = |(column, kind): (usize, &str)| Some((kind.to_owned(), figure(row, column)?));
    KINDS.into_iter().enumerate().filter_map(kind).collect()
}

pub(super) fn sender(row: &Row<'_>) -> Option<SenderRow> {
    Some(SenderRow {
        name: word(row, 0)?.to_owned(),
        sync_state: word(row, 1).unwrap_or_default().to_owned(),
        lag_bytes: figure(row, 2),
        replay_lag_s: figure(row, 3),
    })
}

pub(super) fn text_of_statement(row: &Row<'_>) -> Option<(i64, Vec<u8>)> {
    Some((figure(row, 0)?, bytea(word(row, 1)?)?))
}

fn word<'a>(row: &Row<'a>, column: usize) -> Option<&'a str> {
    row.get(column).copied().flatten()
}

/// A number; `None` if the value is null or not a number.
pub(super) fn figure<T: FromStr>(row: &Row<'_>, column: usize) -> Option<T> {
    word(row, column)?.parse().ok()
}

pub(super) fn milliseconds(row: &Row<'_>, column: usize) -> Option<Duration> {
    Duration::try_from_secs_f64(figure::<f64>(row, column)? / 1e3).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row<'a>(
        state: &'a str,
        wait: Option<(&'a str, &'a str)>,
        text: Option<&'a str>,
        kind: &'a str,
    ) -> Vec<Option<&'a str>> {
        let mut row: Vec<Option<&str>> = vec![Some("7"), Some("3"), Some("10"), Some("5"), Some("web"), Some(state)];
        row.extend([wait.map(|wait| wait.0), wait.map(|wait| wait.1)]);
        row.extend([Some("1000"), Some("2000"), Some("3000"), Some("-9"), text, Some(kind), Some("4000")]);
        row
    }

    fn session(row: &Row<'_>) -> Option<Session> {
        super::session(row, 1024)?.1
    }

    #[test]
    fn sessions_of_every_kind() {
        let seen = session(&row("active", Some(("Lock", "tuple")), Some("\\x73656c"), "client backend")).unwrap();
        assert_eq!((seen.doing, seen.is_in_statement, seen.is_of_client, seen.leader), (Doing::Lock, true, true, None));
        assert_eq!(seen.text, Some(Text { bytes: b"sel".to_vec(), is_cut: false }));
        assert_eq!((seen.query_id, seen.statement_began_us), (Some(-9), Some(2000)));
        let idle =
            session(&row("idle in transaction", Some(("Client", "ClientRead")), None, "client backend")).unwrap();
        assert!(idle.is_idle_in_transaction());
        let worker = session(&row("active", None, None, "parallel worker")).unwrap();
        assert_eq!((worker.leader, worker.doing), (Some(3), Doing::Running));
        let vacuum = session(&row("active", Some(("IO", "DataFileRead")), None, "autovacuum worker")).unwrap();
        assert_eq!((vacuum.is_of_client, vacuum.login.user.as_str()), (false, "(autovacuum)"));
        assert_eq!(session(&row("idle", None, None, "client backend")), None);
        assert_eq!(session(&row("disabled", None, None, "client backend")), None);
        assert_eq!(session(&[Some("x")]), None);
    }

    #[test]
    fn long_texts_are_cut() {
        let text = format!("\\x{}", "61".repeat(1021));
        assert!(session(&row("active", None, Some(&text), "client backend")).unwrap().text.unwrap().is_cut);
    }

    #[test]
    fn standbys_and_conflicts_of_every_version() {
        let found = standby(&[Some("67108864"), Some("67108000"), Some("0.5"), Some("f"), Some("")]);
        assert_eq!((found.received, found.lag_s, found.waits_for), (Some(67_108_864.0), Some(0.5), None));
        let archive = standby(&[None, Some("5"), None, Some("t"), Some("IPC:RecoveryPause")]);
        assert_eq!((archive.received, archive.is_paused), (None, true));
        let of_13 = conflicts(&[Some("0"), Some("1"), Some("2"), Some("0"), Some("0")]);
        assert_eq!((of_13.len(), of_13["snapshot"]), (5, 2));
        assert_eq!(conflicts(&[Some("0"); 6])["logical slot"], 0);
        assert_eq!(control_statement(&[Some("-7"), Some("t")]), Some((-7, true)));
        assert_eq!(backend(&[Some("7"), None, None, None]), None, "a session that may not be seen");
    }
}
