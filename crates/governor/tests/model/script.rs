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
//! are injections into the unit that follows. `@long@` in a statement is 70,000 letters.

use std::fmt;

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

/// The contents of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    pub story: Vec<String>,
    pub transactions: Vec<Transaction>,
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
    /// A `COPY … FROM STDIN`, its lines, and whether it is finished or fails.
    Copy { sql: String, lines: Vec<String>, fails: bool },
    /// The client disconnects without a message and reconnects; before that it sends this unit, if any.
    Leave(Option<Box<Unit>>),
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

/// The placeholder in a script for a text longer than a governor reads.
pub const LONG: &str = "@long@";

/// A statement as it is sent.
pub fn expanded(sql: &str) -> String {
    sql.replace(LONG, &"x".repeat(70_000))
}

impl Request {
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Request::Parse { name, sql } => wire::parse(name, &expanded(sql)),
            Request::Bind { portal, statement, values } => wire::bind(portal, statement, values),
            Request::DescribeStatement(name) => wire::named(b'D', b'S', name),
            Request::DescribePortal(name) => wire::named(b'D', b'P', name),
            Request::Execute { portal, rows } => wire::execute(portal, *rows),
            Request::CloseStatement(name) => wire::named(b'C', b'S', name),
            Request::ClosePortal(name) => wire::named(b'C', b'P', name),
            Request::Flush => wire::tagged(b'H', &[]),
        }
    }
}

impl Script {
    /// Parses the output of [`Display`](fmt::Display).
    pub fn parse(text: &str) -> Result<Script, String> {
        let mut script = Script::default();
        let mut injections = Vec::new();
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
        while let Some(line) = lines.next() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let mut leaves_after = false;
            let unit = match word {
                "#" => {
                    script.story.push(rest.to_owned());
                    continue;
                }
                "transaction" => {
                    script.transactions.push(Transaction::default());
                    continue;
                }
                "!" => {
                    injections.push(injection(rest)?);
                    continue;
                }
                "ahead" => {
                    let last = script.transactions.last_mut().and_then(|transaction| transaction.steps.last_mut());
                    last.ok_or("nothing to send ahead")?.ahead = true;
                    continue;
                }
                "leave" if rest.is_empty() => Unit::Leave(None),
                "leave-after" => {
                    leaves_after = true;
                    unit(rest, &mut lines)?
                }
                _ => unit(line, &mut lines)?,
            };
            let unit = if leaves_after { Unit::Leave(Some(Box::new(unit))) } else { unit };
            let steps = &mut script.transactions.last_mut().ok_or("a unit before the first transaction")?.steps;
            steps.push(ScriptStep { injections: std::mem::take(&mut injections), unit, ahead: false });
        }
        Ok(script)
    }

    pub fn unit_count(&self) -> usize {
        self.transactions.iter().map(|transaction| transaction.steps.len()).sum()
    }
}

fn injection(text: &str) -> Result<Injection, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let number =
        |at: usize| words.get(at).and_then(|word| word.parse::<usize>().ok()).ok_or(format!("a number in {text:?}"));
    let settles = match words.last() {
        Some(&"early") => Settles::Early,
        Some(&"late") => Settles::After,
        _ => Settles::Before,
    };
    match words[..] {
        ["idle"] => Ok(Injection::Idle),
        ["cancel", ..] => Ok(Injection::Cancel { at: number(1)?, after: number(3)?, settles }),
        ["missed", ..] => Ok(Injection::Missed { after: number(2)?, settles }),
        ["abort", ..] => Ok(Injection::Abort { at: number(1)?, after: number(3)? }),
        ["change", ..] => Ok(Injection::Change { account: number(1)? as u32 }),
        ["client-cancel", "missed"] => Ok(Injection::ClientCancelMissed),
        ["client-cancel", ..] => Ok(Injection::ClientCancel { at: number(1)? }),
        _ => Err(format!("{text:?} cannot be done to a unit")),
    }
}

type Lines<'a, I> = std::iter::Peekable<I>;

fn unit<'a, I: Iterator<Item = &'a str>>(line: &'a str, lines: &mut Lines<'a, I>) -> Result<Unit, String> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "probe" => Ok(Unit::Query(vec![PROBE.to_owned()])),
        "query" => Ok(Unit::Query(rest.split(" ;; ").map(str::to_owned).collect())),
        "copy" => {
            let mut data = Vec::new();
            while let Some(line) = lines.next_if(|line| line.starts_with("line ")) {
                data.push(line["line ".len()..].to_owned());
            }
            let fails = match lines.next() {
                Some("done") => false,
                Some("fail") => true,
                other => return Err(format!("a copy ends with done or fail, not with {other:?}")),
            };
            Ok(Unit::Copy { sql: rest.to_owned(), lines: data, fails })
        }
        "extended" => {
            let mut requests = Vec::new();
            while let Some(request) = lines.peek().and_then(|line| request(line)) {
                requests.push(request);
                lines.next();
            }
            Ok(Unit::Extended(requests))
        }
        _ => Err(format!("{line:?} is no unit")),
    }
}

