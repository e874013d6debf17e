//! A session's requests and the injections into it, as text that people can read and tests can keep.
//!
//! ```text
//! # A comment.
//! transaction
//! query BEGIN
//! ! cancel 0
//! query UPDATE accounts SET v = v + 1 WHERE id = 1 ;; SELECT 1
//! ! idle
//! extended
//!   parse s1 SELECT v FROM accounts WHERE id = $1
//!   bind - s1 3
//!   execute - 0
//! ahead
//! query COMMIT
//! ```
//!
//! `-` is the unnamed statement or portal, `probe` asks for [the whole state of a session](PROBE), ` ;; ` separates the
//! statements of one query, and `ahead` means that the unit above is sent together with the next one. Lines with `!`
//! are injections into the unit that follows. `user steady` before the first transaction chooses [the user](User).
//! `@long@` in a statement is 70,000 letters, `@big@` 60,000, and `@name@` 70 letters of a name.

mod text;

use super::wire;

/// A statement that asks a session for its whole state.
pub const PROBE: &str = "SELECT (SELECT string_agg(format('%s %s', name, CASE WHEN NOT from_sql THEN statement END), ', ' ORDER BY name) \
    FROM pg_prepared_statements) AS prepared, \
    (SELECT string_agg(format('%s %s %s', name, statement, is_holdable), ', ' ORDER BY name) FROM pg_cursors) AS cursors, \
    (SELECT string_agg(channel, ', ' ORDER BY channel) FROM pg_listening_channels() AS channel) AS channels, \
    (SELECT string_agg(relname, ', ' ORDER BY relname) FROM pg_class WHERE relpersistence = 't' \
    AND relkind = 'r' AND pg_table_is_visible(oid)) AS temporary, \
    current_setting('work_mem'), current_setting('search_path'), current_setting('standard_conforming_strings'), \
    current_setting('application_name'), current_setting('default_transaction_isolation'), \
    current_setting('transaction_isolation'), current_setting('transaction_read_only'), \
    current_setting('transaction_deferrable'), current_setting('plimsoll.class', true)";

/// The same for a pooled session, whose connection has prepared statements of others, and is of no class.
pub fn pooled_probe() -> String {
    let own = PROBE.replace("FROM pg_prepared_statements)", "FROM pg_prepared_statements WHERE from_sql)");
    own.replace(", current_setting('plimsoll.class', true)", "")
}

/// The contents of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    pub story: Vec<String>,
    pub user: User,
    pub transactions: Vec<Transaction>,
}

/// The user of the session, which decides its class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum User {
    /// Has the class `low`: its transactions are rolled back, and the client tries again.
    #[default]
    Report,
    /// Has the class `steady`, with `retries = false`: it loses only transactions that can be replayed.
    Steady,
    /// Has the class `once`, with `replay = false`.
    Once,
}

impl User {
    pub const ALL: [User; 3] = [User::Report, User::Steady, User::Once];

    /// The name of the role.
    pub fn name(self) -> &'static str {
        match self {
            User::Report => "report",
            User::Steady => "steady",
            User::Once => "once",
        }
    }

    /// The name of its class.
    pub fn class(self) -> &'static str {
        match self {
            User::Report => "low",
            User::Steady => "steady",
            User::Once => "once",
        }
    }
}

/// Units that an application would repeat as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transaction {
    /// The units, and the injections into them.
    pub steps: Vec<ScriptStep>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptStep {
    /// The injections into it in the governed run.
    pub injections: Vec<Injection>,
    pub unit: Unit,
    /// Whether the next unit is sent together with it.
    pub ahead: bool,
}

/// The messages of a client up to a `Query` or a `Sync`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unit {
    /// Statements in one `Query`.
    Query(Vec<String>),
    /// Messages before a `Sync`.
    Extended(Vec<Request>),
    /// A `COPY … FROM STDIN` by the simple protocol, or as a prepared statement of that name; the messages within it, and
    /// whether it is finished or fails.
    Copy { sql: String, name: Option<String>, parts: Vec<CopyPart>, fails: bool },
    /// The function `abs` is called by a `FunctionCall`.
    Call(i32),
    /// The client disconnects without a message and reconnects; before that it sends this unit, if any.
    Leave(Option<Box<Unit>>),
    /// The client sends this unit, closes its sending side and reads all answers; then it reconnects.
    Finish(Box<Unit>),
}

