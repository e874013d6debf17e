//! `plimsoll rehearse` as a user runs it, from the folder of a capture to the result.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/program.rs"]
mod program;

use std::path::Path;
use std::time::{Instant, SystemTime};

use plimsoll_capture::description::{Description, Values};
use plimsoll_capture::event::{Answer, Event, Opened, Unit};
use plimsoll_capture::recorder::{Options, Recorder};
use plimsoll_capture::redact::Key;
use plimsoll_capture::storage::Folder;
use plimsoll_capture::tap::Sink;
use plimsoll_capture::writer::Limits;
use program::{assert_ended, items, json, printed, run, said};

const SETUP: &str =
    "create table items (id int primary key, name text); insert into items values (1, 'bolt'), (2, 'nut');";

/// Writes a capture of one session that sends these texts, 20 ms apart; each was answered by a row within 1 ms.
fn capture(place: &Path, texts: &[&str]) {
    let folder = Box::new(Folder::create(place).unwrap());
    let options = Options { limits: Limits::default(), key: Key::new(&[7; 32]) };
    let description = Description::new(SystemTime::now(), Values::Kept);
    let recorder = Recorder::start(folder, description, options, Instant::now()).unwrap();
    let (user, database) = ("ann".to_owned(), "shop".to_owned());
    let opened = Opened { session: 1, at_us: 0, user, database, parameters: Vec::new() };
    recorder.record(Event::Opened(opened), Default::default());
    for (at_us, text) in (0..).step_by(20_000).zip(texts) {
        let length = u32::try_from(text.len() + 5).unwrap().to_be_bytes();
        let request = [b"Q".as_slice(), &length, text.as_bytes(), b"\0"].concat();
        let answer = Answer { state: b'I', tags: vec!["SELECT 1".to_owned()], rows: 1, ..Answer::default() };
        let unit = Unit { session: 1, at_us, took_us: 1_000, request, answer };
        recorder.record(Event::Unit(unit), Default::default());
    }
    assert!(recorder.finish());
}

#[test]
fn a_capture_is_replayed_on_a_private_server() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("setup.sql"), SETUP).unwrap();
    let texts = ["select name from items where id = 1", "select name from items where id = 2", "listen jobs"];
    capture(&folder.path().join("traffic"), &texts);
    let command = ["rehearse", "capture:traffic", "--target", "postgres:?fsync=off", "--setup", "setup.sql"];
    let output = run(&command, folder.path());
    assert_ended(&output, 0);
    assert!(said(&output).contains("all 1 statements can run"), "{}", said(&output));
    assert!(printed(&output).contains("1 unit not sent: LISTEN"), "{}", printed(&output));

    let result = json(&run(&[&command[..], &["--json", "--speed", "max", "--sessions", "x2"]].concat(), folder.path()));
    let server = &items(&result["servers"])[0];
    assert_eq!(
        (server["sent"].as_u64(), server["failed"].as_u64(), result["copies"].as_u64()),
        (Some(4), Some(0), Some(2))
    );
    assert_eq!(server["skipped"]["notification"], 2);
    assert!(server["lag"]["p95_us"].is_null() && items(&result["invalid"]).is_empty(), "{result}");

    // Without its table, nothing of the capture can run.
    std::fs::write(folder.path().join("empty.sql"), "select 1;").unwrap();
    let lacking = [&command[..5], &["empty.sql"]].concat();
    let output = run(&lacking, folder.path());
    assert_ended(&output, 1);
    assert!(said(&output).contains("relation \"items\" does not exist"), "{}", said(&output));
    assert!(printed(&output).contains("not valid:"), "{}", printed(&output));
}

