//! `plimsoll export` as a user runs it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/program.rs"]
mod program;

use std::fs;
use std::path::Path;
use std::process::Command;

use plimsoll_pg::connection::Connection;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};
use plimsoll_testing::{python, until};
use program::{RunningProgram, assert_ended, items, json, names, plimsoll, printed, run, said};

/// The first example of the command's help, at a small scale.
#[test]
fn a_workload_is_exported_checked_and_exported_again() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["export", "out", "--workload", "tpch:0.01"];
    let output = run(&arguments, folder.path());
    assert_ended(&output, 0);
    let shown = printed(&output);
    let row = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(shown.lines().map(row).nth(1).unwrap(), "tpch.lineitem 60 175 rows in 1 file", "{shown}");
    assert!(shown.contains("tpch as loaded is in out after "), "{shown}");
    assert!(shown.contains("8 files,\n8 written ("), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    assert_eq!(names(&folder.path().join("out")), ["data", "manifest.json"]);

    let again = json(&run(&[&arguments[..], &["--json", "--as-of", "0"]].concat(), folder.path()));
    assert_eq!((&again["files"], &again["files_written"]), (&8.into(), &0.into()), "equal data make equal files");
    assert_eq!(again["as_of"]["commit"], 0);
    assert_eq!(items(&again["tables"]).len(), 8);

    let verify = ["export", "out", "--verify"];
    let output = run(&verify, folder.path());
    assert_ended(&output, 0);
    assert_eq!(printed(&output), "all 8 files are as the manifest says, at commit 0\n");
    let region = folder.path().join("out/data/tpch.region");
    fs::remove_file(region.join(&names(&region)[0])).unwrap();
    let output = run(&verify, folder.path());
    assert_ended(&output, 1);
    assert!(printed(&output).contains(" is missing\n1 of 8 files are damaged; export again"), "{}", printed(&output));
}

#[test]
fn a_data_folder_is_exported_with_the_tables_that_it_has() {
    // On a disk, because the log refuses memory.
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let load = ["load", "tpcb:1", "--option", "durability=async", "--option", "data_folder=shop"];
    assert_ended(&run(&load, folder.path()), 0);
    let arguments = ["export", "out", "--option", "data_folder=shop"];
    let document = json(&run(&[&arguments[..], &["--json"]].concat(), folder.path()));
    let rows: Vec<_> = items(&document["tables"]).iter().map(|table| table["rows"].as_u64().unwrap()).collect();
    assert_eq!(rows, [100_000, 1, 0, 10], "{document}");
    let position = document["as_of"]["log_position"].as_u64().unwrap();
    let wanted = |number: u64| run(&[&arguments[..], &["--as-of", &number.to_string()]].concat(), folder.path());
    assert_ended(&wanted(position), 0);
    let output = wanted(position + 1);
    assert_ended(&output, 2);
    let why = format!("the latest state of data folder shop is log position {position}, and no other is kept;");
    assert!(said(&output).contains(&why), "{}", said(&output));
    let output = run(&[&arguments[..], &["--workload", "tpcc:1"]].concat(), folder.path());
    assert_ended(&output, 2);
    assert!(said(&output).contains("has no tables of `tpcc`; it has those of: tpcb"), "{}", said(&output));
}

#[test]
fn all_tables_of_a_server_are_exported() {
    let settings = ServerSettings::for_this_machine().with(&[("fsync", "off"), ("shared_buffers", "32MB")]).unwrap();
    let server = PrivateServer::start(settings).unwrap();
    let tables = "CREATE TABLE ship AS SELECT n AS id FROM generate_series(1, 3000) n; CREATE TABLE port (name text)";
    Connection::open(&server.url()).unwrap().run(tables).unwrap();
    let (folder, url) = (tempfile::tempdir().unwrap(), server.url().to_string());
    let arguments = ["export", "out", "--target", &url];
    let document = json(&run(&[&arguments[..], &["--json"]].concat(), folder.path()));
    let table = |at: usize| (document["tables"][at]["name"].as_str(), document["tables"][at]["rows"].as_u64());
    assert_eq!([table(0), table(1)], [(Some("port"), Some(0)), (Some("ship"), Some(3000))]);
    assert!(document["as_of"]["server"]["wal_lsn"].as_str().is_some_and(|lsn| lsn.contains('/')), "{document}");
    assert_ended(&run(&["export", "out", "--verify"], folder.path()), 0);
    let output = run(&[&arguments[..], &["--as-of", "7"]].concat(), folder.path());
    assert_ended(&output, 2);
    assert!(said(&output).ends_with("and no other is kept; use --as-of now\n"), "{}", said(&output));
}

/// Whatever has been written by then, the folder has one of the two exports, and the next one succeeds.
#[test]
fn a_killed_export_leaves_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    assert_ended(&run(&["export", "out", "--workload", "tpch:0.01"], folder.path()), 0);
    let lines = folder.path().join("out/data/tpch.lineitem");
    let larger = ["export", "out", "--workload", "tpch:0.05"];
    let mut killed = RunningProgram::start(&mut plimsoll(&larger, folder.path()));
    until("a second file of the table", || names(&lines).len() > 1);
    killed.signal("KILL");
    killed.end();
    assert_ended(&run(&["export", "out", "--verify"], folder.path()), 0);
    assert_ended(&run(&larger, folder.path()), 0);
    assert_ended(&run(&["export", "out", "--verify"], folder.path()), 0);
}

#[test]
fn bad_input_is_refused_with_the_remedy_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("thesis")).unwrap();
    fs::write(folder.path().join("thesis/thesis.tex"), "all of it").unwrap();
    for (arguments, code, why) in [
        (&["out"][..], 2, "there is nothing to export; name a data folder (--option data_folder=DIR), a workload"),
        (
            &["thesis", "--workload", "tpcb:1"],
            2,
            "thesis/thesis.tex is not a file of an export; export to an empty folder",
        ),
        (
            &["out", "--workload", "tpcb:1", "--target", "postgres:"],
            2,
            "`postgres:` cannot be exported: a private server has no data",
        ),
        (&["out", "--option", "data_folder=nowhere"], 3, "data folder nowhere: No such file or directory"),
        (&["out", "--workload", "tpcb:1", "--as-of", "7"], 2, "the latest state of tpcb is commit 0, and no other"),
        (&["out", "--workload", "tpcb:1", "--as-of", "monday"], 2, "write `now` or the number of a state"),
        (&["out", "--verify"], 2, "out/manifest.json does not exist: no export was finished there; run"),
    ] {
        let output = run(&[&["export"][..], arguments].concat(), folder.path());
        assert!(said(&output).contains(why), "{arguments:?}: {}", said(&output));
        assert_ended(&output, code);
        assert_eq!(names(folder.path()), ["thesis"], "{arguments:?}");
        assert_eq!(names(&folder.path().join("thesis")), ["thesis.tex"]);
    }
}

#[test]
fn the_recipes_of_the_guide_read_an_export() {
    let folder = tempfile::tempdir().unwrap();
    assert_ended(&run(&["export", "out", "--workload", "tpch:0.01"], folder.path()), 0);
    let guide = Path::new("../../docs/export.md").canonicalize().unwrap();
    let script = Path::new("tests/export_guide.py").canonicalize().unwrap();
    let output = Command::new(python()).args([script, guide]).current_dir(folder.path()).output().unwrap();
    assert_ended(&output, 0);
}
