//! Simulated sessions for tests.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_policy::Doing;

use crate::counted::CounterHistory;
use crate::findings::{Evidence, findings};
use crate::ledger::Ledger;
use crate::results::{
    Conflicts, CoreUse, DiskProbe, DiskUse, EndReason, HostUse, Observation, ObservationCost, Operations, ProcessUse,
    Replication, ServerFacts, StandbyHere, StandbySeen,
};
use crate::server::rights::Visibility;
use crate::snapshot::{
    CounterKey, Counters, DatabaseCounter, LockRow, Login, Session, Snapshot, StatementCounter, Text,
};
use crate::windows::ControlStatements;

/// A running session of that user and application, of a transaction that began at 0.
pub fn session(process: i32, user: &str, application: &str) -> Session {
    Session {
        process,
        leader: None,
        login: Login { user: user.to_owned(), database: "shop".to_owned(), application: application.to_owned() },
        is_of_client: true,
        doing: Doing::Running,
        is_in_statement: true,
        transaction_began_us: Some(0),
        statement_began_us: Some(0),
        state_changed_us: Some(0),
        query_id: None,
        text: None,
        times: None,
    }
}

/// The same session in a statement and a state.
pub fn doing(session: Session, text: &str, doing: Doing) -> Session {
    Session { text: Some(Text { bytes: text.as_bytes().to_vec(), is_cut: false }), doing, ..session }
}

/// A lock of one transaction, held or requested.
pub fn lock(process: i32, is_granted: bool) -> LockRow {
    LockRow {
        process,
        object: "transactionid/7".to_owned(),
        kind: "transactionid".to_owned(),
        table: None,
        mode: if is_granted { "ExclusiveLock" } else { "ShareLock" }.to_owned(),
        is_granted,
        wait_began_us: None,
    }
}

/// A look at that moment of the server's clock.
pub fn look(server_us: i64, sessions: Vec<Session>, locks: Option<Vec<LockRow>>) -> Snapshot {
    Snapshot { at: Duration::from_micros(server_us.unsigned_abs()), server_us, sessions, locks, holders: Vec::new() }
}

/// The findings in a ledger and counters, in made-up circumstances.
pub(crate) fn observation_of(ledger: &Ledger, counted: &CounterHistory) -> Observation {
    findings(Evidence {
        ledger,
        counted,
        texts: &BTreeMap::new(),
        control: &ControlStatements::default(),
        host: HostUse::default(),
        replication: Replication::default(),
        started: "2026-01-02T03:04:05Z".to_owned(),
        ended: EndReason::InTime,
        server: ServerFacts {
            url: "postgres://monitor@/shop?host=/tmp/socket&port=5432&sslmode=disable".to_owned(),
            version: "15.1".to_owned(),
            role: "monitor".to_owned(),
            database: "shop".to_owned(),
            on_this_machine: true,
            standby: false,
            cores: Some(2),
        },
        missing: Vec::new(),
        looking: ObservationCost {
            looks: ledger.looks,
            lock_looks: ledger.lock_looks,
            interval_s: Some(0.01),
            own_cpu_s: 0.02,
            server_cpu_s: 0.03,
            server_cpu_measured: true,
            share_of_a_core: 0.007,
            bound: 0.01,
            unseen_sessions: counted.unseen_sessions(),
        },
    })
}

/// An observation with data in every part, and hostile names.
pub(crate) fn rich_observation() -> Observation {
    let mut ledger = Ledger::default();
    let evil = "</script><b>\x1b[2J\n & \"";
    for step in 0..300_i64 {
        let now = step * 10_000;
        let shop =
            doing(session(1, "shop", evil), "update stock set n = 1", [Doing::Running, Doing::Lock][step as usize % 2]);
        let shop = Session { transaction_began_us: Some(now - now % 20_000), ..shop };
        let holder = doing(session(2, evil, ""), "delete from \"</table>\"", Doing::Client);
        let holder = Session { is_in_statement: false, transaction_began_us: Some(-3_000_000), ..holder };
        let table = Some("public.<t>".to_owned());
        let locks = [lock(2, true), lock(1, false)].map(|row| LockRow { table: table.clone(), ..row });
        ledger.take(&look(now, vec![shop, holder], Some(locks.to_vec())));
    }
    ledger.lock_waits.finish();
    let mut counted = CounterHistory::default();
    for (at, calls, pages) in [(0, 0, 0), (1, 100, 500), (2, 200, 50_500)] {
        let key = CounterKey { user: "shop".to_owned(), database: "shop".to_owned(), query_id: 5 };
        let counter = StatementCounter { calls, pages, rows: calls, time: Duration::from_millis(calls) };
        let database = DatabaseCounter { commits: calls, deadlocks: calls, ..DatabaseCounter::default() };
        counted.take(Counters {
            at: Duration::from_secs(at),
            statements: Some(BTreeMap::from([(key, counter)])),
            databases: BTreeMap::from([(evil.to_owned(), database)]),
            vacuums: vec!["public.<t> (scanning heap)".to_owned()],
            unseen_sessions: 2,
            ..Counters::default()
        });
    }
    let missing = Visibility { major_version: 42, role: evil.to_owned(), ..Visibility::default() }.missing();
    Observation { missing, host: busy_host(evil), replication: replication(evil), ..observation_of(&ledger, &counted) }
}

/// A machine that others use, too.
fn busy_host(name: &str) -> HostUse {
    let operations = |per_s| Operations { mb_per_s: 12.5, per_s, mean_ms: Some(0.8), worst_ms: Some(40.0) };
    HostUse {
        cores: Some(CoreUse {
            machine: 2,
            usable: 2,
            postgres: 0.6,
            others: 1.1,
            observer: 0.005,
            stolen: Some(0.1),
            named: vec![ProcessUse { name: name.to_owned(), count: 3, cores: 0.9 }],
        }),
        disk: Some(DiskUse {
            device: "vda".to_owned(),
            busy: 0.4,
            read: operations(900.0),
            write: operations(100.0),
            latency_percentiles_ms: None,
            probe: Some(DiskProbe {
                measured_at: "2026-01-02T03:04:05Z".to_owned(),
                reads_per_s_max: 12_000.0,
                read_ms: 0.1,
            }),
        }),
        missing: Vec::new(),
    }
}

/// A standby that has a standby of its own.
fn replication(name: &str) -> Replication {
    Replication {
        standby: Some(StandbyHere {
            received_bytes_per_s: Some(2e6),
            replayed_bytes_per_s: Some(1e6),
            lag_bytes: Some(5e6),
            lag_bytes_max: Some(9e6),
            lag_s: Some(1.5),
            lag_s_max: Some(3.0),
            paused: true,
            replay: vec![("IPC:RecoveryConflictSnapshot".to_owned(), 0.75), ("(runs)".to_owned(), 0.25)],
            conflicts: vec![
                Conflicts { kind: "snapshot".to_owned(), count: 4 },
                Conflicts { kind: "lock".to_owned(), count: 0 },
            ],
        }),
        standbys: vec![StandbySeen {
            name: name.to_owned(),
            sync_state: "async".to_owned(),
            lag_bytes: Some(1e3),
            lag_bytes_max: Some(2e3),
            replay_lag_s: None,
            replay_lag_s_max: Some(0.2),
        }],
    }
}
