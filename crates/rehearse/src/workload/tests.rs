//! Captures as workloads on real servers, and what is refused.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use plimsoll_postgres::database::PostgresDatabase;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};
use plimsoll_workload::benchmark::load_anew;
use plimsoll_workload::captured::DataSource;
use plimsoll_workload::database::Session;
use plimsoll_workload::driver::{ClientOptions, Drive, DriveError, DrivenWorkload, Stop, WarmUp, Window, drive};
use plimsoll_workload::memory::MemoryDatabase;

use super::*;
use crate::testing::events;

const SETUP: &str =
    "create table orders (id bigint generated always as identity (start with 1000) primary key, customer int);
    create table lines (order_id bigint not null references orders, item text);
    create schema stock; create table stock.items (id int primary key, name text);
    insert into stock.items values (1, 'bolt'), (2, 'nut');";

/// Identities are 57 and 58 in the recording; the second session uses that of the first.
const SHOP: &str = "1 | 0-1 | T | begin
     1 | 2-3 | T | insert into orders (customer) values (3) returning id | id@7=57
     1 | 4-5 | T | insert into lines (order_id, item) values (57, 'bolt')
     1 | 6-7 | I | commit
     2 | 20-21 | I | insert into lines (order_id, item) values (57, 'nut')
     2 | 22-23 | I | select name from stock.items where id = 1 | name@9=bolt
     1 | 24-25 | I | select count(*) from orders
     1 | 26-27 | I | select * from missing_then | error 42P01
     2 | 28-29 | I | listen jobs";

fn workload(kind: CaptureKind, table: &str) -> Result<CaptureWorkload, String> {
    let input = Input {
        events: events(table),
        folder: "traffic".to_owned(),
        began: "2026-01-01T00:00:00Z".to_owned(),
        server_version: Some(150_000),
        redacted: false,
        faults: Vec::new(),
    };
    CaptureWorkload::new(kind, input)
}

fn kind() -> CaptureKind {
    CaptureKind { folder: "made/friday".into(), ..CaptureKind::default() }
}

/// A kind whose data a file makes.
fn with_setup(folder: &tempfile::TempDir, sql: &str) -> CaptureKind {
    let file = folder.path().join("setup.sql");
    std::fs::write(&file, sql).expect("writable");
    CaptureKind { source: Some(DataSource::Setup(file)), ..kind() }
}

fn private() -> PostgresDatabase {
    let settings =
        ServerSettings::for_this_machine().with(&[("fsync", "off"), ("shared_buffers", "64MB")]).expect("known");
    PostgresDatabase::private(PrivateServer::start(settings).expect("these tests need a PostgreSQL server"))
}

fn load(workload: &CaptureWorkload, database: &dyn Database) -> Result<(), String> {
    let progress = LoadProgress { report: &|_, _, _| {}, stop: &AtomicBool::new(false) };
    load_anew(workload, database, &progress).map_err(|error| error.to_string())
}

fn run(
    workload: &CaptureWorkload,
    database: &dyn Database,
    options: &ClientOptions,
) -> Result<DrivenWorkload, DriveError> {
    let drives = [Drive { name: "friday", benchmark: workload, database, options }];
    let window = Window { warmup: WarmUp::For(Duration::ZERO), measure: Duration::from_millis(400) };
    let stop = AtomicBool::new(false);
    let mut measured = drive(&drives, window, &mut (), Stop::from(&stop))?;
    Ok(measured.workloads.remove(0))
}

fn number(database: &dyn Database, workload: &CaptureWorkload, sql: &str) -> i64 {
    let mut session = database.session(workload.schema()).expect("it runs");
    let mut found = None;
    let mut on = |tag: u8, body: &[u8]| {
        let value =
            (tag == b'D').then(|| crate::message::row(body)).flatten().and_then(|row| row.first().copied().flatten());
        found = found.or(value.and_then(|value| std::str::from_utf8(value).ok()?.parse().ok()));
    };
    Session::exchange(&mut *session, &query(sql), &mut on).expect("it runs");
    found.unwrap_or_else(|| panic!("{sql} gave no number"))
}

