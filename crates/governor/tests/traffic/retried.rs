//! Applications without retry loops do not fail when the server aborts their transactions: deadlocks and serialization
//! failures are replayed, and cycles of waiters are broken before the server looks for them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_testing::until;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::client::{Client, Failure};
use super::governed::Governed;
use super::server::{PASSWORD, Server};

/// The rows that all clients contend for, and clients by user.
const ROWS: i64 = 10;
const CLIENTS: [(&str, usize); 3] = [("low", 12), ("low_other", 6), ("high", 4)];

/// Transactions of each client.
const TRANSACTIONS: usize = 25;

/// The number of transactions that [`no_error_of_hot_rows_is_seen_at_any_scale`] runs at least, and the variable that
/// sets it: 100000 takes some minutes.
const AT_SCALE: usize = 3000;
const SCALE: &str = "PLIMSOLL_HOT_TRANSACTIONS";

/// The seed of the first client.
const SEED: u64 = 17;

/// A server with the rows, which looks for deadlocks after `deadlock_timeout`.
fn server(deadlock_timeout: &str) -> Server {
    let mut server = Server::start();
    server.restart_with("deadlock_timeout", &format!("'{deadlock_timeout}'"));
    let sql = format!(
        "CREATE TABLE counter (id int PRIMARY KEY, n bigint NOT NULL DEFAULT 0) WITH (fillfactor = 20);
         INSERT INTO counter SELECT generate_series(1, {ROWS});
         GRANT ALL ON counter TO public;
         -- As for a table of more than a page: whoever reads it as a whole conflicts with everybody.
         ALTER DATABASE {} SET enable_seqscan = off",
        server.database()
    );
    server.connection().run(&sql).unwrap();
    server
}

/// Runs a transaction; the first error ends it.
fn run(client: &mut Client, statements: &[String]) -> Result<(), Failure> {
    for statement in statements {
        client.query(statement)?;
    }
    Ok(())
}

fn add(row: i64) -> String {
    format!("UPDATE counter SET n = n + 1 WHERE id = {row}")
}

/// Every client runs transactions of two different random rows, and none of them retries. Returns how many failed.
fn clients(server: &Server, governed: &Governed, transaction: impl Fn(i64, i64) -> Vec<String> + Sync) -> u64 {
    clients_with(server, governed, TRANSACTIONS, transaction)
}

/// The same with that many transactions of each client.
fn clients_with(
    server: &Server,
    governed: &Governed,
    count: usize,
    transaction: impl Fn(i64, i64) -> Vec<String> + Sync,
) -> u64 {
    let (failed, database) = (AtomicU64::new(0), server.database());
    thread::scope(|scope| {
        let users = CLIENTS.iter().flat_map(|(user, count)| std::iter::repeat_n(*user, *count));
        for (user, seed) in users.zip(SEED..) {
            let (failed, transaction) = (&failed, &transaction);
            scope.spawn(move || {
                let mut random = Pcg64Mcg::seed_from_u64(seed);
                let mut client = governed.client(user, database);
                for _ in 0..count {
                    let first = random.random_range(1..=ROWS);
                    let second = (first + random.random_range(0..ROWS - 1)) % ROWS + 1;
                    if let Err(failure) = run(&mut client, &transaction(first, second)) {
                        eprintln!("{user}: {failure}");
                        failed.fetch_add(1, Ordering::Relaxed);
                        client.query("ROLLBACK").unwrap();
                    }
                }
            });
        }
    });
    failed.into_inner()
}

fn client_count() -> usize {
    CLIENTS.iter().map(|(_, count)| count).sum()
}

fn transaction_count() -> u64 {
    (client_count() * TRANSACTIONS) as u64
}

/// It reads a row that others change, and changes one that others read.
fn serializable(first: i64, second: i64) -> Vec<String> {
    vec![
        "BEGIN ISOLATION LEVEL SERIALIZABLE".to_owned(),
        format!("SELECT n >= 0 FROM counter WHERE id = {first}"),
        add(second),
        "COMMIT".to_owned(),
    ]
}

fn hot_rows(first: i64, second: i64) -> Vec<String> {
    vec!["BEGIN".to_owned(), add(first), add(second), "COMMIT".to_owned()]
}

