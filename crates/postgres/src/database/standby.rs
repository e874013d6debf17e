//! The standby of a private server: how far it is behind, and what its backends do.

use std::time::{Duration, Instant};

use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;
use plimsoll_policy::Priority;
use plimsoll_workload::activity::{Activity, ActivityWatch, StatementTotals, Statements, Upkeep};
use plimsoll_workload::database::{DatabaseError, QueryAnswer, QueryPlan, Session, SessionUsage};
use plimsoll_workload::freshness::{ChangeUnit, CopyState, CopyWatch};
use plimsoll_workload::statement::{Rows, Statement, Value};

use crate::activity::{Ask, Asker, Watch};
use crate::failure::{database_error, past_conflicts};
use crate::server::SLOT;
use crate::session::PostgresSession;

/// A standby that replays nothing for this long, although there is log to replay and no queries run, does not recover
/// by itself.
const STUCK_MAX: Duration = Duration::from_secs(60);

const PAUSE: Duration = Duration::from_millis(5);

/// How far the standby has replayed the log, in bytes, and the wait event type of its startup process, which replays.
const REPLAYED: &str = "select /* plimsoll watch */ pg_last_wal_replay_lsn() - '0/0'::pg_lsn, \
     (select coalesce(wait_event_type, 'none') from pg_stat_get_activity(null) where backend_type = 'startup')";

/// How far the log is written, in bytes, and the status of the part that the standby still needs.
fn written() -> String {
    format!(
        "select /* plimsoll watch */ pg_current_wal_lsn() - '0/0'::pg_lsn, \
         (select wal_status from pg_replication_slots where slot_name = '{SLOT}')"
    )
}

#[derive(Debug)]
pub(super) struct StandbyWatch {
    primary: Asker,
    standby: Asker,
    written: String,
    looked: Option<Instant>,
    applying: Duration,
}

impl StandbyWatch {
    /// Opens connections of its own.
    pub fn open(primary: &ServerUrl, standby: &ServerUrl) -> Result<StandbyWatch, DatabaseError> {
        let ask = |url| past_conflicts(|| Ok(Asker::new(Connection::open(url).map_err(database_error)?)));
        let (primary, standby) = (ask(primary)?, ask(standby)?);
        Ok(StandbyWatch { primary, standby, written: written(), looked: None, applying: Duration::ZERO })
    }

    /// Waits until the standby has replayed every committed change. `fault` says what is wrong with it.
    pub(crate) fn wait_until_fresh(&mut self, fault: &dyn Fn() -> Option<String>) -> Result<(), DatabaseError> {
        // This commit waits for the disk, so that earlier commits, which may not have waited, are on disk, too.
        let commit = "BEGIN; SET LOCAL synchronous_commit = on; SELECT txid_current(); COMMIT";
        self.primary.connection().run(commit).map_err(database_error)?;
        let goal = self.look_at_primary()?;
        let (mut best, mut since) = (0, Instant::now());
        loop {
            let (replayed, _) = self.look_at_standby().map_err(|error| with_fault(error, fault))?;
            if replayed >= goal {
                return Ok(());
            }
            if replayed > best {
                (best, since) = (replayed, Instant::now());
            } else if since.elapsed() > STUCK_MAX {
                return Err(DatabaseError::Failed(format!(
                    "the standby has replayed nothing for {} s and is {} bytes of log behind; look whether its replay is \
                     paused (pg_is_wal_replay_paused), or a session there holds it up",
                    STUCK_MAX.as_secs(),
                    goal - replayed
                )));
            }
            self.look_at_primary()?;
            std::thread::sleep(PAUSE);
        }
    }

    /// How far the log is written; an error if the standby can no longer follow it.
    fn look_at_primary(&mut self) -> Result<u64, DatabaseError> {
        let (written, status) = numbers(&mut self.primary, &self.written)?;
        if status.as_deref() == Some("lost") {
            return Err(DatabaseError::Failed(
                "the standby fell behind by more log than is kept for it; raise max_wal_size, or let fewer clients write"
                    .to_owned(),
            ));
        }
        Ok(written)
    }

    /// How far the log is replayed, and whether more is being replayed now; `None` if the server does not report it.
    fn look_at_standby(&mut self) -> Result<(u64, Option<bool>), DatabaseError> {
        let (replayed, waits) = numbers(&mut self.standby, REPLAYED)?;
        // Only a process with nothing to do waits for an `Activity`. One that waits for a query's snapshot or a disk is
        // at work, at the speed that these queries and this disk allow.
        Ok((replayed, waits.map(|wait| wait != "Activity")))
    }
}

impl CopyWatch for StandbyWatch {
    fn look(&mut self) -> Result<CopyState, DatabaseError> {
        // In this order, so that log written in between counts as missing.
        let (applied, is_applying) = self.look_at_standby()?;
        let now = Instant::now();
        let published = self.look_at_primary()?;
        let since = self.looked.replace(now).map_or(Duration::ZERO, |looked| now - looked);
        if is_applying == Some(true) {
            self.applying += since;
        }
        Ok(CopyState {
            unit: ChangeUnit::LogBytes,
            published,
            applied,
            readable: applied,
            applying: is_applying.map(|_| self.applying),
            merged: None,
            delta_bytes: None,
            versions: None,
            blocked: None,
        })
    }
}

