//! A private server: it runs with its settings, removes everything when it ends, and is cleaned up after a kill.
//!
//! PostgreSQL must be installed; without it these tests fail and say what to install.

#![allow(clippy::unwrap_used, reason = "an unwrap in a test is the assertion that there is something")]

#[path = "common/copies.rs"]
mod copies;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use copies::{Elsewhere, alive, hold, is_copy};
use plimsoll_machine::host::Host;
use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_postgres::server::{Applied, Isolation, PrivateServer, ServerError, ServerSettings};
use plimsoll_testing::until;
use rustix::process::Signal;

/// A small server that does not wait for the disk.
const SMALL: [(&str, &str); 3] = [("shared_buffers", "16MB"), ("max_wal_size", "64MB"), ("fsync", "off")];

fn settings(options: &[(&str, &str)]) -> ServerSettings {
    ServerSettings::for_this_machine().with(&[&SMALL, options].concat()).unwrap()
}

#[track_caller]
fn start(options: &[(&str, &str)]) -> PrivateServer {
    PrivateServer::start(settings(options)).unwrap_or_else(|error| panic!("{error}"))
}

/// The answer to a statement, through the client that comes with the server.
#[track_caller]
fn ask(server: &PrivateServer, sql: &str) -> String {
    let mut psql = Command::new(server.installation().program("psql"));
    psql.arg("-h").arg(server.socket_folder()).args(["-p", &server.port().to_string(), "-U", server.user()]);
    let output = psql.args(["-d", server.database(), "-XAtq", "-c", sql]).output().unwrap();
    assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn home(server: &PrivateServer) -> PathBuf {
    server.data_folder().parent().unwrap().to_owned()
}

fn identities(server: &PrivateServer) -> Vec<ProcessIdentity> {
    server.processes().into_iter().filter_map(|id| ProcessIdentity::of(&Host::real(), id)).collect()
}

/// The files of shared memory that these processes have mapped.
fn shared_memory(processes: &[ProcessIdentity]) -> BTreeSet<PathBuf> {
    let maps =
        |process: &ProcessIdentity| std::fs::read_to_string(format!("/proc/{}/maps", process.id)).unwrap_or_default();
    let all: Vec<String> = processes.iter().map(maps).collect();
    let files = all
        .iter()
        .flat_map(|maps| maps.lines())
        .filter_map(|line| Some(PathBuf::from(&line[line.find("/dev/shm/")?..])));
    files.collect()
}

fn is_noted(home: &Path) -> bool {
    let notes = plimsoll_machine::limiter::default_state_folder().join("servers");
    notes.join(home.file_name().unwrap()).with_extension("json").exists()
}

/// A server that begins as a copy has the other's tables, rows, sequences and statistics, and leaves the other as it was.
#[test]
fn a_server_can_begin_as_a_copy_of_another() {
    let original = start(&[]);
    let items = "create table item (id serial primary key, title text); \
        insert into item (title) select 'item ' || i from generate_series(1, 1000) as i";
    ask(&original, items);
    let url = original.url().to_string();
    let copy = start(&[("copy_of", &url)]);
    assert_eq!(ask(&copy, "select count(*), max(id) from item"), "1000|1000");
    assert_eq!(ask(&copy, "select reltuples from pg_class where relname = 'item'"), "1000");
    assert_eq!(ask(&copy, "insert into item (title) values ('new') returning id"), "1001");
    ask(&copy, "drop table item");
    assert_eq!(ask(&original, "select count(*) from item"), "1000");
    drop(original);
    let error = PrivateServer::start(settings(&[("copy_of", &url)])).unwrap_err().to_string();
    assert!(error.starts_with("the server cannot begin as a copy: postgres://plimsoll@"), "{error}");
}

#[test]
fn it_answers_as_it_is_set_and_leaves_nothing() {
    let server =
        start(&[("work_mem", "3MB"), ("isolation", "repeatable read"), ("dop", "2"), ("max_connections", "77")]);
    assert!(server.is_alive());
    assert_eq!(ask(&server, "select current_user, current_database()"), "plimsoll|plimsoll");
    assert_eq!(ask(&server, "show server_version_num")[..2], server.version().major.to_string());
    for (parameter, expect) in [
        ("shared_buffers", "16MB"),
        ("max_wal_size", "64MB"),
        ("fsync", "off"),
        ("work_mem", "3MB"),
        ("default_transaction_isolation", "repeatable read"),
        ("max_parallel_workers_per_gather", "1"),
        ("max_connections", "77"),
        ("jit", "off"),
        ("track_io_timing", "on"),
        ("wal_level", "minimal"),
        ("listen_addresses", ""),
        ("synchronous_commit", "on"),
        ("random_page_cost", "1.1"),
        ("checkpoint_timeout", "5min"),
        ("server_encoding", "UTF8"),
    ] {
        assert_eq!(ask(&server, &format!("show {parameter}")), expect, "{parameter}");
    }
    assert_eq!(ask(&server, "select name from pg_file_settings where error is not null"), "");
    if server.has_statement_statistics() {
        let count = ask(&server, "select count(*) > 0 from pg_stat_statements");
        assert_eq!(count, "t");
    }
    assert_eq!(server.settings().isolation(), Isolation::RepeatableRead);
    let processes = identities(&server);
    assert!(processes.len() > 3 && processes[0].id == server.postmaster(), "{processes:?}");
    if rustix::process::geteuid().is_root() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.postmaster())).unwrap();
        assert!(!status.lines().any(|line| line.starts_with("Uid:\t0")), "it does not run as root");
    }
    assert_eq!(server.footprint().processes, [server.postmaster()]);
    let folder = home(&server);
    assert!(folder.exists() && is_noted(&folder));
    drop(server);
    assert_eq!(alive(&processes), 0);
    assert!(!folder.exists() && !is_noted(&folder));
}

