//! Guards on a real server: a statement that needs a strong lock holds up nobody, runaways end with a clear error, and a transaction
//! whose client thinks is ended by what it holds up.

use std::thread;
use std::time::{Duration, Instant};

use plimsoll_testing::until;

use super::client::{Client, Failure, PASSWORD, cancel};
use super::governed::Governed;
use super::server::Server;

/// For how long a dump reads the table.
const DUMP: Duration = Duration::from_secs(3);

const READERS: usize = 6;

/// A reader may be held up for a try, and for as long as a busy machine takes to run it.
const HELD_UP_MAX: Duration = Duration::from_millis(700);

/// How long after the dump the statement may end: a pause and a try.
const SOON: Duration = Duration::from_millis(1500);

fn server() -> Server {
    let server = Server::start();
    let sql = "CREATE TABLE orders (id int PRIMARY KEY, note text); \
        INSERT INTO orders SELECT id FROM generate_series(1, 100) id; \
        CREATE TABLE versions (version int); ALTER TABLE orders OWNER TO high; GRANT ALL ON versions, orders TO public";
    server.connection().run(sql).unwrap();
    server
}

fn governed(server: &Server, guards: &str) -> Governed {
    let governed = Governed::start_guarded(server, guards, "");
    // Before the first look nothing shows what is older than a transaction.
    let mut client = governed.client("high", server.database());
    until("the governor to look", || {
        client.query("SELECT 1").is_ok() && governed.said().contains("control connection is up")
    });
    governed
}

/// What became of a statement that was sent while a dump and readers were at work.
struct Migrated {
    ended: Result<(), Failure>,
    /// After the end of the dump; negative if before.
    after_dump: f64,
    /// The longest time that a reader took.
    held_up: Duration,
}

/// Runs these statements in a session of their own beside a dump of the table and clients that read it.
fn migrate(server: &Server, governed: &Governed, statements: &[&str]) -> Migrated {
    let began = Instant::now();
    let ends = began + DUMP + Duration::from_secs(1);
    thread::scope(|scope| {
        let dump = scope.spawn(|| {
            let mut dump = server.connection();
            dump.run("BEGIN; SELECT count(*) FROM orders").unwrap();
            thread::sleep(DUMP);
            let ended = Instant::now();
            dump.run("COMMIT").unwrap();
            ended
        });
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = governed.client("high", server.database());
                    let mut longest = Duration::ZERO;
                    while Instant::now() < ends {
                        let sent = Instant::now();
                        client.query("SELECT count(*) FROM orders WHERE id < 10").unwrap();
                        longest = longest.max(sent.elapsed());
                        thread::sleep(Duration::from_millis(5));
                    }
                    longest
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(300));
        let mut client = governed.client("high", server.database());
        let ended = statements.iter().try_for_each(|sql| client.query(sql).map(drop));
        let at = Instant::now();
        let dumped = dump.join().unwrap();
        let held_up = readers.into_iter().map(|reader| reader.join().unwrap()).max().unwrap();
        let after =
            at.saturating_duration_since(dumped).as_secs_f64() - dumped.saturating_duration_since(at).as_secs_f64();
        Migrated { ended, after_dump: after, held_up }
    })
}

/// Without the guard every reader waits for the rest of the dump, which shows that the test can fail.
#[test]
fn a_migration_behind_a_dump_holds_up_no_reader() {
    let server = server();
    let warned = governed(&server, "migrations = \"warn\"");
    let before = migrate(&server, &warned, &["ALTER TABLE orders ADD COLUMN first int"]);
    before.ended.unwrap();
    assert!(before.held_up > DUMP / 2, "nobody was held up: {:?}", before.held_up);
    until("the guard's warning", || warned.said().contains("others wait for it"));
    assert!(warned.count(Some("high"), "lock_queues") >= 1, "{}", warned.said());

    let guarded = governed(&server, "migrations = \"enforce\"");
    let after = migrate(&server, &guarded, &["ALTER TABLE orders ADD COLUMN second int DEFAULT 7"]);
    after.ended.unwrap();
    assert!(after.held_up < HELD_UP_MAX, "a reader was held up for {:?}", after.held_up);
    assert!((0.0..SOON.as_secs_f64()).contains(&after.after_dump), "it ended {:.1}s after the dump", after.after_dump);
    assert!(guarded.count(Some("high"), "lock_steps_back") >= 2);
    assert_eq!(server.value("SELECT min(second) FROM orders"), "7");
}

/// Earlier writes of the block are rolled back with it each time, and happen once.
#[test]
fn a_migration_in_a_block_is_run_again_with_its_earlier_writes() {
    let server = server();
    let guarded = governed(&server, "migrations = \"enforce\"");
    let statements = [
        "BEGIN",
        "INSERT INTO versions VALUES (1)",
        "ALTER TABLE orders ADD COLUMN third int",
        "CREATE INDEX third_index ON orders (third)",
        "COMMIT",
    ];
    let migrated = migrate(&server, &guarded, &statements);
    migrated.ended.unwrap();
    assert!(migrated.held_up < HELD_UP_MAX, "a reader was held up for {:?}", migrated.held_up);
    assert_eq!(server.value("SELECT count(*) FROM versions"), "1");
    assert_eq!(server.value("SELECT count(*) FROM pg_indexes WHERE indexname = 'third_index'"), "1");
    assert!(guarded.count(Some("high"), "lock_steps_back") >= 2);
}

