//! The relay in front of a real server.

use std::sync::Arc;

use plimsoll_governor::governor::Governor;
use plimsoll_governor::relay::Running;
use plimsoll_governor::settings::Settings;
use plimsoll_governor::watch;
use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;
use plimsoll_policy::ClassIndex;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};

use crate::world::*;

struct Behind {
    server: PrivateServer,
    world: (Arc<Governor>, Running),
}

impl Behind {
    fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let server = server();
        let world = governed(direct(&server), |settings| {
            settings.control = Some(direct(&server));
            change(settings);
        });
        Behind { world, server }
    }

    fn url(&self) -> ServerUrl {
        let address = tcp_address(&self.world.1);
        let (user, database) = (self.server.user(), self.server.database());
        url(&format!("postgres://{user}@{address}/{database}?sslmode=disable"))
    }

    fn open(&self) -> Connection {
        Connection::open(&self.url()).unwrap()
    }
}

pub fn server() -> PrivateServer {
    PrivateServer::start(ServerSettings::for_this_machine())
        .unwrap_or_else(|error| panic!("no PostgreSQL server to test on ({error}); install `postgresql`"))
}

/// The URL by which the server's own user connects directly.
pub fn direct(server: &PrivateServer) -> ServerUrl {
    ServerUrl::of_socket(server.socket_folder(), server.port(), server.user(), server.database())
}

/// A governor in front of the server at that URL.
pub fn governed(server: ServerUrl, change: impl FnOnce(&mut Settings)) -> (Arc<Governor>, Running) {
    let mut settings = settings("postgres://nobody@localhost/none");
    settings.server = server;
    change(&mut settings);
    govern(settings)
}

#[test]
fn a_real_server_is_as_it_was() {
    let behind = Behind::with(|settings| settings.classes.iter_mut().for_each(|class| class.retry_aborted = 1));
    let mut session = behind.open();
    assert_eq!(session.text("select 1 + 1").unwrap().as_deref(), Some("2"));
    let long = session.text("select repeat('x', 5000000)").unwrap().unwrap();
    assert_eq!(long.len(), 5_000_000);
    assert!(session.run("select 1/0").is_err());
    session.run("begin; create table t (a int); insert into t select generate_series(1, 1000); commit").unwrap();
    assert_eq!(session.text("select sum(a) from t").unwrap().as_deref(), Some("500500"));
    let pid: i32 = session.text("select pg_backend_pid()").unwrap().unwrap().parse().unwrap();
    assert_eq!(session.process_id(), pid);

    // A cancel through the governor.
    let canceller = session.canceller();
    let sleeper = std::thread::spawn(move || (session.run("select pg_sleep(60)").unwrap_err().to_string(), session));
    let mut own = Connection::open(&direct(&behind.server)).unwrap();
    let active = format!("select count(*) from pg_stat_activity where pid = {pid} and state = 'active'");
    until("the query to run", || own.text(&active).unwrap().as_deref() == Some("1"));
    canceller.send().unwrap();
    let (error, mut session) = sleeper.join().unwrap();
    assert!(error.contains("canceling statement due to user request"), "{error}");
    assert_eq!(session.text("select 3").unwrap().as_deref(), Some("3"));

    // The backend is ended: the client receives the server's message.
    own.run(&format!("select pg_terminate_backend({pid})")).unwrap();
    let error = session.run("select 4").unwrap_err().to_string();
    assert!(error.contains("terminating connection due to administrator command"), "{error}");

    // A client is killed in the middle of a block: its backend does not continue.
    let mut raw = Peer::new(std::net::TcpStream::connect(tcp_address(&behind.world.1)).unwrap());
    raw.send(&startup(&[("user", behind.server.user()), ("database", behind.server.database())]));
    raw.until(b'Z');
    raw.send(&query("begin"));
    raw.until(b'Z');
    raw.send(&query("select pg_sleep(60)"));
    let sleeping = "select count(*) from pg_stat_activity where query like '%pg_sleep(60)%' and state = 'active' \
                    and pid <> pg_backend_pid()";
    until("it to sleep", || own.text(sleeping).unwrap().as_deref() == Some("1"));
    drop(raw);
    until("it to be gone", || own.text(sleeping).unwrap().as_deref() == Some("0"));
    until("the registry to be empty", || behind.world.0.registry.is_empty());

    // The whole server stops.
    let mut session = behind.open();
    drop(own);
    drop(behind.server);
    let error = session.run("select 5").unwrap_err().to_string();
    assert!(!error.is_empty());
    let url = url(&format!("postgres://x@{}/x?sslmode=disable", tcp_address(&behind.world.1)));
    let error = Connection::open(&url).unwrap_err().to_string();
    assert!(error.contains("cannot be reached"), "{error}");
}

/// A class admits one transaction. One job held an advisory lock between its transactions, and another, inside, waited
/// for that lock. The first job's unlock waited for admission forever, as did every later job.
#[test]
fn an_unlock_is_admitted_although_the_class_is_full() {
    let low = ClassIndex(1);
    let behind = Behind::with(|settings| settings.classes[1].limits.mpl = Some(1));
    let governor = &behind.world.0;
    let watcher = watch::start(Arc::clone(governor));
    let (mut holder, mut waiter) = (behind.open(), behind.open());
    holder.run("select pg_advisory_lock(1)").unwrap();
    let waits = std::thread::spawn(move || waiter.run("select pg_advisory_lock(1)").map(|()| waiter));
    let mut own = Connection::open(&direct(&behind.server)).unwrap();
    let is_waiting = "select exists (select from pg_locks where locktype = 'advisory' and not granted)";
    until("the other to wait", || own.text(is_waiting).unwrap().as_deref() == Some("t"));
    holder.set_timeout(Some(PATIENCE)).unwrap();
    holder.run("select pg_advisory_unlock(1)").unwrap();
    let mut waiter = waits.join().unwrap().unwrap();
    // The limits hold as before.
    assert_eq!(waiter.text("select 1").unwrap().as_deref(), Some("1"));
    until("all to have left", || governor.inside(low) == 0);
    watcher.stop();
    assert_eq!(governor.statistics.class(low).let_in.load(std::sync::atomic::Ordering::Relaxed), 1);
}
