//! A governor in a process of its own, and its clients and operators.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use plimsoll_governor::admin::command::COMMANDS;
use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::{Password, ServerUrl};
use plimsoll_postgres::server::{PrivateServer, ServerSettings};
use plimsoll_testing::until;
use rustix::process::{Pid, Signal, kill_process};

use super::{EXPECTED_END, PATIENCE, SETTINGS};

/// A governor in a process of its own.
pub struct Governor {
    /// The directory of its settings and sockets.
    pub folder: tempfile::TempDir,
    /// The file of its settings.
    pub file: PathBuf,
    pub child: Process,
    notify: UnixDatagram,
    log: Receiver<serde_json::Value>,
}

impl Governor {
    /// Starts one whose server does not exist: most tests here do not need it.
    pub fn start() -> Self {
        Governor::start_with(|text| text, false)
    }

    /// Starts one with changed settings, which is stopped or drained in the end.
    pub fn start_with(change: impl FnOnce(String) -> String, is_stopped: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plimsoll.toml");
        let notify = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        notify.set_read_timeout(Some(PATIENCE)).unwrap();
        fs::write(&file, change(settings(folder.path(), "pow", 2000))).unwrap();
        let (child, log) = spawn(folder.path(), &file, is_stopped);
        let governor = Governor { folder, file, child, notify, log };
        assert_eq!(governor.told(), "READY=1");
        governor
    }

    /// Kills it and starts another one with the same settings.
    pub fn kill_and_start(&mut self) {
        self.child.0.kill().unwrap();
        self.child.0.wait().unwrap();
        (self.child, self.log) = spawn(self.folder.path(), &self.file, false);
        assert_eq!(self.told(), "READY=1");
    }

    /// Starts another one with the same settings beside it, and waits until that serves; returns the first one.
    pub fn succeed(&mut self) -> Predecessor {
        let (child, log) = spawn(self.folder.path(), &self.file, false);
        let child = std::mem::replace(&mut self.child, child);
        let before = Predecessor { child, _log: std::mem::replace(&mut self.log, log) };
        // A governor without sessions ends at once, and reports that to the same socket.
        while self.told() != "READY=1" {}
        before
    }

    /// Starts another one with the same settings beside it, which must fail.
    pub fn fail_to_succeed(&self) {
        let (child, _log) = spawn(self.folder.path(), &self.file, false);
        assert!(!child.ended(), "it has started");
    }

    /// The next message to systemd.
    pub fn told(&self) -> String {
        let mut bytes = [0; 256];
        let length = loop {
            match self.notify.recv(&mut bytes) {
                // A machine that was paused for a moment interrupts a wait with a time-out.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result.unwrap(),
            }
        };
        String::from_utf8_lossy(&bytes[..length]).trim_end().to_owned()
    }

    /// Waits for a line of the log whose message contains the text.
    pub fn logged(&self, part: &str) -> serde_json::Value {
        loop {
            let line = self.log.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("`{part}` was never logged"));
            if line["message"].as_str().is_some_and(|message| message.contains(part)) {
                return line;
            }
        }
    }

    /// The rest of a log line after the given words, which occur in no other line.
    pub fn logged_behind(&self, words: &str) -> String {
        let line = self.logged(words);
        let (_, behind) = line["message"].as_str().and_then(|message| message.split_once(words)).unwrap();
        behind.trim_end_matches('/').to_owned()
    }

    pub fn process(&self) -> Pid {
        Pid::from_child(&self.child.0)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.process(), signal).unwrap();
    }

    /// A client that has sent nothing.
    pub fn client(&self) -> UnixStream {
        let stream = UnixStream::connect(self.folder.path().join(".s.PGSQL.6432")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Its CPU time, in hundredths of a second.
    pub fn cpu_ticks(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.process())).unwrap();
        let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    /// An operator's connection to it.
    pub fn console(&self, user: &str) -> Connection {
        let mut url = ServerUrl::of_socket(self.folder.path(), 6432, user, "plimsoll");
        url.password = Some(Password::new(format!("{user}'s password")));
        Connection::open(&url).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Waits for its end; returns whether it was the expected one.
    pub fn ended(self) -> bool {
        self.child.ended()
    }

    /// Drains it, and waits for its end.
    pub fn end(self) {
        self.signal(Signal::TERM);
        assert!(self.ended());
    }
}

/// A governor that another one has replaced.
pub struct Predecessor {
    pub child: Process,
    _log: Receiver<serde_json::Value>,
}

/// The process of a governor.
pub struct Process(Child);

impl Process {
    pub fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// Waits for its end; returns whether it was the expected one.
    pub fn ended(mut self) -> bool {
        until("the governor to end", || !self.lives());
        self.0.wait().unwrap().success()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended already, unless a test has failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a governor; returns its process, and its log line by line.
fn spawn(folder: &Path, file: &Path, is_stopped: bool) -> (Process, Receiver<serde_json::Value>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["governor", "--exact", "--nocapture", "--test-threads=1"])
        .env(SETTINGS, file)
        .env("NOTIFY_SOCKET", folder.join("notify"))
        .env("PLIMSOLL_STATE", folder.join("state"))
        .envs(is_stopped.then_some((EXPECTED_END, "stopped")))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let (sender, log) = mpsc::channel();
    thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            // The test's own output is not JSON.
            if let Ok(value) = serde_json::from_str(&line)
                && sender.send(value).is_err()
            {
                return;
            }
        }
    });
    (Process(child), log)
}

