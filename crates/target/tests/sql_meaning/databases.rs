//! The embedded engine and two versions of PostgreSQL with the same rows.

use std::fs;
use std::sync::atomic::AtomicBool;

use arrow::array::{Array, RecordBatch};
use arrow::util::display::array_value_to_string;
use plimsoll_postgres::database::PostgresDatabase;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};
use plimsoll_target::{Embedded, EmbeddedOptions};
use plimsoll_testing::postgres_version;
use plimsoll_workload::benchmark::{Benchmark, LoadProgress};
use plimsoll_workload::database::{Database, Session};
use plimsoll_workload::registry;

/// The oldest version and the newest whose answers are compared.
const VERSIONS: [u32; 2] = [15, 18];

/// What the comparison of a query's answers shows.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Same,
    /// Because of a value, such as a division by zero, or of a mistake; which of two errors comes first is open.
    BothFail,
    /// Because of a value that PostgreSQL did not compute: it knows without it that the result is NULL. The order of evaluation is open.
    FailsHere(String),
    Refused(String),
    Differs(String),
}

pub struct Databases {
    pub embedded: Box<dyn Session>,
    pub servers: Vec<(String, Box<dyn Session>)>,
    /// What the sessions are of.
    _owners: (Embedded, Vec<PostgresDatabase>),
}

