//! Observations of a private server with sessions that follow scripts.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use plimsoll_observe::observe::observe;
use plimsoll_observe::results::{EndReason, HolderState, Observation};
use plimsoll_observe::settings_file::settings_file;
use plimsoll_pg::connection::{Connection, SUPPORTED};
use plimsoll_pg::url::ServerUrl;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};
use plimsoll_settings::read::{Surroundings, parse};
use plimsoll_testing::postgres_version;

/// Tests run one after the other: each observes everything on its server, and cores are few.
static TURN: Mutex<()> = Mutex::new(());

fn server() -> PrivateServer {
    server_of(None)
}

/// A server with the programs in that folder, or the installed ones.
fn server_of(programs: Option<&str>) -> PrivateServer {
    let mut settings = ServerSettings::for_this_machine();
    if let Some(programs) = programs {
        settings.set("bin_folder", programs).expect("a folder");
    }
    for (name, value) in [("shared_buffers", "64MB"), ("fsync", "off"), ("max_wal_size", "256MB")] {
        settings.set(name, value).expect("an option with a value of its kind");
    }
    let server = PrivateServer::start(settings).expect("these tests need a PostgreSQL server");
    let mut connection = Connection::open(&url(&server, server.user(), "setup")).expect("it has just started");
    let accounts = "create table accounts (id int primary key, balance int); \
        insert into accounts select i, 0 from generate_series(1, 10) as i; grant all on accounts to public; \
        create role shop login; create role batch login; create role nobody login; \
        create role monitor login in role pg_monitor";
    connection.run(accounts).expect("the server is new");
    server
}

fn url(server: &PrivateServer, user: &str, application: &str) -> ServerUrl {
    let url = ServerUrl::of_socket(server.socket_folder(), server.port(), user, server.database());
    ServerUrl { application_name: application.to_owned(), ..url }
}

/// Clients that repeat a script until they are dropped.
struct Clients {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Clients {
    fn none() -> Clients {
        Clients { stop: Arc::default(), threads: Vec::new() }
    }

    /// Adds a client, which repeats these steps: SQL, or a pause in milliseconds.
    fn with(mut self, url: ServerUrl, steps: &'static [&'static str]) -> Clients {
        let stop = Arc::clone(&self.stop);
        self.threads.push(spawn(move || {
            let Ok(mut connection) = Connection::open(&url) else { return };
            while !stop.load(Ordering::Relaxed) {
                for step in steps {
                    match step.parse() {
                        Ok(pause) => sleep(Duration::from_millis(pause)),
                        // The server may be shut down under this client.
                        Err(_) if connection.run(step).is_err() && connection.lost().is_some() => return,
                        Err(_) => {}
                    }
                }
            }
        }));
        self
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn watch(url: &ServerUrl, seconds: f64) -> Observation {
    observe(url, Duration::from_secs_f64(seconds), &AtomicBool::new(false), &mut |_| {}).expect("the server answers")
}

/// A shop whose short transactions meet a batch job that holds a row while it thinks.
fn hot_rows(server: &PrivateServer) -> Clients {
    const SHOP: &[&str] = &["update accounts set balance = balance + 1 where id = 1", "2"];
    const BATCH: &[&str] = &["begin", "update accounts set balance = 0 where id = 1", "1300", "commit", "40"];
    let shop = || url(server, "shop", "web");
    let clients = (0..5).fold(Clients::none(), |clients, _| clients.with(shop(), SHOP));
    clients.with(url(server, "batch", "nightly"), BATCH)
}

fn check_shares(observation: &Observation) {
    let lists = [&observation.users, &observation.applications, &observation.databases];
    for part in lists.into_iter().flatten().chain([&observation.time]) {
        let share = part.share.expect("it has time");
        let sum = share.running + share.core_wait.unwrap_or(0.0) + share.lock + share.disk + share.client + share.other;
        assert!((sum - 1.0).abs() < 1e-9, "{part:?}");
    }
}

/// Every version understands every query of an observation, and hot rows are found.
#[test]
fn every_version_can_be_observed() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for major in SUPPORTED {
        let Some(folder) = postgres_version(major) else { return };
        let server = server_of(folder.to_str());
        let mut connection = Connection::open(&url(&server, server.user(), "setup")).expect("it has just started");
        connection.run("create extension if not exists pg_stat_statements").expect("it comes with the version");
        let clients = hot_rows(&server);
        let observation = watch(&url(&server, "monitor", ""), 3.0);
        drop(clients);
        let missing: Vec<&str> = observation.missing.iter().map(|missing| missing.what.as_str()).collect();
        // Version 13 has no query ids of sessions, and does not report since when they wait.
        let of_13 =
            ["which statement of pg_stat_statements a session is in", "the order in which sessions wait for a lock"];
        let expected = if major == 13 { &of_13[..] } else { &[] };
        assert_eq!(missing, expected, "PostgreSQL {major}");
        assert!(
            observation.users.iter().any(|part| part.name == "shop"),
            "PostgreSQL {major}: {:?}",
            observation.users
        );
        assert!(!observation.locks.blockers.is_empty(), "PostgreSQL {major}: nobody blocks");
        assert!(observation.server.version.starts_with(&major.to_string()), "{:?}", observation.server);
    }
}

#[test]
fn the_top_blocker_of_hot_rows_is_found() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let server = server();
    let clients = hot_rows(&server);
    // A busy machine observes half of the shop's transactions, some five per second; twenty are needed to call them
    // frequent.
    let observation = watch(&url(&server, "monitor", ""), 16.0);
    drop(clients);
    check_shares(&observation);
    assert_eq!(observation.ended, EndReason::InTime);
    assert_eq!(observation.missing, [], "a member of pg_monitor on the server's machine sees everything");