#[test]
fn a_capture_runs_at_its_own_pace_and_begins_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let workload = workload(with_setup(&folder, SETUP), SHOP).expect("a workload");
    let database = private();
    load(&workload, &database).expect("it loads");
    let options = ClientOptions::default().of_recording(&workload);
    assert_eq!((options.clients, options.recorded), (2, true));
    let measured = run(&workload, &database, &options).expect("it runs").measured;
    // 28 ms a round, eight units of which are sent.
    assert!((16..=130).contains(&measured.all.completed), "{}", measured.all.completed);
    assert_eq!((measured.aborted.error, measured.failed.len()), (0, 0), "{:?}", measured.failed);
    let [orders, lines] =
        ["orders", "lines"].map(|table| number(&database, &workload, &format!("select count(*) from {table}")));
    assert!(orders >= 2, "{orders}");
    // The first session writes one line of each order. How far the second one has come by the end depends on the machine.
    assert!(lines > orders, "both sessions' lines have identities of this run: {lines} of {orders}");
    assert_eq!(number(&database, &workload, "select count(*) from lines where order_id = 57"), 0);
    let notes = workload.notes().join("\n");
    assert!(notes.contains("began again on the data as they were then"), "{notes}");
    assert!(notes.contains("1 of 9 units are not replayed: LISTEN"), "{notes}");

    // Loading again gives the data as they were, in the other schema, too.
    load(&workload, &database).expect("it loads again");
    assert_eq!(number(&database, &workload, "select count(*) from orders"), 0);
    assert_eq!(number(&database, &workload, "select count(*) from stock.items"), 2);
    let lines = workload.check(&database).expect("it can be looked at");
    assert!(lines.iter().all(|line| line.holds == Some(true)), "{lines:?}");
    assert!(lines.iter().any(|line| line.what.starts_with("insert_lines (2 units, ")), "{lines:?}");
}

#[test]
fn clients_draw_sessions_and_have_values_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let workload = workload(with_setup(&folder, SETUP), SHOP).expect("a workload");
    let database = private();
    load(&workload, &database).expect("it loads");
    let options = ClientOptions { clients: 3, ..ClientOptions::default() };
    let measured = run(&workload, &database, &options).expect("it runs").measured;
    assert!(measured.all.completed > 200, "no pauses: {}", measured.all.completed);
    assert_eq!(measured.aborted.error, 0, "{:?}", measured.failed);
    let names: BTreeSet<&str> = measured.transactions.keys().map(String::as_str).collect();
    assert!(names.contains("select_items") && names.contains("insert_orders") && names.contains("commit"), "{names:?}");
    let open = "select count(*) from pg_stat_activity where state like 'idle in transaction%'";
    assert_eq!(number(&database, &workload, open), 0);
}

#[test]
fn a_unit_that_fails_gives_its_transaction_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let setup = format!("{SETUP} alter table lines add check (item <> 'bolt');");
    let workload = workload(with_setup(&folder, &setup), SHOP).expect("a workload");
    let database = private();
    load(&workload, &database).expect("it loads");
    let measured =
        run(&workload, &database, &ClientOptions { clients: 2, ..ClientOptions::default() }).expect("it runs").measured;
    assert!(measured.aborted.error > 0 && measured.all.completed > 0);
    assert_eq!(measured.failed[0].code.as_deref(), Some("23514"), "{:?}", measured.failed);
    assert_eq!(number(&database, &workload, "select count(*) from orders"), 0, "each was rolled back");
    let notes = workload.notes().join("\n");
    assert!(notes.contains("because an earlier unit of their transaction failed"), "{notes}");
    assert!(workload.check(&database).expect("a look").iter().any(|line| line.holds == Some(false)));
}

