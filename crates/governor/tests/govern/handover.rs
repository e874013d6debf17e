//! A new governor takes over from the old one under load: no client is refused, and none is disconnected.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use plimsoll_pg::connection::{Cancel, Connection};
use plimsoll_pg::url::ServerUrl;
use plimsoll_postgres::server::PrivateServer;
use plimsoll_testing::until;

use super::process::{Governor, NO_SERVER, get, open, socket, start_server, url};

/// A server, and a governor in front of it that permits a handover.
struct Stage {
    server: PrivateServer,
    governor: Governor,
    /// The governor's TCP address, and that of its page.
    address: String,
    page: String,
}

/// `addresses` and other lines of `[listen]`.
fn stage(low: &str) -> Stage {
    let server = start_server();
    open(&url(&server, server.user())).run("create role shop login").unwrap();
    let (governor, address, page) = in_front_of(&server, low, |text| text);
    Stage { server, governor, address, page }
}

/// A governor, its TCP address and that of its page.
fn in_front_of(server: &PrivateServer, low: &str, change: impl FnOnce(String) -> String) -> (Governor, String, String) {
    let governor = Governor::start_with(
        |text| {
            let lines = format!("server = \"postgres:///?{}\"\ntrust_clients = true", socket(server));
            let text = text.replace(NO_SERVER, &lines);
            let text = text.replace("addresses = []", "addresses = [\"127.0.0.1:0\"]\nhandover = \"handover\"");
            let text = text.replace("workers = 1", "workers = 2");
            let classes = format!(
                "[[class]]\nname = \"high\"\npriority = \"high\"\n{low}\n[[class]]\nname = \"low\"\npriority = \"low\"\n"
            );
            change(text.replace("[http]", &format!("{classes}[admin]\ndatabase = \"console\"\n[http]")))
        },
        false,
    );
    let address = format!("127.{}", governor.logged_behind("clients come in at 127."));
    let page = governor.logged_behind("the live page is at http://");
    (governor, address, page)
}

impl Stage {
    fn url(&self) -> ServerUrl {
        let url = format!("postgres://shop@{}/{}?sslmode=disable", self.address, self.server.database());
        ServerUrl::parse_in(&url, &|_| None).unwrap()
    }

    fn open(&self) -> Connection {
        open(&self.url())
    }

    fn is_alive(&self) -> bool {
        get(&self.page, "/livez").starts_with("HTTP/1.1 200")
    }
}

/// Clients that connect, run a query and disconnect repeatedly, until the test stops them.
struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Load {
    fn start(urls: Vec<ServerUrl>) -> Load {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let client = |url: ServerUrl| {
            let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let mut client = Connection::open(&url).unwrap_or_else(|error| panic!("refused: {error}"));
                    for _ in 0..3 {
                        let answer = client.text("select 41 + 1").unwrap_or_else(|error| panic!("cut off: {error}"));
                        assert_eq!(answer.as_deref(), Some("42"));
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let threads = urls.into_iter().map(client).collect();
        Load { stop, done, threads }
    }

    /// Waits until `more` further clients have finished.
    fn wait_for(&self, more: u64) {
        let from = self.done.load(Ordering::Relaxed);
        until("clients to come and go", || {
            assert!(!self.threads.iter().any(thread::JoinHandle::is_finished), "a client failed");
            self.done.load(Ordering::Relaxed) >= from + more
        });
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|client| client.join().expect("a client was refused or cut off"));
    }
}

#[test]
fn a_successor_takes_over_and_nobody_is_refused_or_cut_off() {
    let mut stage = stage("");
    let mode = fs::metadata(stage.governor.folder.path().join("handover")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "of other users nobody may ask");
    let by_socket = ServerUrl::of_socket(stage.governor.folder.path(), 6432, "shop", stage.server.database());
    let by_socket = {
        let port: u16 = stage.address.rsplit(':').next().unwrap().parse().unwrap();
        ServerUrl { port, ..by_socket }
    };
    let load = Load::start(vec![stage.url(), stage.url(), by_socket.clone(), by_socket.clone()]);
    load.wait_for(20);
    let mut old_session = stage.open();
    old_session.run("begin; create temporary table mine (x int); insert into mine values (7)").unwrap();

    let mut first = stage.governor.succeed();
    load.wait_for(50);
    let mut middle_session = stage.open();
    let second = stage.governor.succeed();
    load.wait_for(50);
    assert!(stage.is_alive(), "the page has moved, too");
    assert!(first.child.lives(), "it still has a session");

    // A session stays with its governor, and so does its transaction.
    assert_eq!(old_session.text("select x from mine").unwrap().as_deref(), Some("7"));
    old_session.run("commit").unwrap();
    assert_eq!(middle_session.text("select 1").unwrap().as_deref(), Some("1"));
    drop((old_session, middle_session));
    assert!(first.child.ended() && second.child.ended(), "each ends with its last session");

    // The governor that has ended did not remove anything that the new one needs.
    load.wait_for(50);
    drop(open(&by_socket));
    load.end();
    stage.governor.end();
}

/// Clients send cancels to the address that they know, which is now the successor's.
#[test]
fn a_cancel_finds_the_session_that_is_elsewhere() {
    let mut stage = stage("mpl = 1");
    let mut running = stage.open();
    let mut queued = stage.open();
    let cancels = [running.canceller(), queued.canceller()];
    let first = stage.governor.succeed();
    let second = stage.governor.succeed();
    let running = thread::spawn(move || running.run("select pg_sleep(600)").unwrap_err().to_string());
    let mut own = open(&url(&stage.server, stage.server.user()));
    let mut wait_for = |count: &str| {
        let sleeping = "select count(*) from pg_stat_activity where query like 'select pg_sleep%' and state = 'active'";
        until("statements to sleep or to end", || own.text(sleeping).unwrap().as_deref() == Some(count));
    };
    wait_for("1");
    let queued = thread::spawn(move || queued.run("select pg_sleep(601)").unwrap_err().to_string());
    // It waits for admission, unknown to the server: a cancel that arrives too early is repeated.
    until("somebody to hear of the cancel", || {
        cancels[1].deliver().unwrap();
        thread::sleep(Duration::from_millis(20));
        queued.is_finished()
    });
    assert!(queued.join().unwrap().contains("canceling statement due to user request"));
    cancels[0].deliver().unwrap();
    wait_for("0");
    assert!(running.join().unwrap().contains("canceling statement due to user request"));
    assert!(first.child.ended() && second.child.ended());
}

/// The new program fails to start because its settings are wrong, or ends before it serves. The old one continues.
#[test]
fn a_successor_that_fails_changes_nothing() {
    let mut stage = stage("");
    let text = fs::read_to_string(&stage.governor.file).unwrap();
    // The page has an address that this machine does not have: the successor has requested the sockets before it fails.
    fs::write(&stage.governor.file, text.replace("address = \"127.0.0.1:0\"", "address = \"192.0.2.1:1\"")).unwrap();
    stage.governor.fail_to_succeed();
    stage.governor.logged("that should take over does not");
    assert_eq!(stage.open().text("select 1").unwrap().as_deref(), Some("1"));
    let folder = stage.governor.folder.path().to_owned();
    let sockets = fs::read_dir(folder)
        .unwrap()
        .filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().starts_with(".s.PGSQL."));
    assert_eq!(sockets.count(), 1, "its file is still there");
    fs::write(&stage.governor.file, text).unwrap();
    let before = stage.governor.succeed();
    assert_eq!(stage.open().text("select 1").unwrap().as_deref(), Some("1"));
    assert!(before.child.ended());
}

