//! A standby from beginning to end, in every way that it can end.

use std::path::PathBuf;

use plimsoll_machine::host::Host;
use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;
use plimsoll_testing::until;
use plimsoll_workload::database::{Database, OptionChange};

use super::common::{Pair, ROWS, TABLE, answer, settings, start};
use super::copies::{Elsewhere, alive, hold, is_copy};

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
    // Fewer sessions than before: a standby that continued with its old log could not start.
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

/// Not a test by itself: a copy of the program that other tests kill.
#[test]
fn hold_a_pair_until_killed() {
    if is_copy() {
        let server = start(&[]).unwrap_or_else(|error| panic!("{error}"));
        let standby = server.standby_socket_folder().unwrap();
        let homes = [server.data_folder(), &standby].map(|folder| folder.parent().unwrap().display().to_string());
        hold(&homes.join(" "));
    }
}

#[test]
fn both_servers_end_when_their_owner_is_killed_and_the_next_one_removes_both_folders() {
    let elsewhere = Elsewhere::new();
    let (mut holder, homes) = elsewhere.holder("life::hold_a_pair_until_killed");
    let homes: Vec<PathBuf> = homes.into_iter().map(PathBuf::from).collect();
    let processes = processes_in(&homes);
    assert!(alive(&processes) > 8);
    holder.kill().unwrap();
    holder.wait().unwrap();
    until("both servers to end", || alive(&processes) == 0);
    let cleaned = elsewhere.clean_up().join("\n");
    for home in &homes {
        assert!(cleaned.contains(&format!("removed {}", home.display())), "{cleaned}");
        assert!(!home.exists());
    }
    let notes = std::fs::read_dir(elsewhere.state.path().join("servers")).unwrap().flatten();
    assert!(notes.map(|note| note.file_name()).all(|name| name == "lock"));
}