/// The setting for a server that does not exist.
pub const NO_SERVER: &str = "server = \"postgres://nobody@localhost:1/none?sslmode=disable\"";

pub fn settings(folder: &Path, policy: &str, clients_max: u32) -> String {
    format!(
        r#"
{NO_SERVER}
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

/// The rows of an answer; a null is an empty text.
pub fn rows(console: &mut Connection, statement: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut each =
        |row: &[Option<&str>]| rows.push(row.iter().map(|cell| cell.unwrap_or_default().to_owned()).collect());
    console.text_rows(statement, &mut each).unwrap_or_else(|error| panic!("{statement}: {error}"));
    rows
}

/// The place of a column in the answer to `SHOW` and these words.
pub fn column(words: &str, name: &str) -> usize {
    let command = COMMANDS.iter().find(|command| command.words == words).expect("a command");
    command.columns.iter().position(|column| column.name == name).unwrap_or_else(|| panic!("{words} has no {name}"))
}

/// A column of a row of `SHOW CLIENTS`.
pub fn of_client<'r>(row: &'r [String], name: &str) -> &'r str {
    &row[column("CLIENTS", name)]
}

/// The second cell of the row with that key; the row must exist.
pub fn value(rows: &[Vec<String>], key: &str) -> String {
    rows.iter().find(|row| row[0] == key).unwrap_or_else(|| panic!("no {key} in {rows:?}"))[1].clone()
}

/// The answer of its page.
pub fn get(page: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(page).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

pub fn start_server() -> PrivateServer {
    PrivateServer::start(ServerSettings::for_this_machine())
        .unwrap_or_else(|error| panic!("no PostgreSQL server to test on ({error}); install `postgresql`"))
}

/// The URL of a server for a user, without a governor.
pub fn url(server: &PrivateServer, user: &str) -> ServerUrl {
    ServerUrl::of_socket(server.socket_folder(), server.port(), user, server.database())
}

/// Opens a connection that must succeed.
pub fn open(url: &ServerUrl) -> Connection {
    Connection::open(url).unwrap_or_else(|error| panic!("{error}"))
}

/// The URL parameters with the socket of a server.
pub fn socket(server: &PrivateServer) -> String {
    format!("host={}&port={}", server.socket_folder().display(), server.port())
}

/// Settings of a governor in front of the given server, with a login of its own. The server's database has the
/// console's usual name.
pub fn in_front_of(server: &PrivateServer) -> impl FnOnce(String) -> String + use<> {
    let (user, database, socket) = (server.user(), server.database(), socket(server));
    let lines = format!("server = \"postgres:///?{socket}\"\ncontrol = \"postgres://{user}@/{database}?{socket}\"");
    move |text| {
        let text = text.replace(NO_SERVER, &lines);
        text.replace("[http]", "[admin]\ndatabase = \"console\"\n[http]")
    }
}