/// Holds the table, as a dump does, for as long as the act takes.
fn while_it_is_read<T>(server: &Server, act: impl FnOnce() -> T) -> T {
    let mut dump = server.connection();
    dump.run("BEGIN; SELECT count(*) FROM orders").unwrap();
    let done = act();
    dump.run("COMMIT").unwrap();
    done
}

#[test]
fn a_client_finds_its_own_lock_timeout_and_is_ended_by_it() {
    let server = server();
    let guarded = governed(&server, "migrations = \"enforce\"\nmigrations_wait = \"50ms\"");
    let mut client = guarded.client("high", server.database());
    let shown = |client: &mut Client| client.value("SHOW lock_timeout").unwrap();
    client.query("TRUNCATE versions").unwrap();
    assert_eq!(shown(&mut client), "0");
    client.query("ALTER TABLE orders ADD COLUMN free int").unwrap();
    assert_eq!(shown(&mut client), "0");
    client.query("SET lock_timeout = '400ms'").unwrap();
    let began = Instant::now();
    let failure = while_it_is_read(&server, || client.query("DROP TABLE orders").map(drop).unwrap_err());
    let took = began.elapsed();
    assert_eq!(failure.state(), Some("55P03"));
    assert!(took >= Duration::from_millis(390) && took < Duration::from_millis(1500), "{took:?}");
    assert_eq!(shown(&mut client), "400ms");
    // Within a block, and after it.
    client.query("BEGIN").unwrap();
    client.query("ALTER TABLE orders ADD COLUMN more int").unwrap();
    assert_eq!(shown(&mut client), "400ms");
    client.query("COMMIT").unwrap();
    assert_eq!(shown(&mut client), "400ms");
}

#[test]
fn a_client_that_cancels_or_leaves_while_its_statement_steps_back_gets_what_it_asked_for() {
    let server = server();
    let guarded = governed(&server, "migrations = \"enforce\"");
    while_it_is_read(&server, || {
        let mut client = guarded.client("high", server.database());
        client.send_query("TRUNCATE orders").unwrap();
        until("a step back", || guarded.count(Some("high"), "lock_steps_back") >= 2);
        cancel(guarded.address, &client.key).unwrap();
        let refusal = client.answer().unwrap().refusal.unwrap();
        assert_eq!(refusal.state, "57014");
        assert_eq!(client.value("SHOW lock_timeout").unwrap(), "0");
        // The next one leaves without a word. Its statement is carried out, as a server would.
        let mut leaving = guarded.client("high", server.database());
        leaving.send_query("ALTER TABLE orders ADD COLUMN left_behind int").unwrap();
        thread::sleep(Duration::from_millis(300));
    });
    assert_eq!(server.value("SELECT count(*) > 0 FROM orders"), "t", "the cancelled statement has run");
    let mut client = guarded.client("high", server.database());
    client.query("SELECT count(*) FROM orders").unwrap();
}

#[test]
fn a_runaway_ends_with_the_limit_in_its_error() {
    let server = server();
    let limits = "time_max = \"300ms\"\nrows_max = 1000";
    let governed = Governed::start_guarded(&server, "runaways = \"enforce\"", limits);
    let mut client = governed.client("low", server.database());
    for sql in ["SELECT pg_sleep(20)", "SELECT generate_series(1, 100000000)"] {
        let Err(Failure::Refused(refusal)) = client.query(sql) else { panic!("{sql} was not ended") };
        assert_eq!(refusal.state, "54000", "{sql}: {}", refusal.message);
        assert!(refusal.message.starts_with("class \"low\" lets a statement"), "{}", refusal.message);
        assert_eq!(client.value("SELECT 1").unwrap(), "1");
    }
    assert_eq!(governed.count(Some("low"), "runaways"), 2);
    let sorting = Governed::start_guarded(&server, "runaways = \"enforce\"", "temp_max = \"10MiB\"");
    let mut client = sorting.client("low", server.database());
    client.query("SET work_mem = '64kB'").unwrap();
    let sort = "SELECT count(*) FROM (SELECT repeat('x', 100) || id FROM generate_series(1, 20000000) id ORDER BY 1) s";
    let Err(Failure::Refused(refusal)) = client.query(sort) else { panic!("it was not ended") };
    assert!(refusal.message.contains("lets a statement fill 10 MiB of temporary files"), "{}", refusal.message);
    // Another class has no limit.
    governed.client("high", server.database()).query("SELECT pg_sleep(0.6)").unwrap();
}

