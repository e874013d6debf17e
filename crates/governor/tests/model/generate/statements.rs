//! The statements that random scripts consist of.

use rand::RngExt;

use super::Writer;

/// The kind of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementKind {
    Change,
    Read,
    /// Its answer differs each time.
    Generated,
    Savepoint,
    Cursor,
    Prepared,
    Setting,
    Table,
    Listen,
    Lock,
    Failing,
    /// Longer than the text that a governor reads.
    Long,
    Control,
    Discard,
}

/// The kind for a number from 0 to 99, without a preferred kind.
pub fn kind_of(number: u32) -> StatementKind {
    match number {
        0..30 => StatementKind::Change,
        30..43 => StatementKind::Read,
        43..52 => StatementKind::Generated,
        52..60 => StatementKind::Savepoint,
        60..68 => StatementKind::Cursor,
        68..75 => StatementKind::Prepared,
        75..82 => StatementKind::Setting,
        82..86 => StatementKind::Table,
        86..89 => StatementKind::Listen,
        89..92 => StatementKind::Lock,
        92..96 => StatementKind::Failing,
        96 => StatementKind::Long,
        97..99 => StatementKind::Control,
        _ => StatementKind::Discard,
    }
}

impl Writer {
    pub fn statement(&mut self) -> String {
        let kind = if self.sometimes(35) { self.theme } else { kind_of(self.random.random_range(0..100)) };
        match kind {
            StatementKind::Change => self.change(),
            StatementKind::Generated => self.generated(),
            _ => self.one(simple(kind)),
        }
    }

    fn generated(&mut self) -> String {
        let (account, number) = (self.account(), self.number());
        match self.random.random_range(0..7) {
            0 => "SELECT 'g' || nextval('numbers')".to_owned(),
            1 => "SELECT 'g' || random()".to_owned(),
            2 => "SELECT 'g' || extract(epoch FROM clock_timestamp())".to_owned(),
            3 => format!("INSERT INTO log (who, n) VALUES ('told', {number}) RETURNING gen_id"),
            4 => format!("UPDATE accounts SET gen_note = 'g' || random() WHERE id = {account} RETURNING gen_note"),
            5 => "SELECT remember('me')".to_owned(),
            _ => format!("SELECT gen_note FROM accounts WHERE id = {account}"),
        }
    }
}

/// The statements of a kind without variable parts.
fn simple(kind: StatementKind) -> &'static [&'static str] {
    match kind {
        StatementKind::Change | StatementKind::Generated => &[],
        StatementKind::Read => &[
            "SELECT id, v FROM accounts ORDER BY id",
            "SELECT sum(v) FROM accounts",
            "SELECT * FROM rich ORDER BY id",
            "SELECT who, n FROM log ORDER BY n, who",
            "TABLE later",
            "COPY (SELECT id, v FROM accounts ORDER BY id) TO STDOUT",
        ],
        StatementKind::Savepoint => &[
            "SAVEPOINT a",
            "SAVEPOINT b",
            "RELEASE SAVEPOINT a",
            "ROLLBACK TO SAVEPOINT a",
            "ROLLBACK TO a",
            "SAVEPOINT preempted_by_plimsoll",
        ],
        StatementKind::Cursor => &[
            "DECLARE c1 CURSOR FOR SELECT id, v FROM accounts ORDER BY id",
            "DECLARE h1 CURSOR WITH HOLD FOR SELECT id FROM accounts ORDER BY id",
            "DECLARE h1 SCROLL CURSOR WITH HOLD FOR SELECT id FROM accounts ORDER BY id",
            "FETCH 2 FROM c1",
            "FETCH 1 FROM h1",
            "FETCH 1 FROM h1",
            "FETCH 1 FROM p",
            "MOVE 1 IN h1",
            "MOVE BACKWARD 1 IN h1",
            "CLOSE c1",
            "CLOSE h1",
        ],
        StatementKind::Prepared => &[
            "PREPARE q1 AS SELECT v FROM accounts WHERE id = 2",
            "PREPARE q2(int) AS UPDATE accounts SET v = v + $1 WHERE id = 2",
            "PREPARE q3 AS SELECT pg_advisory_lock(7)",
            "EXECUTE q1",
            "EXECUTE q2(4)",
            "EXECUTE q3",
            "DEALLOCATE q1",
            "DEALLOCATE q2",
            "DEALLOCATE s1",
            "DEALLOCATE ALL",
        ],
        StatementKind::Table => &[
            "CREATE TEMP TABLE scratch (a int)",
            "CREATE TEMP TABLE brief (a int) ON COMMIT DROP",
            "INSERT INTO scratch VALUES (1)",
            "SELECT a FROM scratch",
            "DROP TABLE scratch",
            "CREATE TABLE extra (a int)",
            "DROP TABLE extra",
        ],
        _ => of_sessions(kind),
    }
}

/// Statements about sessions, and statements that fail.
fn of_sessions(kind: StatementKind) -> &'static [&'static str] {
    match kind {
        StatementKind::Setting => &[
            "SET work_mem = '2MB'",
            "SET LOCAL work_mem = '3MB'",
            "RESET work_mem",
            "SET search_path = public, pg_temp",
            "SET LOCAL search_path = public",
            "SET application_name = 'other'",
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            "SET TRANSACTION READ ONLY",
            "SET plimsoll.class = 'low'",
            "SET plimsoll.class = 'none'",
            "RESET ALL",
        ],
        StatementKind::Listen => {
            &["LISTEN news", "NOTIFY news, 'one'", "UNLISTEN news", "SELECT pg_notify('news', 'two')"]
        }
        StatementKind::Lock => &[
            "SELECT pg_advisory_lock(1)",
            "SELECT pg_advisory_unlock(1)",
            "SELECT pg_advisory_xact_lock(2)",
            "SELECT pg_try_advisory_xact_lock(3)",
            "LOCK TABLE accounts IN SHARE MODE",
        ],
        StatementKind::Failing => &[
            "SELECT 1/0",
            "SELEC 1",
            "INSERT INTO accounts VALUES (1, 1)",
            "INSERT INTO later VALUES (1)",
            "SELECT guarded(1)",
            "DO $$ BEGIN RAISE NOTICE 'hello'; END $$",
        ],
        StatementKind::Long => &[
            "SELECT length('@long@')",
            "UPDATE accounts SET v = v + length('@long@') WHERE id = 2",
            "SELECT '@long@'::int",
            "SELECT 1 /* @long@ */",
            "/* @long@ */ COMMIT",
        ],
        StatementKind::Control => &["COMMIT", "ROLLBACK", "BEGIN", "CALL stepwise()"],
        StatementKind::Discard => &["DISCARD ALL", "DISCARD PLANS", "DISCARD TEMP"],
        _ => &[],
    }
}