#[test]
fn new_settings_take_effect_and_a_restart_keeps_the_data() {
    let mut server = start(&[]);
    ask(&server, "create table kept as select generate_series(1, 1000) as number");
    let first = server.postmaster();
    let apply = |server: &mut PrivateServer, options: &[(&str, &str)]| server.apply(settings(options)).unwrap();
    assert_eq!(apply(&mut server, &[]), Applied::Nothing);
    assert_eq!(apply(&mut server, &[("work_mem", "5MB")]), Applied::InSessions);
    assert_eq!(ask(&server, "show work_mem"), "5MB");
    assert_eq!(apply(&mut server, &[("autovacuum", "off")]), Applied::Reloaded);
    assert_eq!([ask(&server, "show work_mem"), ask(&server, "show autovacuum")], ["64MB", "off"]);
    assert_eq!(server.postmaster(), first);
    assert_eq!(apply(&mut server, &[("shared_buffers", "24MB")]), Applied::Restarted);
    assert_ne!(server.postmaster(), first);
    assert_eq!([ask(&server, "show shared_buffers"), ask(&server, "show autovacuum")], ["24MB", "on"]);
    assert_eq!(ask(&server, "select sum(number) from kept"), "500500");
    assert_eq!(apply(&mut server, &[("folder", "/var/tmp")]), Applied::NeedsNewServer);
    assert_eq!(server.settings().get("shared_buffers").unwrap(), "24MB");
    server.restart().unwrap();
    assert_eq!(ask(&server, "select sum(number) from kept"), "500500");
}

#[test]
fn settings_with_which_the_server_does_not_start_are_taken_back() {
    let mut server = start(&[]);
    let before = server.settings().clone();
    std::fs::remove_file(server.data_folder().join("pg_hba.conf")).unwrap();
    let error = server.apply(settings(&[("shared_buffers", "24MB")])).unwrap_err().to_string();
    assert!(error.contains("did not start: it ended while it was starting"), "{error}");
    assert!(error.contains("pg_hba.conf"), "the end of the log is shown: {error}");
    assert_eq!(server.settings(), &before);
    assert!(!server.is_alive());
}

