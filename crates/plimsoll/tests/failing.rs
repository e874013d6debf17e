//! Workloads whose requests fail, as a user runs them: on the embedded engine, on a private PostgreSQL server, and on a server
//! that is restarted or refuses connections. Each command tells how many failed and why, and its exit status says so.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/program.rs"]
mod program;

use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};
use plimsoll_testing::until;
use serde_json::Value;
use tempfile::TempDir;

use program::{RunningProgram, assert_ended, items, json, plimsoll, printed, run, said};

/// Three rows, of which `failing` have a divisor of 0.
fn dividing(failing: usize) -> String {
    format!(
        r#"name   = "dividing"
writes = "nothing"
setup  = """
CREATE TABLE number (id integer PRIMARY KEY, v integer NOT NULL);
INSERT INTO number SELECT id, CASE WHEN id <= {failing} THEN 0 ELSE 1 END FROM generate_series(1, 3) AS id;
"""
[[transaction]]
name = "divide"
parameters.id = {{ uniform = [1, 3] }}
statements = ["SELECT 10 / v FROM number WHERE id = :id"]
"#
    )
}

/// Two rows that transactions update in both orders.
const DEADLOCKS: &str = r#"name   = "crossing"
writes = "in place"
setup  = """
CREATE TABLE account (id integer PRIMARY KEY, money integer NOT NULL);
INSERT INTO account SELECT id, 0 FROM generate_series(1, 2) AS id;
"""
[[transaction]]
name = "pay"
parameters.first = { uniform = [1, 2] }
statements = [
    "UPDATE account SET money = money - 1 WHERE id = :first",
    "UPDATE account SET money = money + 1 WHERE id = 3 - :first",
]
[[check]]
what   = "no money is lost"
sql    = "SELECT sum(money) FROM account"
expect = 0
"#;

/// Statements that run into a time limit.
const TIMEOUTS: &str = r#"name  = "slow"
setup = "CREATE TABLE number (id integer PRIMARY KEY)"
[[transaction]]
name = "sleep"
statements = ["SET LOCAL statement_timeout = 2", "SELECT pg_sleep(1)"]
"#;

/// Rows whose keys come from a sequence with small blocks.
const SEQUENCE: &str = r#"name  = "sequence"
setup = "CREATE TABLE entry (id bigint PRIMARY KEY, client integer NOT NULL)"
[[transaction]]
name = "enter"
parameters.id = { sequence = 1, block = 10, query = "SELECT max(id) FROM entry" }
statements = ["INSERT INTO entry VALUES (:id, :client_id)"]
[[check]]
what   = "each client has entered more than its first block"
sql    = "SELECT client FROM entry GROUP BY client HAVING count(*) <= 10"
expect = "no rows"
"#;

fn folder(text: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("w.toml"), text).unwrap();
    folder
}

/// `bench` of the workload in a folder, with further arguments.
fn bench(folder: &Path, target: &str, arguments: &str) -> Output {
    let seconds = if arguments.contains("--seconds") { "" } else { "--seconds 1" };
    let line = format!("bench file:w.toml --target {target} {seconds} {arguments}");
    run(&line.split_whitespace().collect::<Vec<_>>(), folder)
}

