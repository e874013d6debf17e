//! Rehearsals on real servers, and requests that are refused.

use std::io::Write;
use std::time::Duration;

use plimsoll_capture::event::{Answer, Event};
use plimsoll_pg::connection::Connection;

use super::*;
use crate::message::testing::{bind, describe_portal, execute, parse, row_description, sync};
use crate::message::{message, query};
use crate::testing::{answer, events, open, unit};

/// A shop whose identities begin far from those of the recordings. The rows of `items` come by COPY, as in a dump.
const SETUP: &str = "-- as pg_dump writes it;
/* it */
\\restrict abc
create table orders (id bigint generated always as identity (start with 1000), customer int, state text default 'new', primary key (id));
create table lines (order_id bigint not null references orders, item text);
create table items (id int primary key, name text);
create function total(int) returns int language sql as $$ select $1 * 2; $$;
copy items (id, name) from stdin;
1\tbolt
2\tnut
\\.
select 1;
";

fn setup() -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(SETUP.as_bytes()).expect("it is open");
    file
}

fn input(events: Vec<Event>) -> Input {
    Input {
        events,
        folder: "traffic".to_owned(),
        began: "2026-01-01T00:00:00Z".to_owned(),
        server_version: Some(150_000),
        redacted: false,
        faults: Vec::new(),
    }
}

fn request(target: Target) -> Request {
    Request {
        selection: Selection::ALL,
        pace: Pace { speed: Speed::Times(1.0), copies: 1, patience: Duration::from_secs(10) },
        target,
        against: None,
        turns: 1,
        writes: false,
        redacted_data: false,
        data: None,
    }
}

fn private() -> Target {
    Target::parse("postgres:?fsync=off").expect("a private server")
}

/// Two sessions whose identities are 57 and 58 in the recording, in text, in binary and as literals.
fn shop() -> Vec<Event> {
    let mut all = events(
        "1 | 0-1 | T | begin
         1 | 2-3 | T | insert into orders (customer) values (3) returning id | id@7=57
         1 | 4-5 | T | insert into lines (order_id, item) values (57, 'bolt')
         1 | 6-7 | I | commit
         2 | 20-21 | I | insert into lines (order_id, item) values (57, 'nut')
         2 | 22-23 | I | select name from items where id = 1 | name@9=bolt
         2 | 24-25 | I | select name from items where id = 2 | name@9=washer",
    );
    let mut made = answer("I", "insert", "");
    made.rows = 1;
    made.begin =
        [row_description(&[("id", 7, 20)], 1), message(b'D', &[0, 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 58])].concat();
    let insert = "insert into orders (customer) values ($1) returning id";
    let first = [parse("s1", insert, &[23]), bind("s1", 1, &[&[0, 0, 0, 3]], 1), describe_portal(), execute(), sync()];
    let lines = "insert into lines (order_id, item) values ($1, $2)";
    let second = [parse("", lines, &[]), bind("", 0, &[b"58", b"gear"], 0), execute(), sync()];
    all.push(unit(1, 30_000, 500, first.concat(), made));
    all.push(unit(2, 40_000, 500, second.concat(), answer("I", "insert", "")));
    let copy = [query("copy lines from stdin"), message(b'd', b"1000\tcopied\n"), message(b'c', b"")].concat();
    let copied = Answer { state: b'I', tags: vec!["COPY 1".to_owned()], ..Answer::default() };
    all.push(unit(2, 50_000, 500, copy, copied));
    all.push(unit(2, 52_000, 500, query("select missing from nowhere"), answer("I", "select", "")));
    all.push(unit(2, 53_000, 500, query("listen jobs"), answer("I", "listen", "")));
    all
}

#[test]
fn identities_of_a_real_server_are_mapped() {
    let file = setup();
    let Target::Private(settings) = private() else { panic!("private") };
    let target = PrivateTarget::start(*settings, &Data::Setup(file.path().to_owned())).unwrap();
    let mut plan = Plan::of(shop(), &Selection::ALL);
    let found = check(&plan, &target.loaded()).unwrap();
    let told: Vec<&str> = found.failures.iter().map(|one| one.message.as_str()).collect();
    assert_eq!((found.statements, told), (4, vec!["relation \"nowhere\" does not exist"]));
    plan.leave_out(&found.failures[0].shapes);
    for turn in 0..2 {
        let url = target.fresh().unwrap();
        let pace = request(private()).pace;
        let run = replay(&plan, &PostgresServer::new(url.clone(), false), pace, &AtomicBool::new(false));
        assert_eq!(run.lost, Vec::<String>::new());
        let mut connection = Connection::open(&url).unwrap();
        let items =
            connection.text("select string_agg(order_id || ' ' || item, ', ' order by item) from lines").unwrap();
        let expect = "1000 bolt, 1000 copied, 1001 gear, 1000 nut";
        assert_eq!(items.as_deref(), Some(expect), "turn {turn} begins with the same data");
    }
    let explained = explain::plan(&target.loaded(), "select name from items where id = $1").unwrap();
    assert!(explained.contains("items"), "{explained}");
    assert!(explain::plan(&target.loaded(), "select * from nowhere").unwrap_err().contains("does not exist"));
}

