//! PostgreSQL's own isolation tests: sessions that wait for each other, deadlock and fail to serialize do the same through a
//! governor.
//!
//! Each test is a script of steps in several sessions. `isolationtester`, which comes with PostgreSQL's client
//! programs, runs the steps in many orders and prints the results and the waiting steps. It asks the server which
//! backend blocks which, so it also shows that a session's backend is the one reported to its client. The scripts come
//! with the regression tests ([`Suite`]).
//!
//! Three runs each have a server: directly, through a governor as a user of class low, and as one of class high. All sessions
//! of a run have one class, so that nothing is preempted. A test that passes directly must pass in both classes.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::governed::Governed;
use super::installcheck::create_database;
use super::installcheck::source::Suite;
use super::server::{PASSWORD, Server};

/// Tests of each kind that a proxy could disturb; `PLIMSOLL_LONG` runs all.
const CHOSEN: &[(&str, &[&str])] = &[
    (
        "serializable",
        &["read-only-anomaly-2", "read-write-unique", "simple-write-skew", "receipt-report", "ri-trigger"],
    ),
    ("deadlocks", &["deadlock-simple", "deadlock-hard", "deadlock-soft", "deadlock-parallel"]),
    ("row locks", &["fk-contention", "fk-deadlock", "tuplelock-conflict", "tuplelock-update", "eval-plan-qual"]),
    ("multixacts", &["multixact-no-deadlock", "multixact-no-forget", "lock-committed-update"]),
    ("savepoints", &["delete-abort-savept", "aborted-keyrevoke"]),
    ("locks that do not wait", &["nowait", "skip-locked", "timeouts"]),
    ("commands that commit midway", &["detach-partition-concurrently-1", "drop-index-concurrently-1", "multiple-cic"]),
    ("notifications", &["async-notify"]),
    ("prepared transactions", &["prepared-transactions-cic"]),
];

/// The time limit for a test that waits for steps, before it counts as hanging.
const TEST_MAX: Duration = Duration::from_secs(300);

/// How often a test may be tried. Their order of output depends on which of two sessions the server wakes first, and the
/// expected outputs do not have every order that a busy machine brings about.
const TRIES_MAX: usize = 3;

const DATABASE: &str = "isolation";

/// A run of the tests: a server and its address.
struct Run {
    server: Server,
    user: &'static str,
    governed: Option<Governed>,
}

impl Run {
    fn start(user: &'static str, is_governed: bool) -> Run {
        let mut server = Server::start();
        server.restart_with("max_prepared_transactions", "10");
        create_database(&server, DATABASE);
        // Some tests create roles.
        server.connection().run(&format!("ALTER ROLE {user} SUPERUSER")).unwrap();
        // Without an mpl: a test blocks more sessions on purpose than any limit would admit. And it needs to see the
        // errors.
        let governed = is_governed.then(|| Governed::start_without_retries(&server));
        Run { server, user, governed }
    }

    /// Runs a test, and returns its output.
    fn output(&self, suite: &Suite, test: &str) -> String {
        let own = self.server.own();
        let (host, port) = match &self.governed {
            Some(governed) => (governed.address.ip().to_string(), governed.address.port()),
            None => (own.socket_folder().display().to_string(), own.port()),
        };
        let output = tempfile::NamedTempFile::new().unwrap();
        let file = || fs::File::options().append(true).open(output.path()).unwrap();
        let tester = own.installation().program("../lib/pgxs/src/test/isolation/isolationtester");
        let mut child = Command::new(&tester)
            .arg(format!("host={host} port={port} user={} password={PASSWORD} dbname={DATABASE}", self.user))
            .env_clear()
            .env("PGAPPNAME", format!("isolation/{test}"))
            .env("PGTZ", "PST8PDT")
            .env("PGDATESTYLE", "Postgres, MDY")
            .env("PGOPTIONS", "-c intervalstyle=postgres_verbose")
            .env("PGISOLATIONTIMEOUT", (TEST_MAX / 3).as_secs().to_string())
            .stdin(fs::File::open(suite.isolation.join(format!("specs/{test}.spec"))).unwrap())
            .stdout(file())
            .stderr(Stdio::from(file()))
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}; apt install postgresql-client", tester.display()));
        let began = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if began.elapsed() > TEST_MAX {
                child.kill().unwrap();
                child.wait().unwrap();
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        String::from_utf8_lossy(&fs::read(output.path()).unwrap()).into_owned()
    }

    /// Runs all tests; returns for each whether it passed, and its last output.
    fn outcomes(&self, suite: &Suite, tests: &[String]) -> Vec<Result<(), String>> {
        let try_once = |test: &str| {
            let output = self.output(suite, test);
            if is_expected(&suite.isolation, test, &output) { Ok(()) } else { Err(output) }
        };
        let outcome =
            |test: &String| (1..TRIES_MAX).fold(try_once(test), |outcome, _| outcome.or_else(|_| try_once(test)));
        tests.iter().map(outcome).collect()
    }
}

/// Whether a test may print that: it has one expected output or several, which are compared without spaces.
fn is_expected(folder: &Path, test: &str, output: &str) -> bool {
    let bare = |text: &str| text.lines().map(|line| line.split_whitespace().collect()).collect::<Vec<String>>();
    let output = bare(output);
    let names = [format!("{test}.out")].into_iter().chain((1..10).map(|number| format!("{test}_{number}.out")));
    let expected = names.filter_map(|name| fs::read_to_string(folder.join("expected").join(name)).ok());
    expected.into_iter().any(|expected| bare(&expected) == output)
}

/// The tests that are run, in the order of the suite's schedule.
fn chosen(suite: &Suite) -> Vec<String> {
    let schedule = fs::read_to_string(suite.isolation.join("isolation_schedule")).unwrap();
    let all = schedule.lines().filter_map(|line| line.strip_prefix("test:")).flat_map(str::split_whitespace);
    let is_long = env::var_os("PLIMSOLL_LONG").is_some();
    let is_chosen = |test: &str| is_long || CHOSEN.iter().any(|(_, tests)| tests.contains(&test));
    all.filter(|test| is_chosen(test)).map(str::to_owned).collect()
}

#[test]
fn sessions_wait_and_fail_as_they_do_without_a_governor() {
    let suite = Suite::fetched();
    let tests = chosen(&suite);
    assert!(tests.len() > 20, "the schedule has hardly any of the chosen tests: {tests:?}");
    let governed = ["low", "high"].map(|user| Run::start(user, true));
    let direct = Run::start("low", false);
    let (direct, governed) = thread::scope(|scope| {
        let governed = governed.map(|mut run| {
            let (suite, tests) = (&suite, &tests);
            scope.spawn(move || {
                let outcomes = run.outcomes(suite, tests);
                run.governed.as_mut().expect("it was started").assert_alive();
                (run.user, outcomes)
            })
        });
        (direct.outcomes(&suite, &tests), governed.map(|run| run.join().unwrap()))
    });
    let passed = direct.iter().filter(|outcome| outcome.is_ok()).count();
    println!("{passed} of {} tests of {} pass without a governor", tests.len(), suite.version);
    let failed =
        tests.iter().zip(&direct).find_map(|(test, outcome)| outcome.as_ref().err().map(|output| (test, output)));
    assert!(passed * 10 >= tests.len() * 9, "too many tests fail without a governor, first {failed:?}");
    for (user, governed) in governed {
        for (test, (direct, governed)) in tests.iter().zip(direct.iter().zip(governed)) {
            if let (Ok(()), Err(output)) = (direct, governed) {
                panic!("{test} passes without a governor, and fails as {user} through one:\n{output}");
            }
        }
    }
}