#[test]
fn a_server_that_is_killed_is_seen_to_be_gone() {
    let server = start(&[]);
    let folder = home(&server);
    let processes = identities(&server);
    let shared = shared_memory(&processes);
    assert!(!shared.is_empty(), "there is something that a kill leaves behind");
    processes[0].signal(Signal::KILL).unwrap();
    until("the server to be seen as gone", || !server.is_alive());
    assert!(!server.log_tail().is_empty());
    drop(server);
    assert_eq!(alive(&processes), 0);
    assert!(!folder.exists());
    assert_eq!(shared.into_iter().filter(|file| file.exists()).collect::<Vec<_>>(), Vec::<PathBuf>::new());
}

/// A copy that holds a server: itself, the server's first process, its data folder.
fn holder(elsewhere: &Elsewhere) -> (Child, ProcessIdentity, PathBuf) {
    let (holder, held) = elsewhere.holder("hold_a_server_until_killed");
    let postmaster = ProcessIdentity::of(&Host::real(), held[0].parse().unwrap()).unwrap();
    (holder, postmaster, PathBuf::from(&held[1]))
}

/// The remaining entries of the two folders, except the lock.
fn left(elsewhere: &Elsewhere) -> Vec<PathBuf> {
    let names = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let all = names(elsewhere.state.path().join("servers")).chain(names(elsewhere.temporary.path().to_owned()));
    all.filter(|path| !path.ends_with("lock")).collect()
}

/// Not a test by itself: a copy of the program that other tests kill.
#[test]
fn hold_a_server_until_killed() {
    if is_copy() {
        let server = start(&[]);
        hold(&format!("{} {}", server.postmaster(), server.data_folder().display()));
    }
}

#[test]
fn a_server_ends_when_its_owner_is_killed_and_the_next_one_removes_its_folder() {
    let elsewhere = Elsewhere::new();
    let (mut holder, postmaster, data) = holder(&elsewhere);
    assert_eq!(elsewhere.clean_up(), Vec::<String>::new());
    assert!(postmaster.is_running(&Host::real()), "its owner still runs");
    let processes = ProcessIdentity::working_in(&Host::real(), &data);
    holder.kill().unwrap();
    holder.wait().unwrap();
    until("its processes to end", || alive(&processes) == 0);
    assert_eq!(left(&elsewhere).len(), 2, "the folder and the note of it");
    let told = elsewhere.clean_up();
    let folder = data.parent().unwrap().display();
    assert_eq!(told, [format!("removed {folder} (left by process {})", holder.id())]);
    assert_eq!(left(&elsewhere), Vec::<PathBuf>::new());
}

#[test]
fn a_server_whose_watch_was_killed_too_is_ended_by_the_next_one() {
    let elsewhere = Elsewhere::new();
    let (mut holder, postmaster, data) = holder(&elsewhere);
    let processes = ProcessIdentity::working_in(&Host::real(), &data);
    let parent = std::fs::read_to_string(format!("/proc/{}/stat", postmaster.id)).unwrap();
    let watch = parent.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap();
    ProcessIdentity::of(&Host::real(), watch).unwrap().signal(Signal::KILL).unwrap();
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(postmaster.is_running(&Host::real()), "nobody was left to end it");
    // Servers without a record are found by the mark of the folder.
    let notes = elsewhere.state.path().join("servers");
    std::fs::remove_dir_all(&notes).unwrap();
    let told = elsewhere.clean_up();
    assert!(told.len() == 2 && told[0].starts_with("ended a PostgreSQL server of "), "{told:?}");
    assert_eq!(alive(&processes), 0);
    assert_eq!(left(&elsewhere), Vec::<PathBuf>::new());
}

#[test]
fn a_server_that_cannot_be_is_refused_and_leaves_nothing() {
    let check = |options: &[(&str, &str)], expect: &str| {
        let error = PrivateServer::start(settings(options)).unwrap_err();
        assert!(error.to_string().contains(expect), "{error}");
        error
    };
    let error = check(&[("bin_folder", "/usr")], "there is no PostgreSQL server in /usr: it has no postgres");
    assert!(matches!(error, ServerError::NoServerIn { .. }));
    check(&[("folder", "/proc")], "/proc");
    check(&[("max_wal_size", "1TB"), ("folder", "/var/tmp")], "GB are needed");
}