#[test]
fn a_rehearsal_on_two_private_servers_reports_what_differs() {
    let file = setup();
    let data = Some(Data::Setup(file.path().to_owned()));
    let both = Request { against: Some(private()), turns: 2, data, ..request(private()) };
    let told = parking_lot::Mutex::new(Vec::new());
    let result =
        rehearse(input(shop()), &both, &AtomicBool::new(false), &|line| told.lock().push(line.to_owned())).unwrap();
    let told = told.into_inner().join("\n");
    assert!(told.contains("1 of 4 statements cannot run here:\n  relation \"nowhere\" does not exist"), "{told}");
    assert!(told.contains("turn 2 of 2"), "{told}");
    let [ours, others] = &result.servers[..] else { panic!("{result:?}") };
    assert_eq!((ours.sent, others.sent), (20, 20), "ten units in each of two turns");
    let skipped: Vec<(&str, u64)> = ours.skipped.iter().map(|(reason, count)| (*reason, *count)).collect();
    assert_eq!(skipped, [("cannot_run", 2), ("notification", 2)]);
    assert_eq!(
        (ours.failed, ours.rows_differ, ours.compared, ours.answers_differ),
        (0, 0, 4, 2),
        "the second item differs"
    );
    let comparison = result.comparison.as_ref().unwrap();
    assert!(comparison.turns == 2 && comparison.times_as_fast.unwrap().low.is_some());
    assert_eq!(result.invalid, Vec::<String>::new());
    let text = crate::report::render(&result);
    assert!(text.contains("times as fast as"), "{text}");
}

#[test]
fn what_can_only_go_wrong_is_refused() {
    let nowhere = Target::parse("postgres://ann@/shop?host=/nowhere").unwrap();
    let refused = |events: &str, request: &Request| {
        let plan_input = input(self::events(events));
        rehearse(plan_input, request, &AtomicBool::new(false), &|_| {}).expect_err("refused")
    };
    let reads = "1 | 0-1 | I | select 1";
    let writes = "1 | 0-1 | I | insert into orders (customer) values (1)";
    let told = refused(writes, &request(nowhere.clone())).to_string();
    assert!(told.contains("to orders") && told.contains("--writes"), "{told}");
    let unreachable = refused(reads, &request(nowhere));
    assert!(!unreachable.is_input() && unreachable.to_string().contains("cannot connect"), "{unreachable}");
    let told = refused(reads, &request(private())).to_string();
    assert!(told.contains("--setup") && told.contains("--copy-from"), "{told}");
    assert!(refused("", &request(private())).to_string().contains("no units"));
    let hashed = Input { redacted: true, ..input(events(reads)) };
    let told = rehearse(hashed, &request(private()), &AtomicBool::new(false), &|_| {}).expect_err("hashes").to_string();
    assert!(told.contains("--redacted-data"), "{told}");
    for (url, expect) in [
        ("mysql://x", "no target"),
        ("postgres:18", "no target"),
        ("postgres:?version=eighteen", "major version"),
        ("postgres:?version=7", "no PostgreSQL 7"),
        ("postgres:?shared_bufers=1GB", "shared_buffers"),
    ] {
        let told = Target::parse(url).expect_err(url).to_string();
        assert!(told.contains(expect), "{url}: {told}");
    }
}

/// A target in which a replayed write would fail although no text shows it: the session only reads.
#[test]
fn a_capture_that_only_reads_cannot_write() {
    let file = setup();
    let Target::Private(settings) = private() else { panic!("private") };
    let target = PrivateTarget::start(*settings, &Data::Setup(file.path().to_owned())).unwrap();
    let mut connection = Connection::open(&target.loaded()).unwrap();
    connection.run("create function sneak() returns int language sql as 'insert into orders (customer) values (1) returning 1'").unwrap();
    let plan = Plan::of(
        vec![open(1, 0), unit(1, 0, 9, query("select sneak()"), answer("I", "select", "sneak=1"))],
        &Selection::ALL,
    );
    assert!(!plan.writes());
    let pace = request(private()).pace;
    let run = replay(&plan, &PostgresServer::new(target.loaded(), true), pace, &AtomicBool::new(false));
    let crate::replay::Outcome::Ran(ran) = run.done[0].outcome.clone() else { panic!("{run:?}") };
    assert_eq!(ran.answered.error, Some(*b"25006"));
    assert_eq!(connection.text("select count(*) from orders").unwrap().as_deref(), Some("0"));
}
