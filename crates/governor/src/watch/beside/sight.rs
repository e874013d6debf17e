//! The sessions that a server shows at one moment.

use plimsoll_pg::connection::{Connection, Prepared, WireError};
use plimsoll_pg::values::bytea;
use plimsoll_policy::{GovernorAtServer, GovernorPlace, Login};

use crate::watch::control::{NAME, NAME_BESIDE};

/// What a session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::watch) enum Doing {
    /// The server works for it.
    Active,
    /// Nothing.
    Idle,
    /// Its transaction waits for its client.
    IdleInTransaction { has_failed: bool },
    /// Unknown: the role may not see it, or the server does not record it.
    Unseen,
}

/// A session. Moments are the server's, microseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::watch) struct Row {
    pub process: i32,
    pub login: Login,
    /// The client's address; `None` for a socket.
    pub address: Option<String>,
    pub doing: Doing,
    pub waits_for_lock: bool,
    pub process_began: i64,
    pub transaction_began: Option<i64>,
    pub statement_began: Option<i64>,
    pub state_since: i64,
    /// The beginning of its last statement; empty while it is idle.
    pub text: Vec<u8>,
    /// Whether that may not be all of the statement.
    pub is_cut: bool,
    /// Whether it uses the same role as the governor's own connection.
    pub is_of_our_role: bool,
    /// Its client's port; -1 for a socket.
    pub port: Option<i32>,
}

/// All sessions at one moment.
#[derive(Debug, Default)]
pub(in crate::watch) struct Sight {
    pub rows: Vec<Row>,
    /// The server's clock, microseconds since 1970.
    pub at: i64,
    /// Whether commits may wait for standbys.
    pub commits_wait: bool,
}

impl Sight {
    /// Reads all sessions; texts of `cut_bytes` or more may have been cut.
    pub(super) fn of(connection: &mut Connection, sessions: &Prepared, cut_bytes: usize) -> Result<Sight, WireError> {
        let mut sight = Sight::default();
        connection.prepared_text_rows(sessions, &[], &mut |row| {
            if let Some((mut session, at)) = read(row) {
                session.is_cut = session.text.len() >= cut_bytes;
                sight.rows.push(session);
                sight.at = at;
                sight.commits_wait = row.last() != Some(&Some("f"));
            }
        })?;
        Ok(sight)
    }

    /// The connections of governors, including our own. Other roles' sessions may only claim that name.
    pub(super) fn governors(&self) -> impl Iterator<Item = GovernorAtServer> {
        self.rows.iter().filter_map(|row| {
            let place = row.place_of_governor()?;
            Some(GovernorAtServer { place, began: row.process_began, process: row.process })
        })
    }
}

impl Row {
    /// How the governor that owns this connection stands to the server; `None` if no governor owns it.
    pub(super) fn place_of_governor(&self) -> Option<GovernorPlace> {
        let place = match self.login.application_name.as_str() {
            NAME => GovernorPlace::InPath,
            NAME_BESIDE => GovernorPlace::Beside,
            _ => return None,
        };
        self.is_of_our_role.then_some(place)
    }
}

#[cfg(test)]
impl Row {
    /// A session of that user, idle since its process began in the first second.
    pub(super) fn idle(process: i32, user: &str) -> Row {
        Row {
            process,
            login: Login { user: user.to_owned(), ..Login::default() },
            address: None,
            doing: Doing::Idle,
            waits_for_lock: false,
            process_began: 1_000_000,
            transaction_began: None,
            statement_began: None,
            state_since: 1_000_000,
            text: Vec::new(),
            is_cut: false,
            is_of_our_role: false,
            port: None,
        }
    }
}

/// A row of [`SESSIONS`](crate::watch::statements::SESSIONS), and the moment.
fn read(row: &[Option<&str>]) -> Option<(Row, i64)> {
    let cell = |place: usize| row.get(place).copied().flatten();
    let number = |place: usize| cell(place).and_then(|number| number.parse::<i64>().ok());
    // Names and texts of other databases may be in other encodings.
    let name = |place: usize| {
        String::from_utf8_lossy(&bytea(cell(place).unwrap_or_default()).unwrap_or_default()).into_owned()
    };
    let doing = match cell(5) {
        Some("active" | "fastpath function call") => Doing::Active,
        Some("idle") => Doing::Idle,
        Some("idle in transaction") => Doing::IdleInTransaction { has_failed: false },
        Some("idle in transaction (aborted)") => Doing::IdleInTransaction { has_failed: true },
        _ => Doing::Unseen,
    };
    let row = Row {
        process: cell(0)?.parse().ok()?,
        login: Login { user: name(1), database: name(2), application_name: name(3) },
        address: cell(4).map(str::to_owned),
        doing,
        waits_for_lock: cell(6) == Some("t"),
        process_began: number(7).unwrap_or_default(),
        transaction_began: number(8),
        statement_began: number(9),
        state_since: number(10).unwrap_or_default(),
        text: cell(11).and_then(bytea).unwrap_or_default(),
        is_cut: false,
        is_of_our_role: cell(12) == Some("t"),
        port: number(14).and_then(|port| port.try_into().ok()),
    };
    Some((row, number(13)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read() {
        let cells = |state: Option<&'static str>| {
            [
                Some("17"),
                Some("\\x616e6e"),
                Some("\\x73686f70"),
                Some("\\x"),
                None,
                state,
                Some("t"),
                Some("1000001"),
                Some("1000002"),
                None,
                Some("1000004"),
                Some("\\x53ff"),
                Some("f"),
                Some("2000000"),
                Some("-1"),
                Some("f"),
            ]
        };
        let (row, at) = read(&cells(Some("active"))).expect("a row");
        assert_eq!(
            (row.process, row.login.user.as_str(), row.login.database.as_str(), at),
            (17, "ann", "shop", 2_000_000)
        );
        assert_eq!((row.doing, row.transaction_began, row.statement_began), (Doing::Active, Some(1_000_002), None));
        assert_eq!((row.text.as_slice(), row.waits_for_lock, row.port), (&b"S\xff"[..], true, Some(-1)));
        let doing = |state| read(&cells(state)).map(|(row, _)| row.doing);
        assert_eq!(doing(Some("idle in transaction (aborted)")), Some(Doing::IdleInTransaction { has_failed: true }));
        assert_eq!((doing(None), doing(Some("disabled"))), (Some(Doing::Unseen), Some(Doing::Unseen)));
        assert_eq!(read(&[None; 16]), None);
    }

    /// A session that calls itself a governor is not one, unless it has our role.
    #[test]
    fn strangers_are_no_governors() {
        let login = Login { application_name: NAME.to_owned(), ..Login::default() };
        let row = |is_of_our_role| Row { login: login.clone(), is_of_our_role, ..Row::idle(5, "ann") };
        let count =
            |is_of_our_role| Sight { rows: vec![row(is_of_our_role)], at: 2, commits_wait: false }.governors().count();
        assert_eq!((count(false), count(true)), (0, 1));
    }
}
