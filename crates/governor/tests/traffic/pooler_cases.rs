//! What pgbouncer's own tests are about, as far as it concerns a governor: each case is played before the server itself and through a
//! governor, and the answers must be the same to the last byte.
//!
//! `../pgbouncer.md` has all of their tests, which of ours is about the same thing, and why the others do not apply. Nothing of theirs
//! is copied: they drive libpq, and these are messages.

use std::io::{BufRead, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use plimsoll_postgres::connection::client_tls;
use plimsoll_postgres::url::ServerUrl;
use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use super::client::{Client, Message, PATIENCE, Place, message};
use super::drivers::environment::tool;
use super::governed::{CONSOLE, Governed};
use super::server::{PASSWORD, Server};
use super::versions::encrypted::openssl;

/// A step of a case.
#[derive(Debug, Clone)]
enum Step {
    /// Sends these messages.
    Say(Vec<u8>),
    /// Waits until a message of this type has come.
    Hear(u8),
}
use Step::{Hear, Say};

fn text(words: &str) -> Vec<u8> {
    [words.as_bytes(), b"\0"].concat()
}

fn query(sql: &str) -> Vec<u8> {
    message(b'Q', &text(sql))
}

fn parse(name: &str, sql: &str) -> Vec<u8> {
    message(b'P', &[text(name), text(sql), vec![0, 0]].concat())
}

/// The unnamed portal for a statement, with parameters as text.
fn bind(name: &str, values: &[&str]) -> Vec<u8> {
    let count = u16::try_from(values.len()).unwrap().to_be_bytes();
    let mut body = [&b"\0"[..], &text(name), &[0, 0], &count].concat();
    for value in values {
        body.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
        body.extend(value.as_bytes());
    }
    message(b'B', &[&body[..], &[0, 0]].concat())
}

fn execute() -> Vec<u8> {
    message(b'E', &[0; 5])
}

fn describe(name: &str) -> Vec<u8> {
    message(b'D', &[&b"S"[..], &text(name)].concat())
}

fn close(name: &str) -> Vec<u8> {
    message(b'C', &[&b"S"[..], &text(name)].concat())
}

fn sync() -> Vec<u8> {
    message(b'S', b"")
}

fn flush() -> Vec<u8> {
    message(b'H', b"")
}

fn copy_data(line: &str) -> Vec<u8> {
    message(b'd', line.as_bytes())
}

fn copy_done() -> Vec<u8> {
    message(b'c', b"")
}

/// Several messages that are sent at once.
fn say<const N: usize>(messages: [Vec<u8>; N]) -> Step {
    Say(messages.concat())
}

/// Plays a case and returns all that was answered, up to the answer of a last query, which ends whatever the case has left.
fn play(client: &mut Client, steps: &[Step]) -> Vec<Message> {
    const END: &str = "that was all";
    let mut heard = Vec::new();
    let end = say([sync(), query("ROLLBACK"), query(&format!("SELECT '{END}'"))]);
    for step in steps.iter().chain([&end]) {
        match step {
            Say(bytes) => client.send(bytes).unwrap(),
            Hear(tag) => loop {
                let message = client.message().unwrap_or_else(|error| panic!("{error} after {heard:?}"));
                let is_it = message.tag == *tag;
                heard.push(message);
                if is_it {
                    break;
                }
            },
        }
    }
    loop {
        let message = client.message().unwrap_or_else(|error| panic!("{error} after {heard:?}"));
        let is_last = message.tag == b'D' && message.body.ends_with(END.as_bytes());
        heard.push(message);
        if is_last {
            assert_eq!(client.answer().unwrap().status, b'I');
            return heard;
        }
    }
}

/// A server, and a governor that lets in one transaction of class low.
struct World {
    governed: Governed,
    server: Server,
}

impl World {
    fn start() -> World {
        let server = Server::start();
        server.connection().run("CREATE TABLE copied (i int); GRANT ALL ON copied TO public").unwrap();
        let governed = Governed::start_with(&server, "", "mpl = 1");
        World { governed, server }
    }

    fn direct(&self, user: &str) -> Client {
        Client::connect(Place::Unix(self.server.socket()), user, self.server.database()).unwrap()
    }

    fn governed(&self, user: &str) -> Client {
        self.governed.client(user, self.server.database())
    }

    /// Plays cases one after the other on one connection of each kind.
    fn check(&mut self, cases: &[(String, Vec<Step>)]) {
        for user in ["low", "high"] {
            let (mut direct, mut governed) = (self.direct(user), self.governed(user));
            for (name, steps) in cases {
                let expect = play(&mut direct, steps);
                let heard = play(&mut governed, steps);
                assert_eq!(heard, expect, "{user}: {name}");
            }
        }
        self.governed.assert_alive();
    }
}

/// COPY by each protocol, with rows that are good or bad, ended before or after the server has refused a row.
#[test]
fn copies_end_as_they_do_without_a_governor() {
    let mut world = World::start();
    let begins: [(&str, Vec<u8>, &[Vec<u8>]); 3] = [
        ("simple", query("COPY copied FROM STDIN"), &[]),
        ("extended", [parse("", "COPY copied FROM STDIN"), bind("", &[]), execute(), sync()].concat(), &[sync()]),
        (
            "prepared",
            [parse("p", "COPY copied FROM STDIN"), bind("p", &[]), execute(), sync()].concat(),
            &[sync(), close("p"), sync()],
        ),
    ];
    let mut cases = Vec::new();
    for (protocol, begin, ends) in begins {
        let begin = || [Say(begin.clone()), Hear(b'G')];
        let end = || Say([&[copy_done()][..], ends].concat().concat());
        let fail = || Say([&[message(b'f', &text("enough"))][..], ends].concat().concat());
        let mut case = |name: &str, steps: Vec<Step>| cases.push((format!("{protocol}: {name}"), steps));
        case("good", [&begin()[..], &[say([copy_data("1\n"), copy_data("2\n")]), end()]].concat());
        case("nothing", [&begin()[..], &[end()]].concat());
        case("given up", [&begin()[..], &[say([copy_data("1\n")]), fail()]].concat());
        case("refused before its end", [&begin()[..], &[say([copy_data("bad\n")]), Hear(b'E'), end()]].concat());
        case("refused after its end", [&begin()[..], &[say([copy_data("bad\n")]), end()]].concat());
        // Late rows, and their end, come when the server has long forgotten the copy.
        let late = [say([copy_data("bad\n")]), Hear(b'E'), say([copy_data("3\n")]), end(), say([query("SELECT 1")])];
        case("late rows", [&begin()[..], &late].concat());
        let block = [say([query("BEGIN")]), Hear(b'Z')];
        let after = [say([query("ROLLBACK"), query("SELECT 'after'")])];
        let refused = [say([copy_data("bad\n")]), Hear(b'E'), end()];
        case("refused in a block", [&block[..], &begin(), &refused, &after].concat());
    }
    let out = "COPY (SELECT generate_series(1, 3)) TO STDOUT";
    cases.push(("simple: out".to_owned(), vec![say([query(out)])]));
    cases.push(("extended: out".to_owned(), vec![say([parse("", out), bind("", &[]), execute(), sync()])]));
    cases.push((
        "prepared: out".to_owned(),
        vec![say([parse("o", out), bind("o", &[]), execute(), sync(), close("o")])],
    ));
    world.check(&cases);
}

/// Prepared statements that fail, are not there, are there already, are closed twice; pipelines that fail.
#[test]
fn prepared_statements_and_pipelines_answer_as_they_do_without_a_governor() {
    let mut world = World::start();
    let run = |name: &str| [bind(name, &[]), execute()].concat();
    let case = |name: &str, steps: Vec<Step>| (name.to_owned(), steps);
    world.check(&[
        case("a name that is not there", vec![say([describe("nowhere"), sync(), run("nowhere"), sync()])]),
        case(
            "a name twice",
            vec![say([parse("twice", "SELECT 1"), sync(), parse("twice", "SELECT 2"), sync(), run("twice"), sync()])],
        ),
        case("closed twice", vec![say([close("twice"), close("twice"), sync(), describe("twice"), sync()])]),
        case(
            "a table that comes later",
            vec![
                say([parse("", "SELECT * FROM later_on"), run(""), sync()]),
                Hear(b'Z'),
                say([
                    query("CREATE TEMP TABLE later_on (a text)"),
                    parse("later", "SELECT a FROM later_on"),
                    run("later"),
                    sync(),
                ]),
                say([query("DROP TABLE later_on"), close("later"), sync()]),
            ],
        ),
        case(
            "an error between statements",
            vec![
                say([
                    parse("one", "SELECT 1"),
                    run("one"),
                    parse("bad", "SELECT nothing"),
                    run("bad"),
                    parse("three", "SELECT 3"),
                    run("three"),
                ]),
                say([sync(), run("one"), sync(), run("three"), sync(), close("one"), sync()]),
            ],
        ),
        case(
            "an error that is known long before the end of its unit",
            vec![
                say([parse("", "SELECT nothing"), flush()]),
                Hear(b'E'),
                say([parse("", "SELECT 123"), run(""), sync()]),
                Hear(b'Z'),
                say([parse("", "SELECT 5"), run(""), sync()]),
            ],
        ),
        case(
            "DEALLOCATE ALL and DISCARD ALL",
            vec![
                say([parse("gone", "SELECT 1"), run("gone"), sync(), query("DEALLOCATE ALL"), run("gone"), sync()]),
                say([parse("gone", "SELECT 1"), run("gone"), sync(), query("DISCARD ALL"), run("gone"), sync()]),
                say([parse("gone", "SELECT 2"), run("gone"), sync(), close("gone"), sync()]),
            ],
        ),
        case(
            "parameters",
            vec![
                say([parse("p", "SELECT $1::text, $2::int + 1"), describe("p"), sync()]),
                say([
                    bind("p", &["a", "41"]),
                    execute(),
                    bind("p", &["b", "x"]),
                    execute(),
                    sync(),
                    bind("p", &["c", "1"]),
                    execute(),
                    sync(),
                ]),
                say([close("p"), sync()]),
            ],
        ),
    ]);
}

/// Messages around the sizes of the governor's buffers, and names, texts and values that are much longer.
#[test]
fn messages_of_any_size_pass_whole() {
    let mut world = World::start();
    let mut cases = Vec::new();
    for size in [1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16, 1 << 17] {
        for size in size - 7..=size + 7 {
            // Without its name the message has 17 bytes.
            let name = "p".repeat(size - 17);
            let steps = say([flush(), parse(&name, "SELECT 1"), bind(&name, &[]), execute(), close(&name), sync()]);
            cases.push((format!("a statement's name, {size} bytes"), vec![steps]));
        }
        let long = "1".repeat(size);
        let literal = say([parse("", &format!("SELECT '{long}'")), bind("", &[]), execute(), sync()]);
        let value = say([parse("", "SELECT length($1)"), bind("", &[&long]), execute(), sync()]);
        // The first of two is whole and the second is not, at the end of what was read at once.
        let half = &long[..size / 2];
        let halves = say([parse("", &format!("SELECT 'a{half}'")), parse("", &format!("SELECT 'b{half}'")), sync()]);
        cases.extend([
            (format!("a text, {size} bytes"), vec![literal]),
            (format!("a value, {size} bytes"), vec![value]),
        ]);
        cases.push((format!("halves of {size} bytes"), vec![halves]));
    }
    world.check(&cases);
}

/// Random statements of a hundred names, up to nine in a pipeline, prepared again and again.
#[test]
fn pipelines_of_many_prepared_statements_keep_their_order() {
    let mut world = World::start();
    let mut state = 7_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let cases = (1..10).map(|length| {
        let mut steps = Vec::new();
        for round in 0..40 {
            let (mut pipeline, mut ends) = (Vec::new(), 1);
            for place in 0..length {
                let name = format!("s{}", random(100));
                if random(3) == 0 {
                    pipeline.extend(close(&name));
                }
                pipeline.extend(parse(&name, &format!("SELECT $1::int AS {name}, $2::text")));
                pipeline.extend(bind(&name, &[&place.to_string(), &format!("{round:0512}")]));
                pipeline.extend(execute());
                // An error ends what is before the next Sync, so each statement has its own or shares one.
                if random(2) == 0 {
                    pipeline.extend(sync());
                    ends += 1;
                }
            }
            pipeline.extend(sync());
            steps.push(Say(pipeline));
            steps.extend(vec![Hear(b'Z'); ends]);
        }
        (format!("pipelines of {length}"), steps)
    });
    let cases = cases.collect::<Vec<_>>();
    world.check(&cases);
}

/// A client sends the beginning of its next unit with the end of the last one, and then takes its time. Others must not come between, and
/// nothing of it may get lost.
#[test]
fn a_unit_that_has_begun_is_not_parted_from_its_rest() {
    let mut world = World::start();
    let run = |value: &str| [bind("", &[value]), execute(), sync()].concat();
    let begin = [parse("", "SELECT $1::text"), run("a"), parse("", "SELECT $1::text || '!'"), flush()].concat();
    let mut direct = world.direct("low");
    let expect = play(&mut direct, &[Say(begin.clone()), Hear(b'Z'), Say(run("b"))]);

    let mut first = world.governed("low");
    first.send(&begin).unwrap();
    let mut heard = Vec::new();
    while heard.iter().filter(|message: &&Message| message.tag == b'1').count() < 2 {
        heard.push(first.message().unwrap());
    }
    // Another of its class must wait, for one place is all that there is; one of another class need not.
    let mut second = world.governed("low_other");
    second.send_query("SELECT 'second'").unwrap();
    plimsoll_testing::until("it waits", || world.governed.count(Some("low"), "queued") > 0);
    assert_eq!(world.governed("high").value("SELECT 'high'").unwrap(), "high");
    heard.extend(play(&mut first, &[Say(run("b"))]));
    assert_eq!(heard, expect);
    assert_eq!(second.answer().unwrap().value(), Some("second"));
    world.governed.assert_alive();
}

/// What clients say as they connect, and what the server makes of it: the same words, or the same refusal.
#[test]
fn startup_parameters_and_refusals_are_the_servers() {
    let world = World::start();
    let connect = |place: Place, extra: &[(&str, &str)], password: &str| {
        let own = [("user", "low"), ("database", world.server.database())];
        let is_said = |name: &str| extra.iter().any(|(said, _)| *said == name);
        let own = own.into_iter().filter(|(name, _)| !is_said(name));
        let parameters = own.chain(extra.iter().copied()).collect::<Vec<_>>();
        let mut client = match Client::log_in(place, &parameters, password) {
            Ok(client) => client,
            Err(failure) => return format!("{failure:?}"),
        };
        let shown = "SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) FROM pg_settings
                     WHERE name IN ('DateStyle', 'TimeZone', 'enable_seqscan', 'extra_float_digits', 'application_name', 'IntervalStyle')";
        client.value(shown).unwrap()
    };
    let check = |extra: &[(&str, &str)], password: &str| {
        let direct = connect(Place::Unix(world.server.socket()), extra, password);
        let governed = connect(Place::Tcp(world.governed.address), extra, password);
        assert_eq!(governed, direct, "{extra:?}");
        direct
    };
    for options in [
        "  -c    datestyle=German,\\ YMD",
        "-c timezone=Europe/Lisbon  -c    datestyle=German,\\ YMD",
        "-ctimezone=Europe/Lisbon  -cdatestyle=German,\\ YMD",
        "--timezone=Europe/Lisbon  --datestyle=German,\\ YMD",
        "-c enable_seqscan=false -c extra_float_digits=2",
        "-c t\\imezone=\\E\\u\\r\\o\\pe/Lisbon",
        "",
        "   ",
    ] {
        let shown = check(&[("options", options)], PASSWORD);
        assert!(shown.contains("DateStyle="), "{options}: {shown}");
    }
    for options in ["-d", "-c timezone", "-c nothing=1", "-c plimsoll", "nonsense", "-c datestyle='open"] {
        let shown = check(&[("options", options)], PASSWORD);
        assert!(shown.contains("Refused") || shown.contains("DateStyle="), "{options}: {shown}");
    }
    for name in ["", "an application", "ünïcode \u{1}", &"long".repeat(40)] {
        check(&[("application_name", name), ("IntervalStyle", "sql_standard")], PASSWORD);
    }
    assert!(check(&[("nothing", "of this name")], PASSWORD).contains("42704"));
    // Who is not there is refused as somebody is whose password is wrong, and a wrong password goes before a database that is not there.
    assert!(check(&[("user", "nobody_of_that_name")], PASSWORD).contains("28P01"));
    assert!(check(&[], "wrong").contains("28P01"));
    assert!(check(&[("database", "nowhere")], "wrong").contains("28P01"));
    assert!(check(&[("database", "nowhere")], PASSWORD).contains("3D000"));
    // The server takes 10,000 bytes, with the class that the governor adds.
    for length in (9_800..9_940).step_by(7) {
        check(&[("options", &format!("-c application_name={}", "x".repeat(length)))], PASSWORD);
    }
    let too_long = "x".repeat(20_000);
    let refused = connect(Place::Tcp(world.governed.address), &[("options", &too_long)], PASSWORD);
    assert!(refused.contains("Refused") || refused.contains("Lost"), "{refused}");
}

/// Waits for a foreign program, which must end well.
fn ends_well(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Replication passes untouched: its commands, and PostgreSQL's own tools for each kind of it.
#[test]
fn replication_works_through_a_governor() {
    tool("pg_basebackup", "postgresql-client");
    let mut server = Server::start();
    server.restart_with("wal_level", "logical");
    let mut own = server.connection();
    own.run(&format!("CREATE ROLE low_replica LOGIN REPLICATION PASSWORD '{PASSWORD}'")).unwrap();
    own.run("CREATE TABLE told (i int PRIMARY KEY); GRANT ALL ON told TO public").unwrap();
    let rules = server.own().data_folder().join("pg_hba.conf");
    let known = std::fs::read_to_string(&rules).unwrap();
    std::fs::write(&rules, format!("{known}local replication all scram-sha-256\n")).unwrap();
    own.run("SELECT pg_reload_conf()").unwrap();
    let mut governed = Governed::start_with(&server, "", "mpl = 1");

    for kind in ["database", "yes"] {
        let said = [("user", "low_replica"), ("database", server.database()), ("replication", kind)];
        let mut client = Client::log_in(governed.address, &said, PASSWORD).unwrap();
        let answer = client.query("IDENTIFY_SYSTEM").unwrap();
        let database = answer.rows[0][3].as_deref();
        assert_eq!(database, (kind == "database").then(|| server.database()));
        let failure = client.query("NOTHING").expect_err("no such command");
        assert_eq!(failure.state(), Some(if kind == "database" { "42601" } else { "0A000" }), "{failure}");
        assert_eq!(client.query("SHOW wal_level").unwrap().value(), Some("logical"));
    }
    let unprivileged = [("user", "low"), ("database", server.database()), ("replication", "database")];
    let failure = Client::log_in(governed.address, &unprivileged, PASSWORD).expect_err("no right to it");
    assert_eq!(failure.state(), Some("42501"), "{failure}");

    let folder = tempfile::tempdir().unwrap();
    let program = |name: &str| {
        let mut program = Command::new(name);
        program.env("PGPASSWORD", PASSWORD).args(["--host", "127.0.0.1", "--username", "low_replica", "--no-password"]);
        program.arg("--port").arg(governed.address.port().to_string());
        program
    };
    ends_well(
        program("pg_basebackup")
            .args(["--checkpoint=fast", "--wal-method=stream", "--pgdata"])
            .arg(folder.path().join("copy")),
    );
    assert!(folder.path().join("copy/PG_VERSION").exists());

    let logical = |action: &str| {
        let mut receive = program("pg_recvlogical");
        receive.args(["--slot=ours", "--dbname", server.database(), action]);
        receive
    };
    ends_well(logical("--create-slot").arg("--plugin=test_decoding"));
    own.run("INSERT INTO told VALUES (1), (2)").unwrap();
    let end = server.value("SELECT pg_current_wal_insert_lsn()");
    let file = folder.path().join("told");
    ends_well(logical("--start").args(["--no-loop", "--endpos", &end, "--file"]).arg(&file));
    let told = std::fs::read_to_string(&file).unwrap();
    assert_eq!(told.matches("table public.told: INSERT: i[integer]:").count(), 2, "{told}");
    ends_well(&mut logical("--drop-slot"));

    ends_well(program("pg_receivewal").args(["--slot=physical", "--create-slot"]));
    own.run("SELECT pg_switch_wal()").unwrap();
    let end = server.value("SELECT pg_current_wal_insert_lsn()");
    own.run("INSERT INTO told VALUES (3)").unwrap();
    let wal = folder.path().join("wal");
    std::fs::create_dir(&wal).unwrap();
    ends_well(
        program("pg_receivewal").args(["--slot=physical", "--no-loop", "--endpos", &end, "--directory"]).arg(&wal),
    );
    assert!(std::fs::read_dir(&wal).unwrap().count() > 0, "no log was received");
    ends_well(program("pg_receivewal").args(["--slot=physical", "--drop-slot"]));

    // Beside all of that, an ordinary session is governed.
    assert_eq!(governed.client("low", server.database()).value("SELECT count(*) FROM told").unwrap(), "3");
    governed.assert_alive();
}

/// The server is restarted under sessions that are idle, in a transaction and at work: these end, and new ones come as soon as it is back.
#[test]
fn a_server_may_be_restarted() {
    let mut server = Server::start();
    let mut governed = Governed::start_with(&server, "", "mpl = 4");
    let mut clients: Vec<Client> = (0..3).map(|_| governed.client("low", server.database())).collect();
    clients[1].query("BEGIN").unwrap();
    clients[2].send_query("SELECT pg_sleep(60)").unwrap();
    let at_work = || server.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "1";
    plimsoll_testing::until("it sleeps", at_work);
    server.restart();
    for client in &mut clients {
        assert!(client.is_closed(), "a session outlives its server");
    }
    let began = Instant::now();
    loop {
        let own = [("user", "low"), ("database", server.database())];
        match Client::log_in(governed.address, &own, PASSWORD) {
            Ok(mut client) => break assert_eq!(client.value("SELECT 1").unwrap(), "1"),
            Err(failure) => assert!(began.elapsed() < PATIENCE, "{failure}"),
        }
    }
    let classes = governed.console().unwrap().query("SHOW CLASSES").unwrap();
    let inside = classes.rows.iter().map(|row| row[3].as_deref()).collect::<Vec<_>>();
    assert_eq!(inside, [Some("0"); 2], "somebody is left inside");
    governed.assert_alive();
}

/// Work goes on through several pauses, and nobody is told an error. While the console has paused everybody, nobody is inside.
#[test]
fn pauses_hold_work_up_and_lose_none() {
    let server = Server::start();
    let mut governed = Governed::start_with(&server, "", "mpl = 4");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let clients = ["low", "low_other", "high"].map(|user| {
            let (mut client, is_over) = (governed.client(user, server.database()), &is_over);
            scope.spawn(move || {
                let mut done = 0;
                // It ends also if an assertion fails.
                let began = Instant::now();
                while !is_over.load(Ordering::Relaxed) && began.elapsed() < PATIENCE {
                    client.query("BEGIN; SELECT pg_sleep(0.005); COMMIT").unwrap();
                    done += 1;
                }
                done
            })
        });
        let mut console = governed.console().unwrap();
        let inside = |console: &mut Client| {
            let classes = console.query("SHOW CLASSES").unwrap();
            classes.rows.iter().map(|row| row[3].as_deref().unwrap().parse::<u32>().unwrap()).sum::<u32>()
        };
        for _ in 0..5 {
            console.query("PAUSE").unwrap();
            plimsoll_testing::until("all have left", || inside(&mut console) == 0);
            let waits = |console: &mut Client| console.query("SHOW QUEUE").unwrap().rows.len();
            plimsoll_testing::until("all wait", || waits(&mut console) == 3);
            console.query("RESUME").unwrap();
            plimsoll_testing::until("all go on", || waits(&mut console) == 0);
        }
        is_over.store(true, Ordering::Relaxed);
        for client in clients {
            assert!(client.join().unwrap() > 0);
        }
    });
    governed.assert_alive();
}