/// A message of a client within a COPY.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyPart {
    Line(String),
    /// A `Sync` or a `Flush`, which a server ignores here.
    Sync,
    Flush,
}

/// A message of the extended protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    Parse { name: String, sql: String },
    Bind { portal: String, statement: String, values: Vec<Option<String>> },
    DescribeStatement(String),
    DescribePortal(String),
    Execute { portal: String, rows: u32 },
    CloseStatement(String),
    ClosePortal(String),
    Flush,
}

/// An injection into a unit of the governed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Injection {
    /// Before the unit is sent, the transaction is rolled back for another session.
    Idle,
    /// The unit is cancelled for another session at that statement or message, if allowed; `after` that many earlier
    /// units, which hits a replay.
    Cancel { at: usize, after: usize, settles: Settles },
    /// It is aimed at in the same way, but ends before the signal arrives.
    Missed { after: usize, settles: Settles },
    /// After the transaction was rolled back for another session, and before it is replayed, a third one changes that
    /// account. A replay that the client does not notice then equals a run after the change.
    Change { account: u32 },
    /// Before the unit is sent, another session replaces the function `shape` on both sides.
    Replace { version: usize },
    /// The server aborts it at that statement or message, as if it could not serialize the transaction; `after` that
    /// many earlier units. A COMMIT fails with the server idle after it.
    Abort { at: usize, after: usize },
    /// Its client cancels it there.
    ClientCancel { at: usize },
    /// Its client's cancel arrives too late.
    ClientCancelMissed,
}

/// When the session is notified that a cancel has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settles {
    /// Before the server gets the unit, which it gets when the client's next unit has begun.
    Early,
    /// Before the answer.
    Before,
    /// After the answer.
    After,
}

/// A statement or a name as it is sent: with a text longer than a governor reads in place of `@long@`, one that is just
/// read in place of `@big@`, and names longer than a server keeps in place of `@name@`.
pub fn expanded(sql: &str) -> String {
    if !sql.contains('@') {
        return sql.to_owned();
    }
    sql.replace("@long@", &"x".repeat(70_000)).replace("@big@", &"x".repeat(60_000)).replace("@name@", &"n".repeat(70))
}

/// The versions of the function `shape`: two that read, one that changes data, and one with an effect outside.
pub const SHAPES: [&str; 4] = [
    "SELECT v FROM accounts WHERE id = account",
    "SELECT v + 1 FROM accounts WHERE id = account",
    "UPDATE accounts SET v = v + 1 WHERE id = account RETURNING v",
    "SELECT mail(''shape'') + account",
];

/// The statement that makes that version the function `shape`.
pub fn replacing(version: usize) -> String {
    let body = SHAPES[version % SHAPES.len()];
    format!("CREATE OR REPLACE FUNCTION shape(account int) RETURNS int LANGUAGE sql AS '{body}'")
}

impl Request {
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Request::Parse { name, sql } => wire::parse(&expanded(name), &expanded(sql)),
            Request::Bind { portal, statement, values } => wire::bind(&expanded(portal), &expanded(statement), values),
            Request::DescribeStatement(name) => wire::named(b'D', b'S', &expanded(name)),
            Request::DescribePortal(name) => wire::named(b'D', b'P', &expanded(name)),
            Request::Execute { portal, rows } => wire::execute(&expanded(portal), *rows),
            Request::CloseStatement(name) => wire::named(b'C', b'S', &expanded(name)),
            Request::ClosePortal(name) => wire::named(b'C', b'P', &expanded(name)),
            Request::Flush => wire::tagged(b'H', &[]),
        }
    }
}

impl Script {
    pub fn unit_count(&self) -> usize {
        self.transactions.iter().map(|transaction| transaction.steps.len()).sum()
    }
}

#[test]
fn what_is_written_is_read() {
    for seed in 0..200 {
        let script = super::generate::script(seed);
        assert_eq!(Script::parse(&script.to_string()).as_ref(), Ok(&script), "{script}");
    }
}
