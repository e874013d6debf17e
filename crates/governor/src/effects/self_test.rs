//! Whether the questions of inquiries mean on a server what they mean on the versions that are known.
//!
//! On a version that is newer than this governor, a catalog may have been renamed, a column may mean something else, or
//! expressions may be kept in another form. The self-test makes objects of every kind that an inquiry follows, in the
//! temporary schema of a transaction that is rolled back. It asks each question ([`BRANCHES`](question::BRANCHES)) about them
//! and compares the answer with its [`Proof`]. Then it inquires into texts whose verdicts are known.
//!
//! It needs no right but TEMP on its database, which every role has unless it was taken away.

use std::collections::BTreeMap;
use std::fmt;

use plimsoll_pg::connection::{Connection, WireError};
use plimsoll_policy::Unsafe;

use super::names::{array_of, array_of_numbers};
use super::question::{BRANCHES, Branch, COLUMNS, Proof, Values};
use super::tree::{self, FIRST_OWN, Item};
use super::{Inquiry, Next, rows};
use crate::statement::TextRules;
use crate::statement::effect::is_known_volatile;
use crate::watch::statements::{NUMBERS_OF_SELF_TEST, VOLATILE_FUNCTIONS};

/// Objects of every kind that an inquiry follows. None of the bodies names a schema that could be another's.
const SETUP: &[&str] = &[
    "create function pg_temp.plimsoll_f(int4) returns int4 language sql volatile set search_path = pg_catalog as 'select $1'",
    "create function pg_temp.plimsoll_i(int4) returns int4 language sql immutable as 'select $1'",
    "create function pg_temp.plimsoll_f2(int4, int4) returns int4 language sql as 'select $1'",
    "create function pg_temp.plimsoll_differ(float8, float8) returns float8 language sql immutable as 'select $1'",
    "create domain pg_temp.plimsoll_domain as int4 default pg_temp.plimsoll_f(1) check (pg_temp.plimsoll_f(value) > 0)",
    "create domain pg_temp.plimsoll_over as pg_temp.plimsoll_domain",
    "create type pg_temp.plimsoll_range as range (subtype = float8, subtype_diff = pg_temp.plimsoll_differ)",
    "create type pg_temp.plimsoll_pair as (a int4, b int4)",
    "create function pg_temp.plimsoll_cast(pg_temp.plimsoll_pair) returns int4 language sql as 'select 1'",
    "create cast (pg_temp.plimsoll_pair as int4) with function pg_temp.plimsoll_cast(pg_temp.plimsoll_pair)",
    "create function pg_temp.plimsoll_takes(pg_temp.plimsoll_domain) returns int4 language sql as 'select 1'",
    "create operator pg_temp.<+> (procedure = pg_temp.plimsoll_f2, leftarg = int4, rightarg = int4)",
    "create aggregate pg_temp.plimsoll_sum(int4) (sfunc = pg_catalog.int4pl, stype = int4)",
    "create temporary table plimsoll_parent (id int4 primary key)",
    "create temporary table plimsoll_t (id int4 generated always as identity, a pg_temp.plimsoll_domain, \
     b int4 default pg_temp.plimsoll_f(3) check (pg_temp.plimsoll_f(b) > 0), \
     parent int4 references pg_temp.plimsoll_parent on delete cascade)",
    "create temporary table plimsoll_child () inherits (pg_temp.plimsoll_t)",
    "create index on pg_temp.plimsoll_t (pg_temp.plimsoll_i(b)) where pg_temp.plimsoll_i(b) > 0",
    "create policy plimsoll_policy on pg_temp.plimsoll_t using (pg_temp.plimsoll_f(b) > 0)",
    "create temporary table plimsoll_parts (k int4) partition by range ((pg_temp.plimsoll_i(k)))",
    "create function pg_temp.plimsoll_trigger() returns trigger language plpgsql as 'begin return new; end'",
    "create trigger plimsoll_trigger before insert on pg_temp.plimsoll_t for each row \
     when (pg_temp.plimsoll_f(new.b) > 0) execute function pg_temp.plimsoll_trigger()",
    "create rule plimsoll_rule as on delete to pg_temp.plimsoll_parent do also select pg_temp.plimsoll_f(1)",
    "create temporary view plimsoll_v as select pg_temp.plimsoll_f(1)",
    // A trigger that must not run twice, and one that no statement names: the reference fires it.
    "create function pg_temp.plimsoll_locks() returns trigger language plpgsql as \
     'begin perform pg_catalog.pg_advisory_lock(1); return old; end'",
    "create temporary table plimsoll_u (parent int4 references pg_temp.plimsoll_parent on delete cascade)",
    "create trigger plimsoll_locks after delete on pg_temp.plimsoll_u for each row execute function pg_temp.plimsoll_locks()",
    "create temporary table plimsoll_plain (a int4)",
];

