//! Recording of traffic in front of a real server.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plimsoll_capture::event::{Event, Unit};
use plimsoll_capture::messages::{Body, Messages, Parse};
use plimsoll_capture::reader::Capture;
use plimsoll_capture::summary::Summary;
use plimsoll_capture::writer::State;
use plimsoll_governor::capture::own_relay::{OwnRelay, record};
use plimsoll_governor::governor::Governor;
use plimsoll_governor::relay::Running;
use plimsoll_governor::settings;
use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;
use plimsoll_postgres::server::PrivateServer;
use plimsoll_testing::until;

use crate::postgres::{direct, governed, server};
use crate::world::{tcp_address, url};

struct Recorded {
    governor: Arc<Governor>,
    running: Running,
    server: PrivateServer,
    folder: tempfile::TempDir,
}

impl Recorded {
    fn new() -> Self {
        let server = server();
        let (governor, running) = governed(direct(&server), |settings| {
            settings.classes.iter_mut().for_each(|class| class.retry_aborted = 20);
        });
        Recorded { governor, running, server, folder: tempfile::tempdir().unwrap() }
    }

    fn url(&self) -> ServerUrl {
        let address = tcp_address(&self.running);
        url(&format!("postgres://{}@{address}/{}?sslmode=disable", self.server.user(), self.server.database()))
    }

    fn open(&self) -> Connection {
        Connection::open(&self.url()).unwrap()
    }

    /// Begins a capture; returns the warnings.
    fn begin(&self, change: impl FnOnce(&mut settings::Capture)) -> Vec<String> {
        let to = self.folder.path().join("traffic");
        let changed = self.governor.change(|settings| {
            settings.capture = settings::Capture { to: Some(to), redact: false, size_max: 1 << 30 };
            change(&mut settings.capture);
        });
        changed.unwrap().warnings
    }

    /// Ends the capture, and reads it.
    fn events(&self) -> Vec<Event> {
        assert!(self.governor.capture.finish());
        read(&self.folder.path().join("traffic"))
    }
}

fn read(folder: &Path) -> Vec<Event> {
    let mut events = Capture::open(folder).unwrap().events();
    let read = events.by_ref().collect::<Result<_, _>>().unwrap();
    assert_eq!(events.faults(), []);
    read
}

fn units(events: &[Event]) -> impl Iterator<Item = &Unit> {
    events.iter().filter_map(|event| match event {
        Event::Unit(unit) => Some(unit),
        _ => None,
    })
}

/// The texts that a unit runs or prepares.
fn texts(unit: &Unit) -> String {
    let text = Messages(&unit.request).filter_map(|message| match message.tag {
        b'Q' => Body(message.body).text().map(<[u8]>::to_vec),
        b'P' => Parse::read(message.body).map(|parse| parse.sql.to_vec()),
        _ => None,
    });
    String::from_utf8(text.collect::<Vec<_>>().join(&b' ')).unwrap()
}

