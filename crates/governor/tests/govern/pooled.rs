//! A governor beside a server that applications use through pgbouncer in transaction mode: one user at the server, and
//! the clients known at pgbouncer alone.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::{ServerHost, ServerUrl};
use plimsoll_postgres::server::{PrivateServer, ServerSettings};
use plimsoll_testing::{Need, skip, until};
use tempfile::TempDir;

use super::beside::{beside_at, client, running};
use super::nice;
use super::process::{Governor, rows, value};

/// `shop` is important; statements of `reports` may be cancelled. At the server both are `app`.
const CLASSES: &str = r#"
[[class]]
name = "high"
priority = "high"
[[class]]
name = "batch"
priority = "low"
preemptible = "retry-by-application"
cpu = "nice 10"
[[class]]
name = "report"
priority = "low"
cpu = "nice 5"
[[rule]]
class = "high"
user = "shop"
[[rule]]
class = "batch"
user = "reports"
[preemption]
policy = "pabort"
weigh = false
"#;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    Tcp,
    Socket,
}

/// A server, pgbouncer in front of it, and a governor beside it.
struct Stage {
    server: PrivateServer,
    port: u16,
    pooler: Child,
    pooler_port: u16,
    folder: TempDir,
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

impl Stage {
    fn new(link: Link, pool_size: usize) -> Result<Stage, String> {
        let mut server = PrivateServer::start(ServerSettings::for_this_machine()).unwrap();
        let (port, user, database) = (free_port(), server.user().to_owned(), server.database().to_owned());
        let mut own =
            Connection::open(&ServerUrl::of_socket(server.socket_folder(), server.port(), &user, &database)).unwrap();
        own.run("create role app login; create table account (id int primary key, money int)").unwrap();
        own.run("insert into account select g, 0 from generate_series(1, 9) g; grant all on account to app").unwrap();
        own.run("alter system set listen_addresses = '127.0.0.1'").unwrap();
        own.run(&format!("alter system set port = {port}")).unwrap();
        drop(own);
        let mut settings = ServerSettings::for_this_machine();
        settings.set("max_connections", "60").unwrap();
        server.apply(settings).unwrap();
        let folder = tempfile::tempdir().unwrap();
        // pgbouncer changes to another account.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let pooler_port = free_port();
        let host = match link {
            Link::Tcp => "127.0.0.1".to_owned(),
            Link::Socket => server.socket_folder().display().to_string(),
        };
        let users = folder.path().join("users.txt");
        fs::write(&users, "\"shop\" \"\"\n\"reports\" \"\"\n\"stats\" \"\"\n\"app\" \"\"\n").unwrap();
        let config = format!(
            "[databases]\norders = host={host} port={port} dbname={database} user=app\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {pooler_port}\nunix_socket_dir =\nauth_type = trust\n\
             auth_file = {}\npool_mode = transaction\ndefault_pool_size = {pool_size}\nstats_users = stats\n",
            users.display()
        );
        let file = folder.path().join("pgbouncer.ini");
        fs::write(&file, config).unwrap();
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new("pgbouncer");
        command.arg("-q");
        if rustix::process::geteuid().is_root() {
            command.args(["-u", "postgres"]);
        }
        command.arg(&file).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let pooler = command.spawn().map_err(|error| format!("pgbouncer cannot be started: {error}"))?;
        let stage = Stage { server, port, pooler, pooler_port, folder };
        until("pgbouncer to serve", || Connection::open_console(&stage.console()).is_ok());
        Ok(stage)
    }

    fn at_pooler(&self, user: &str, database: &str) -> ServerUrl {
        let host = ServerHost::Tcp("127.0.0.1".to_owned());
        ServerUrl { host, ..ServerUrl::of_socket("", self.pooler_port, user, database) }
    }

    fn console(&self) -> ServerUrl {
        self.at_pooler("stats", "pgbouncer")
    }

    fn open(&self, user: &str) -> Connection {
        let opened = Connection::open(&self.at_pooler(user, "orders"));
        opened.unwrap_or_else(|error| panic!("{error}: {:?}", fs::read_to_string(self.folder.path().join("log"))))
    }