/// Additionally since PostgreSQL 14: a body that the server keeps parsed.
const SETUP_SINCE_14: &str =
    "create function pg_temp.plimsoll_parsed() returns int4 language sql return pg_temp.plimsoll_f(1)";

/// What the inquiry must find about a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Safe { generates: bool },
    Unsafe(Unsafe),
}

/// Texts, and what is known about them.
const TEXTS: &[(&str, Expected)] = &[
    ("update plimsoll_plain set a = a + 1", Expected::Safe { generates: false }),
    ("select b from plimsoll_t", Expected::Safe { generates: false }),
    ("insert into plimsoll_t (b) values (1) returning id", Expected::Safe { generates: true }),
    ("update plimsoll_plain set a = nextval('plimsoll_t_id_seq')", Expected::Safe { generates: true }),
    ("select clock_timestamp() from plimsoll_plain", Expected::Safe { generates: true }),
    ("delete from plimsoll_u", Expected::Unsafe(Unsafe::SessionLock)),
    ("delete from plimsoll_parent", Expected::Unsafe(Unsafe::SessionLock)),
];

/// The server's own table of relations, which has pages.
const PG_CLASS: u32 = 1259;

/// Why replays stay off on a version that is not known.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum SelfTestError {
    /// The objects could not be made, or a question was not answered.
    #[error("the self-test of the catalog questions could not be made: {what}: {why}")]
    NotMade { what: String, why: String },
    /// The server answers questions in another way than known versions do.
    #[error("the catalogs of the server differ from those of known versions: {}", .0.join("; "))]
    Differs(Vec<String>),
}

/// What a passed test has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Functions of the server that may have effects, and that this governor does not know: they count as unsafe.
    pub(crate) new_functions: Vec<String>,
}

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server answers all {} catalog questions as known versions do", BRANCHES.len())?;
        match &self.new_functions[..] {
            [] => Ok(()),
            new => write!(f, "; transactions that call its new functions ({}) are not replayed", new.join(", ")),
        }
    }
}

/// Asks each question once and compares the answers. Leaves nothing at the server.
pub(crate) fn self_test(connection: &mut Connection) -> Result<Passed, SelfTestError> {
    let found = run(connection, "begin").and_then(|()| {
        let found = tested(connection);
        // If this fails, so does the connection, and with it the transaction ends.
        let ended = run(connection, "rollback");
        found.and_then(|found| ended.map(|()| found))
    });
    let new_functions = found?;
    Ok(Passed { new_functions })
}

fn not_made(what: &str) -> impl FnOnce(WireError) -> SelfTestError {
    move |error| SelfTestError::NotMade { what: what.to_owned(), why: error.to_string() }
}

fn run(connection: &mut Connection, sql: &str) -> Result<(), SelfTestError> {
    connection.run(sql).map_err(not_made(sql))
}

fn tested(connection: &mut Connection) -> Result<Vec<String>, SelfTestError> {
    for sql in SETUP {
        run(connection, sql)?;
    }
    let version = connection.server_version_num();
    if version >= 140_000 {
        run(connection, SETUP_SINCE_14)?;
    }
    let numbers = numbers(connection)?;
    let values = values(&numbers);
    let mut faults = Vec::new();
    for branch in BRANCHES {
        if let Err(fault) = answered(connection, branch, version, &values, &numbers)? {
            faults.push(format!("{} ({}): {fault}", branch.about(), branch.kind()));
        }
    }
    for (text, expected) in TEXTS {
        let found = verdict(connection, text, version)?;
        if found != *expected {
            faults.push(format!("`{text}` is found to be {found:?} and is {expected:?}"));
        }
    }
    if !faults.is_empty() {
        return Err(SelfTestError::Differs(faults));
    }
    new_functions(connection)
}

/// The numbers of the objects, by name.
fn numbers(connection: &mut Connection) -> Result<BTreeMap<String, u32>, SelfTestError> {
    let mut numbers = BTreeMap::new();
    let read = connection.text_rows(NUMBERS_OF_SELF_TEST, &mut |row| {
        if let [Some(name), Some(number)] = row
            && let Ok(number) = number.parse()
        {
            numbers.insert((*name).to_owned(), number);
        }
    });
    read.map_err(not_made("the numbers of its objects"))?;
    Ok(numbers)
}