    let users: Vec<&str> = observation.users.iter().map(|part| part.name.as_str()).collect();
    assert!(users == ["shop", "batch"], "and not our own session: {users:?}");
    let shop = observation.users[0].share.unwrap();
    assert!(shop.lock > 0.8, "{shop:?}");
    let batch = observation.users[1].share.unwrap();
    assert!(batch.client > 0.8, "{batch:?}");

    let top = &observation.locks.blockers[0];
    assert_eq!((top.who.login.user.as_str(), top.who.login.application.as_str()), ("batch", "nightly"), "{top:?}");
    assert_eq!(top.who.statement, "update accounts set balance = ? where id = ?");
    assert_eq!(top.did[0].0, HolderState::Thought, "{top:?}");
    assert!(top.of_explained > 0.8 && top.depth >= 2, "{top:?}");
    assert!(observation.locks.explained_s > 0.8 * observation.locks.waited_s, "{:?}", observation.locks);
    assert!(observation.locks.longest_s > 0.8, "{:?}", observation.locks.longest_s);
    let tables: Vec<&str> = observation.locks.objects.iter().filter_map(|it| it.table.as_deref()).collect();
    assert!(tables.contains(&"public.accounts"), "{:?}", observation.locks.objects);

    let standings: Vec<(&str, &str)> =
        observation.classes.iter().map(|class| (class.login.user.as_str(), class.standing.as_str())).collect();
    assert_eq!(standings, [("shop", "important"), ("batch", "low")], "{:?}", observation.classes);
    // Important work waited behind a less important holder that thought: a governor would change that.
    let levers = &observation.governor.levers;
    assert!(levers[1].what.contains("thinking") && levers[1].of_important.unwrap() > 0.5, "{levers:?}");
    let statement = observation.statements.iter().find(|it| it.part.name.contains("balance + ?")).unwrap();
    assert!(statement.query_id.is_some() && statement.fingerprint.is_some(), "{statement:?}");
    assert!(statement.calls_per_s.is_none_or(|calls| calls > 1.0), "{statement:?}");
    let proposed = settings_file(&observation, &url(&server, "monitor", ""));
    let folder = std::path::Path::new("/");
    let environment = |name: &str| (name == "USER").then(|| "ann".to_owned());
    let surroundings = Surroundings { folder, environment: &environment, classes: &[] };
    let config = parse(&proposed, "p.toml", &surroundings).unwrap_or_else(|error| panic!("{error}\n{proposed}"));
    assert!(config.settings.rules.rules().iter().any(|rule| rule.to_string().contains("user batch")), "{proposed}");

