//! A governor in a process of its own, from its settings to its end: readiness, console, reloads by signal, page, log.

#![allow(clippy::unwrap_used, reason = "a test")]

mod beside;
mod blind;
mod direct;
mod disk;
mod handover;
mod pooled;
mod process;
mod rented;
mod spared;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use plimsoll_governor::run::{End, govern};
use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;
use plimsoll_testing::{Need, skip, until};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, prlimit};

use process::{Governor, get, in_front_of, open, rows, settings, start_server, url, value};

/// Contains the path of the settings in the governor's process.
const SETTINGS: &str = "PLIMSOLL_TEST_GOVERN";
/// How the governor's process is expected to end, if not by draining.
const EXPECTED_END: &str = "PLIMSOLL_TEST_GOVERN_END";
/// No operation here takes this long, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Not a test by itself: the process that the tests start, which is this program with a variable set.
#[test]
fn governor() {
    if let Some(file) = std::env::var_os(SETTINGS) {
        let end = if std::env::var_os(EXPECTED_END).is_some() { End::Stopped } else { End::Drained };
        assert_eq!(govern(Path::new(&file), false).unwrap(), end);
    }
}

#[test]
fn a_governor_lives_and_ends_as_it_is_told() {
    let governor = Governor::start();
    let page = governor.logged_behind("the live page is at http://");
    let mut admin = governor.console("admin");
    assert_eq!(value(&rows(&mut admin, "SHOW CONFIG"), "preemption.policy"), "pow");

    // An invalid file changes nothing; the caller of the reload receives the reason.
    fs::write(&governor.file, settings(governor.folder.path(), "powe", 2000)).unwrap();
    governor.signal(Signal::HUP);
    assert!(governor.told().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(governor.told(), "READY=1");
    governor.logged("settings stay as they are");
    let error = admin.run("RELOAD").unwrap_err().to_string();
    assert!(error.contains("there is no policy `powe` (did you mean `pow`?)"), "{error}");
    assert_eq!(value(&rows(&mut admin, "SHOW STATE"), "reloads_failed"), "2");
    assert_eq!(value(&rows(&mut admin, "SHOW CONFIG"), "preemption.policy"), "pow");

    fs::write(&governor.file, settings(governor.folder.path(), "never", 100)).unwrap();
    governor.signal(Signal::HUP);
    assert!(governor.told().starts_with("RELOADING=1"));
    assert_eq!(governor.told(), "READY=1");
    governor.logged("preemption.policy: pow -> never");
    let state = rows(&mut admin, "SHOW STATE");
    assert_eq!((value(&state, "reloads"), value(&state, "state")), ("1".to_owned(), "active".to_owned()));
    admin.run("RELOAD").unwrap();
    let notices: Vec<String> = admin.take_notices().iter().map(ToString::to_string).collect();
    assert!(notices.iter().any(|notice| notice.contains("nothing is different")), "{notices:?}");

    let mut viewer = governor.console("viewer");
    let error = viewer.run("SHUTDOWN").unwrap_err().to_string();
    assert!(error.contains("permission denied"), "{error}");
    assert!(get(&page, "/state.json").contains("\"name\":\"high\""));

    drop((admin, viewer));
    governor.signal(Signal::TERM);
    assert_eq!(governor.told(), "STOPPING=1");
    governor.logged("ended");
    assert!(governor.ended());
}

#[test]
fn the_console_drains_a_governor() {
    let governor = Governor::start();
    let mut admin = governor.console("admin");
    let error = Connection::open(&ServerUrl::of_socket(governor.folder.path(), 6432, "admin", "plimsoll"));
    assert!(error.is_err(), "without the password");
    admin.run("SHUTDOWN WAIT_FOR_CLIENTS").unwrap();
    assert_eq!(governor.told(), "STOPPING=1");
    drop(admin);
    assert!(governor.ended());
}

#[test]
fn psql_shows_it() {
    let governor = Governor::start();
    let run = |arguments: &[&str]| {
        let mut command = Command::new("psql");
        command
            .args(["-X", "-A", "-t", "-h"])
            .arg(governor.folder.path())
            .args(["-p", "6432", "-U", "viewer", "plimsoll"]);
        command.args(arguments).env("PGPASSWORD", "viewer's password").output().expect("psql comes with PostgreSQL")
    };
    let output = run(&["-c", "SHOW VERSION", "-c", "SHOW CLASSES"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.starts_with("Plimsoll ") && text.contains("\nhigh|high|"), "{text}");
    let output = run(&["-c", "PAUSE"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("permission denied"), "{output:?}");
    governor.end();
}

/// Settings for a server that the test simulates.
fn before(server: &TcpListener) -> impl FnOnce(String) -> String {
    let port = server.local_addr().unwrap().port();
    move |text| {
        let text = text.replace("nobody@localhost:1/", &format!("nobody@127.0.0.1:{port}/"));
        text.replace("server = ", "announce_class = false\nserver = ")
    }
}

fn startup(user: &str) -> Vec<u8> {
    let body = format!("user\0{user}\0\0");
    [&(body.len() as u32 + 8).to_be_bytes()[..], &[0, 3, 0, 0], body.as_bytes()].concat()
}

fn read(stream: &mut impl Read, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

/// A client that has logged in, and its connection at the server.
fn session(governor: &Governor, server: &TcpListener) -> (UnixStream, TcpStream) {
    let mut client = governor.client();
    client.write_all(&startup("ann")).unwrap();
    let (mut played, _) = server.accept().unwrap();
    played.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(read(&mut played, startup("ann").len()), startup("ann"));
    let welcome = b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x07abcdZ\0\0\0\x05I";
    played.write_all(welcome).unwrap();
    assert_eq!(read(&mut client, welcome.len()), welcome);
    (client, played)
}

/// Sends a query through the governor, and its answer back.
fn converse(client: &mut UnixStream, server: &mut TcpStream, status: u8) {
    let query = b"Q\0\0\0\x0aBEGIN\0";
    client.write_all(query).unwrap();
    assert_eq!(read(server, query.len()), query);
    let answer = [&b"C\0\0\0\x0aBEGIN\0Z\0\0\0\x05"[..], &[status]].concat();
    server.write_all(&answer).unwrap();
    assert_eq!(read(client, answer.len()), answer);
}

/// An open transaction delays the end of a governor that was interrupted once. The second interrupt, and SIGQUIT, end
/// it at once.
#[test]
fn a_second_interrupt_and_a_quit_end_at_once() {
    for signals in [&[Signal::INT, Signal::INT][..], &[Signal::TERM, Signal::QUIT], &[Signal::QUIT]] {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let governor = Governor::start_with(before(&server), true);
        let (mut client, mut played) = session(&governor, &server);
        converse(&mut client, &mut played, b'T');
        for (place, signal) in signals.iter().enumerate() {
            governor.signal(*signal);
            if place + 1 < signals.len() {
                assert_eq!(governor.told(), "STOPPING=1");
                // The transaction continues in the meantime.
                converse(&mut client, &mut played, b'T');
            }
        }
        governor.logged("sessions are ended at once");
        assert!(matches!(client.read(&mut [0]), Ok(0) | Err(_)), "{signals:?}");
        assert!(governor.ended(), "{signals:?}");
    }
}

/// The limit of open files was lower than the clients needed. New clients once hung silently until a descriptor was
/// free. Now they receive an error, existing sessions continue, operators can connect, and no thread spins.
#[test]
fn without_files_newcomers_are_told_and_sessions_go_on() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let governor = Governor::start_with(before(&server), false);
    let (mut client, mut played) = session(&governor, &server);
    let limit = |free: u64| {
        let files = fs::read_dir(format!("/proc/{}/fd", governor.process())).unwrap();
        let files = files.map(|file| file.unwrap().file_name().to_str().unwrap().parse::<u64>().unwrap());
        let files: std::collections::BTreeSet<u64> = files.collect();
        let lowest = (0..).find(|number| !files.contains(number)).unwrap();
        let limit = Rlimit { current: Some(lowest + free), maximum: getrlimit(Resource::Nofile).maximum };
        prlimit(Some(governor.process()), Resource::Nofile, limit).unwrap();
    };
    // With a few files left, clients are refused after their start-up message, and operators are not.
    limit(10);
    let refused = |mut newcomer: UnixStream| {
        let _ = newcomer.write_all(&startup("bob"));
        let mut said = Vec::new();
        newcomer.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        // A connection that is closed with bytes unread may be reset after its last message.
        let _ = newcomer.read_to_end(&mut said);
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(said.contains("53300") && said.contains("no file descriptor left"), "{said:?}");
    };
    (0..20).for_each(|_| refused(governor.client()));
    let mut admin = governor.console("admin");
    assert_eq!(value(&rows(&mut admin, "SHOW STATE"), "clients"), "1");
    drop(admin);
    // With none left they are refused when they connect.
    limit(0);
    (0..20).for_each(|_| refused(governor.client()));
    governor.logged("raise the limit of open files");
    converse(&mut client, &mut played, b'I');
    let (ticks, time) = (governor.cpu_ticks(), std::time::Instant::now());
    std::thread::sleep(Duration::from_millis(500));
    let (ticks, time) = (governor.cpu_ticks() - ticks, time.elapsed());
    assert!(ticks < 25, "it had a core for {ticks} hundredths of a second within {time:?}");
    // With free descriptors everything is as before.
    limit(100);
    let (mut second, mut played_second) = session(&governor, &server);
    converse(&mut second, &mut played_second, b'I');
    drop((client, second));
    governor.end();
}

/// The nice value of a process; `None` once it has ended.
fn nice(process: i32) -> Option<i32> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    fields[16].parse().ok()
}

/// A governor is killed (`kill -9`, or for memory) while server processes have the shares of their classes. Processes
/// of idle sessions end with it. A process that runs a statement keeps its low share until that ends, which disturbs no
/// other session; new sessions get the shares of their classes as soon as a governor runs again.
#[test]
fn a_killed_governor_leaves_no_share_behind() {
    let server = start_server();
    let (user, database) = (server.user(), server.database());
    let mut own = open(&url(&server, user));
    if !rustix::process::geteuid().is_root() {
        return skip(Need::Root, "only root may give processes back what others took");
    }
    own.run("create role shop login").unwrap();
    let mut governor = Governor::start_with(in_front_of(&server), false);
    let open = |governor: &Governor, user: &str| {
        let mut connection = open(&ServerUrl::of_socket(governor.folder.path(), 6432, user, database));
        connection.run("select 1").unwrap();
        connection
    };
    let (idle, mut busy) = (open(&governor, user), open(&governor, user));
    let processes = [idle.process_id(), busy.process_id()];
    until("both to have the share of low", || processes.iter().all(|process| nice(*process) == Some(10)));
    let sleeper = std::thread::spawn(move || busy.run("select pg_sleep(600)").is_err());
    let active = format!("select count(*) from pg_stat_activity where pid = {} and state = 'active'", processes[1]);
    until("the statement to run", || own.text(&active).unwrap().as_deref() == Some("1"));
    governor.kill_and_start();
    assert!(sleeper.join().unwrap());
    until("the idle session's process to end", || nice(processes[0]).is_none());
    assert_eq!(nice(processes[1]), Some(10));
    let (low, high) = (open(&governor, user), open(&governor, "shop"));
    until("low to have its share again", || nice(low.process_id()) == Some(10));
    assert_eq!(nice(high.process_id()), Some(0));
    own.run(&format!("select pg_terminate_backend({})", processes[1])).unwrap();
    until("the statement to end", || nice(processes[1]).is_none());
    drop((idle, low, high));
    governor.end();
}