/// One session is ended by its number, and its client is told why; its transaction is rolled back. There must be one of that number.
#[test]
fn a_session_can_be_killed() {
    let server = Server::start();
    let mut governed = Governed::start(&server);
    let mut console = governed.console().unwrap();
    for (wrong, state) in [("KILL", "42601"), ("KILL 999999", "42704"), ("KILL x", "42704")] {
        assert_eq!(console.query(wrong).expect_err(wrong).state(), Some(state), "{wrong}");
    }
    for sql in ["SELECT 1", "BEGIN; UPDATE hot SET low = low + 1 WHERE id = 1", "SELECT pg_sleep(60)"] {
        let (mut client, mut other) =
            (governed.client("low", server.database()), governed.client("low_other", server.database()));
        if sql.contains("pg_sleep") {
            client.send_query(sql).unwrap();
            let sleeps = || server.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "1";
            plimsoll_testing::until("it sleeps", sleeps);
        } else {
            client.query(sql).unwrap();
        }
        let clients = console.query("SHOW CLIENTS").unwrap();
        let row = clients.rows.iter().find(|row| row[1].as_deref() == Some("low")).unwrap();
        console.query(&format!("KILL {}", row[0].as_deref().unwrap())).unwrap();
        let error = client.answer().expect_err("it was ended");
        assert!(error.to_string().contains("57P01"), "{sql}: {error}");
        assert_eq!(other.value("SELECT 1").unwrap(), "1", "another session was ended with it");
        let is_left = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'low'";
        plimsoll_testing::until("its server process ends", || server.value(is_left) == "0");
    }
    governed.assert_alive();
}