#[test]
fn what_clients_send_and_receive_is_recorded() {
    let recorded = Recorded::new();
    let mut before = recorded.open();
    before.run("begin").unwrap();
    before.run("select 'not recorded: the transaction had begun'").unwrap();
    assert_eq!(recorded.begin(|_| {}), Vec::<String>::new());
    before.run("commit").unwrap();
    before.run("create table t (a int); insert into t select generate_series(1, 1000)").unwrap();
    let mut session = recorded.open();
    assert_eq!(session.text("select count(*) from t").unwrap().as_deref(), Some("1000"));
    assert_eq!(session.text_of_one("select sum(a) from t").unwrap().as_deref(), Some("500500"));
    assert!(session.run("select 1/0").is_err());
    let mut copy = session.copy_in("copy t from stdin (format binary)").unwrap();
    copy.write(b"\0\x01\0\0\0\x04\0\0\0\x07\0\x01\0\0\0\x04\0\0\0\x08").unwrap();
    copy.finish().unwrap();
    session.run("alter role current_user password 'geheim'").unwrap();
    session.run("begin").unwrap();
    session.run("select * from t").unwrap();
    session.run("rollback").unwrap();
    let process = session.process_id();
    drop(session);
    until("the session to end", || {
        recorded.governor.registry.all().iter().all(|card| card.key.get().map(|key| key.process) != Some(process))
    });
    let view = recorded.governor.capture.view(Instant::now());
    assert_eq!((view.state, view.is_redacted), ("recording", false));
    let events = recorded.events();
    let all: Vec<String> = units(&events).map(texts).collect();
    let told = all.join("\n");
    assert!(!told.contains("not recorded") && !told.contains("commit"), "{told}");
    let of = |text: &str| {
        units(&events).find(|unit| texts(unit).starts_with(text)).unwrap_or_else(|| panic!("no {text} in {told}"))
    };
    let made = of("create table");
    assert_eq!(
        (&made.answer.tags[..], made.answer.state),
        (&["CREATE TABLE".to_owned(), "INSERT 0 1000".to_owned()][..], b'I')
    );
    let counted = of("select count");
    assert_eq!((counted.answer.rows, &counted.answer.tags[..]), (1, &["SELECT 1".to_owned()][..]));
    assert!(counted.took_us > 0 && counted.answer.begin.windows(4).any(|bytes| bytes == b"1000"));
    // It was prepared first.
    let prepared: Vec<&Unit> = units(&events).filter(|unit| texts(unit).starts_with("select sum")).collect();
    assert!(prepared.iter().all(|unit| unit.answer.rows == 0) && !prepared.is_empty());
    let is_run = |unit: &&Unit| Messages(&unit.request).any(|message| message.tag == b'B');
    assert!(units(&events).filter(is_run).any(|unit| unit.answer.rows == 1));
    assert_eq!(of("select 1/0").answer.error.as_deref(), Some("22012"));
    let copied = of("copy t");
    let kinds: Vec<u8> = Messages(&copied.request).map(|message| message.tag).collect();
    assert!(kinds.starts_with(b"Qd") && kinds.ends_with(b"c"), "{kinds:?}");
    assert_eq!(copied.answer.tags, ["COPY 2"]);
    assert_eq!(of("alter role").answer.tags, ["ALTER ROLE"]);
    assert!(texts(of("alter role")).ends_with("password '<secret>'"));
    assert_eq!((of("begin").answer.state, of("select * from t").answer.rows), (b'T', 1002));
    let summary = Summary::of(&events);
    assert_eq!((summary.sessions, summary.lost_units(), summary.unanswered), (2, 0, 0));
    assert_eq!(summary.users.get(recorded.server.user()), Some(&2));
    assert!(events.iter().any(|event| matches!(event, Event::Closed(_))));
    let description = Capture::open(&recorded.folder.path().join("traffic")).unwrap().description;
    assert!(description.server_version.is_some_and(|version| version >= 130_000), "{description:?}");
}

/// Two transactions lock each other's rows; returns how many of their clients received an error.
fn cycle(recorded: &Recorded, own: &mut Connection) -> usize {
    let (mut first, mut second) = (recorded.open(), recorded.open());
    for (session, row) in [(&mut first, 1), (&mut second, 2)] {
        session.run("begin").unwrap();
        session.run(&format!("update t set b = b + 1 where a = {row}")).unwrap();
    }
    let end = |mut session: Connection, row: i32| {
        let ended = session.run(&format!("update t set b = b + 10 where a = {row}"));
        session.run(if ended.is_ok() { "commit" } else { "rollback" }).unwrap();
        usize::from(ended.is_err())
    };
    let first = std::thread::spawn(move || end(first, 2));
    let is_waiting = "select exists (select from pg_locks where not granted)";
    until("the first to wait", || own.text(is_waiting).unwrap().as_deref() == Some("t"));
    end(second, 1) + first.join().unwrap()
}

/// The server fails one of two transactions, the governor runs it again, and its client notices nothing: the capture has
/// what the clients saw.
#[test]
fn a_transaction_that_is_run_again_is_recorded_once() {
    let recorded = Recorded::new();
    let mut own = Connection::open(&direct(&recorded.server)).unwrap();
    own.run("create table t (a int primary key, b int); insert into t values (1, 0), (2, 0)").unwrap();
    own.run("alter system set deadlock_timeout = '100ms'").unwrap();
    own.run("select pg_reload_conf()").unwrap();
    // The first shows the governor what is older than later transactions.
    assert_eq!(cycle(&recorded, &mut own), 1);
    recorded.begin(|_| {});
    assert_eq!(cycle(&recorded, &mut own), 0);
    let replays: u64 =
        recorded.governor.statistics.classes().map(|class| class.replays_verified.load(Ordering::Relaxed)).sum();
    assert_eq!(replays, 1);
    let events = recorded.events();
    let updates: Vec<&Unit> = units(&events).filter(|unit| texts(unit).starts_with("update")).collect();
    assert_eq!((updates.len(), units(&events).count()), (4, 8));
    assert!(units(&events).all(|unit| unit.answer.error.is_none()));
    // The client whose transaction was run again has waited for all of it.
    assert!(updates.iter().any(|unit| unit.took_us > 50_000), "{updates:?}");
}