    // On a slow machine a look costs more, and fewer are taken: only the share of a core is bounded.
    let looking = &observation.looking;
    assert!(looking.server_cpu_measured && looking.share_of_a_core < 0.02 && looking.looks >= 5, "{looking:?}");
}

#[test]
fn deadlocks_are_counted_and_their_circles_seen() {
    const ONE: &[&str] = &[
        "begin",
        "update accounts set balance = 1 where id = 1",
        "100",
        "update accounts set balance = 1 where id = 2",
        "rollback",
    ];
    const OTHER: &[&str] = &[
        "begin",
        "update accounts set balance = 2 where id = 2",
        "100",
        "update accounts set balance = 2 where id = 1",
        "rollback",
    ];
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let server = server();
    let clients = Clients::none().with(url(&server, "shop", "one"), ONE).with(url(&server, "shop", "other"), OTHER);
    let observation = watch(&url(&server, "monitor", ""), 5.0);
    drop(clients);
    let database = observation.throughput.iter().find(|it| it.database == server.database()).unwrap();
    assert!(database.deadlocks >= 1, "{database:?}");
    // Until the server detects the deadlock, each waits for the other.
    let is_circle =
        |links: &[(_, HolderState)]| links.len() == 2 && links.iter().all(|(_, did)| *did == HolderState::Waited);
    assert!(observation.locks.chains.iter().any(|chain| is_circle(&chain.links)), "{:?}", observation.locks);
    check_shares(&observation);
}

#[test]
fn a_role_without_rights_is_told_what_is_missing() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let server = server();
    let clients = hot_rows(&server);
    let observation = watch(&url(&server, "nobody", ""), 1.5);
    drop(clients);
    let missing = &observation.missing[0];
    assert_eq!(missing.what, "what sessions and statements of other roles do");
    assert_eq!(missing.remedy.as_deref(), Some("as a superuser: GRANT pg_monitor TO nobody"));
    assert_eq!(observation.time.response_s, 0.0);
    assert!(observation.looking.unseen_sessions >= 6, "{:?}", observation.looking);
    assert!(observation.warnings.iter().any(|warning| warning.contains("what they do is not visible")));
    // Every role may read counters.
    assert!(observation.throughput.iter().any(|it| it.database == server.database()), "{:?}", observation.throughput);
    assert!(observation.upkeep.checkpoints_timed.is_some());
}

#[test]
fn without_numbers_of_the_server_fingerprints_are_ours() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let server = server();
    let mut admin = Connection::open(&url(&server, server.user(), "setup")).unwrap();
    for setting in ["compute_query_id = off", "track_activity_query_size = 100"] {
        admin.run(&format!("alter system set {setting}")).unwrap();
    }
    drop(admin);
    let mut server = server;
    server.restart().unwrap();
    let clients = Clients::none()
        .with(url(&server, "shop", ""), &["select pg_sleep(0.05)"])
        .with(url(&server, "batch", ""), &[
            "select pg_sleep(0.05) as a_long_text_that_the_server_shows_the_beginning_of_and_not_more, 1 as one, 2 as two",
        ]);
    let observation = watch(&url(&server, "monitor", ""), 1.0);
    drop(clients);
    let missing: Vec<&str> = observation.missing.iter().map(|missing| missing.what.as_str()).collect();
    assert_eq!(missing, ["which statement of pg_stat_statements a session is in"]);
    let seen: Vec<(Option<i64>, &str, bool)> = observation
        .statements
        .iter()
        .map(|it| (it.query_id, it.part.name.as_str(), it.fingerprint.is_some()))
        .collect();
    assert!(seen.contains(&(None, "select pg_sleep(?)", true)), "{seen:?}");
    assert!(seen.iter().any(|(_, text, is_known)| text.ends_with('…') && !is_known), "{seen:?}");
}