    fn govern(&self) -> Governor {
        let folder = self.server.socket_folder().display();
        let control =
            format!("postgres://{}@/{}?host={folder}&port={}", self.server.user(), self.server.database(), self.port);
        let poolers = format!("proxy = false\npgbouncer = [\"{}\"]", self.console());
        let settings = beside_at(&control, CLASSES);
        let governor = Governor::start_with(|text| settings(text).replacen("proxy = false", &poolers, 1), false);
        governor.logged("are governed from now on");
        governor
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = self.pooler.kill();
        let _ = self.pooler.wait();
    }
}

/// Begins a transaction; returns the server's process.
fn begin(connection: &mut Connection) -> i32 {
    connection.run("begin").unwrap();
    connection.text("select pg_backend_pid()").unwrap().unwrap().parse().unwrap()
}

/// Processes get the share of the client that they serve, and a report that is in the shop's way is cancelled.
#[test]
fn a_poolers_processes_have_the_class_of_their_clients() {
    if !rustix::process::geteuid().is_root() {
        return skip(Need::Root, "only root may give processes back what others took");
    }
    let stage = match Stage::new(Link::Socket, 2) {
        Ok(stage) => stage,
        Err(why) => return skip(Need::Pgbouncer, why),
    };
    // The tests themselves may run with less than an ordinary share, which the server inherits.
    let own = nice(std::process::id().cast_signed());
    let governor = stage.govern();
    let mut admin = governor.console("admin");
    let (mut shop, mut report) = (stage.open("shop"), stage.open("reports"));
    let process = begin(&mut report);
    until("the report's process to have its share", || nice(process) == Some(10));
    let (class, chosen_by, _) = client(&mut admin, process).unwrap();
    assert_eq!((class.as_str(), chosen_by.contains("reports")), ("batch", true), "{chosen_by}");
    let of_shop = begin(&mut shop);
    until("the shop's process to be known", || client(&mut admin, of_shop).is_some_and(|(class, ..)| class == "high"));
    // A new process has the share of its user's class, until the class of its client is known; shares follow classes.
    until("the shop's process to have its share", || nice(of_shop) == own);
    assert_eq!(nice(process), Some(10));
    shop.run("commit").unwrap();
    // Whoever comes next may be important.
    report.run("commit").unwrap();
    until("the process to have its share back", || nice(process) == own);
    until("both connections to be known", || {
        let state = value(&rows(&mut admin, "SHOW STATE"), "pgbouncer");
        state.contains("2 of its 2 server connections are sessions of this server")
    });

    begin(&mut report);
    report.run("update account set money = money + 1 where id = 1").unwrap();
    let sleeping = running(report, "select pg_sleep(60)");
    shop.run("update account set money = money + 1 where id = 1").unwrap();
    let (mut report, outcome) = sleeping.join().unwrap();
    let error = outcome.expect_err("it was in the way");
    assert_eq!(error.server().map(|error| error.code.as_str()), Some("57014"), "{error}");
    report.run("rollback").unwrap();
    drop(admin);
    governor.end();
}

/// Short transactions of both take turns on the same processes, and contend for a row. Only reports are ever cancelled:
/// a link that was true a moment ago hits nobody.
#[test]
fn no_transaction_is_taken_for_that_of_another_client() {
    const LENGTH: Duration = Duration::from_secs(6);
    let stage = match Stage::new(Link::Tcp, 3) {
        Ok(stage) => stage,
        Err(why) => return skip(Need::Pgbouncer, why),
    };
    let governor = stage.govern();
    let (is_over, cancelled, done) = (AtomicBool::new(false), AtomicU32::new(0), AtomicU32::new(0));
    let work = |user: &'static str, sleep: &'static str| {
        let mut connection = stage.open(user);
        let (is_over, cancelled, done) = (&is_over, &cancelled, &done);
        move || {
            while !is_over.load(Ordering::Relaxed) {
                connection.run("begin").unwrap();
                let sql = format!("update account set money = money + 1 where id = 1; select pg_sleep({sleep})");
                match connection.run(&sql) {
                    Ok(()) => {
                        connection.run("commit").unwrap();
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) => {
                        let code = error.server().map(|error| error.code.clone());
                        assert_eq!((user, code.as_deref()), ("reports", Some("57014")), "{error}");
                        cancelled.fetch_add(1, Ordering::Relaxed);
                        connection.run("rollback").unwrap();
                    }
                }
            }
        }
    };
    thread::scope(|scope| {
        for (user, sleep) in [("shop", "0.005"), ("shop", "0.03"), ("reports", "0.2"), ("reports", "0.05")] {
            scope.spawn(work(user, sleep));
        }
        let began = Instant::now();
        until("reports to be cancelled, for some time", || {
            began.elapsed() > LENGTH && cancelled.load(Ordering::Relaxed) > 0
        });
        is_over.store(true, Ordering::Relaxed);
    });
    let (cancelled, done) = (cancelled.into_inner(), done.into_inner());
    assert!(done > 20, "{done} done, {cancelled} cancelled");
    governor.end();
}