/// A new certificate is shown to whoever comes after a reload. Sessions go on, and a client that hangs up without a word of TLS is no warning.
#[test]
fn certificates_change_with_a_reload() {
    tool("psql", "postgresql-client");
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let certify = |authority: &str| {
        openssl(
            folder.path(),
            &format!("req -x509 -days 2 -subj /CN=localhost -keyout {authority}.key -out {authority}.crt"),
        );
        for end in ["key", "crt"] {
            std::fs::copy(file(&format!("{authority}.{end}")), file(&format!("server.{end}"))).unwrap();
        }
    };
    certify("first");
    let tls = format!(
        "tls = {{ certificate = \"{}\", key = \"{}\", required = true }}",
        file("server.crt"),
        file("server.key")
    );
    let mut governed = Governed::start_with(&server, &tls, "mpl = 4");
    let address = governed.address;
    let psql = |root: &str| {
        let mut psql = Command::new("psql");
        psql.env("PGHOST", "127.0.0.1").env("PGPORT", address.port().to_string());
        psql.env("PGUSER", "low").env("PGPASSWORD", PASSWORD).env("PGDATABASE", server.database());
        // The server is reached by its socket, so a login cannot be bound to its certificate.
        psql.env("PGSSLMODE", "verify-ca").env("PGSSLROOTCERT", file(root)).env("PGCHANNELBINDING", "disable");
        psql.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only"]);
        psql
    };
    let succeeds = |root: &str| psql(root).args(["--command", "SELECT 1"]).output().unwrap().status.success();
    assert!(succeeds("first.crt"));
    let mut before = psql("first.crt").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, output) = (before.stdin.take().unwrap(), before.stdout.take().unwrap());
    let mut lines = std::io::BufReader::new(output).lines();
    writeln!(input, "SELECT 'before';").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "before");

    certify("second");
    assert!(succeeds("first.crt"), "nothing was reloaded");
    // The console, too, is reached by TLS.
    let console = |sql: &str| {
        let mut console = psql("first.crt");
        console
            .env("PGUSER", "operator")
            .env("PGDATABASE", CONSOLE)
            .env("PGSSLMODE", "require")
            .env_remove("PGSSLROOTCERT");
        console.args(["--command", sql]).output().unwrap()
    };
    let reloaded = console("RELOAD");
    assert!(reloaded.status.success(), "{}", String::from_utf8_lossy(&reloaded.stderr));
    assert!(succeeds("second.crt") && !succeeds("first.crt"), "the old certificate is still shown");
    // A certificate that is not there is refused, and what was there goes on.
    std::fs::remove_file(file("server.crt")).unwrap();
    let refused = console("RELOAD");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("server.crt"), "{refused:?}");
    assert!(succeeds("second.crt"));
    writeln!(input, "SELECT 'after';").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "after");
    drop(input);
    before.wait().unwrap();

    let said = governed.said().len();
    hang_up(address);
    assert!(succeeds("second.crt"));
    let said = governed.said().split_off(said);
    assert!(!said.contains("WARN") && !said.contains("ERROR"), "{said}");
    governed.assert_alive();
}

/// Begins with TLS and closes the connection below it.
fn hang_up(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&[&8_u32.to_be_bytes()[..], &80_877_103_u32.to_be_bytes()].concat()).unwrap();
    let mut answer = [0];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"S");
    let url = ServerUrl::parse_in("postgres://low@localhost/x?sslmode=require", &|_| None).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut tls = ClientConnection::new(Arc::new(client_tls(&url).unwrap()), name).unwrap();
    while tls.is_handshaking() {
        tls.complete_io(&mut stream).unwrap();
    }
}
