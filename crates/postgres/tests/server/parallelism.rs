//! Degrees of parallelism by a policy on a real server: the settings it gets, its plans, and the learned figures.

use std::borrow::Cow;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use plimsoll_postgres::database::PostgresDatabase;
use plimsoll_workload::database::{Database, Session};
use plimsoll_workload::schema::Schema;

use super::shared::new_server;

static SCHEMA: Schema = Schema { name: Cow::Borrowed("degrees"), tables: &[] };

const WORKERS: &str = "select current_setting('max_parallel_workers_per_gather')";
const ALL_WORKERS: &str = "select current_setting('max_parallel_workers')";

/// A server with a table for which the planner would use eight workers.
fn database(options: &[(&str, &str)]) -> PostgresDatabase {
    let database = PostgresDatabase::private(new_server(options));
    database.create(&SCHEMA).unwrap();
    let script = "CREATE TABLE number AS SELECT n, n % 7 AS part FROM generate_series(1, 300000) n;
        ALTER TABLE number SET (parallel_workers = 8); ANALYZE number";
    database.run_script(&SCHEMA, script).unwrap();
    database
}

fn session(database: &PostgresDatabase) -> Box<dyn Session> {
    database.session(&SCHEMA).unwrap()
}

fn text(session: &mut dyn Session, sql: &str) -> String {
    session.query(sql).unwrap().batches[0].column(0).as_string::<i32>().value(0).to_owned()
}

fn count(session: &mut dyn Session, part: u64) -> i64 {
    let sql = format!("select count(*) from number where part = {part}");
    session.query(&sql).unwrap().batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

fn plan(session: &mut dyn Session) -> String {
    session.plan("select count(*) from number where part = 3").unwrap().unwrap().shape
}

#[test]
fn a_query_has_one_worker_less_than_its_degree() {
    let database = database(&[("dop", "2"), ("parallelism", "static(4)")]);
    let mut four = session(&database);
    assert!(plan(four.as_mut()).contains("Gather 3 workers"), "{}", plan(four.as_mut()));
    assert_eq!((text(four.as_mut(), WORKERS).as_str(), count(four.as_mut(), 3)), ("3", 42857));
    assert!(text(four.as_mut(), ALL_WORKERS).parse::<u32>().unwrap() >= 3, "enough for one query");
    // The server rolls a setting back with the transaction that it was made in.
    let mut other = session(&database);
    other.begin().unwrap();
    assert_eq!(text(other.as_mut(), WORKERS), "3");
    other.rollback().unwrap();
    assert_eq!(text(other.as_mut(), WORKERS), "3");
    other.begin().unwrap();
    assert!(other.query("select 1 / (n - 1) from number").is_err());
    assert_eq!(text(other.as_mut(), WORKERS), "3");
    for (value, workers) in [("static(1)", "0"), ("planner", "1"), ("static(2)", "1")] {
        database.set_option("parallelism", value).unwrap();
        let mut session = session(&database);
        assert_eq!((text(session.as_mut(), WORKERS).as_str(), count(session.as_mut(), 0)), (workers, 42857), "{value}");
        assert_eq!(plan(session.as_mut()).contains("Gather"), workers != "0", "{value}");
        assert_eq!(database.parallelism().map(|known| known.policy), (value != "planner").then(|| value.to_owned()));
    }
    for wrong in ["adaptiv", "static(65)", "static(0)"] {
        let error = database.set_option("parallelism", wrong).unwrap_err().to_string();
        assert!(error.contains("`adaptive`") && error.contains("from 1 to 64"), "{error}");
    }
}

#[test]
fn cores_are_divided_by_the_queries_that_run() {
    let database = database(&[("dop", "64"), ("parallelism", "cost")]);
    let mut alone = session(&database);
    let cores: u32 = text(alone.as_mut(), WORKERS).parse::<u32>().unwrap() + 1;
    assert!(cores >= 1 && text(alone.as_mut(), ALL_WORKERS).parse::<u32>().unwrap() >= cores);
    std::thread::scope(|scope| {
        // Two queries sleep: each of the three has a third.
        let sleepers: Vec<_> =
            (0..2).map(|_| scope.spawn(|| session(&database).query("select pg_sleep(3)").map(drop))).collect();
        let sleeping = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'";
        let two = |session: &mut dyn Session| {
            session.query(sleeping).unwrap().batches[0].column(0).as_primitive::<Int64Type>().value(0) == 2
        };
        plimsoll_testing::until("two queries to sleep", || two(alone.as_mut()));
        assert_eq!(text(alone.as_mut(), WORKERS), ((cores / 3).max(1) - 1).to_string());
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap().unwrap());
    });
    assert_eq!(text(alone.as_mut(), WORKERS), (cores - 1).to_string());
}

#[test]
fn adaptive_learns_from_all_sessions_and_keeps_what_it_has_learned() {
    let database = database(&[("dop", "3"), ("parallelism", "adaptive")]);
    assert_eq!(database.parallelism().unwrap().learning(), None);
    std::thread::scope(|scope| {
        for client in 0..2 {
            let mut session = session(&database);
            scope.spawn(move || {
                for run in 0..60 {
                    let part = (client + run) % 7;
                    let expect = 42857 + i64::from(part == 1);
                    assert_eq!(count(session.as_mut(), part), expect, "part {part}");
                }
            });
        }
    });
    assert_eq!(session(&database).query("select max(n) from number").unwrap().batches[0].num_rows(), 1);
    let known = database.parallelism().unwrap();
    assert_eq!((known.templates.len(), known.templates_once, known.unknown_plans.len()), (1, 1, 0), "{known:?}");
    let template = &known.templates[0];
    assert_eq!(template.template, "select count ( * ) from number where part = ?");
    assert_eq!(template.searches.iter().map(|search| search.runs).sum::<u64>(), 119, "all but the first: {template:?}");
    assert!(template.searches.iter().all(|search| (1..=3).contains(&search.best[0])), "{template:?}");
    let told = database.warnings();
    assert!(told.iter().any(|warning| warning.starts_with("1 query templates have run only once")), "{told:?}");
    // An option set to its old value keeps the learned figures; another degree begins anew.
    database.set_option("parallelism", "adaptive").unwrap();
    assert_eq!(database.parallelism().unwrap(), known);
    database.set_option("dop", "2").unwrap();
    assert_eq!(database.parallelism().unwrap().templates.len(), 0);
}