#[test]
fn a_server_that_dies_leaves_what_was_seen() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let server = server();
    let clients = Clients::none().with(url(&server, "shop", ""), &["select pg_sleep(0.05)"]);
    let postmaster = server.postmaster();
    let mut shown = 0;
    let mut kill_after_some = |_| {
        shown += 1;
        if shown == 3 {
            // An immediate shutdown: all sessions end without a message.
            Command::new("kill").args(["-QUIT", &postmaster.to_string()]).status().unwrap();
        }
    };
    let (monitor, never) = (url(&server, "monitor", ""), AtomicBool::new(false));
    let observation = observe(&monitor, Duration::from_secs(60), &never, &mut kill_after_some).unwrap();
    drop(clients);
    assert!(matches!(&observation.ended, EndReason::ServerLost(why) if !why.is_empty()), "{:?}", observation.ended);
    assert!(observation.seconds < 30.0, "{}", observation.seconds);
    assert_eq!(observation.users[0].name, "shop");
    check_shares(&observation);
    assert!(observation.warnings[0].contains("ended early"), "{:?}", observation.warnings);
}

#[test]
fn a_signal_ends_it_with_a_report() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let server = server();
    let stop = AtomicBool::new(false);
    // At the first progress: a slow machine may need seconds for the first look.
    let mut stop_at_once = |_| stop.store(true, Ordering::Relaxed);
    let observation = observe(&url(&server, "monitor", ""), Duration::from_secs(60), &stop, &mut stop_at_once).unwrap();
    assert_eq!(observation.ended, EndReason::Interrupted);
    assert!(observation.seconds < 30.0, "{}", observation.seconds);
}

/// Four databases on one server, each in an encoding of its own. The server shows the texts of all of them to all of
/// them, as bytes that no single conversion fits. Observed from a database in SQL_ASCII or EUC_JP, the first such text
/// had ended the observation with an error.
#[test]
fn texts_in_other_encodings_cost_nothing() {
    const ENCODINGS: [&str; 4] = ["SQL_ASCII", "EUC_JP", "UTF8", "LATIN1"];
    const LIKE: &str = "template template0 lc_collate 'C' lc_ctype 'C' encoding";
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let server = server();
    let of = |encoding: &str, user: &str| {
        let url = url(&server, user, "");
        ServerUrl { database: encoding.to_lowercase(), ..url }
    };
    let mut admin = Connection::open(&url(&server, server.user(), "setup")).unwrap();
    for encoding in ENCODINGS {
        admin.run(&format!("create database {encoding} {LIKE} '{encoding}'")).unwrap();
        let mut own = Connection::open(&of(encoding, server.user())).unwrap();
        own.run("create extension pg_stat_statements").unwrap();
    }
    // A name that every database sees, in the bytes of the one in which it was created.
    let mut latin1 = Connection::open(&of("LATIN1", server.user())).unwrap();
    latin1.run(&format!("create database \"Übung\" {LIKE} 'SQL_ASCII'")).unwrap();
    drop((admin, latin1));
    macro_rules! ten {
        ($text:expr) => {
            concat!($text, $text, $text, $text, $text, $text, $text, $text, $text, $text)
        };
    }
    // A database without an encoding shows the first 1,023 bytes of it, which end in the middle of a character.
    const LONG: &[&str] = &[concat!("select pg_sleep(0.05) as a, '", ten!(ten!("€€€€")), "'")];
    let clients = Clients::none()
        .with(of("SQL_ASCII", "shop"), &["select pg_sleep(0.05) as \"größe\""])
        .with(of("EUC_JP", "shop"), &["select pg_sleep(0.05) as \"注文\""])
        .with(of("UTF8", "shop"), &["select pg_sleep(0.05) as \"€\", 1 as one"])
        .with(of("UTF8", "shop"), LONG)
        .with(of("LATIN1", "shop"), &["select pg_sleep(0.05) as \"größe\""]);
    for encoding in ENCODINGS {
        let observation = watch(&of(encoding, "monitor"), 2.0);
        assert_eq!(observation.ended, EndReason::InTime, "from {encoding}");
        assert_eq!(observation.missing, [], "from {encoding}");
        let mut seen: Vec<&str> = observation.databases.iter().map(|part| part.name.as_str()).collect();
        seen.sort_unstable();
        assert_eq!(seen, ["euc_jp", "latin1", "sql_ascii", "utf8"], "from {encoding}");
        let texts: Vec<&str> = observation.statements.iter().map(|it| it.part.name.as_str()).collect();
        assert!(texts.iter().any(|text| text.contains('€')), "from {encoding}: {texts:?}");
    }
    drop(clients);
}