#[test]
fn a_thinking_client_that_holds_up_others_is_ended_by_what_that_costs() {
    let server = server();
    let governed = governed(&server, "idle = \"enforce\"\nidle_cost = \"500ms\"");
    let mut idle = governed.client("high", server.database());
    idle.query("BEGIN").unwrap();
    idle.query("UPDATE orders SET note = 'mine' WHERE id = 1").unwrap();
    // It holds up nobody.
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(idle.value("SELECT 1").unwrap(), "1");
    let mut waiter = governed.client("high_other", server.database());
    let began = Instant::now();
    waiter.query("UPDATE orders SET note = 'free' WHERE id = 1").unwrap();
    assert!(began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
    assert!(idle.query("SELECT 1").is_err(), "it was not ended");
    assert_eq!(governed.count(Some("high"), "idle_holders"), 1);
}

/// An operator tries a budget for one statement while everything runs, enforces it, and takes it back.
#[test]
fn a_statement_is_governed_and_let_go_while_its_clients_stay() {
    let server = server();
    let governed = Governed::start(&server);
    let mut console = governed.console().unwrap();
    let mut govern = |words: &str| console.query(&format!("{words};")).unwrap().rows;
    let of_statement = "'SELECT note FROM orders WHERE id = 1'";
    let mut clients = ["high", "low"].map(|user| governed.client(user, server.database()));
    let [client, other] = &mut clients;
    govern(&format!("GOVERN {of_statement} rate = 1/h burst = 3 guards = warn"));
    for id in 0..10 {
        client.query(&format!("SELECT note FROM orders WHERE id = {id}")).unwrap();
        client.query("SELECT 1").unwrap();
    }
    let shown = govern("SHOW GOVERNED");
    assert_eq!((shown.len(), shown[0][4].as_deref()), (1, Some("7")), "{shown:?}");

    govern(&format!("GOVERN {of_statement} rate = 1/h burst = 1 guards = enforce"));
    let waits = "SELECT note FROM orders WHERE id = 7";
    client.query(waits).unwrap();
    client.send_query(waits).unwrap();
    until("the statement waits for its moment", || govern("SHOW QUEUE").len() == 1);
    other.query("SELECT 1").unwrap();
    govern(&format!("UNGOVERN {of_statement}"));
    assert_eq!(client.answer().unwrap().rows.len(), 1);
    client.query(waits).unwrap();
    assert!(govern("SHOW GOVERNED").is_empty());
}

/// The example of the guide as it is: who is in which class, and what it says of them. It ends nothing.
#[test]
fn reports_and_agents_are_told_apart_by_their_names() {
    let server = server();
    let governed = Governed::start_example(&server, "plimsoll-reports-agents.toml");
    let names = [
        ("", "applications"),
        ("shop 1.2", "applications"),
        ("Metabase v0.50.3 [3a1b]", "reports"),
        ("DBeaver 24.1.0 - Main", "reports"),
        ("pgAdmin 4 - DB:shop", "reports"),
        ("pg_dump", "reports"),
        ("psql", "reports"),
        ("postgres-mcp", "agents"),
    ];
    let mut clients = Vec::new();
    for (name, _) in names {
        let login = [("user", "low"), ("database", server.database()), ("application_name", name)];
        let mut client = Client::log_in(governed.address, &login, PASSWORD).unwrap();
        client.query("SELECT 1").unwrap();
        clients.push(client);
    }
    let shown = governed.console().unwrap().query("SHOW CLIENTS").unwrap().rows;
    let [application, class] = ["application_name", "class"].map(Governed::column);
    for (name, expect) in names {
        let of_name = |row: &&Vec<Option<String>>| row[application].as_deref().unwrap_or_default() == name;
        let found: Vec<_> = shown.iter().filter(of_name).map(|row| row[class].as_deref().unwrap_or_default()).collect();
        assert_eq!(found, [expect], "{name}: {shown:?}");
    }
    let [.., agent] = &mut clients[..] else { panic!("no clients") };
    for _ in 0..30 {
        agent.query("SELECT 1").unwrap();
    }
    let too_many = "SELECT generate_series(1, 120000) UNION ALL SELECT 1 FROM pg_sleep(2)";
    assert_eq!(agent.query(too_many).unwrap().rows.len(), 120_001, "it was ended");
    assert!(governed.count(Some("agents"), "beyond_rate") > 0);
    until("the guard to name the runaway", || governed.count(Some("agents"), "runaways") > 0);
}

/// A queue in place of an error: what comes too fast waits for its moment.
#[test]
fn a_budget_makes_transactions_wait_for_their_moment() {
    let server = server();
    let timed = |guards: &str| {
        let governed = Governed::start_guarded(&server, guards, "rate = \"20/s\"\nburst = 2");
        let began = Instant::now();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut client = governed.client("low", server.database());
                    (0..5).for_each(|_| drop(client.query("SELECT 1").unwrap()));
                });
            }
        });
        (began.elapsed(), governed.count(Some("low"), "beyond_rate"))
    };
    // 20 transactions, of which two begin at once.
    let (took, _) = timed("budgets = \"enforce\"");
    assert!(took >= Duration::from_millis(850) && took < Duration::from_secs(5), "{took:?}");
    let (_, beyond) = timed("budgets = \"warn\"");
    assert!(beyond >= 10, "{beyond} would have waited");
}