/// PostgreSQL does not need a victim for a cycle with a member that gives up by itself, or that catches the error. The
/// governor once rolled back another member, whose client received 40P01 if its answers had changed.
#[test]
fn a_cycle_that_ends_by_itself_has_no_victim() {
    let server = server("1s");
    let in_function = "CREATE FUNCTION patient(it int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
             UPDATE counter SET n = n + 1 WHERE id = it;
         EXCEPTION WHEN deadlock_detected THEN NULL; END $$";
    let governed = Governed::start_with(&server, "", "");
    let ways = [
        ("ALTER ROLE high SET lock_timeout = 400", "SELECT 1", add(2), Some("55P03")),
        ("ALTER ROLE high RESET lock_timeout", "SET LOCAL statement_timeout = '400ms'", add(2), Some("57014")),
        (in_function, "SELECT 1", "SELECT patient(2)".to_owned(), None),
    ];
    for (before, first_text, way, expect) in ways {
        server.connection().run(before).unwrap();
        let [mut first, mut second] = ["high", "high_other"].map(|user| governed.client(user, server.database()));
        run(&mut first, &["BEGIN".to_owned(), first_text.to_owned(), add(1)]).unwrap();
        run(&mut second, &["BEGIN".to_owned(), add(2)]).unwrap();
        thread::scope(|scope| {
            let first = scope.spawn(|| {
                let ended = first.query(&way).map(drop);
                first.query(if ended.is_ok() { "COMMIT" } else { "ROLLBACK" }).unwrap();
                ended
            });
            thread::sleep(Duration::from_millis(50));
            run(&mut second, &[add(1), "COMMIT".to_owned()]).unwrap();
            let state = first.join().unwrap().err().and_then(|failure| failure.state().map(str::to_owned));
            assert_eq!(state.as_deref(), expect, "{before}; {first_text}");
        });
        assert_eq!(of_high(&governed), 0, "{before}; {first_text}: it had a victim");
    }
}

fn of_high(governed: &Governed) -> u64 {
    ["replayed", "again"].map(|outcome| governed.aborts("high", "cycle", outcome)).iter().sum()
}

fn of_both(governed: &Governed, cause: &str, outcome: &str) -> u64 {
    governed.aborts("low", cause, outcome) + governed.aborts("high", cause, outcome)
}

/// Clients run into cycles, and none is left to the server, which would take a minute to find it.
fn check_cycles_are_broken(server: &Server, governed: &Governed) {
    let began = Instant::now();
    let failed = clients(server, governed, hot_rows);
    assert!(of_both(governed, "cycle", "replayed") > 0, "there was no cycle");
    assert_eq!((failed, of_both(governed, "deadlock", "replayed")), (0, 0));
    assert!(began.elapsed() < Duration::from_secs(60), "a cycle was left to the server");
}

#[test]
fn nobody_sees_a_deadlock_that_the_server_has_ended() {
    let server = server("10ms");
    // Without a login of its own the governor makes no looks, and the first deadlock shows it what is older than later
    // transactions.
    let governed = Governed::start_at(&Governed::places(&server).0, "", "", "");
    let first = cycle(&server, &governed, ["high", "high_other"], "SELECT 1");
    let states: Vec<_> = first.iter().filter_map(|ended| ended.as_ref().err()?.state()).collect();
    assert_eq!(states, ["40P01"]);
    server.connection().run("UPDATE counter SET n = 0").unwrap();
    let failed = clients(&server, &governed, hot_rows);
    assert!(of_both(&governed, "deadlock", "replayed") > 0, "there was no deadlock");
    assert_eq!((failed, of_both(&governed, "cycle", "replayed")), (0, 0));
    assert_eq!(server.value("SELECT sum(n) FROM counter"), (2 * transaction_count()).to_string());
}

#[test]
fn cycles_are_broken_before_the_server_looks_for_deadlocks() {
    let server = server("60s");
    let governed = Governed::start_with(&server, "", "");
    check_cycles_are_broken(&server, &governed);
    assert_eq!(server.value("SELECT sum(n) FROM counter"), (2 * transaction_count()).to_string());
}

/// Story: the sample settings name the database `postgres`, and the clients' was another one. Whether its functions catch errors
/// was not known, so every deadlock was left to the server: the governor was as slow as none.
#[test]
fn cycles_are_broken_in_a_database_that_is_not_that_of_the_control_connection() {
    let server = server("60s");
    let (place, control) = Governed::places(&server);
    let control = control.replace(&format!("/{}?", server.own().database()), "/postgres?");
    assert!(control.contains("/postgres?"), "{control}");
    let governed = Governed::start_at(&place, &control, "", "");
    check_cycles_are_broken(&server, &governed);

    // Its connection to that database would keep it from being dropped.
    let connections = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'plimsoll governor functions'";
    until("the governor to leave", || server.value(connections) == "0");
}