#[test]
fn what_a_target_lacks_is_listed_before_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let less = SETUP.replace("create table lines", "create table other_lines");
    // Each replaces the data of the one before.
    let database = private();
    let lacking = workload(with_setup(&folder, &less), SHOP).expect("a workload");
    load(&lacking, &database).expect("it loads");
    let why = run(&lacking, &database, &ClientOptions::default()).expect_err("it lacks a table").to_string();
    assert!(why.contains("relation \"lines\" does not exist (insert into lines") && why.contains("leave_out"), "{why}");
    let kind = CaptureKind { leave_out: true, ..with_setup(&folder, &less) };
    let lacking = workload(kind, SHOP).expect("a workload");
    load(&lacking, &database).expect("it loads");
    let measured = run(&lacking, &database, &ClientOptions::default()).expect("the others run").measured;
    assert!(measured.all.completed > 0 && measured.aborted.error == 0, "{:?}", measured.failed);
    assert!(lacking.notes().iter().any(|note| note.starts_with("left out: relation \"lines\"")));
    let nothing =
        workload(CaptureKind { leave_out: true, ..with_setup(&folder, "select 1;") }, SHOP).expect("a workload");
    load(&nothing, &database).expect("it loads");
    // Not `expect_err`, which would print all of the measurement.
    let Err(why) = run(&nothing, &database, &ClientOptions::default()) else { panic!("nothing is there") };
    let why = why.to_string();
    assert!(why.contains("copy_from=URL"), "{why}");
}

#[test]
fn a_server_of_the_users_is_not_written_unasked() {
    let server = private();
    let theirs =
        || PostgresDatabase::connect(server.url().clone(), ServerSettings::for_this_machine()).expect("it runs");
    let hidden = "create function hidden() returns bigint language sql as 'insert into orders (customer) values (1) returning id'";
    let mut connection = plimsoll_pg::connection::Connection::open(server.url()).expect("it runs");
    connection.run(&format!("{SETUP} {hidden}")).expect("it runs");
    let shop = workload(kind(), SHOP).expect("a workload");
    let why = load(&shop, &theirs()).expect_err("it writes");
    assert!(why.contains("to lines, orders") && why.contains("'capture:made/friday?writes'"), "{why}");
    let permitted = workload(CaptureKind { writes: true, ..kind() }, SHOP).expect("a workload");
    load(&permitted, &theirs()).expect("it is permitted");
    run(&permitted, &theirs(), &ClientOptions::default()).expect("it runs");
    assert!(permitted.notes().iter().any(|note| note.contains("stays in the tables")));

    // A write that no text shows fails there, and changes nothing.
    let hidden = workload(kind(), "1 | 0-1 | I | select hidden()").expect("a workload");
    load(&hidden, &theirs()).expect("it only reads, by its text");
    let failed = run(&hidden, &theirs(), &ClientOptions::default()).expect_err("nothing works").to_string();
    assert!(failed.contains("read-only transaction"), "{failed}");
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = workload(CaptureKind { writes: true, ..with_setup(&folder, SETUP) }, SHOP).expect("a workload");
    assert!(load(&wrong, &theirs()).expect_err("it has its own data").contains("leave them out"));
}

#[test]
fn what_cannot_be_a_workload_is_refused() {
    let told = |made: Result<CaptureWorkload, String>| made.expect_err("it is refused");
    assert!(told(workload(kind(), "")).contains("no units to replay"));
    let why = told(workload(kind(), "1 | 0-1 | I | listen jobs"));
    assert!(why.contains("1 of 1 units are not replayed: LISTEN"), "{why}");
    let other = CaptureKind { database: Some("mail".to_owned()), ..kind() };
    assert!(told(workload(other, SHOP)).contains("for the database `mail`"));
    let shop = workload(kind(), SHOP).expect("a workload");
    assert!(load(&shop, &private()).expect_err("it is empty").contains("setup=FILE.sql"));
    assert!(load(&shop, &MemoryDatabase::new()).expect_err("it has no protocol").contains("--target postgres:"));
    assert_eq!(shop.name(), "friday");
    let made = |kind: &str| Captures.make(kind, 7).map(|made| made.err().expect("there is none"));
    assert!(made("capture:/nowhere").is_some_and(|why| why.contains("is no capture")));
    assert_eq!(made("tpcc"), None);
}