/// The text on one line, with common spaces.
fn words(text: &str) -> String {
    text.replace('\u{202f}', "").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The share of the requests that failed, in the words of the terminal.
fn share_told(text: &str) -> f64 {
    let (_, rest) = text.split_once("requests failed (").unwrap_or_else(|| panic!("no share in {text}"));
    rest.split_once(" %").unwrap().0.parse::<f64>().unwrap() / 100.0
}

/// Story: a third of the requests divided by zero. The terminal had 6.02 thousand per second and status 0, and no file had
/// the words "division by zero".
#[test]
fn a_third_that_fails_is_told_and_the_run_is_invalid() {
    for target in ["postgres:", "embedded:"] {
        let folder = folder(&dividing(1));
        let output = bench(folder.path(), target, "--clients 2");
        assert_ended(&output, 1);
        let text = words(&printed(&output));
        assert!((share_told(&text) - 1.0 / 3.0).abs() < 0.05, "{target}: {text}");
        assert!(text.contains("division by zero") && text.contains("Invalid runs"), "{target}: {text}");
        assert!(target != "postgres:" || text.contains("22012 division by zero"), "{text}");
        let first = text.find("Failed requests").unwrap();
        assert!(first < text.find("throughput").unwrap(), "it stands first: {text}");

        let output = bench(folder.path(), target, "--clients 2 --json");
        assert_ended(&output, 1);
        let results: Value = serde_json::from_slice(&output.stdout).unwrap();
        let failed = &results["points"][0]["workloads"][0]["failed"];
        assert!(failed[0]["message"].as_str().unwrap().contains("division by zero"), "{failed}");
        assert_eq!(failed[0]["count"], results["points"][0]["workloads"][0]["aborted"]["error"]);
    }
}

#[test]
fn a_workload_of_which_everything_fails_is_told_at_once() {
    for target in ["postgres:", "embedded:"] {
        let output = bench(folder(&dividing(3)).path(), target, "--clients 2 --seconds 60");
        assert_ended(&output, 1);
        let text = words(&printed(&output));
        assert!(text.contains("the first 100 requests of every client failed, the last one with:"), "{text}");
        assert!(text.contains("division by zero"), "{text}");
    }
}

#[test]
fn a_workload_without_failures_says_nothing_of_them() {
    for target in ["postgres:", "embedded:"] {
        let output = bench(folder(&dividing(0)).path(), target, "--clients 2");
        assert_ended(&output, 0);
        let text = printed(&output);
        assert!(!text.contains("ailed") && !text.contains("nvalid") && !text.contains("run again"), "{text}");
    }
}

/// Story: 37,366 deadlock victims beside 174,738 completed transactions were not printed.
#[test]
fn deadlock_victims_that_are_run_again_are_told() {
    for target in ["postgres: --option deadlock_timeout=10ms", "embedded:"] {
        let output = bench(folder(DEADLOCKS).path(), target, "--clients 4 --seconds 2 --check");
        assert_ended(&output, 0);
        let text = words(&printed(&output));
        assert!(text.contains("Attempts run again crossing: "), "{target}: {text}");
        assert!(text.contains(" deadlock victim") && !text.contains("Failed requests"), "{target}: {text}");
    }
    let not_again = DEADLOCKS.replace("name = \"pay\"", "name = \"pay\"\nretry = false");
    let output =
        bench(folder(&not_again).path(), "postgres: --option deadlock_timeout=10ms", "--clients 4 --seconds 2");
    let text = words(&printed(&output));
    assert!(text.contains("requests failed") && text.contains("40P01"), "{text}");
}

#[test]
fn timeouts_are_told_with_their_code() {
    let output = bench(folder(TIMEOUTS).path(), "postgres:", "--clients 2");
    assert_ended(&output, 1);
    assert!(words(&printed(&output)).contains("57014: canceling statement due to statement timeout"), "{output:?}");
}

/// Story: after its million numbers a client's transactions failed, in silence. A sequence after an empty table gave NULL.
#[test]
fn a_sequence_goes_on_after_its_block() {
    for target in ["postgres:", "embedded:"] {
        let output = bench(folder(SEQUENCE).path(), target, "--clients 3 --check --json");
        let results = json(&output);
        let workload = &results["points"][0]["workloads"][0];
        assert!(workload["completed"].as_u64().unwrap() > 100, "more than ten blocks: {workload}");
        assert_eq!(workload["aborted"]["error"], 0, "{target}: {workload}");
        assert!(items(&results["checks"]).iter().all(|check| check["holds"] == true), "{}", results["checks"]);
    }
}

/// An experiment over scales, of which one has only requests that fail.
fn swept(target: &str) -> String {
    format!(
        "name = \"swept\"\n[target]\nurl = \"{target}\"\n[[workload]]\nname = \"w\"\nkind = \"file:w.toml\"\n\
         [sweep]\n\"w.scale\" = [1, 2]\n[run]\nwarmup = \"0s\"\nmeasure = \"300ms\"\nrepeats = 2\n"
    )
}

/// Story: an experiment stopped at the setting at which everything failed, and `--resume` stopped there again.
#[test]
fn an_experiment_goes_on_after_a_setting_of_which_nothing_works() {
    for target in ["postgres:", "embedded:"] {
        let folder = folder(&dividing(0).replace("10 / v", "10 / (:scale - 2 * v)"));
        fs::write(folder.path().join("experiment.toml"), swept(target)).unwrap();
        let output = run(&["run", "experiment.toml", "--out", "out"], folder.path());
        assert_ended(&output, 0);
        let text = words(&printed(&output));
        assert!(
            text.contains("Invalid runs w.scale=2, alone:w, repeat 1") && text.contains("division by zero"),
            "{text}"
        );
        let read = |place: &str| -> Value {
            serde_json::from_slice(&fs::read(folder.path().join(place).join("results.json")).unwrap()).unwrap()
        };
        for point in items(&read("out")["points"]) {
            assert_eq!(point["valid"], point["setting"]["w.scale"] == 1, "{point}");
        }
        let report = fs::read_to_string(folder.path().join("out/report.html")).unwrap();
        assert!(report.contains("What failed") && report.contains("division by zero"));
        assert_ended(&run(&["run", "--resume", "out"], folder.path()), 0);

        // The same where no setting works.
        fs::write(folder.path().join("experiment.toml"), swept(target).replace("[1, 2]", "[2]")).unwrap();
        let output = run(&["run", "experiment.toml", "--out", "none"], folder.path());
        assert_ended(&output, 1);
        assert!(printed(&output).contains("Invalid runs"), "{}", printed(&output));
        assert_ended(&run(&["report", "none"], folder.path()), 0);
        for command in
            [&["predict", "none", "--vary", "w.clients=1..2"][..], &["advise", "none", "--slo", "w.p50 < 1s"]]
        {
            let output = run(command, folder.path());
            assert_ended(&output, 2);
            let said = words(&said(&output));
            assert!(said.contains("every run of `w` alone at") && said.contains("division by zero"), "{said}");
        }
    }
}

/// Predictions and advice from runs of which a few requests failed are made, and tell how many and why.
#[test]
fn predictions_from_runs_with_failures_say_so() {
    for target in ["postgres:", "embedded:"] {
        // Of a hundred rows one has a divisor of 0.
        let folder = folder(
            &dividing(1).replace("generate_series(1, 3)", "generate_series(1, 100)").replace("[1, 3]", "[1, 100]"),
        );
        let experiment = swept(target).replace("[sweep]\n\"w.scale\" = [1, 2]\n", "");
        fs::write(folder.path().join("experiment.toml"), experiment).unwrap();
        assert_ended(&run(&["run", "experiment.toml", "--out", "out"], folder.path()), 0);
        for command in [&["predict", "out", "--vary", "w.clients=1..2"][..], &["advise", "out", "--slo", "w.p50 < 1s"]]
        {
            let output = run(command, folder.path());
            let text = words(&printed(&output));
            assert!(
                text.contains("requests failed (") && text.contains("division by zero"),
                "{text} {}",
                said(&output)
            );
            // A busy machine may leave nothing to predict.
            assert!(matches!(output.status.code(), Some(0 | 1)), "{text}");
        }
    }
}

/// Story: of two runs one failed half of its requests, and `compare` saw no difference.
#[test]
fn a_difference_in_failures_is_a_difference() {
    let folder = folder(&dividing(0));
    let experiment = swept("embedded:").replace("[sweep]\n\"w.scale\" = [1, 2]\n", "");
    fs::write(folder.path().join("experiment.toml"), &experiment).unwrap();
    assert_ended(&run(&["run", "experiment.toml", "--out", "a"], folder.path()), 0);
    fs::write(folder.path().join("w.toml"), dividing(2)).unwrap();
    assert_ended(&run(&["run", "experiment.toml", "--out", "b"], folder.path()), 1);
    let output = run(&["compare", "a", "b", "--anyway"], folder.path());
    assert_ended(&output, 0);
    let text = words(&printed(&output));
    assert!(text.starts_with("failures differ: w in alone:w: requests that failed: 0 of "), "{text}");
    assert!(text.contains("division by zero") && text.contains("no valid run in the other run"), "{text}");
}

/// A server of the test's own.
fn server(options: &[(&str, &str)]) -> (PrivateServer, String) {
    let small = [("shared_buffers", "64MB"), ("fsync", "off"), ("max_wal_size", "256MB")];
    let settings = ServerSettings::for_this_machine().with(&[&small, options].concat()).unwrap();
    let server = PrivateServer::start(settings).unwrap();
    let (user, folder, port) = (server.user(), server.socket_folder().display(), server.port());
    let url = format!("postgres://{user}@/{}?host={folder}&port={port}", server.database());
    (server, url)
}

fn query(url: &str, sql: &str) -> Option<String> {
    Connection::open(&ServerUrl::parse(url).unwrap()).unwrap().text(sql).unwrap()
}

/// Runs an experiment of four runs, does something to its server in the middle of one, and returns the results.
fn disturbed(url: &str, disturb: impl FnOnce()) -> Value {
    let folder = folder(&dividing(0));
    let experiment = swept(url).replace("[sweep]\n\"w.scale\" = [1, 2]\n", "");
    let experiment = experiment.replace("300ms", "2s").replace("repeats = 2", "repeats = 4");
    fs::write(folder.path().join("experiment.toml"), experiment).unwrap();
    let mut running = RunningProgram::start(&mut plimsoll(&["run", "experiment.toml", "--out", "out"], folder.path()));
    let journal = folder.path().join("out/journal.jsonl");
    let runs = || fs::read_to_string(&journal).map_or(0, |text| text.lines().count().saturating_sub(1));
    until("the first run", || runs() == 1);
    // In the window of the second.
    std::thread::sleep(Duration::from_secs(1));
    disturb();
    let code = running.end();
    assert_eq!(code, Some(0), "{}", running.said);
    serde_json::from_slice(&fs::read(folder.path().join("out/results.json")).unwrap()).unwrap()
}

/// The second run is lost with a reason, and no other.
#[track_caller]
fn assert_second_is_lost(results: &Value) {
    let points = items(&results["points"]);
    let valid: Vec<bool> = points.iter().map(|point| point["valid"] == true).collect();
    assert_eq!(valid, [true, false, true, true], "{}", points[1]["why_invalid"]);
    assert!(points[1]["why_invalid"].as_str().unwrap().contains("the connection was lost"), "{}", points[1]);
}

/// Story: a server crashed and came back a moment later. There was one attempt to connect, and the experiment ended with
/// status 3, three times out of three.
#[test]
fn an_experiment_survives_a_restart_of_its_server() {
    let (mut server, url) = server(&[]);
    for _ in 0..3 {
        let results = disturbed(&url, || {
            let kill = format!("kill -QUIT {}", server.postmaster());
            assert!(std::process::Command::new("sh").args(["-c", &kill]).status().unwrap().success());
            until("the server to end", || !server.is_alive());
            // It is gone for longer than one attempt to connect takes.
            std::thread::sleep(Duration::from_secs(1));
            server.restart().unwrap();
        });
        assert_second_is_lost(&results);
    }
}

#[test]
fn an_experiment_survives_the_end_of_one_of_its_sessions() {
    let (_server, url) = server(&[]);
    let results = disturbed(&url, || {
        let end = "SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity \
                   WHERE query LIKE '%FROM number%' AND pid <> pg_backend_pid() LIMIT 1) AS one";
        until("a session to end", || query(&url, end).as_deref() == Some("1"));
    });
    assert_second_is_lost(&results);
}

/// More clients than the server takes are refused before any of them starts. A limit of the role shows only when clients
/// connect: then the run is invalid, and says why.
#[test]
fn refused_connections_are_told() {
    let (server, url) = server(&[("max_connections", "30")]);
    let grant = format!("GRANT CREATE ON DATABASE \"{}\" TO few", server.database());
    for sql in ["CREATE ROLE few LOGIN CONNECTION LIMIT 8", &grant] {
        query(&url, sql);
    }
    let folder = folder(&dividing(0));
    let of_few = url.replace(&format!("//{}@", server.user()), "//few@");
    let output = bench(folder.path(), &of_few, "--clients 20");
    assert_ended(&output, 1);
    let text = words(&printed(&output));
    assert!(text.contains("could not connect") && text.contains("53300"), "{text} {}", said(&output));

    let output = bench(folder.path(), &url, "--clients 40");
    assert_ended(&output, 2);
    assert!(words(&said(&output)).contains("use fewer clients, or raise its max_connections"), "{}", said(&output));
}

/// Story: after four million payments to a warehouse its total did not fit into the column, and all further payments failed.
#[test]
fn payments_of_tpcc_do_not_overflow() {
    let (_server, url) = server(&[]);
    let here = tempfile::tempdir().unwrap();
    assert_ended(&run(&["load", "tpcc:1", "--target", &url], here.path()), 0);
    for total in ["warehouse SET w_ytd", "district SET d_ytd"] {
        query(&url, &format!("UPDATE plimsoll_tpcc.{total} = 9999999000"));
    }
    let results = json(&run(&["bench", "tpcc:1", "--target", &url, "--seconds", "1", "--json"], here.path()));
    let workload = &results["points"][0]["workloads"][0];
    assert_eq!((&workload["aborted"]["error"], results["points"][0]["valid"] == true), (&Value::from(0), true));
    let total = query(&url, "SELECT w_ytd > 9999999999 FROM plimsoll_tpcc.warehouse");
    assert_eq!(total.as_deref(), Some("t"), "it has grown beyond ten digits");
}
