//! `plimsoll-governor` as a user runs it. What its commands do is tested with those of `plimsoll`, which are the same.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Instant, SystemTime};

use plimsoll_capture::description::{Description, Values};
use plimsoll_capture::event::{Answer, Event, Unit};
use plimsoll_capture::recorder::{Options, Recorder};
use plimsoll_capture::redact::Key;
use plimsoll_capture::storage::Folder;
use plimsoll_capture::tap::Sink;
use plimsoll_capture::writer::Limits;

fn run(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_plimsoll-governor")).args(arguments).current_dir(folder).output().unwrap()
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn it_has_the_commands_for_a_live_server_and_describes_itself() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(
        printed(&run(&["man", "pages"], folder.path())),
        "pages: read them with `man -l pages/plimsoll-governor.1`\n"
    );
    let pages = std::fs::read_dir(folder.path().join("pages")).unwrap();
    let mut pages: Vec<String> = pages.map(|page| page.unwrap().file_name().into_string().unwrap()).collect();
    pages.sort_unstable();
    let page = |command: &str| format!("plimsoll-governor{command}.1");
    assert_eq!(pages, ["-capture", "-completions", "-govern", "-import", "-man", "-observe", "-top", ""].map(page));
    assert!(printed(&run(&["completions", "bash"], folder.path())).contains("plimsoll-governor"));
}

#[test]
fn its_exit_codes_are_those_of_plimsoll() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, code, expect) in [
        (&["study"][..], 2, "unrecognized subcommand"),
        (&["govern", "--config", "none.toml"], 2, "none.toml"),
        (&["capture", "none"], 2, "--listen"),
        (&["capture", "none", "--show"], 2, "none is no capture: it has no capture.toml"),
        (&["capture", "none", "--listen", "127.0.0.1:0", "--server", "mysql://db"], 2, "postgres://"),
        (
            &["capture", "none", "--listen", "127.0.0.1:0", "--server", "postgres://db", "--size-max", "5B"],
            2,
            "less than",
        ),
        // Nothing of it remains.
        (&["capture", "none", "--listen", "192.0.2.1:1", "--server", "postgres://db"], 3, "cannot listen at"),
        (&["observe", "mysql://db/shop"], 2, "postgres://"),
        (&["top", "http://127.0.0.1:1", "--once"], 3, "no governor answers"),
        (&["import", "none.ini", "-o", "plimsoll.toml"], 2, "none.ini: cannot read it"),
    ] {
        let output = run(arguments, folder.path());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {told}");
        assert!(told.contains(expect), "{told}");
    }
    assert!(folder.path().read_dir().unwrap().next().is_none());
}

/// A capture whose end is missing, as after a crash, is used up to there; one of a newer version is refused.
#[test]
fn a_capture_is_shown_as_far_as_it_can_be_read() {
    let around = tempfile::tempdir().unwrap();
    let folder = around.path().join("friday");
    let description = Description::new(SystemTime::now(), Values::Kept);
    let options = Options { limits: Limits::default(), key: Key::new(&[7; 32]) };
    let storage = Box::new(Folder::create(&folder).unwrap());
    let recorder = Recorder::start(storage, description, options, Instant::now()).unwrap();
    let request = b"Q\0\0\0\x0dselect 1\0".to_vec();
    let answer = Answer { state: b'I', tags: vec!["SELECT 1".to_owned()], rows: 1, ..Answer::default() };
    let unit = Unit { session: 1, at_us: 5, took_us: 7, request, answer };
    recorder.record(Event::Unit(unit), Default::default());
    assert!(recorder.finish());
    let shown = printed(&run(&["capture", "friday", "--show"], around.path()));
    assert!(shown.contains("units:      1, 1 rows\nstatements: SELECT 1\n"), "{shown}");
    let json = printed(&run(&["capture", "friday", "--show", "--json"], around.path()));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["units"], &json["statements"]["SELECT"], &json["values"]),
        (&1.into(), &1.into(), &"kept".into())
    );
    let events = printed(&run(&["capture", "friday", "--events"], around.path()));
    assert!(events.contains(r#""messages":[{"message":"Query","sql":"select 1"}]"#), "{events}");

    let segment = folder.join("000001.plimsoll-capture");
    let whole = std::fs::read(&segment).unwrap();
    std::fs::write(&segment, &whole[..whole.len() - 1]).unwrap();
    let shown = printed(&run(&["capture", "friday", "--show"], around.path()));
    assert!(shown.contains("was cut at byte 20: the events"), "{shown}");
    assert!(shown.contains("it is empty"), "{shown}");
    std::fs::write(folder.join("capture.toml"), "format = 2\n").unwrap();
    let refused = run(&["capture", "friday", "--show"], around.path());
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2));
    assert!(told.contains("has version 2 of the format, and this program reads version 1"), "{told}");
}

/// The first command of those who come from pgbouncer.
#[test]
fn settings_of_pgbouncer_are_imported() {
    let folder = tempfile::tempdir().unwrap();
    let ini = "[databases]\n* = host=db.example\n[pgbouncer]\nlisten_addr = 127.0.0.1\nquery_timeout = 5\n";
    std::fs::write(folder.path().join("pgbouncer.ini"), ini).unwrap();
    let report = printed(&run(&["import", "pgbouncer.ini", "-o", "plimsoll.toml"], folder.path()));
    assert!(report.contains("No counterpart:\n  query_timeout (line 5): the server ends long statements"), "{report}");
    assert!(report.ends_with("`plimsoll-governor govern --check --connect --config plimsoll.toml`\n"), "{report}");
    let check = printed(&run(&["govern", "--check", "--config", "plimsoll.toml"], folder.path()));
    assert!(check.contains("db.example:5432"), "{check}");
    let again = run(&["import", "pgbouncer.ini", "-o", "plimsoll.toml"], folder.path());
    let told = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(again.status.code() == Some(2) && told.contains("name a file that does not exist yet"), "{told}");
    // To a pipe: the settings alone on standard output.
    let piped = run(&["import", "pgbouncer.ini"], folder.path());
    let settings = std::fs::read_to_string(folder.path().join("plimsoll.toml")).unwrap();
    assert_eq!(String::from_utf8_lossy(&piped.stdout), settings);
    let json = printed(&run(&["import", "pgbouncer.ini", "--json"], folder.path()));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["settings"], &json["notes"][0]["kind"]), (&settings.into(), &"missing".into()));
}