fn request(line: &str) -> Option<Request> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let name = |at: usize| words.get(at).map(|word| if *word == "-" { String::new() } else { (*word).to_owned() });
    let value = |word: &&str| if *word == "null" { None } else { Some((*word).to_owned()) };
    Some(match *words.first()? {
        "parse" => Request::Parse { name: name(1)?, sql: line.splitn(3, ' ').nth(2)?.to_owned() },
        "bind" => {
            Request::Bind { portal: name(1)?, statement: name(2)?, values: words[3..].iter().map(value).collect() }
        }
        "describe-statement" => Request::DescribeStatement(name(1)?),
        "describe-portal" => Request::DescribePortal(name(1)?),
        "execute" => Request::Execute { portal: name(1)?, rows: words.get(2)?.parse().ok()? },
        "close-statement" => Request::CloseStatement(name(1)?),
        "close-portal" => Request::ClosePortal(name(1)?),
        "flush" => Request::Flush,
        _ => return None,
    })
}

/// A name as it is written in a script.
struct Name<'a>(&'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "-" } else { self.0 })
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.story {
            writeln!(f, "# {line}")?;
        }
        for transaction in &self.transactions {
            writeln!(f, "transaction")?;
            for step in &transaction.steps {
                write!(f, "{step}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for ScriptStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for injection in &self.injections {
            writeln!(f, "! {injection}")?;
        }
        write!(f, "{}", self.unit)?;
        if self.ahead { writeln!(f, "ahead") } else { Ok(()) }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unit::Query(statements) if *statements == [PROBE] => writeln!(f, "probe"),
            Unit::Query(statements) => writeln!(f, "query {}", statements.join(" ;; ")),
            Unit::Extended(requests) => {
                writeln!(f, "extended")?;
                requests.iter().try_for_each(|request| writeln!(f, "  {request}"))
            }
            Unit::Copy { sql, lines, fails } => {
                writeln!(f, "copy {sql}")?;
                lines.iter().try_for_each(|line| writeln!(f, "  line {line}"))?;
                writeln!(f, "  {}", if *fails { "fail" } else { "done" })
            }
            Unit::Leave(None) => writeln!(f, "leave"),
            Unit::Leave(Some(unit)) => write!(f, "leave-after {unit}"),
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Request::Parse { name, sql } => write!(f, "parse {} {sql}", Name(name)),
            Request::Bind { portal, statement, values } => {
                write!(f, "bind {} {}", Name(portal), Name(statement))?;
                values.iter().try_for_each(|value| write!(f, " {}", value.as_deref().unwrap_or("null")))
            }
            Request::DescribeStatement(name) => write!(f, "describe-statement {}", Name(name)),
            Request::DescribePortal(name) => write!(f, "describe-portal {}", Name(name)),
            Request::Execute { portal, rows } => write!(f, "execute {} {rows}", Name(portal)),
            Request::CloseStatement(name) => write!(f, "close-statement {}", Name(name)),
            Request::ClosePortal(name) => write!(f, "close-portal {}", Name(name)),
            Request::Flush => write!(f, "flush"),
        }
    }
}

impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Injection::Idle => write!(f, "idle"),
            Injection::Cancel { at, after, settles } => write!(f, "cancel {at} after {after}{settles}"),
            Injection::Missed { after, settles } => write!(f, "missed after {after}{settles}"),
            Injection::Abort { at, after } => write!(f, "abort {at} after {after}"),
            Injection::Change { account } => write!(f, "change {account}"),
            Injection::ClientCancel { at } => write!(f, "client-cancel {at}"),
            Injection::ClientCancelMissed => write!(f, "client-cancel missed"),
        }
    }
}

impl fmt::Display for Settles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Settles::Early => " early",
            Settles::Before => "",
            Settles::After => " late",
        })
    }
}

#[test]
fn what_is_written_is_read() {
    for seed in 0..200 {
        let script = super::generate::script(seed);
        assert_eq!(Script::parse(&script.to_string()).as_ref(), Ok(&script), "{script}");
    }
}