/// The tables, and their rows.
pub const SETUP: &str = "
CREATE TABLE t (id integer PRIMARY KEY, i integer, b bigint, n numeric(12, 2), m numeric(18, 4), s varchar(20), d date, ts timestamp);
CREATE TABLE u (uid integer PRIMARY KEY, ui integer, ub bigint, un numeric(12, 2), us varchar(20), ud date);
INSERT INTO t VALUES
(1, 1, 1, 1.00, 1.0000, 'a', '2020-01-31', '2020-01-31 12:30:45.5'),
(2, 2, 2, 1.50, 0.0001, 'b', '2020-02-29', '2020-02-29 00:00:00'),
(3, 3, -3, 2.50, -0.5000, 'abc', '2019-12-31', '2019-12-31 23:59:59.999999'),
(4, 0, 0, 0.00, 0.0000, '', '1970-01-01', '1970-01-01 00:00:00'),
(5, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
(6, 2147483647, 9223372036854775807, 9999999999.99, 99999999999999.9999, 'zz', '9999-12-31', '9999-12-31 23:59:59'),
(7, -2147483647, -9223372036854775807, -9999999999.99, -99999999999999.9999, 'Z', '0001-01-01', '0001-01-01 00:00:00'),
(8, -7, 7, -1.50, 3.1416, 'a%b_c', '2021-03-01', '1969-12-31 23:59:59.5'),
(9, 10, -10, 0.01, 1000.5000, ' a ', '2000-02-29', '2000-02-29 06:07:08.000009'),
(10, 7, 1000000, 100.25, 33.3333, 'äöü', '2024-02-29', '2024-02-29 11:00:00'),
(11, NULL, 5, 3.33, NULL, 'ab', NULL, '2001-01-01 01:01:01'),
(12, 4, NULL, NULL, 2.2500, NULL, '2020-01-31', NULL),
(13, 1, 1, 1.00, 1.0000, 'a', '2020-01-31', '2020-01-31 12:30:45.5'),
(14, 5, 12, -0.05, 12345.6789, 'A', '1999-12-31', '1999-12-31 00:00:01'),
(15, -1, 100000, 7.77, -2.5000, 'back\\slash', '2020-12-01', '2020-12-01 10:20:30');
INSERT INTO u VALUES
(1, 1, 1, 1.50, 'a', '2020-01-31'),
(2, 2, NULL, 2.50, 'ab', '2020-02-29'),
(3, NULL, 3, NULL, NULL, NULL),
(4, 1, 7, 1.00, 'b', '1970-01-01'),
(5, 10, -3, 0.00, 'abc', '2021-03-01'),
(6, 4, 9223372036854775807, -1.50, 'Z', '2020-01-31'),
(7, 7, 0, 100.25, '', '2000-02-29');
";

impl Databases {
    pub fn start() -> Databases {
        Self::with(
            SETUP,
            "[[transaction]]\nname = \"none\"\nread_only = true\nstatements = [\"SELECT count(*) FROM t\"]",
        )
    }

    /// Databases with the tables of a setup.
    pub fn with(setup: &str, rest: &str) -> Databases {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("meaning.toml");
        fs::write(&file, format!("setup = '''{setup}'''\n{rest}\n")).unwrap();
        let made = registry::make(&format!("file:{}", file.display()), Some(1.0), &Default::default(), 7);
        let benchmark = made.unwrap_or_else(|error| panic!("{error}")).0;
        let options = EmbeddedOptions::parse(["dop=2"]).unwrap();
        let embedded = Embedded::new(options).unwrap();
        load(&*benchmark, &embedded);
        let session = embedded.session(benchmark.schema()).unwrap();
        let (mut servers, mut owners) = (Vec::new(), Vec::new());
        let folders: Vec<_> =
            VERSIONS.into_iter().filter_map(|major| Some((major.to_string(), postgres_version(major)?))).collect();
        // At least the server that every test of servers needs.
        let default = ServerSettings::for_this_machine();
        let mut all = if folders.is_empty() { vec![("as installed".to_owned(), default.clone())] } else { vec![] };
        for (major, bin) in folders {
            all.push((major, default.clone().with(&[("bin_folder", bin.to_str().unwrap())]).unwrap()));
        }
        for (major, settings) in all {
            let server = PrivateServer::start(settings).unwrap_or_else(|error| panic!("{error}"));
            let database = PostgresDatabase::private(server);
            load(&*benchmark, &database);
            servers.push((format!("PostgreSQL {major}"), database.session(benchmark.schema()).unwrap()));
            owners.push(database);
        }
        Databases { embedded: session, servers, _owners: (embedded, owners) }
    }

    /// Compares the answers to a query.
    pub fn compare(&mut self, sql: &str) -> Verdict {
        let ours = self.embedded.query(sql).map(|answer| rows(&answer.batches)).map_err(|error| error.to_string());
        if let Err(error) = &ours
            && is_refusal(error)
        {
            return Verdict::Refused(reason(error));
        }
        let mut verdict = Verdict::Same;
        for (name, server) in &mut self.servers {
            let theirs = server.query(sql).map(|answer| rows(&answer.batches)).map_err(|error| error.to_string());
            match (&ours, theirs) {
                (Ok(ours), Ok(theirs)) if *ours == theirs => {}
                (Err(ours), Err(theirs)) if is_of_value(ours) && is_of_value(&theirs) => verdict = Verdict::BothFail,
                // A mistake in the query, which PostgreSQL finds, too.
                (Err(_), Err(theirs)) if theirs.contains("ERROR 42") => verdict = Verdict::BothFail,
                (Err(ours), Ok(_)) if is_of_value(ours) => verdict = Verdict::FailsHere(ours.clone()),
                (ours, theirs) => {
                    return Verdict::Differs(format!("embedded: {ours:?}\n{name}: {theirs:?}"));
                }
            }
        }
        verdict
    }
}

pub fn load(benchmark: &dyn Benchmark, database: &dyn Database) {
    let progress = LoadProgress { report: &|_, _, _| {}, stop: &AtomicBool::new(false) };
    benchmark.load(database, &progress).unwrap_or_else(|error| panic!("{error}"));
}

/// Whether an error says that the engine does not compute something, before or while it does.
fn is_refusal(error: &str) -> bool {
    // DataFusion's names of columns leave casts out: `sum(i)` beside `sum(i::bigint)` is an error.
    let names = "duplicate unqualified field name";
    let parts = ["the embedded engine does not run", "more than 38 digits", "Overflow happened on", names];
    parts.iter().any(|part| error.contains(part))
}

/// The part of a refusal that many have in common.
fn reason(error: &str) -> String {
    error.split("does not run").nth(1).unwrap_or(error).chars().take(60).collect()
}

/// Whether an error is about a value, not about the query.
pub fn is_of_value(error: &str) -> bool {
    ["division by zero", "22012", "out of range", "22003", "22008", "22011"].iter().any(|part| error.contains(part))
}

/// The rows of an answer as text, in the order in which they came.
pub fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| {
                match column.logical_nulls().is_some_and(|nulls| nulls.is_null(row)) {
                    true => "NULL".to_owned(),
                    false => plain(&array_value_to_string(column, row).unwrap()),
                }
            });
            rows.push(cells.collect::<Vec<_>>().join(" | "));
        }
    }
    rows
}

/// Numbers without insignificant zeros: a column of numerics has one number of digits in the engine.
pub fn plain(cell: &str) -> String {
    let digits = cell.strip_prefix('-').unwrap_or(cell);
    let is_number = digits.contains('.') && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match is_number {
        true => match cell.trim_end_matches('0').trim_end_matches('.') {
            "-0" => "0".to_owned(),
            number => number.to_owned(),
        },
        false => cell.to_owned(),
    }
}
