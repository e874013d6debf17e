//! How far the standby is behind.

use std::time::Instant;

use plimsoll_postgres::database::PostgresDatabase;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};
use plimsoll_testing::until;
use plimsoll_workload::database::{Database, Login};
use plimsoll_workload::freshness::{ChangeUnit, CopyHistory};
use rustix::process::Signal;

use super::common::{Pair, TABLE, pause};

#[test]
fn what_is_written_is_counted_and_what_is_replayed_catches_up() {
    let pair = Pair::new(&[]);
    pair.refresh();
    let mut watch = pair.database.freshness().unwrap().unwrap();
    let before = watch.look().unwrap();
    assert_eq!(before.unit, ChangeUnit::LogBytes);
    let mut primary = pair.on_primary();
    let written = |primary: &mut plimsoll_pg::connection::Connection| -> u64 {
        primary.text("select pg_current_wal_lsn() - '0/0'").unwrap().unwrap().parse().unwrap()
    };
    let from = written(&mut primary);
    primary.run(&format!("update {TABLE} set pair_value = pair_value + 1")).unwrap();
    let grown = written(&mut primary) - from;
    let after = watch.look().unwrap();
    assert!(grown > 50_000 && after.published - before.published >= grown, "{grown}: {before:?} {after:?}");
    until("the standby to catch up", || {
        let state = watch.look().unwrap();
        state.applied >= after.published
    });
}

#[test]
fn a_standby_that_replays_nothing_is_stale_and_says_so() {
    let pair = Pair::new(&[]);
    pair.refresh();
    let mut watch = pair.database.freshness().unwrap().unwrap();
    let (mut history, began) = (CopyHistory::default(), Instant::now());
    let mut look = |history: &mut CopyHistory| {
        let state = watch.look().unwrap();
        let at = began.elapsed();
        history.add(at, state);
        (at, state)
    };
    look(&mut history);
    pair.on_standby().run("select pg_wal_replay_pause()").unwrap();
    let update = format!("update {TABLE} set pair_value = pair_value + 1");
    pair.on_primary().run(&update).unwrap();
    pause();
    let (opened, _) = look(&mut history);
    for _ in 0..30 {
        pair.on_primary().run(&update).unwrap();
        pause();
        look(&mut history);
    }
    let (closed, state) = look(&mut history);
    assert!(state.published > state.applied, "{state:?}");
    let found = history.within(opened, closed).unwrap();
    let lag = found.lag_us.unwrap();
    assert!(lag.p95 > Some(400_000.0) && lag.max >= lag.p95, "{found:?}");
    assert!(found.lambda.unwrap() > 0.0 && found.mu == Some(0.0), "held up, it had something to do: {found:?}");
    assert!(history.stale(opened, closed).is_some(), "it shows nothing of the window");
    pair.on_standby().run("select pg_wal_replay_resume()").unwrap();
    pair.refresh();
    // The server writes a log record of its own from time to time.
    until("it to have caught up", || {
        let (_, state) = look(&mut history);
        state.published == state.applied
    });
}

#[test]
fn a_standby_that_has_ended_is_told_with_its_log() {
    let pair = Pair::new(&[]);
    pair.refresh();
    let mut watch = pair.database.freshness().unwrap().unwrap();
    pair.standby.signal(Signal::QUIT).unwrap();
    until("the watch to fail", || watch.look().is_err());
    until("the standby to be gone", || !pair.standby.is_running(&plimsoll_machine::host::Host::real()));
    let told = pair.database.refresh(pair.benchmark.schema()).unwrap_err().to_string();
    assert!(told.contains("the standby has ended") && told.contains("immediate shutdown"), "{told}");
    let Err(told) = pair.database.query_session(pair.benchmark.schema(), Login::default()) else {
        panic!("there is no standby")
    };
    assert!(told.to_string().contains("the standby has ended"), "{told}");
}

#[test]
fn without_a_standby_there_is_nothing_to_watch_and_no_delay_to_set() {
    let small = ServerSettings::for_this_machine().with(&[("shared_buffers", "16MB")]).unwrap();
    let conflict = |options: &[(&str, &str)]| small.clone().with(options).unwrap().conflict();
    assert_eq!(conflict(&[("fsync", "off")]), None);
    for (name, value) in [("hot_standby_feedback", "off"), ("max_standby_streaming_delay", "1s")] {
        let told = conflict(&[("fsync", "off"), (name, value)]).unwrap();
        assert!(told.contains(name) && told.contains("say standby=1 too"), "{told}");
    }
    assert_eq!(conflict(&[("fsync", "off"), ("max_standby_streaming_delay", "1s"), ("standby", "1")]), None);
    let alone = PrivateServer::start(small);
    let database = PostgresDatabase::private(alone.unwrap_or_else(|error| panic!("{error}")));
    assert!(database.freshness().unwrap().is_none());
    let told = database.set_option("max_standby_streaming_delay", "1s").unwrap_err().to_string();
    assert!(told.contains("say standby=1 too"), "{told}");
}