/// Two governors behind one address: a load balancer gives a cancel to the one that does not have the session. It is
/// passed on once, and never in a circle.
#[test]
fn a_cancel_finds_the_session_of_a_peer() {
    let first = stage("");
    let mut running = first.open();
    // The peers of the second: the first, one that is gone, itself, and a third that only listens.
    let third = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let peer_of_first = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let text = fs::read_to_string(&first.governor.file).unwrap();
    let circle = format!("peers = [\"{}\"]\nworkers = 2", peer_of_first.local_addr().unwrap());
    fs::write(&first.governor.file, text.replace("workers = 2", &circle)).unwrap();
    first.governor.signal(rustix::process::Signal::HUP);
    first.governor.logged("settings were read again");
    let peers =
        format!("peers = [\"{}\", \"127.0.0.1:1\", \"{}\"]\nworkers = 2", first.address, third.local_addr().unwrap());
    let (second, address, _) = in_front_of(&first.server, "", |text| text.replace("workers = 2", &peers));
    let at_second = ServerUrl::parse_in(&format!("postgres://shop@{address}/x?sslmode=disable"), &|_| None).unwrap();
    let canceller = Cancel::by_key(&at_second, running.process_id(), &running.secret_key());
    let answer = thread::spawn(move || running.run("select pg_sleep(600)").unwrap_err().to_string());
    let mut own = open(&url(&first.server, first.server.user()));
    until("the statement to run", || {
        let sql = "select count(*) from pg_stat_activity where query like 'select pg_sleep(600)%' and state = 'active'";
        own.text(sql).unwrap().as_deref() == Some("1")
    });
    let delivery = thread::spawn(move || canceller.deliver());
    assert!(answer.join().unwrap().contains("canceling statement due to user request"));
    // The client waits until every peer is done, and so does not learn which one knew its key.
    let (asked, _) = third.accept().unwrap();
    thread::sleep(Duration::from_millis(50));
    assert!(!delivery.is_finished());
    drop(asked);
    delivery.join().unwrap().unwrap();
    // A key that nobody knows: the first has it from the second, and asks nobody.
    peer_of_first.set_nonblocking(true).unwrap();
    let mut unknown = std::net::TcpStream::connect(("127.0.0.1", at_second.port)).unwrap();
    std::io::Write::write_all(&mut unknown, &[0, 0, 0, 16, 4, 210, 22, 46, 0, 0, 0, 1, 9, 9, 9, 9]).unwrap();
    drop(third.accept().unwrap());
    assert_eq!(std::io::Read::read(&mut unknown, &mut [0]).unwrap_or(0), 0);
    assert!(peer_of_first.accept().is_err(), "a cancel that was passed on is not passed on again");
    first.governor.end();
    second.end();
}