#[test]
fn bad_input_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    capture(&folder.path().join("traffic"), &["delete from items"]);
    capture(&folder.path().join("nothing"), &[]);
    let check = |arguments: &[&str], code: i32, expect: &str| {
        let output = run(&[&["rehearse"], arguments].concat(), folder.path());
        assert_ended(&output, code);
        assert!(said(&output).contains(expect), "{arguments:?}: {}", said(&output));
    };
    let server = "postgres://ann@/shop?host=/nowhere";
    check(&["capture:none", "--target", server], 2, "none");
    check(&["capture:nothing", "--target", server], 2, "no units to replay");
    check(&["capture:traffic", "--target", server], 2, "--writes");
    check(&["capture:traffic", "--target", "postgres:"], 2, "--setup");
    check(&["capture:traffic", "--target", server, "--speed", "0"], 2, "0.01 to 1000");
    check(&["capture:traffic", "--target", server, "--writes"], 3, "cannot connect");
}

#[test]
fn a_capture_is_a_workload() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("setup.sql"), SETUP).unwrap();
    let texts = ["select name from items where id = 1", "select count(*) from items", "listen jobs"];
    capture(&folder.path().join("traffic"), &texts);
    let workload = "capture:traffic?setup=setup.sql";
    let target = ["--target", "postgres:?fsync=off"];
    let bench = [&["bench", workload][..], &target, &["--seconds", "0.5", "--warmup", "0"]].concat();
    let document = json(&run(&[&bench[..], &["--check", "--json"]].concat(), folder.path()));
    let recorded = &document["points"][0]["workloads"][0];
    assert_eq!((&recorded["name"], &recorded["clients"]), (&"traffic".into(), &1.into()));
    assert!(recorded["completed"].as_u64().is_some_and(|completed| (5..60).contains(&completed)), "{recorded}");
    assert!(recorded["transactions"]["select_items"].is_object(), "{recorded}");
    assert_eq!(document["experiment"]["settings"]["traffic.recorded"], true);
    assert!(items(&document["checks"]).iter().all(|line| line["holds"] == true), "{}", document["checks"]);
    let warned = document["warnings"].to_string();
    assert!(warned.contains("LISTEN") && warned.contains("began again"), "{warned}");

    // With a number of clients there are no pauses.
    let document = json(&run(&[&bench[..], &["--clients", "2", "--json"]].concat(), folder.path()));
    let drawn = &document["points"][0]["workloads"][0];
    assert!(drawn["completed"].as_u64().is_some_and(|completed| completed > 100), "{drawn}");
    assert!(document["experiment"]["settings"]["traffic.recorded"].is_null());

    let output = run(&[&["check", workload][..], &target].concat(), folder.path());
    assert_ended(&output, 0);
    assert!(printed(&output).contains("select_items (1 unit"), "{}", printed(&output));

    let experiment = "name = \"recorded\"\n[target]\nurl = \"postgres:?fsync=off\"\n[[workload]]\nkind = \
                      \"capture:traffic?setup=setup.sql\"\n[run]\nwarmup = \"0s\"\nmeasure = \"300ms\"\nrepeats = 1\n";
    std::fs::write(folder.path().join("recorded.toml"), experiment).unwrap();
    let document = json(&run(&["run", "recorded.toml", "--out", "out", "--json"], folder.path()));
    assert_eq!(document["points"][0]["workloads"][0]["clients"], 1);
}

#[test]
fn a_capture_that_cannot_be_a_workload_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("setup.sql"), SETUP).unwrap();
    capture(&folder.path().join("traffic"), &["select 1 from missing"]);
    capture(&folder.path().join("nothing"), &[]);
    let check = |workload: &str, target: &str, code: i32, expect: &str| {
        let output = run(&["bench", workload, "--target", target, "--seconds", "0.5"], folder.path());
        assert_ended(&output, code);
        assert!(said(&output).contains(expect), "{workload}: {}", said(&output));
    };
    check("capture:none", "postgres:", 2, "none is no capture");
    check("capture:nothing", "postgres:", 2, "no units to replay");
    check("capture:traffic?write", "postgres:", 2, "did you mean `writes`?");
    check("capture:traffic", "embedded:", 3, "--target postgres:");
    check("capture:traffic", "postgres:?fsync=off", 3, "setup=FILE.sql");
    check("capture:traffic?setup=setup.sql", "postgres:?fsync=off", 3, "relation \"missing\" does not exist");
}
