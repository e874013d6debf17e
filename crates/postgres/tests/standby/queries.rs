//! Queries on the standby: the data that they see, and how they end.

use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_machine::host::Host;
use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_policy::Doing;
use plimsoll_testing::until;
use plimsoll_workload::database::{Database, DatabaseError, Login, OptionChange};

use super::common::{Pair, ROWS, TABLE, answer};

/// Replay waits for no query, and the standby does not report queries to the primary.
const IMPATIENT: [(&str, &str); 2] = [("max_standby_streaming_delay", "0ms"), ("hot_standby_feedback", "off")];

#[test]
fn queries_run_on_the_standby_and_everything_else_on_the_primary() {
    let pair = Pair::new(&[("isolation", "serializable")]);
    pair.refresh();
    let count = format!("select count(*) from {TABLE}");
    let mut queries = pair.queries();
    assert_eq!(queries.query(&count).unwrap().snapshot, "as replayed");
    assert_eq!(answer(&mut *queries, "select pg_is_in_recovery()").unwrap(), "true");
    let mut primary = pair.database.session(pair.benchmark.schema()).unwrap();
    assert_eq!(answer(&mut *primary, "select pg_is_in_recovery()").unwrap(), "false");
    // Committed changes are visible on the standby after a refresh, even if the commit did not wait for the disk.
    let insert = format!("set synchronous_commit = off; insert into {TABLE} values ({}, 7)", ROWS + 1);
    pair.on_primary().run(&insert).unwrap();
    pair.refresh();
    assert_eq!(answer(&mut *queries, &count).unwrap(), (ROWS + 1).to_string());
    let refused = queries.query(&format!("with gone as (delete from {TABLE} returning 1) select * from gone"));
    assert!(refused.unwrap_err().to_string().contains("read-only transaction"));
    assert!(queries.plan(&count).unwrap().is_some());
    // A user that was just created exists on the standby, too.
    let mut user = pair
        .database
        .query_session(pair.benchmark.schema(), Login { user: Some("analyst"), ..Login::default() })
        .unwrap();
    assert_eq!(answer(&mut *user, "select current_user::text").unwrap(), "analyst");
}

#[test]
fn both_servers_are_watched() {
    let pair = Pair::new(&[]);
    pair.refresh();
    let mut queries = pair.queries();
    let process = queries.server_process().unwrap();
    let footprint = pair.database.footprint();
    assert_eq!(footprint.processes[1], pair.standby.id);
    let mut watch = pair.database.activity().unwrap().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| queries.query("select pg_sleep(1)").unwrap());
        until("the query to be seen", || {
            let mut seen = Vec::new();
            watch.look(&mut seen).unwrap();
            seen.iter().any(|activity| activity.process == process && activity.doing != Doing::Idle)
        });
    });
    watch.statements(true).unwrap();
    assert!(ProcessIdentity::of(&Host::real(), process).is_some());
}

/// Deletes rows that a query still sees, and vacuums them: replay must wait while the query runs.
fn stand_in_the_way(pair: &Pair) {
    let mut primary = pair.on_primary();
    primary.run(&format!("delete from {TABLE}")).unwrap();
    primary.run(&format!("vacuum {TABLE}")).unwrap();
}

#[test]
fn a_query_that_holds_up_replay_is_cancelled_and_can_be_run_again() {
    let pair = Pair::new(&IMPATIENT);
    pair.refresh();
    let sleep = format!("select count(*), pg_sleep(30) from {TABLE}");
    let mut queries = pair.queries();
    let watched = pair.on_standby();
    let error = std::thread::scope(|scope| {
        let query = scope.spawn(|| queries.query(&sleep).unwrap_err());
        wait_until_asleep(watched);
        stand_in_the_way(&pair);
        query.join().unwrap()
    });
    assert!(matches!(error, DatabaseError::Conflict(_)), "a recovery conflict is one that is run again: {error}");
    pair.refresh();
    assert_eq!(answer(&mut *queries, &format!("select count(*) from {TABLE}")).unwrap(), "0", "the session goes on");
}