/// The values of all questions: every object counts as one of each kind.
fn values(numbers: &BTreeMap<String, u32>) -> Values {
    let encoding = TextRules::default().encoding;
    let names: Vec<&[u8]> = numbers.keys().map(|name| name.as_bytes()).collect();
    let all: Vec<u32> = numbers.values().copied().chain([PG_CLASS]).collect();
    let of = |list: &[&str]| array_of(list.iter().map(|name| name.as_bytes()), encoding);
    let all = array_of_numbers(&all);
    Values {
        names: array_of(names.into_iter(), encoding),
        calls: of(&["random"]),
        operators: of(&["<+>"]),
        any_schema: b"f".to_vec(),
        relations: all.clone(),
        written: all.clone(),
        functions: all.clone(),
        types: all.clone(),
        numbers: all,
    }
}

/// Asks one question. The inner error says what is wrong with its answer.
fn answered(
    connection: &mut Connection,
    branch: &Branch,
    version: u32,
    values: &Values,
    numbers: &BTreeMap<String, u32>,
) -> Result<Result<(), String>, SelfTestError> {
    let (sql, parameters) = branch.alone(version, values);
    let (mut is_proved, mut malformed) = (branch.proof == Proof::Taken, None);
    let mut each = |row: &[Option<&str>]| {
        malformed = malformed.take().or_else(|| malformed_row(row, branch.kind()));
        is_proved |= proves(row, branch.proof, numbers);
    };
    run(connection, "savepoint question")?;
    let asked = ask(connection, &sql, &parameters, &mut each);
    if let Err(error) = asked {
        let lost = connection.lost().is_some();
        let why = error.to_string();
        if lost {
            return Err(SelfTestError::NotMade { what: branch.about(), why });
        }
        run(connection, "rollback to question")?;
        return Ok(Err(why));
    }
    Ok(match (malformed, is_proved) {
        (Some(what), _) => Err(what),
        (None, false) => Err(format!("no row has {}", shown(branch.proof))),
        (None, true) => Ok(()),
    })
}

fn ask(
    connection: &mut Connection,
    sql: &str,
    parameters: &[Vec<u8>],
    each: &mut dyn FnMut(&[Option<&str>]),
) -> Result<(), WireError> {
    let parameters: Vec<&str> = parameters
        .iter()
        .map(|value| std::str::from_utf8(value).expect("they are names and numbers of ours"))
        .collect();
    let question = connection.prepare_text("", sql)?;
    connection.prepared_text_rows(&question, &parameters, each)
}

/// What is wrong with the form of a row, if anything.
fn malformed_row(row: &[Option<&str>], kind: &str) -> Option<String> {
    if row.len() != COLUMNS || row[0] != Some(kind) {
        return Some(format!("a row of {} columns begins with {:?}", row.len(), row.first().copied().flatten()));
    }
    let is_number = |version: &str| version.is_empty() || version.parse::<u32>().is_ok();
    if let Some(versions) = row[1].filter(|versions| !versions.split(',').all(is_number)) {
        return Some(format!("`{versions}` are not versions of rows"));
    }
    let text = |at: usize| row.get(at).copied().flatten().map(str::as_bytes);
    (kind == "g" && rows::ground(&text).is_none()).then(|| "the state of the server cannot be read".to_owned())
}

fn proves(row: &[Option<&str>], proof: Proof, numbers: &BTreeMap<String, u32>) -> bool {
    let number_of = |name: &str| numbers.get(name).copied().or_else(|| name.parse().ok());
    let texts = || row.iter().skip(2).map(|text| text.unwrap_or_default());
    match proof {
        Proof::Taken | Proof::Row => true,
        Proof::Number(name) => {
            let number = number_of(name).map(|number| number.to_string());
            number.is_some_and(|number| texts().any(|text| text == number))
        }
        Proof::Calls(name) => number_of(name).is_some_and(|number| texts().any(|tree| calls(tree, number))),
        Proof::Texts(expected) => {
            let mut texts = texts();
            expected.iter().all(|expected| texts.any(|text| text == *expected))
        }
    }
}

/// Whether an expression that the server has parsed has the number of a function.
fn calls(tree: &str, number: u32) -> bool {
    let mut does = false;
    tree::read(tree.as_bytes(), |item| {
        does |= match item {
            Item::Number(found) => found == number,
            Item::Function(found) => found == number && number < FIRST_OWN,
            _ => false,
        };
    });
    does
}

fn shown(proof: Proof) -> String {
    match proof {
        Proof::Taken | Proof::Row => "an answer".to_owned(),
        Proof::Number(name) => format!("the number of {name}"),
        Proof::Calls(name) => format!("an expression that calls {name}"),
        Proof::Texts(texts) => texts.join(", "),
    }
}

