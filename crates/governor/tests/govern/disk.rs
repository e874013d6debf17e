//! A governor limits the reads of class low on a slow disk, and restores the groups that a killed governor has left.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_machine::control::{Amount, Limits, Subject};
use plimsoll_machine::groups::Cgroups;
use plimsoll_machine::host::Host;
use plimsoll_machine::limiter::Limiter;
use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};
use plimsoll_testing::{Need, skip, until};

use super::process::{Governor, in_front_of, open, url};

/// The throughput of the disk, MB/s.
const SLOW: f64 = 4.0;

/// A scan of this table waits for the disk: its files are removed from the page cache before each scan.
fn scan(connection: &mut Connection, table: &str, files: &[PathBuf]) -> bool {
    for file in files {
        let file = fs::File::open(file).unwrap();
        rustix::fs::fadvise(file.as_fd(), 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
    connection.run(&format!("select count(*) from {table}")).is_ok()
}

/// The group of a process, in the hierarchy that limits disks.
fn group(process: i32) -> Option<PathBuf> {
    Cgroups::of_process(&Host::real(), &process.to_string()).version_1_folder("blkio").map(Path::to_owned)
}

fn limit(group: &Path) -> u64 {
    let text = fs::read_to_string(group.join("blkio.throttle.read_bps_device")).unwrap_or_default();
    text.split_whitespace().nth(1).map_or(0, |limit| limit.parse().unwrap())
}

struct Slow {
    server: PrivateServer,
    own: Connection,
    /// The files of the tables `one` and `other`.
    files: [Vec<PathBuf>; 2],
    limiter: Limiter,
    _state: tempfile::TempDir,
}

/// A server on a slow disk; `None` where that is not possible.
fn slow_server() -> Option<Slow> {
    let mut settings = ServerSettings::for_this_machine();
    for (name, value) in [("shared_buffers", "1MB"), ("fsync", "off")] {
        settings.set(name, value).unwrap();
    }
    let server =
        PrivateServer::start(settings).unwrap_or_else(|error| panic!("no PostgreSQL server to test on: {error}"));
    let mut own = open(&url(&server, server.user()));
    own.run("create role shop superuser login").unwrap();
    // Workers would share the reads, and end before the test could observe them.
    own.run(&format!("alter database {} set max_parallel_workers_per_gather = 0", server.database())).unwrap();
    let files = ["one", "other"].map(|table| {
        let make = format!("create table {table} as select g, repeat('x', 1000) from generate_series(1, 40000) g");
        own.run(&make).unwrap();
        own.run(&format!("vacuum freeze {table}")).unwrap();
        let path = own.text(&format!("select pg_relation_filepath('{table}')")).unwrap().unwrap();
        vec![server.data_folder().join(path)]
    });
    own.run("checkpoint").unwrap();
    for file in files.iter().flatten() {
        fs::File::open(file).unwrap().sync_all().unwrap();
    }
    let state = tempfile::tempdir().unwrap();
    let subject = Subject { processes: server.processes(), data_folder: Some(server.data_folder().to_owned()) };
    let mut limiter = Limiter::begin(Host::real(), subject, state.path()).unwrap();
    let limits: Limits = [("read_mb_s".to_owned(), Amount::Number(SLOW))].into();
    let is_version_1 = Cgroups::read(&Host::real()).version_1_folder("blkio").is_some();
    if let Err(why) = limiter.set(&limits) {
        skip(Need::Disk, format!("no slow disk can be had: {why}"));
        return None;
    }
    if !is_version_1 || !rustix::process::geteuid().is_root() {
        skip(Need::Disk, "groups within a limited one are for version 1, and root, only");
        return None;
    }
    Some(Slow { server, own, files, limiter, _state: state })
}

/// Keeps scanning until the test stops it, and survives a killed governor.
fn keep_scanning(url: ServerUrl, table: &'static str, files: Vec<PathBuf>, stop: Arc<AtomicBool>) -> i32 {
    let mut connection = open(&url);
    let process = connection.process_id();
    std::thread::spawn(move || while !stop.load(Ordering::Relaxed) && scan(&mut connection, table, &files) {});
    process
}

#[test]
fn scans_are_limited_on_a_slow_disk_and_a_kill_leaves_nothing_for_good() {
    let Some(mut slow) = slow_server() else { return };
    let home = group(slow.server.postmaster()).unwrap();
    let whole = limit(&home);
    let (user, database) = (slow.server.user().to_owned(), slow.server.database().to_owned());
    let mut governor = Governor::start_with(in_front_of(&slow.server), false);
    let stop = Arc::new(AtomicBool::new(false));
    let url = |user: &str| ServerUrl::of_socket(governor.folder.path(), 6432, user, &database);
    let _important = keep_scanning(url("shop"), "one", slow.files[0].clone(), stop.clone());
    let low = keep_scanning(url(&user), "other", slow.files[1].clone(), stop.clone());
    until("the scan of class low to be in a group of its own", || {
        group(low).is_some_and(|group| group.starts_with(&home) && group != home)
    });
    let below = group(low).unwrap();
    until("the limit to be divided", || limit(&below) > 0 && limit(&below) + limit(&home) == whole);
    assert!(limit(&below) < whole);
    assert_eq!(group(slow.server.postmaster()).as_ref(), Some(&home), "the server itself is not moved");
    let verdict = slow.limiter.verify(&slow.limiter.observe());
    let why_not = verdict["read_mb_s"].why_not.clone().unwrap_or_default();
    assert!(!why_not.contains("limit in force"), "together both have what the experiment allows: {why_not}");

    // A process that runs a statement stays in the group until the next governor starts, or the statement ends.
    governor.kill_and_start();
    governor.logged("undid changes that a killed governor had left");
    assert!(!below.exists() && limit(&home) == whole, "{}", limit(&home));
    stop.store(true, Ordering::Relaxed);
    slow.own.run("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend'").unwrap();
    governor.end();
    assert_eq!(limit(&home), whole);
}
