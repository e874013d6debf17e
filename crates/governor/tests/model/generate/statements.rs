//! The statements that random scripts consist of.

use rand::RngExt;

use super::super::script::{SHAPES, replacing};
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
    /// Rows of a foreign server, which commits before ours does.
    Foreign,
    /// Checked or carried out at the commit.
    Deferred,
    /// Defaults and functions whose values differ each time, in columns whose names begin with `gen_`.
    Returned,
    /// A function that is replaced now and then.
    Shape,
    /// Names of more than 63 bytes.
    Named,
    /// An effect that no rollback undoes.
    Outside,
}

/// The kind for a number from 0 to 99, without a preferred kind.
pub fn kind_of(number: u32) -> StatementKind {
    match number {
        0..24 => StatementKind::Change,
        24..34 => StatementKind::Read,
        34..40 => StatementKind::Generated,
        40..47 => StatementKind::Savepoint,
        47..53 => StatementKind::Cursor,
        53..58 => StatementKind::Prepared,
        58..63 => StatementKind::Setting,
        63..66 => StatementKind::Table,
        66..68 => StatementKind::Listen,
        68..70 => StatementKind::Lock,
        70..73 => StatementKind::Failing,
        73 => StatementKind::Long,
        74..76 => StatementKind::Control,
        76..80 => StatementKind::Foreign,
        80..84 => StatementKind::Deferred,
        84..90 => StatementKind::Returned,
        90..94 => StatementKind::Shape,
        94..98 => StatementKind::Named,
        98 => StatementKind::Outside,
        _ => StatementKind::Discard,
    }
}

impl Writer {
    pub fn statement(&mut self) -> String {
        let kind = if self.sometimes(35) { self.theme } else { kind_of(self.random.random_range(0..100)) };
        match kind {
            StatementKind::Change => self.change(),
            StatementKind::Generated => self.generated(),
            StatementKind::Shape => self.shape(),
            StatementKind::Foreign if self.is_deferrable => self.one(simple(StatementKind::Read)),
            _ => self.one(simple(kind)),
        }
    }

    /// Calls the function that is replaced now and then, or replaces it.
    fn shape(&mut self) -> String {
        let version = self.random.random_range(0..SHAPES.len());
        match self.random.random_range(0..6) {
            0..=3 => format!("SELECT shape({})", self.account()),
            4 => {
                self.has_replaced = true;
                replacing(version)
            }
            _ => {
                self.has_replaced = true;
                format!("SELECT redefine('{}')", SHAPES[version])
            }
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
        StatementKind::Change | StatementKind::Generated | StatementKind::Shape => &[],
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
        StatementKind::Foreign | StatementKind::Deferred | StatementKind::Outside => of_commits(kind),
        StatementKind::Returned | StatementKind::Named => of_drivers(kind),
        _ => of_sessions(kind),
    }
}

/// Statements with effects elsewhere, or at the commit.
fn of_commits(kind: StatementKind) -> &'static [&'static str] {
    match kind {
        StatementKind::Foreign => &[
            "INSERT INTO remote VALUES (1, 'far')",
            "INSERT INTO beyond VALUES (2, 'farther')",
            "UPDATE remote SET n = n + 1",
            "SELECT n, who FROM remote ORDER BY n, who",
            "WITH sent AS (INSERT INTO remote VALUES (3, 'with') RETURNING n) SELECT n FROM sent",
        ],
        StatementKind::Deferred => &[
            "INSERT INTO checked VALUES (5)",
            "INSERT INTO checked VALUES (6)",
            "INSERT INTO checked VALUES (-1)",
            "INSERT INTO mailed VALUES (1)",
            "SET CONSTRAINTS ALL IMMEDIATE",
            "SET CONSTRAINTS ALL DEFERRED",
        ],
        StatementKind::Outside => &["SELECT mail('at once')", "DO $$ BEGIN PERFORM mail('by a block'); END $$"],
        _ => &[],
    }
}

/// Statements that drivers and mappers of objects send.
fn of_drivers(kind: StatementKind) -> &'static [&'static str] {
    match kind {
        StatementKind::Returned => &[
            "INSERT INTO orders (what) VALUES ('o') RETURNING id AS gen_order",
            "INSERT INTO orders (what) VALUES ('o'), ('p') RETURNING id AS gen_order, made AS gen_made",
            "INSERT INTO orders (what) VALUES ('r') RETURNING ref AS gen_ref",
            "INSERT INTO orders (what) VALUES ('quiet')",
            "INSERT INTO items (what) VALUES ('i') RETURNING id AS gen_item",
            "INSERT INTO items (what) VALUES ('quiet')",
            "UPDATE accounts SET v = v + 1 WHERE id = 4 RETURNING xmin AS gen_xmin",
            "SELECT currval('orders_id_seq') AS gen_order",
            "SELECT now() AS gen_made",
            "SELECT txid_current() AS gen_txid",
            "SELECT random() AS gen_random",
            "SELECT count(*) FROM orders",
        ],
        StatementKind::Named => &[
            "PREPARE q@name@1 AS UPDATE accounts SET v = v + 1 WHERE id = 5",
            "EXECUTE q@name@2",
            "DEALLOCATE q@name@3",
            "PREPARE k@name@1 AS SELECT v FROM accounts WHERE id = 5",
            "DECLARE c@name@1 CURSOR FOR SELECT id FROM accounts ORDER BY id",
            "FETCH 1 FROM c@name@2",
            "CLOSE c@name@3",
            "SAVEPOINT a@name@1",
            "ROLLBACK TO SAVEPOINT a@name@2",
            "RELEASE SAVEPOINT a@name@3",
        ],
        _ => &[],
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