/// Story: one function with EXCEPTION anywhere in a database left all of its deadlocks to the server. Now only the transactions
/// that may run it do: here through a trigger, so that no text shows it.
#[test]
fn only_cycles_whose_members_may_catch_the_error_are_left_to_the_server() {
    let server = server("100ms");
    let governed = Governed::start_with(&server, "", "");
    let catches = "CREATE FUNCTION careful() RETURNS trigger LANGUAGE plpgsql AS \
        $$ BEGIN UPDATE rare SET n = n + 1; RETURN new; EXCEPTION WHEN deadlock_detected THEN RETURN new; END $$; \
        CREATE TABLE rare (n int); CREATE TABLE noted (n int); GRANT ALL ON noted, rare TO public; \
        CREATE TRIGGER careful BEFORE INSERT ON noted FOR EACH ROW EXECUTE FUNCTION careful()";
    server.connection().run(catches).unwrap();
    clients(&server, &governed, hot_rows);
    let broken = || of_both(&governed, "cycle", "replayed");
    let before = broken();
    assert!(before > 0, "every cycle was left to the server: {}", governed.page("/metrics"));

    let failed = clients(&server, &governed, |first, second| {
        let [begin, one, other, commit] = <[String; 4]>::try_from(hot_rows(first, second)).unwrap();
        vec![begin, "INSERT INTO noted VALUES (1)".to_owned(), one, other, commit]
    });
    assert_eq!((failed, broken()), (0, before), "a member might have caught the error");
    assert!(of_both(&governed, "deadlock", "replayed") > 0, "there was no deadlock");
}

/// pgbench prepares each statement once, including BEGIN and COMMIT, as JDBC drivers do. A prepared BEGIN was once
/// taken for a statement that must not run twice, so none of their transactions was ever replayed.
#[test]
fn what_is_prepared_before_its_transaction_is_run_again_too() {
    let server = server("60s");
    let governed = Governed::start_with(&server, "", "");
    let own = server.own();
    let script = tempfile::NamedTempFile::new().unwrap();
    let update = |row: &str| format!("UPDATE counter SET n = n + 1 WHERE id = :{row};");
    let draw = |row: &str| format!("\\set {row} random(1, {ROWS})");
    let lines = [draw("a"), draw("b"), "BEGIN;".to_owned(), update("a"), update("b"), "COMMIT;".to_owned()];
    std::fs::write(&script, lines.join("\n")).unwrap();
    let mut pgbench = std::process::Command::new(own.installation().program("pgbench"));
    pgbench.args(["--no-vacuum", "--protocol=prepared", "--client=16", "--transactions=25", "--failures-detailed"]);
    pgbench.args(["--host", &governed.address.ip().to_string(), "--port", &governed.address.port().to_string()]);
    pgbench.env("PGPASSWORD", PASSWORD).args(["--username", "low", "--file"]).arg(script.path()).arg(server.database());
    let output = pgbench.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("number of failed transactions: 0 "), "{told}");
    assert!(governed.aborts("low", "cycle", "replayed") > 0, "there was no cycle");
    assert_eq!(server.value("SELECT sum(n) FROM counter"), (2 * 16 * 25).to_string());
}

/// Each reads rows that another changes, and changes rows that another reads; its reads do not depend on the other's
/// changes. Only a client whose transaction has used up its attempts gets an error.
#[test]
fn nobody_sees_a_conflict_of_serializable_transactions() {
    let server = server("10ms");
    let governed = Governed::start_with(&server, "", "");
    let failed = clients(&server, &governed, serializable);
    assert!(of_both(&governed, "serialization", "replayed") > 0, "there was no conflict");
    // On a busy machine a transaction of hundreds was seen to lose every attempt that it has.
    assert_eq!(failed, of_both(&governed, "serialization", "too-often"), "{}", governed.page("/metrics"));
    assert!(failed <= 3, "{failed} clients saw a conflict");
    assert_eq!(server.value("SELECT sum(n) FROM counter"), (transaction_count() - failed).to_string());
}

/// Deadlocks and conflicts of serializable transactions by the thousand: applications without a retry loop see none of them.
#[test]
fn no_error_of_hot_rows_is_seen_at_any_scale() {
    let server = server("10ms");
    let governed = Governed::start_with(&server, "", "");
    let wanted = std::env::var(SCALE).map_or(AT_SCALE, |count| count.parse().expect("a number of transactions"));
    let each = wanted.div_ceil(client_count());
    let added = AtomicU64::new(0);
    let failed = clients_with(&server, &governed, each, |first, second| {
        let is_serializable = (first + second) % 2 == 1;
        added.fetch_add(if is_serializable { 1 } else { 2 }, Ordering::Relaxed);
        if is_serializable { serializable(first, second) } else { hot_rows(first, second) }
    });
    let replayed = ["cycle", "deadlock", "serialization"].map(|cause| of_both(&governed, cause, "replayed"));
    eprintln!("{} transactions, replayed after a cycle, a deadlock, a conflict: {replayed:?}", each * client_count());
    assert!(replayed[0] + replayed[1] > 0 && replayed[2] > 0, "{replayed:?}");
    assert_eq!(failed, 0, "{}", governed.page("/metrics"));
    assert_eq!(server.value("SELECT sum(n) FROM counter"), added.into_inner().to_string(), "each has run once");
}