/// A position in the log and a word.
fn numbers(ask: &mut Asker, sql: &str) -> Result<(u64, Option<String>), DatabaseError> {
    let mut found = None;
    ask.rows(sql, &mut |row| {
        if let [Some(position), word] = *row {
            found = position.parse().ok().map(|position| (position, word.map(str::to_owned)));
        }
    })?;
    found.ok_or_else(|| DatabaseError::Failed("the server does not say how far its log is".to_owned()))
}

/// The standby's fault if it is known, or else this error.
pub(super) fn with_fault(error: DatabaseError, fault: &dyn Fn() -> Option<String>) -> DatabaseError {
    fault().map_or(error, DatabaseError::ConnectionLost)
}

/// A session of a standby. Replay ends its connection if it blocks replay between two messages of a query (`FATAL
/// 40001: terminating connection due to conflict with recovery`). It then reconnects, and the query counts as
/// cancelled.
pub(super) struct StandbySession {
    open: Box<dyn Fn() -> Result<PostgresSession, DatabaseError> + Send>,
    session: PostgresSession,
    priority: Priority,
}

impl StandbySession {
    /// `session` is the first; `open` begins another.
    pub fn new(session: PostgresSession, open: Box<dyn Fn() -> Result<PostgresSession, DatabaseError> + Send>) -> Self {
        StandbySession { open, session, priority: Priority::default() }
    }

    fn on_session<T>(
        &mut self,
        ask: impl FnOnce(&mut PostgresSession) -> Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        match ask(&mut self.session) {
            Err(error) if self.session.was_ended_by_replay() => {
                self.session = past_conflicts(&self.open)?;
                self.session.set_priority(self.priority);
                Err(DatabaseError::Conflict(error.words()))
            }
            answer => answer,
        }
    }
}

impl Session for StandbySession {
    fn set_priority(&mut self, priority: Priority) {
        self.priority = priority;
        self.session.set_priority(priority);
    }

    fn begin(&mut self) -> Result<(), DatabaseError> {
        self.on_session(Session::begin)
    }

    fn execute(
        &mut self,
        statement: &Statement<'_>,
        parameters: &[Value<'_>],
        rows: &mut Rows,
    ) -> Result<(), DatabaseError> {
        self.on_session(|session| session.execute(statement, parameters, rows))
    }

    fn commit(&mut self) -> Result<(), DatabaseError> {
        self.on_session(Session::commit)
    }

    fn rollback(&mut self) -> Result<(), DatabaseError> {
        self.on_session(Session::rollback)
    }

    fn query(&mut self, sql: &str) -> Result<QueryAnswer, DatabaseError> {
        self.on_session(|session| session.query(sql))
    }

    fn exchange(&mut self, request: &[u8], on: &mut dyn FnMut(u8, &[u8])) -> Result<bool, DatabaseError> {
        self.on_session(|session| session.exchange(request, on))
    }

    fn reset(&mut self) -> Result<(), DatabaseError> {
        self.on_session(Session::reset)
    }

    fn plan(&mut self, sql: &str) -> Result<Option<QueryPlan>, DatabaseError> {
        self.on_session(|session| session.plan(sql))
    }

    fn server_process(&self) -> Option<i32> {
        self.session.server_process()
    }

    fn usage(&self) -> SessionUsage {
        self.session.usage()
    }
}

/// Observes the backends of a primary and its standby, which run on one machine and so have different process ids.
pub(super) struct BothWatched {
    pub primary: Watch<Asker>,
    pub standby: Watch<Asker>,
}

impl ActivityWatch for BothWatched {
    fn look(&mut self, seen: &mut Vec<Activity>) -> Result<(), DatabaseError> {
        self.primary.look(seen)?;
        self.standby.look(seen)
    }

    fn server_process(&self) -> Option<i32> {
        self.primary.server_process()
    }

    /// A standby's checkpoints and vacuums are replays of its primary's.
    fn upkeep(&mut self) -> Result<Upkeep, DatabaseError> {
        self.primary.upkeep()
    }

    fn statements(&mut self, with_text: bool) -> Result<Statements, DatabaseError> {
        Ok(match (self.primary.statements(with_text)?, self.standby.statements(with_text)?) {
            (Statements::Kept(primary), Statements::Kept(standby)) => Statements::Kept(added(primary, standby)),
            (Statements::NotKept(why), _) | (_, Statements::NotKept(why)) => Statements::NotKept(why),
        })
    }
}

/// The counts of both servers for each kind of statement: databases, users and tables have the same ids on both, and so
/// have statements.
fn added(mut all: Vec<StatementTotals>, others: Vec<StatementTotals>) -> Vec<StatementTotals> {
    for other in others {
        match all.iter_mut().find(|one| one.id == other.id) {
            None => all.push(other),
            Some(one) => {
                one.calls += other.calls;
                one.time += other.time;
                one.rows += other.rows;
                one.pages_hit += other.pages_hit;
                one.pages_read += other.pages_read;
            }
        }
    }
    all
}