/// A migration tool holds an advisory lock in an idle session, and a role does without `track_activities`. Both were
/// called "(not visible)" to a superuser, with no word about what they are.
#[test]
fn holders_that_are_not_in_progress_are_named() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let server = server();
    let mut admin = Connection::open(&url(&server, server.user(), "setup")).unwrap();
    admin.run("alter role batch set track_activities = off").unwrap();
    let mut idle = Connection::open(&url(&server, "shop", "migrations")).unwrap();
    idle.run("select pg_advisory_lock(7)").unwrap();
    let mut untracked = Connection::open(&url(&server, "batch", "nightly")).unwrap();
    untracked.run("begin; lock table accounts").unwrap();
    let clients = Clients::none()
        .with(url(&server, "shop", "web"), &["select pg_advisory_lock(7)", "select pg_advisory_unlock(7)"])
        .with(url(&server, "shop", "web"), &["select * from accounts"]);
    let observation = watch(&url(&server, "monitor", ""), 3.0);
    let blind = watch(&url(&server, "nobody", ""), 1.0);
    drop((idle, untracked));
    drop(clients);
    let mut found: Vec<_> = observation.locks.blockers.iter().map(|it| (&it.who, it.did[0].0)).collect();
    found.sort_unstable();
    let [(untracked, state), (idle, idle_state)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((untracked.login.user.as_str(), untracked.login.application.as_str()), ("batch", "nightly"));
    assert_eq!((*state, untracked.statement.as_str()), (HolderState::Untracked, ""));
    assert_eq!((idle.login.user.as_str(), idle.login.application.as_str()), ("shop", "migrations"));
    assert_eq!((*idle_state, idle.statement.as_str()), (HolderState::Idle, "select pg_advisory_lock(?)"));
    let missing = observation.missing.iter().find(|it| it.what == "what sessions of batch do").unwrap();
    assert!(missing.remedy.as_ref().unwrap().contains("ALTER ROLE batch SET track_activities = on"), "{missing:?}");
    assert!(blind.missing.iter().all(|it| !it.what.contains("sessions of batch")), "{:?}", blind.missing);
}

/// Four jobs of `pg_dump` share a snapshot. Its leader waits for the others, which wait for their places behind it if
/// there are fewer than they need.
#[test]
fn a_parallel_dump_is_proposed_as_many_places_as_it_needs() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let server = server();
    let mut leader = Connection::open(&url(&server, server.user(), "backup")).unwrap();
    leader.run("begin isolation level repeatable read").unwrap();
    let snapshot = leader.text("select pg_export_snapshot()").unwrap().unwrap();
    let mut jobs = Vec::new();
    for _ in 0..4 {
        let mut job = Connection::open(&url(&server, server.user(), "backup")).unwrap();
        job.run(&format!("begin isolation level repeatable read; set transaction snapshot '{snapshot}'")).unwrap();
        jobs.push(job);
    }
    let observation = watch(&url(&server, "monitor", ""), 2.0);
    let class = observation.classes.iter().find(|class| class.login.application == "backup").unwrap();
    assert!(class.shares_snapshot && class.most_in_progress == Some(5), "{class:?}");
}

/// The extension was there, in a schema that the role may not use, and the remedy was to restart the server.
#[test]
fn statements_in_a_schema_without_usage_need_a_grant() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let server = server();
    let mut admin = Connection::open(&url(&server, server.user(), "setup")).unwrap();
    admin.run("drop extension if exists pg_stat_statements").unwrap();
    let told = || {
        let observation = watch(&url(&server, "monitor", ""), 0.3);
        let missing = observation.missing.into_iter().find(|it| it.what.starts_with("calls and latency"));
        missing.map(|missing| missing.remedy.expect("there is one"))
    };
    assert_eq!(told().as_deref(), Some("run CREATE EXTENSION pg_stat_statements in the database that is connected to"));
    admin.run("create schema stat; create extension pg_stat_statements schema stat").unwrap();
    let remedy = told().expect("the role may not use the schema");
    let grants = remedy.strip_prefix("as their owner: ").expect(&remedy);
    assert!(grants.starts_with("GRANT USAGE ON SCHEMA stat TO monitor"), "{remedy}");
    admin.run(grants).expect("a remedy can be pasted");
    assert_eq!(told(), None);
}
