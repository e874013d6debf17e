//! A governor in a process of its own, from its settings to its end: readiness, console, reloads by signal, page, log.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use plimsoll_governor::run::{End, govern};
use plimsoll_postgres::connection::Connection;
use plimsoll_postgres::url::{Password, ServerUrl};
use rustix::process::{Pid, Signal, kill_process};

/// Names the settings in the process that is the governor.
const SETTINGS: &str = "PLIMSOLL_TEST_GOVERN";
/// Nothing here takes as long as this, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(120);

/// Not a test by itself: the process that the others start, which is this program with a variable set.
#[test]
fn governor() {
    if let Some(file) = std::env::var_os(SETTINGS) {
        assert_eq!(govern(Path::new(&file)).unwrap(), End::Drained);
    }
}

struct Governor {
    folder: tempfile::TempDir,
    file: PathBuf,
    child: Child,
    notify: UnixDatagram,
    log: Receiver<serde_json::Value>,
}

impl Governor {
    /// One whose server is not there: all that is tested here works without.
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plimsoll.toml");
        let notify = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        notify.set_read_timeout(Some(PATIENCE)).unwrap();
        fs::write(&file, settings(folder.path(), "pow", 2000)).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["governor", "--exact", "--nocapture", "--test-threads=1"])
            .env(SETTINGS, &file)
            .env("NOTIFY_SOCKET", folder.path().join("notify"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, log) = mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // The test's own words are no JSON.
                if let Ok(value) = serde_json::from_str(&line)
                    && sender.send(value).is_err()
                {
                    return;
                }
            }
        });
        let governor = Governor { folder, file, child, notify, log };
        assert_eq!(governor.told(), "READY=1");
        governor
    }

    /// What systemd is told next.
    fn told(&self) -> String {
        let mut bytes = [0; 256];
        let length = self.notify.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    /// Waits for a line of the log with that in its message.
    fn logged(&self, part: &str) -> serde_json::Value {
        loop {
            let line = self.log.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("`{part}` was never logged"));
            if line["message"].as_str().is_some_and(|message| message.contains(part)) {
                return line;
            }
        }
    }

    fn signal(&self, signal: Signal) {
        let process = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(process, signal).unwrap();
    }

    fn console(&self, user: &str) -> Connection {
        let mut url = ServerUrl::of_socket(self.folder.path(), 6432, user, "plimsoll");
        url.password = Some(Password::new(format!("{user}'s password")));
        Connection::open(&url).unwrap_or_else(|error| panic!("{error}"))
    }

    fn ended(mut self) -> bool {
        let status = self.child.wait().unwrap();
        status.success()
    }
}

impl Drop for Governor {
    fn drop(&mut self) {
        // Ended already, unless a test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn settings(folder: &Path, policy: &str, clients_max: u32) -> String {
    format!(
        r#"
server = "postgres://nobody@localhost:1/none?sslmode=disable"
[listen]
addresses = []
socket_folders = ["{folder}"]
clients_max = {clients_max}
workers = 1
[preemption]
policy = "{policy}"
[[rule]]
class = "high"
user = "shop"
[http]
address = "127.0.0.1:0"
[log]
format = "json"
[[admin.user]]
name = "admin"
password = "admin's password"
may_change = true
[[admin.user]]
name = "viewer"
password = "viewer's password"
"#,
        folder = folder.display()
    )
}

/// The values of one column of an answer, by the values of the first.
fn pairs(console: &mut Connection, statement: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let mut each = |row: &[Option<&str>]| {
        let cell = |place: usize| row.get(place).copied().flatten().unwrap_or_default().to_owned();
        pairs.push((cell(0), cell(1)));
    };
    console.text_rows(statement, &mut each).unwrap_or_else(|error| panic!("{statement}: {error}"));
    pairs
}

fn value(pairs: &[(String, String)], key: &str) -> String {
    pairs.iter().find(|(other, _)| other == key).unwrap_or_else(|| panic!("no {key} in {pairs:?}")).1.clone()
}

#[test]
fn a_governor_lives_and_ends_as_it_is_told() {
    let governor = Governor::start();
    let address = governor.logged("the live page is at http://")["message"].as_str().unwrap().to_owned();
    let address = address.trim_start_matches("the live page is at http://").trim_end_matches('/').to_owned();
    let mut admin = governor.console("admin");
    assert_eq!(value(&pairs(&mut admin, "SHOW CONFIG"), "preemption.policy"), "pow");

    // A file that is wrong changes nothing; whoever asked is told why.
    fs::write(&governor.file, settings(governor.folder.path(), "powe", 2000)).unwrap();
    governor.signal(Signal::HUP);
    assert!(governor.told().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(governor.told(), "READY=1");
    governor.logged("settings stay as they are");
    let error = admin.run("RELOAD").unwrap_err().to_string();
    assert!(error.contains("there is no policy `powe` (did you mean `pow`?)"), "{error}");
    assert_eq!(value(&pairs(&mut admin, "SHOW STATE"), "reloads_failed"), "2");
    assert_eq!(value(&pairs(&mut admin, "SHOW CONFIG"), "preemption.policy"), "pow");

    fs::write(&governor.file, settings(governor.folder.path(), "never", 100)).unwrap();
    governor.signal(Signal::HUP);
    assert!(governor.told().starts_with("RELOADING=1"));
    assert_eq!(governor.told(), "READY=1");
    governor.logged("preemption.policy: pow -> never");
    let state = pairs(&mut admin, "SHOW STATE");
    assert_eq!((value(&state, "reloads"), value(&state, "state")), ("1".to_owned(), "active".to_owned()));
    admin.run("RELOAD").unwrap();
    let notices: Vec<String> = admin.take_notices().iter().map(ToString::to_string).collect();
    assert!(notices.iter().any(|notice| notice.contains("nothing is different")), "{notices:?}");

    let mut viewer = governor.console("viewer");
    let error = viewer.run("SHUTDOWN").unwrap_err().to_string();
    assert!(error.contains("permission denied"), "{error}");
    assert!(page(&address).contains("\"name\":\"high\""));

    drop((admin, viewer));
    governor.signal(Signal::TERM);
    assert_eq!(governor.told(), "STOPPING=1");
    governor.logged("ended");
    assert!(governor.ended());
}

fn page(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /state.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
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
    governor.signal(Signal::TERM);
    assert!(governor.ended());
}
