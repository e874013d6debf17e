//! Simulated observations and their findings.

use plimsoll_machine::cpu_time::ThreadTimes;
use plimsoll_policy::Doing;

use super::*;
use crate::snapshot::{CounterKey, Counters, DatabaseCounter, Session, Snapshot};
use crate::testing::{doing, observation_of, session};

/// Looks every 10 ms at three sessions that take turns in several states.
fn ledger() -> Ledger {
    let mut ledger = Ledger::default();
    let doings = [Doing::Running, Doing::Lock, Doing::Io, Doing::Client, Doing::Other, Doing::IoLatch, Doing::Running];
    for step in 0..701_usize {
        let at = Duration::from_millis(10 * step as u64);
        let times = ThreadTimes { run: at / 4, wait: at / 12 };
        let sessions = (0..3).map(|number| {
            let what = doings[(step + number) % doings.len()];
            let of = session(number as i32 + 1, ["ann", "bob", "ann"][number], ["web", "", "report"][number]);
            let text = ["select 1", "update t set a = 3", "select sum(a) from t"][number];
            Session { times: Some(times), query_id: Some(number as i64 + 1), ..doing(of, text, what) }
        });
        let sessions = sessions.collect();
        ledger.take(&Snapshot { at, server_us: 10_000 * step as i64, sessions, ..Snapshot::default() });
    }
    ledger.lock_waits.finish();
    ledger
}

fn counted() -> CounterHistory {
    let mut counted = CounterHistory::default();
    for (at_s, calls, deadlocks) in [(0, 100, 1), (7, 800, 3)] {
        let key = CounterKey { user: "ann".to_owned(), database: "shop".to_owned(), query_id: 1 };
        let counter = StatementCounter { calls, time: Duration::from_millis(2 * calls), rows: 3 * calls, pages: calls };
        let database = DatabaseCounter { commits: calls, deadlocks, ..DatabaseCounter::default() };
        counted.take(Counters {
            at: Duration::from_secs(at_s),
            statements: Some(BTreeMap::from([(key, counter)])),
            databases: BTreeMap::from([("shop".to_owned(), database), ("idle".to_owned(), DatabaseCounter::default())]),
            checkpoints_timed: Some(at_s),
            ..Counters::default()
        });
    }
    counted
}

#[test]
fn shares_sum_to_1_and_parts_to_the_whole() {
    let observation = observation_of(&ledger(), &counted());
    let lists = [&observation.users, &observation.applications, &observation.databases];
    let parts: Vec<GroupTime> = observation.statements.iter().map(|statement| statement.part.clone()).collect();
    for list in lists.into_iter().chain([&parts]) {
        let sum: f64 = list.iter().map(|part| part.response_s).sum();
        assert!((sum - observation.time.response_s).abs() < 1e-9, "{list:?}");
        for part in list.iter().chain([&observation.time]) {
            let share = part.share.expect("it has time");
            let sum = share.running + share.core_wait.unwrap() + share.lock + share.disk + share.client + share.other;
            assert!((sum - 1.0).abs() < 1e-9, "{part:?}");
        }
    }
    let share = observation.time.share.unwrap();
    assert!((share.core_wait.unwrap() / (share.core_wait.unwrap() + share.running) - 0.25).abs() < 1e-6, "{share:?}");
    assert!((observation.time.response_s - 21.0).abs() < 1e-9 && (observation.time.in_progress - 3.0).abs() < 1e-9);
    assert_eq!(observation.users[0].name, "ann");
}

#[test]
fn rates_are_from_counters() {
    let observation = observation_of(&ledger(), &counted());
    let first = observation.statements.iter().find(|statement| statement.query_id == Some(1)).unwrap();
    assert_eq!((first.calls_per_s, first.rows_per_call), (Some(100.0), Some(3.0)));
    assert!((first.mean_s.unwrap() - 0.002).abs() < 1e-9);
    let other = observation.statements.iter().find(|statement| statement.query_id == Some(2)).unwrap();
    assert_eq!(other.calls_per_s, None);
    let shop = &observation.throughput[0];
    assert_eq!((observation.throughput.len(), shop.commits_per_s, shop.deadlocks), (1, 100.0, 2));
    assert_eq!((observation.upkeep.checkpoints_timed, observation.upkeep.checkpoints_requested), (Some(7), None));
}

#[test]
fn an_idle_server_has_no_shares_and_says_so() {
    let mut ledger = Ledger::default();
    for at in 0..3 {
        ledger.take(&Snapshot { at: Duration::from_secs(at), ..Snapshot::default() });
    }
    let observation = observation_of(&ledger, &CounterHistory::default());
    assert_eq!((observation.time.share, observation.plan_changes), (None, None));
    assert!(observation.warnings[0].contains("No session was seen in a transaction"), "{:?}", observation.warnings);
    assert!(observation.throughput.is_empty() && observation.upkeep.checkpoints_timed.is_none());
}

#[test]
fn results_are_read_back() {
    let observation = observation_of(&ledger(), &counted());
    let text = serde_json::to_string(&observation).unwrap();
    assert_eq!(serde_json::from_str::<Observation>(&text).unwrap(), observation);
}
