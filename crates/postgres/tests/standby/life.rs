//! A standby from beginning to end, whatever the end is.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use plimsoll_machine::host::Host;
use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_postgres::connection::Connection;
use plimsoll_postgres::server::clean_up_leftovers;
use plimsoll_postgres::url::ServerUrl;
use plimsoll_workload::database::{Database, OptionChange};

use super::common::{Pair, ROWS, TABLE, answer, settings, start, until};

/// Set for copies of this program that play a part of their own.
const COPY: &str = "PLIMSOLL_TEST_COPY";

fn alive(processes: &[ProcessIdentity]) -> usize {
    processes.iter().filter(|process| process.is_running(&Host::real())).count()
}

fn processes_in(homes: &[PathBuf]) -> Vec<ProcessIdentity> {
    homes.iter().flat_map(|home| ProcessIdentity::working_in(&Host::real(), &home.join("data"))).collect()
}

#[test]
fn nothing_is_left_of_either_server() {
    let pair = Pair::new(&[]);
    let homes = pair.homes.clone();
    let processes = processes_in(&homes);
    assert!(processes.len() > 8 && alive(&processes) > 8, "{processes:?}");
    drop(pair);
    assert_eq!(alive(&processes), 0);
    assert!(homes.iter().all(|home| !home.exists()));
}

#[test]
fn a_restart_gives_a_new_standby_with_the_data() {
    let pair = Pair::new(&[("max_connections", "60")]);
    // Fewer sessions than before: a standby that went on with its log could not start.
    for (name, value) in [("shared_buffers", "24MB"), ("max_connections", "50")] {
        assert_eq!(pair.database.set_option(name, value).unwrap(), OptionChange::Applied);
    }
    assert!(!pair.standby.is_running(&Host::real()) && !pair.homes[1].exists(), "the old one is gone");
    pair.refresh();
    let mut queries = pair.queries();
    assert_eq!(answer(&mut *queries, &format!("select count(*) from {TABLE}")).unwrap(), ROWS.to_string());
    assert_eq!(answer(&mut *queries, "select current_setting('shared_buffers')").unwrap(), "24MB");
}

#[test]
fn settings_reach_both_servers() {
    let mut server = start(&[]).unwrap_or_else(|error| panic!("{error}"));
    server.apply(settings(&[("max_standby_streaming_delay", "5s"), ("work_mem", "3MB")])).unwrap();
    let folder = server.standby_socket_folder().unwrap();
    for folder in [server.socket_folder(), &folder] {
        let url = ServerUrl::of_socket(folder, server.port(), server.user(), server.database());
        let mut connection = Connection::open(&url).unwrap();
        for (name, value) in [("max_standby_streaming_delay", "5s"), ("work_mem", "3MB"), ("wal_level", "replica")] {
            assert_eq!(connection.text(&format!("show {name}")).unwrap().as_deref(), Some(value));
        }
    }
}

/// Not a test by itself: a copy of the program that others kill.
#[test]
fn hold_a_pair_until_killed() {
    if std::env::var_os(COPY).is_none() {
        return;
    }
    let server = start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let standby = server.standby_socket_folder().unwrap();
    println!("\nholding {} {}", server.data_folder().parent().unwrap().display(), standby.parent().unwrap().display());
    loop {
        std::thread::park();
    }
}

/// Not a test by itself: a copy of the program that cleans up after another.
#[test]
fn clean_up_and_tell() {
    if std::env::var_os(COPY).is_none() {
        return;
    }
    for told in clean_up_leftovers() {
        println!("\ncleaned up: {told}");
    }
}

#[test]
fn both_servers_end_when_their_owner_is_killed_and_the_next_one_removes_both_folders() {
    let (state, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::set_permissions(temporary.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let copy = |test: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture"]).env(COPY, "1");
        command.env("PLIMSOLL_STATE", state.path()).env("TMPDIR", temporary.path());
        command
    };
    let mut holder = copy("life::hold_a_pair_until_killed").stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let told = lines.map_while(Result::ok).find_map(|line| Some(line.strip_prefix("holding ")?.to_owned()));
    let homes: Vec<PathBuf> = told.expect("it holds two servers").split(' ').map(PathBuf::from).collect();
    let processes = processes_in(&homes);
    assert!(alive(&processes) > 8);
    holder.kill().unwrap();
    holder.wait().unwrap();
    until("both servers to end", || alive(&processes) == 0);
    let cleaned = copy("life::clean_up_and_tell").output().unwrap();
    let cleaned = String::from_utf8(cleaned.stdout).unwrap();
    for home in &homes {
        assert!(cleaned.contains(&format!("removed {}", home.display())), "{cleaned}");
        assert!(!home.exists());
    }
    let notes = std::fs::read_dir(state.path().join("servers")).unwrap().flatten();
    assert!(notes.map(|note| note.file_name()).all(|name| name == "lock"));
}