#[test]
fn traffic_goes_on_where_nothing_can_be_recorded() {
    let recorded = Recorded::new();
    let mut session = recorded.open();
    let warnings = recorded.begin(|capture| capture.to = Some("/dev/null/traffic".into()));
    assert!(warnings[0].contains("cannot record to /dev/null/traffic"), "{warnings:?}");
    assert_eq!(recorded.governor.capture.view(Instant::now()).state, "failed");
    assert_eq!(session.text("select 1").unwrap().as_deref(), Some("1"));
    // It reaches its size: texts of hashes hardly shrink.
    assert_eq!(recorded.begin(|capture| capture.size_max = 1 << 20), Vec::<String>::new());
    let text = session.text("select string_agg(md5(i::text), '') from generate_series(1, 4000) i").unwrap().unwrap();
    for round in 0..80 {
        assert_eq!(session.text(&format!("select length('{text}'), {round}")).unwrap().as_deref(), Some("128000"));
        std::thread::sleep(Duration::from_millis(5));
    }
    until("the capture to be full", || recorded.governor.capture.view(Instant::now()).state == "full");
    assert_eq!(session.text("select 2").unwrap().as_deref(), Some("2"));
    let events = recorded.events();
    let summary = Summary::of(&events);
    assert_eq!(summary.units + summary.lost_units(), 82);
    assert!(summary.units >= 1 && summary.lost["size"] >= 10, "{summary:?}");
    // A second capture takes the next folder, and totals go on.
    recorded.begin(|capture| capture.redact = true);
    session.run("select 'Anna'").unwrap();
    assert!(recorded.governor.capture.finish());
    let events = read(&recorded.folder.path().join("traffic-2"));
    let text = units(&events).map(texts).find(|text| text.starts_with("select '")).unwrap();
    assert!(text.len() == "select 'Anna'".len() && !text.contains("Anna"), "{text}");
    assert_eq!(recorded.governor.capture.totals().units, summary.units + Summary::of(&events).units);
}

#[test]
fn a_relay_of_its_own_records_until_it_is_told_to_end() {
    let server = server();
    let around = tempfile::tempdir().unwrap();
    let folder = around.path().join("traffic");
    let listen = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let asked = OwnRelay {
        listen,
        server: direct(&server).to_string(),
        trust_clients: true,
        capture: settings::Capture { to: Some(folder.clone()), redact: false, size_max: 1 << 30 },
    };
    let stop = AtomicBool::new(false);
    let recorded = std::thread::scope(|scope| {
        let recording = scope.spawn(|| record(&asked, None, &stop, &mut |_, _, _| {}));
        until("it to listen", || std::net::TcpStream::connect(listen).is_ok());
        let through = format!("postgres://{}@{listen}/{}?sslmode=disable", server.user(), server.database());
        let mut session = Connection::open(&url(&through)).unwrap();
        assert_eq!(session.text("select 1").unwrap().as_deref(), Some("1"));
        stop.store(true, Ordering::Relaxed);
        let ended = recording.join().unwrap().unwrap();
        assert!(session.run("select 2").is_err(), "the relay has ended");
        ended
    });
    assert!(recorded.is_written);
    assert_eq!(recorded.progress.state, State::Ended);
    let events = read(&folder);
    let summary = Summary::of(&events);
    assert_eq!((summary.sessions, summary.units), (1, recorded.progress.units));
    assert!(matches!(events.last(), Some(Event::Closed(_))), "{:?}", events.last());
    // The folder is taken.
    let error = record(&asked, None, &stop, &mut |_, _, _| {}).unwrap_err().to_string();
    assert!(error.contains("not empty"), "{error}");
}
