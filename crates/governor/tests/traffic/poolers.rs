//! pgbouncer in front of the governor and behind it.

use std::env;
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::thread;

use plimsoll_testing::{Need, skip, until};

use super::client::Client;
use super::drivers::{self, CHECKS};
use super::governed::Governed;
use super::server::{PASSWORD, Server};

/// A pgbouncer.
struct Pooler {
    child: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Pooler {
    /// Starts one whose sessions go to that host and port, in that mode and with that many of them for each user.
    /// `None`, after a skip, without an installed pgbouncer.
    fn start(host: &str, port: u16, mode: &str, size: u32) -> Option<Pooler> {
        let folder = tempfile::tempdir().unwrap();
        let own = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let users = ["low", "high"].map(|user| format!("\"{user}\" \"{PASSWORD}\"\n")).concat();
        let list = folder.path().join("users");
        fs::write(&list, users).unwrap();
        let settings = format!(
            "[databases]\n* = host={host} port={port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {}\nunix_socket_dir =\n\
             auth_type = scram-sha-256\nauth_file = {}\npool_mode = {mode}\ndefault_pool_size = {size}\nmax_client_conn = 200\n\
             ignore_startup_parameters = extra_float_digits,plimsoll.class\n",
            own.port(),
            list.display()
        );
        let file = folder.path().join("pgbouncer.ini");
        fs::write(&file, settings).unwrap();
        let path = format!("{}:/usr/sbin", env::var("PATH").unwrap_or_default());
        let mut command = Command::new("pgbouncer");
        command.env("PATH", path).arg("-q").stdin(Stdio::null());
        if rustix::process::geteuid().is_root() {
            // It refuses to run as root; that account must be able to use its folder and the server's socket.
            command.args(["-u", "postgres"]);
            fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        }
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let child = match command.arg(&file).stdout(log.try_clone().unwrap()).stderr(log).spawn() {
            Ok(child) => child,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                skip(Need::Pgbouncer, error);
                return None;
            }
            Err(error) => panic!("pgbouncer: {error}"),
        };
        let pooler = Pooler { child, address: own, _folder: folder };
        until("pgbouncer listens", || std::net::TcpStream::connect(own).is_ok());
        Some(pooler)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("pgbouncer said:\n{}", fs::read_to_string(self._folder.path().join("log")).unwrap_or_default());
        }
    }
}

fn psycopg() -> Command {
    drivers::python_program("python", "psycopg_checks.py")
}

#[test]
fn a_pooler_of_sessions_in_front() {
    let server = Server::start();
    let mut governed = Governed::start(&server);
    let Some(pooler) = Pooler::start("127.0.0.1", governed.address.port(), "session", 20) else { return };
    drivers::assert_told(&drivers::run(psycopg(), pooler.address, server.database()), CHECKS);
    assert!(governed.count(Some("low"), "transactions") > 0);
    governed.assert_alive();
}

/// Few sessions for many clients, each of which may get a different one for each transaction; important work bypasses
/// the pooler.
#[test]
fn a_pooler_of_transactions_in_front() {
    const CLIENTS: u64 = 8;
    const ROUNDS: u64 = 30;
    let server = Server::start();
    let mut governed = Governed::start(&server);
    let Some(pooler) = Pooler::start("127.0.0.1", governed.address.port(), "transaction", 3) else { return };
    let work = |address: SocketAddr, user: &'static str, column: &'static str| {
        let mut client =
            Client::connect(address, user, server.database()).unwrap_or_else(|failure| panic!("{failure}"));
        for round in 0..ROUNDS {
            loop {
                let steps = [
                    "BEGIN".to_owned(),
                    format!("UPDATE hot SET {column} = {column} + 1 WHERE id = 1"),
                    format!("UPDATE hot SET {column} = {column} + 1 WHERE id = 2"),
                    "COMMIT".to_owned(),
                ];
                match steps.iter().try_for_each(|sql| client.query(sql).map(drop)) {
                    Ok(()) => break,
                    Err(failure) if failure.state() == Some("40001") => drop(client.query("ROLLBACK").unwrap()),
                    Err(failure) => panic!("round {round}: {failure}"),
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| work(pooler.address, "low", "low"));
        }
        scope.spawn(|| work(governed.address, "high", "high"));
    });
    let sums = server.value("SELECT sum(low) || ' ' || sum(high) FROM hot");
    assert_eq!(sums, format!("{} {}", 2 * CLIENTS * ROUNDS, 2 * ROUNDS));
    governed.assert_alive();
}

/// The pooler hides which server process serves which client: nothing is preempted, and all else works.
#[test]
fn a_pooler_behind() {
    let server = Server::start();
    let own = server.own();
    let Some(pooler) = Pooler::start(&own.socket_folder().display().to_string(), own.port(), "session", 30) else {
        return;
    };
    let url = format!("postgres://127.0.0.1:{}/?sslmode=disable", pooler.address.port());
    let mut governed = Governed::start_at(&url, "", "", "mpl = 2");
    drivers::assert_told(&drivers::run(psycopg(), governed.address, server.database()), CHECKS);
    assert!(governed.count(Some("low"), "queued") > 0, "nobody was queued: admission was not tested");
    governed.assert_alive();
}
