//! Sizes as a user searches for them: an answer in the time allowed, also after a kill.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/program.rs"]
mod program;

use std::fs;
use std::path::Path;
use std::process::Command;

use plimsoll_machine::control::CONTROLS;
use plimsoll_machine::host::Host;
use plimsoll_pg::connection::Connection;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};
use plimsoll_testing::{Need, skip};
use program::{RunningProgram, assert_ended, items, json, plimsoll};
use serde_json::Value;

/// Whether CPU time can be limited here.
fn has_quota() -> bool {
    let quota = CONTROLS.iter().find(|control| control.key() == "cpu_quota").unwrap();
    let availability = quota.probe(&Host::real());
    if !availability.available {
        skip(Need::Cgroups, availability.reason);
    }
    availability.available
}

const SEARCH: [&str; 11] = [
    "size",
    "rows:0.01",
    "--target",
    "embedded:",
    "--clients",
    "2",
    "--resources",
    "cores",
    "--budget",
    "30s",
    "--json",
];

/// The program in a folder, with a lock and a journal of limits of its own.
fn command(arguments: &[&str], folder: &Path) -> Command {
    let mut command = plimsoll(arguments, folder);
    command.env("PLIMSOLL_STATE", folder.join("state"));
    command
}

/// Cores, in a bracket: a tenth of one slows two clients that never pause.
fn assert_answered(results: &Value) {
    let sizes = &results["sizes"];
    let cores = &items(&sizes["resources"])[0];
    assert_eq!(
        (&cores["key"], &cores["unit"], &cores["full"]),
        (&"cpu_quota".into(), &"cores".into(), &"unlimited".into())
    );
    assert!(cores["why_not"].is_null(), "{cores}");
    for level in items(&cores["levels"]) {
        assert!(level["at_most"] == "unlimited" || level["at_most"].as_f64().is_some_and(|most| most > 0.1), "{level}");
        // Beside other tests noise may hide even that a tenth of a core is too little.
        assert!(
            level["more_than"].is_null() || level["more_than"].as_f64().is_some_and(|least| least >= 0.1),
            "{level}"
        );
    }
    let least = &items(&cores["trials"])[0];
    assert_eq!(least["amount"], 0.1);
    assert!(least["ratio"]["value"].as_f64().is_some_and(|ratio| ratio < 0.9), "{least}");
    assert!(sizes["headroom"]["busy_cores"].as_f64().is_some_and(|busy| busy > 0.0), "{}", sizes["headroom"]);
    assert!(items(&results["advice"]).iter().any(|one| one.as_str().unwrap().starts_with("cores: ")));
}

#[test]
fn the_least_that_is_enough_is_found_in_the_time_allowed() {
    if !has_quota() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let catalogue = "name,cores,memory_gib,price\ntiny,0.1,1,1\nhuge,1000,1000,1000\n";
    fs::write(folder.path().join("machines.csv"), catalogue).unwrap();
    let arguments = [&SEARCH[..], &["--catalogue", "machines.csv", "--out", "out"]].concat();
    let results = json(&command(&arguments, folder.path()).output().unwrap());
    assert_answered(&results);
    let sizes = &results["sizes"];
    assert!(sizes["took_s"].as_f64().unwrap() <= sizes["budget_s"].as_f64().unwrap() + 10.0, "{}", sizes["took_s"]);
    let choice = &sizes["catalogue"];
    assert_eq!((&choice["best"], &choice["machines"][0]["standing"]), (&1.into(), &"broken".into()), "{choice}");
    let report = fs::read_to_string(folder.path().join("out/report.html")).unwrap();
    assert!(report.contains("The least that is enough"));
}

/// Scripts over tables that a server has: they run on a private server with a copy.
#[test]
fn a_database_with_data_is_copied_and_sized() {
    if !has_quota() {
        return;
    }
    let settings = ServerSettings::for_this_machine().with(&[("shared_buffers", "64MB"), ("fsync", "off")]).unwrap();
    let original = PrivateServer::start(settings).expect("this test needs a PostgreSQL server");
    let items = "create table item (id int primary key, n int); insert into item select i, 0 from generate_series(1, 1000) as i";
    let mut connection = Connection::open(&original.url()).unwrap();
    connection.run(items).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let script = "\\set id random(1, 1000)\nupdate item set n = n + 1 where id = :id;\n";
    fs::write(folder.path().join("add.sql"), script).unwrap();
    let url = original.url().to_string();
    let arguments = ["size", "file:add.sql", "--copy", &url, "--clients", "2", "--resources", "cores"];
    let arguments = [&arguments[..], &["--option", "shared_buffers=64MB", "--budget", "30s", "--json"]].concat();
    let results = json(&command(&arguments, folder.path()).output().unwrap());
    let sizes = &results["sizes"];
    assert!(sizes["full_per_s"]["value"].as_f64().is_some_and(|full| full > 1.0), "{sizes}");
    assert_eq!(results["experiment"]["settings"]["target.copy_of"], url.as_str());
    assert_eq!(connection.text("select sum(n) from item").unwrap().as_deref(), Some("0"), "the original is as it was");
}

#[test]
fn a_search_that_was_killed_is_continued() {
    if !has_quota() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let arguments = [&SEARCH[..], &["--out", "out"]].concat();
    let mut program = RunningProgram::start(&mut command(&arguments, folder.path()));
    program.until("run 4 of");
    program.signal("KILL");
    assert_eq!(program.end(), None);
    let resumed = command(&["size", "--resume", "out", "--json"], folder.path()).output().unwrap();
    assert_answered(&json(&resumed));
    // Nothing is left to run, and the answer stays.
    let again = command(&["run", "--resume", "out"], folder.path()).output().unwrap();
    assert_ended(&again, 0);
}
