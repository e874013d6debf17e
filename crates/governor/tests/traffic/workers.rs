//! Parallel workers by class on a real server: plans have fewer, and a client that reads the setting finds nothing
//! changed.

use super::client::{Answer, Client};
use super::governed::Governed;
use super::requests::{bind, execute, parse, sync};
use super::server::Server;

/// A server whose plans are parallel wherever they can be, by two workers, and a table to scan.
fn parallel_server() -> Server {
    let server = Server::start();
    let mut connection = server.connection();
    for setting in ["parallel_setup_cost", "parallel_tuple_cost", "min_parallel_table_scan_size"] {
        connection.run(&format!("ALTER SYSTEM SET {setting} = 0")).unwrap();
    }
    connection.run("ALTER SYSTEM SET max_parallel_workers_per_gather = 2").unwrap();
    connection
        .run(
            "SELECT pg_reload_conf();
             CREATE TABLE wide AS SELECT id, repeat('x', 200) AS filler FROM generate_series(1, 20000) id;
             ANALYZE wide; GRANT ALL ON wide TO public",
        )
        .unwrap();
    server
}

/// The workers in the plan of a scan.
fn planned(answer: &Answer) -> Option<u32> {
    let lines = answer.rows.iter().filter_map(|row| row.first()?.as_deref());
    lines.filter_map(|line| line.trim().strip_prefix("Workers Planned: ")?.parse().ok()).next()
}

const EXPLAIN: &str = "EXPLAIN (COSTS OFF) SELECT count(*) FROM wide";
const SHOW: &str = "SHOW max_parallel_workers_per_gather";
/// The catalog's record of where a value comes from.
const SOURCE: &str = "SELECT setting || ' ' || source FROM pg_settings WHERE name = 'max_parallel_workers_per_gather'";

fn plan(client: &mut Client, sql: &str) -> Option<u32> {
    planned(&client.query(sql).unwrap())
}

/// One unit of the extended protocol that runs these statements.
fn pipeline(client: &mut Client, statements: &[&str]) -> Answer {
    let each = statements.iter().flat_map(|sql| [parse("", sql), bind("", &[]), execute()]);
    unit(client, each.collect())
}

/// Runs a statement that the session has prepared under that name, without sending its text again.
fn execute_prepared(client: &mut Client, name: &str) -> Answer {
    unit(client, vec![bind(name, &[]), execute()])
}

/// Prepares a statement, alone in its unit.
fn prepare(client: &mut Client, name: &str, sql: &str) {
    unit(client, vec![parse(name, sql)]);
}

fn unit(client: &mut Client, messages: Vec<Vec<u8>>) -> Answer {
    client.send(&[messages.concat(), sync()].concat()).unwrap();
    client.answer().unwrap()
}

#[test]
fn plans_of_a_limited_class_have_fewer_workers_and_nobody_finds_out() {
    let server = parallel_server();
    let governed = Governed::start_with(&server, "", "mpl = 4\nworkers_max = 1");
    let client = |user: &str| governed.client(user, server.database());

    // Alone, in a block, and in a block of the strictest kind, which must be chosen before anything else.
    let mut low = client("low");
    assert_eq!(plan(&mut low, EXPLAIN), Some(1));
    low.query("BEGIN").unwrap();
    low.query("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE").unwrap();
    assert_eq!(plan(&mut low, EXPLAIN), Some(1));
    assert_eq!(low.value("SHOW transaction_isolation").unwrap(), "serializable");
    low.query("COMMIT").unwrap();
    let answer = pipeline(&mut low, &[EXPLAIN]);
    assert_eq!(planned(&answer), Some(1), "{answer:?}");
    assert_eq!(plan(&mut client("high"), EXPLAIN), Some(2), "another class is not limited");

    // A client that reads the setting, alone and in a block, finds its value without a governor, and is left alone from
    // then on.
    for look in [SHOW, SOURCE] {
        let direct = server.value(look);
        let mut low = client("low");
        assert_eq!(plan(&mut low, EXPLAIN), Some(1));
        assert_eq!(low.value(look).unwrap(), direct);
        assert_eq!(plan(&mut low, EXPLAIN), Some(2));

        let mut low = client("low");
        low.query("BEGIN").unwrap();
        assert_eq!(plan(&mut low, EXPLAIN), Some(1));
        low.query("COMMIT").unwrap();
        assert_eq!(low.value(look).unwrap(), direct, "after a transaction");
    }
    let mut low = client("low");
    low.query("BEGIN").unwrap();
    assert_eq!(plan(&mut low, EXPLAIN), Some(1));
    let answer = pipeline(&mut low, &["SELECT 1", SHOW]);
    assert_eq!(answer.rows[1][0].as_deref(), Some("2"), "{answer:?}");
    low.query("ROLLBACK").unwrap();

    // A client's own value wins, in either direction, and survives.
    let mut low = client("low");
    assert_eq!(plan(&mut low, EXPLAIN), Some(1));
    low.query("BEGIN").unwrap();
    assert_eq!(plan(&mut low, EXPLAIN), Some(1));
    low.query("SET max_parallel_workers_per_gather = 2").unwrap();
    assert_eq!(plan(&mut low, EXPLAIN), Some(2));
    low.query("COMMIT").unwrap();
    assert_eq!((low.value(SHOW).unwrap(), plan(&mut low, EXPLAIN)), ("2".to_owned(), Some(2)));

    // Savepoints restore nothing.
    let mut low = client("low");
    low.query("BEGIN").unwrap();
    assert_eq!(plan(&mut low, EXPLAIN), Some(1));
    low.query("SAVEPOINT a").unwrap();
    assert_eq!(low.value(SHOW).unwrap(), "2");
    low.query("ROLLBACK TO a").unwrap();
    assert_eq!(low.value(SHOW).unwrap(), "2");
    low.query("COMMIT").unwrap();
}