#[test]
fn a_query_that_may_hold_up_replay_ends_and_the_copy_is_behind_meanwhile() {
    let pair = Pair::new(&IMPATIENT);
    assert_eq!(
        pair.database.set_option("max_standby_streaming_delay", "none").unwrap(),
        OptionChange::Applied,
        "at once"
    );
    pair.refresh();
    let sleep = format!("select count(*), pg_sleep(2) from {TABLE}");
    let mut queries = pair.queries();
    let mut watch = pair.database.freshness().unwrap().unwrap();
    let watched = pair.on_standby();
    std::thread::scope(|scope| {
        let query = scope.spawn(|| answer(&mut *queries, &sleep));
        wait_until_asleep(watched);
        stand_in_the_way(&pair);
        let mut busy = Vec::new();
        until("replay to wait for the query", || {
            let state = watch.look().unwrap();
            busy.push(state.applying.unwrap());
            state.applied < state.published && busy.len() > 20
        });
        assert!(busy.last() > busy.first(), "waiting for a query is part of the time that replay takes");
        assert_eq!(query.join().unwrap().unwrap(), ROWS.to_string());
    });
    pair.refresh();
}

/// Sessions read catalogs while they begin. An experiment once ended with `FATAL 40001` before its first run.
#[test]
fn sessions_and_looks_begin_while_replay_cancels_whatever_is_in_its_way() {
    let pair = Pair::new(&IMPATIENT);
    pair.refresh();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut primary = pair.on_primary();
            while !ended.load(Ordering::Relaxed) {
                primary.run("create table plimsoll_rows_bigint.gone (); drop table plimsoll_rows_bigint.gone").unwrap();
                primary.run("vacuum pg_class, pg_attribute, pg_type, pg_depend, pg_namespace").unwrap();
            }
        });
        let _ended = SetOnDrop(&ended);
        let mut watch = pair.database.freshness().unwrap().unwrap();
        let mut activity = pair.database.activity().unwrap().unwrap();
        for _ in 0..100 {
            let mut session = pair.queries();
            watch.look().unwrap();
            activity.look(&mut Vec::new()).unwrap();
            let sql = "select count(*) from pg_class, pg_attribute where pg_class.oid = attrelid";
            for _ in 0..5 {
                assert!(matches!(answer(&mut *session, sql), Ok(_) | Err(DatabaseError::Conflict(_))));
            }
        }
    });
}

/// With a standby's default feedback, its queries do not end early, though replay waits for none of them.
#[test]
fn a_primary_keeps_what_its_standby_s_queries_read() {
    let pair = Pair::new(&[("max_standby_streaming_delay", "0ms")]);
    pair.refresh();
    let sleep = format!("select count(*), pg_sleep(2) from {TABLE}");
    let mut queries = pair.queries();
    let watched = pair.on_standby();
    let mut primary = pair.on_primary();
    let knows = "select 1 from pg_replication_slots where xmin is not null";
    until("the primary to be told", || primary.text(knows).unwrap().is_some());
    std::thread::scope(|scope| {
        let query = scope.spawn(|| answer(&mut *queries, &sleep));
        wait_until_asleep(watched);
        stand_in_the_way(&pair);
        assert_eq!(query.join().unwrap().unwrap(), ROWS.to_string());
    });
    pair.refresh();
    until("the rows to be removed", || {
        stand_in_the_way(&pair);
        let dead = format!("select n_dead_tup::text from pg_stat_all_tables where relid = '{TABLE}'::regclass");
        primary.text(&dead).unwrap().as_deref() == Some("0")
    });
}

/// Sets the flag when it is dropped, also by a failed assertion.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn wait_until_asleep(mut other: plimsoll_pg::connection::Connection) {
    let asleep = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    until("the query to run", || other.text(asleep).unwrap().is_some());
}