/// The verdict on a text.
fn verdict(connection: &mut Connection, text: &str, version: u32) -> Result<Expected, SelfTestError> {
    let mut inquiry = Inquiry::new([text.as_bytes()], TextRules::default(), [], &[], version);
    loop {
        let (sql, parameters) = match inquiry.next() {
            Next::Known(Ok(safe)) => return Ok(Expected::Safe { generates: safe.generates }),
            Next::Known(Err(because)) => return Ok(Expected::Unsafe(because)),
            Next::Ask(question) => (question.sql.to_owned(), question.parameters),
        };
        let mut each = |row: &[Option<&str>]| {
            let columns: Vec<Option<&[u8]>> = row.iter().map(|column| column.map(str::as_bytes)).collect();
            inquiry.on_row(&columns);
        };
        run(connection, "savepoint question")?;
        let is_answered = ask(connection, &sql, &parameters, &mut each).is_ok();
        if !is_answered {
            run(connection, "rollback to question")?;
        }
        inquiry.on_answered(is_answered);
    }
}

/// Volatile functions of the server that are on no list.
fn new_functions(connection: &mut Connection) -> Result<Vec<String>, SelfTestError> {
    let mut new = Vec::new();
    let read = connection.text_rows(VOLATILE_FUNCTIONS, &mut |row| {
        new.extend(row[0].filter(|name| !is_known_volatile(name.as_bytes())).map(str::to_owned));
    });
    read.map_err(not_made("the functions of the server"))?;
    Ok(new)
}

#[cfg(test)]
mod tests {
    use plimsoll_pg::connection::SUPPORTED;

    use super::*;
    use crate::testing;

    /// The test is of no use if it fails on a version whose catalogs are known.
    #[test]
    fn known_versions_pass() {
        let folders = SUPPORTED.map_while(plimsoll_testing::postgres_version).map(Some);
        for folder in std::iter::once(None).chain(folders) {
            let bin = folder.as_ref().map(|folder| ("bin_folder", folder.to_str().expect("a path")));
            let server = testing::server(&bin.into_iter().chain([("shared_buffers", "16MB")]).collect::<Vec<_>>());
            let mut owner = Connection::open(&testing::url(&server)).expect("it runs");
            owner.run("create role watcher login").expect("a role");
            let url = testing::url(&server).with_user("watcher");
            let mut connection = crate::watch::isolated_session(&url).expect("it runs");
            let passed = self_test(&mut connection).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
            assert_eq!(passed.new_functions, [""; 0], "{folder:?}");
            let left = "select count(*) from pg_proc where proname like 'plimsoll%'";
            assert_eq!(owner.text(left).expect("a count").as_deref(), Some("0"), "nothing is left");
        }
    }

    /// A canary: a catalog that answers otherwise. Without the right to make temporary objects nothing is proved either.
    #[test]
    fn what_cannot_be_asked_is_told() {
        let server = testing::server(&[("shared_buffers", "16MB")]);
        let mut owner = Connection::open(&testing::url(&server)).expect("it runs");
        owner.run("create role watcher login; revoke temporary on database plimsoll from public").expect("a role");
        let url = testing::url(&server).with_user("watcher");
        let mut connection = crate::watch::isolated_session(&url).expect("it runs");
        let error = self_test(&mut connection).expect_err("it may make nothing").to_string();
        assert!(error.contains("could not be made") && error.contains("permission denied"), "{error}");
        assert_eq!(connection.text("select 1").expect("it goes on").as_deref(), Some("1"));
    }

    #[test]
    fn answers_that_prove_nothing_are_told_apart() {
        let numbers = BTreeMap::from([("plimsoll_f".to_owned(), 20_001)]);
        let row = |third: &'static str| {
            let mut row = vec![None; COLUMNS];
            (row[0], row[1], row[2]) = (Some("n"), Some("700,701"), Some(third));
            row
        };
        let tree = "{FUNCEXPR :funcid 20001 :funcresulttype 23}";
        assert!(proves(&row(tree), Proof::Calls("plimsoll_f"), &numbers));
        assert!(!proves(&row("{FUNCEXPR :funcid 20002}"), Proof::Calls("plimsoll_f"), &numbers));
        assert!(proves(&row("20001"), Proof::Number("plimsoll_f"), &numbers));
        assert!(!proves(&row("20002"), Proof::Number("plimsoll_f"), &numbers));
        assert!(!proves(&row("20001"), Proof::Number("plimsoll_t"), &numbers), "it has no number");
        assert_eq!(malformed_row(&row("x"), "n"), None);
        assert!(malformed_row(&row("x"), "f").is_some() && malformed_row(&row("x")[1..], "n").is_some());
    }
}