#[test]
fn a_failed_transaction_fails_as_before_and_the_next_is_limited_again() {
    let server = parallel_server();
    let mut governed = Governed::start_with(&server, "", "mpl = 4\nworkers_max = 0");
    let mut low = governed.client("low", server.database());
    assert_eq!(plan(&mut low, EXPLAIN), None, "0 workers");
    low.query("BEGIN").unwrap();
    let failed = low.query("SELECT 1 / 0").unwrap_err();
    assert_eq!(failed.state(), Some("22012"));
    assert_eq!(low.query(EXPLAIN).unwrap_err().state(), Some("25P02"));
    low.query("ROLLBACK").unwrap();
    low.query("BEGIN").unwrap();
    assert_eq!(plan(&mut low, EXPLAIN), None);
    low.query("ROLLBACK AND CHAIN").unwrap();
    assert_eq!(plan(&mut low, EXPLAIN), None);
    low.query("COMMIT").unwrap();
    assert_eq!(low.value(SHOW).unwrap(), "2");

    // The limit is taken back at once on the console.
    let mut low = governed.client("low", server.database());
    assert_eq!(plan(&mut low, EXPLAIN), None);
    governed.console().unwrap().query("SET class.low.workers_max = any").unwrap();
    assert_eq!(plan(&mut low, EXPLAIN), Some(2));
    governed.assert_alive();
}

#[test]
fn prepared_statements_resets_and_rollbacks_leave_nothing_behind() {
    let server = parallel_server();
    let governed = Governed::start_with(&server, "", "mpl = 4\nworkers_max = 1");
    let direct = server.value(SOURCE);

    // A unit that only names a statement is limited as well, alone and in a block, before and after the block fails or ends.
    let mut low = governed.client("low", server.database());
    prepare(&mut low, "plan", EXPLAIN);
    assert_eq!(planned(&execute_prepared(&mut low, "plan")), Some(1), "alone");
    for end in ["COMMIT", "ROLLBACK", "SELECT 1 / 0", "ABORT"] {
        low.query("BEGIN").unwrap();
        assert_eq!(planned(&execute_prepared(&mut low, "plan")), Some(1), "in a block");
        if low.query(end).is_err() {
            low.query("ROLLBACK").unwrap();
        }
        assert_eq!(planned(&execute_prepared(&mut low, "plan")), Some(1), "after {end}");
    }
    // The reset commands of pools between two clients. Each has its usual effect, and the next client is limited again.
    for reset in ["DISCARD ALL", "RESET ALL", "DEALLOCATE ALL", "SET SESSION AUTHORIZATION DEFAULT; RESET ALL"] {
        low.query(reset).unwrap();
        assert_eq!(plan(&mut low, EXPLAIN), Some(1), "after {reset}");
    }
    assert_eq!(low.value(SOURCE).unwrap(), direct);

    // A client's own SET, undone by its own ROLLBACK, or local to its block.
    for own in ["SET max_parallel_workers_per_gather = 0", "SET LOCAL max_parallel_workers_per_gather = 0"] {
        let mut low = governed.client("low", server.database());
        low.query("BEGIN").unwrap();
        assert_eq!(plan(&mut low, EXPLAIN), Some(1));
        low.query(own).unwrap();
        assert_eq!(plan(&mut low, EXPLAIN), None, "its own value is lower");
        low.query("ROLLBACK").unwrap();
        assert_eq!(low.value(SOURCE).unwrap(), direct, "after {own}");
    }

    // A role's own value is lower than the limit, and RESET returns to it, both ours and the client's.
    server.connection().run("ALTER ROLE low SET max_parallel_workers_per_gather = 0").unwrap();
    let mut low = governed.client("low", server.database());
    assert_eq!(plan(&mut low, EXPLAIN), None);
    low.query("DISCARD ALL").unwrap();
    assert_eq!(plan(&mut low, EXPLAIN), None);
    assert_eq!(low.value(SHOW).unwrap(), "0");
}

/// The limit applies to planning. A plan that the server keeps for a prepared statement without parameters keeps its
/// workers until it is made again, in both directions.
#[test]
fn a_plan_that_the_server_has_kept_keeps_its_workers() {
    let server = parallel_server();
    let governed = Governed::start_with(&server, "", "mpl = 4\nworkers_max = 1");
    let mut low = governed.client("low", server.database());
    low.query("PREPARE scan AS SELECT count(*) FROM wide").unwrap();
    assert_eq!(plan(&mut low, "EXPLAIN (COSTS OFF) EXECUTE scan"), Some(1));
    governed.console().unwrap().query("SET class.low.workers_max = any").unwrap();
    assert_eq!(plan(&mut low, EXPLAIN), Some(2));
    assert_eq!(plan(&mut low, "EXPLAIN (COSTS OFF) EXECUTE scan"), Some(1));
    low.query("DISCARD PLANS").unwrap();
    assert_eq!(plan(&mut low, "EXPLAIN (COSTS OFF) EXECUTE scan"), Some(2));
    governed.console().unwrap().query("SET class.low.workers_max = 0").unwrap();
    assert_eq!(plan(&mut low, EXPLAIN), None);
    assert_eq!(plan(&mut low, "EXPLAIN (COSTS OFF) EXECUTE scan"), Some(2));
}
