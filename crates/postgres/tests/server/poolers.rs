//! Through pgbouncer, which gives a client the server's processes for a session or for a transaction.

use std::borrow::Cow;
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::{ServerHost, ServerUrl};
use plimsoll_postgres::database::PostgresDatabase;
use plimsoll_postgres::server::ServerSettings;
use plimsoll_testing::{Need, skip, until};
use plimsoll_workload::database::{Database, DatabaseError, Session};
use plimsoll_workload::schema::Schema;

use super::shared::database;

static NO_TABLES: Schema = Schema { name: Cow::Borrowed("pooled"), tables: &[] };

/// A pgbouncer.
struct Pooler {
    child: Child,
    url: ServerUrl,
    folder: tempfile::TempDir,
}

impl Pooler {
    /// Starts one in front of a server, in that mode, with that many of the server's processes. `None`, after a skip, without an
    /// installed pgbouncer.
    fn start(server: &ServerUrl, mode: &str, size: u32) -> Option<Pooler> {
        let folder = tempfile::tempdir().unwrap();
        // It refuses to run as root; its own account reads the file.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let own = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let ServerHost::Socket(socket) = &server.host else { panic!("a private server has a socket") };
        let settings = format!(
            "[databases]\n* = host={} port={} user={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {}\nunix_socket_dir =\n\
             auth_type = any\npool_mode = {mode}\ndefault_pool_size = {size}\nquery_wait_timeout = 20\n\
             ignore_startup_parameters = extra_float_digits\n",
            socket.display(),
            server.port,
            server.user,
            own.port()
        );
        let file = folder.path().join("pgbouncer.ini");
        fs::write(&file, settings).unwrap();
        let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("pgbouncer");
        command.env("PATH", path).arg("-q").stdin(Stdio::null());
        if rustix::process::geteuid().is_root() {
            command.args(["-u", "postgres"]);
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
        let host = ServerHost::Tcp(own.ip().to_string());
        let url = ServerUrl { host, port: own.port(), ..server.clone() };
        until("pgbouncer listens", || TcpStream::connect(own).is_ok());
        Some(Pooler { child, url, folder })
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("pgbouncer said:\n{}", fs::read_to_string(self.folder.path().join("log")).unwrap_or_default());
        }
    }
}

fn open(pooler: &Pooler) -> PostgresDatabase {
    PostgresDatabase::connect(pooler.url.clone(), ServerSettings::for_this_machine()).unwrap()
}

fn transact(session: &mut dyn Session) -> Result<(), DatabaseError> {
    session.begin()?;
    session.commit()
}

#[test]
fn sessions_of_a_pooler_serve() {
    let private = database();
    let Some(pooler) = Pooler::start(private.url(), "session", 10) else { return };
    let database = open(&pooler);
    let mut sessions = [(); 2].map(|()| database.session(&NO_TABLES).unwrap());
    for at in [0, 1, 0, 1] {
        transact(&mut *sessions[at]).unwrap();
        sessions[at].query("SELECT 1").unwrap();
    }
}

/// Story: sessions through a pooler of transactions met `prepared statement "begin_low" does not exist`, and nothing named the
/// pooler.
#[test]
fn a_pooler_of_transactions_is_named() {
    let private = database();
    let named = |result: Result<(), DatabaseError>, code: &str| {
        let error = result.unwrap_err().to_string();
        let remedy =
            "a pooler that changes the server's process between transactions lies between; set pool_mode = session";
        assert!(error.contains(code) && error.contains(remedy), "{error}");
    };
    // Two sessions share the process of the server in which the first has prepared its statements.
    let Some(pooler) = Pooler::start(private.url(), "transaction", 1) else { return };
    let database = open(&pooler);
    let mut first = database.session(&NO_TABLES).unwrap();
    transact(&mut *first).unwrap();
    named(database.session(&NO_TABLES).map(drop), "42P05");

    // While another client has that process, the session gets one in which nothing is prepared.
    let Some(pooler) = Pooler::start(private.url(), "transaction", 2) else { return };
    let database = open(&pooler);
    let mut session = database.session(&NO_TABLES).unwrap();
    let mut other = Connection::open(&pooler.url).unwrap();
    other.run("BEGIN").unwrap();
    named(transact(&mut *session), "26000");
}