/// Writes row 1 after reading row 2, while another one, which commits first, does the opposite. Returns the answer to
/// the COMMIT of the first.
fn skewed(server: &Server, governed: &Governed, read: &str) -> Result<(), Failure> {
    let serializable = "BEGIN ISOLATION LEVEL SERIALIZABLE".to_owned();
    let mut client = governed.client("high", server.database());
    run(&mut client, &[serializable.clone(), format!("SELECT {read} FROM counter WHERE id = 2"), add(1)]).unwrap();
    let mut other = server.connection();
    for sql in [serializable, "SELECT n FROM counter WHERE id = 1".to_owned(), add(2), "COMMIT".to_owned()] {
        other.run(&sql).unwrap();
    }
    let committed = client.query("COMMIT").map(drop);
    assert_eq!(client.value("SELECT 1").unwrap(), "1");
    committed
}

#[test]
fn a_commit_that_fails_is_run_again_with_its_transaction() {
    let server = server("10ms");
    let governed = Governed::start_with(&server, "", "");
    skewed(&server, &governed, "n >= 0").unwrap();
    assert_eq!(governed.aborts("high", "serialization", "replayed"), 1);
    assert_eq!(server.value("SELECT string_agg(n::text, ' ' ORDER BY id) FROM counter WHERE id < 3"), "1 1");
}

#[test]
fn a_commit_whose_transaction_would_read_something_else_fails_with_the_servers_error() {
    let server = server("10ms");
    let governed = Governed::start_with(&server, "", "");
    let Err(Failure::Refused(refusal)) = skewed(&server, &governed, "n") else { panic!("it was committed") };
    assert_eq!(refusal.state, "40001");
    assert_eq!(refusal.message, "could not serialize access due to read/write dependencies among transactions");
    assert_eq!(governed.aborts("high", "serialization", "differed"), 1);
    assert_eq!(server.value("SELECT string_agg(n::text, ' ' ORDER BY id) FROM counter WHERE id < 3"), "0 1");
}

/// Two clients wait for each other; the first waited before.
fn cycle(server: &Server, governed: &Governed, users: [&str; 2], before: &str) -> [Result<(), Failure>; 2] {
    let [mut first, mut second] = users.map(|user| governed.client(user, server.database()));
    run(&mut first, &["BEGIN".to_owned(), before.to_owned(), add(1)]).unwrap();
    run(&mut second, &["BEGIN".to_owned(), before.to_owned(), add(2)]).unwrap();
    let end = |mut client: Client, row: i64| {
        let ended = run(&mut client, &[add(row), "COMMIT".to_owned()]);
        if ended.is_err() {
            client.query("ROLLBACK").unwrap();
        }
        ended
    };
    thread::scope(|scope| {
        let first = scope.spawn(|| end(first, 2));
        let second = scope.spawn(|| end(second, 1));
        [first.join().unwrap(), second.join().unwrap()]
    })
}

#[test]
fn the_less_important_one_gives_way_in_a_cycle() {
    let server = server("60s");
    let governed = Governed::start_with(&server, "", "");
    let began = Instant::now();
    for users in [["high", "low"], ["low", "high"]] {
        assert!(cycle(&server, &governed, users, "SELECT 1").iter().all(Result::is_ok));
    }
    // In a cycle, or earlier: while its client had not sent its next statement.
    let rolled_back = ["preempted_waiting", "preempted_idle"].map(|name| governed.count(Some("low"), name));
    assert!(rolled_back.iter().sum::<u64>() >= 2, "{rolled_back:?}");
    assert_eq!(governed.aborts("high", "cycle", "replayed"), 0);
    // Among equals, even important ones. More than once if a replay takes its lock again before the other has woken up.
    assert!(cycle(&server, &governed, ["high", "high_other"], "SELECT 1").iter().all(Result::is_ok));
    assert!(governed.aborts("high", "cycle", "replayed") >= 1);
    assert!(began.elapsed() < Duration::from_secs(30), "a cycle was left to the server");
    assert_eq!(server.value("SELECT string_agg(n::text, ' ' ORDER BY id) FROM counter WHERE id < 3"), "6 6");
}

#[test]
fn a_cycle_that_nobody_can_lose_unnoticed_is_the_servers() {
    let server = server("100ms");
    let governed = Governed::start_with(&server, "", "");
    let ended = cycle(&server, &governed, ["high", "high_other"], "LISTEN nothing");
    let states: Vec<_> = ended.iter().filter_map(|ended| ended.as_ref().err()?.state()).collect();
    assert_eq!(states, ["40P01"]);
    assert_eq!(governed.aborts("high", "deadlock", "listen"), 1);
}
