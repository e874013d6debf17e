//! Windows of simulated sessions.

use super::*;
use crate::classes::Proposals;
use crate::ledger::Ledger;
use crate::testing::{doing, look, session};

fn key(user: &str, query_id: i64) -> CounterKey {
    CounterKey { user: user.to_owned(), database: "shop".to_owned(), query_id }
}

fn reading(at_ms: u64, runs_ms: &[(i32, &str, u64)], calls: &[(&str, i64, u64)]) -> Reading {
    let backend = |(process, user, run): &(i32, &str, u64)| Backend {
        process: *process,
        login: session(*process, user, "").login,
        run: Some(Duration::from_millis(*run)),
    };
    let counter = |(user, id, calls): &(&str, i64, u64)| {
        let counter = StatementCounter { calls: *calls, time: Duration::from_millis(*calls), ..Default::default() };
        (key(user, *id), counter)
    };
    Reading {
        at: Duration::from_millis(at_ms),
        backends: runs_ms.iter().map(backend).collect(),
        statements: Some(calls.iter().map(counter).collect()),
        busy: Some(Duration::from_millis(2 * at_ms)),
        disk_busy: Some(Duration::from_millis(100)),
    }
}

/// A shop of three sessions, of which one does nothing, and a report that begins in the second window.
fn ledger() -> Ledger {
    let mut ledger = Ledger::default();
    let shop = |runs: [u64; 3]| [(1, "shop", runs[0]), (2, "shop", runs[1]), (3, "shop", runs[2])];
    ledger.close_window(reading(0, &shop([10, 10, 10]), &[("shop", 1, 100), ("shop", 2, 10), ("shop", 3, 10)]));
    for step in 0..200_i64 {
        let now = step * 10_000;
        let of_shop = crate::snapshot::Session {
            query_id: Some(1),
            transaction_began_us: Some(now),
            ..doing(session(1, "shop", ""), "select 1", if step % 4 == 0 { Doing::Lock } else { Doing::Running })
        };
        let mut sessions = vec![of_shop];
        if step >= 100 {
            let report = session(9, "reports", "");
            sessions.push(crate::snapshot::Session { query_id: Some(7), ..doing(report, "select 2", Doing::Io) });
        }
        if step == 100 {
            let calls = [("shop", 1, 300), ("shop", 2, 60), ("shop", 3, 60)];
            ledger.close_window(reading(1_000, &shop([510, 110, 10]), &calls));
        }
        ledger.take(&look(now, sessions, None));
    }
    let runs: Vec<_> = shop([1_010, 210, 10]).into_iter().chain([(9, "reports", 700)]).collect();
    let calls = [("shop", 1, 400), ("shop", 2, 80), ("shop", 3, 80), ("reports", 7, 4), ("nobody", 8, 5)];
    ledger.close_window(reading(2_000, &runs, &calls));
    ledger
}

fn windows(ledger: &Ledger, control: &ControlStatements) -> Vec<Window> {
    by_class(ledger, &Classes::of(ledger, &Proposals::of(ledger)), control)
}

#[test]
fn each_class_has_its_work() {
    let control = ControlStatements { ends: [3].into(), others: [2].into() };
    let found = windows(&ledger(), &control);
    assert_eq!(found.iter().map(|window| (window.at_s, window.seconds)).collect::<Vec<_>>(), [(0.0, 1.0), (1.0, 1.0)]);
    assert_eq!(found[0].classes.keys().collect::<Vec<_>>(), ["shop"]);
    let shop = found[0].classes["shop"];
    // Two of its three sessions did something. 50 transactions ended, of 4 statements each.
    assert_eq!((shop.sessions, shop.requests, shop.counted_s), (2.0, Some(50.0), Some(0.3)));
    assert!((shop.cpu_s.unwrap() - 0.6).abs() < 1e-9 && (shop.lock_s - 0.24).abs() < 0.02, "{shop:?}");
    let report = found[1].classes["reports"];
    // It had no session at the beginning of the window.
    assert_eq!((report.requests, report.cpu_s), (Some(4.0), Some(0.7)));
    assert!(report.sessions > 0.9 && (report.disk_s - 1.0).abs() < 0.02, "{report:?}");
    assert_eq!((found[1].machine_cpu_s, found[1].disk_busy_s), (Some(2.0), Some(0.1)));
}

#[test]
fn without_commits_a_request_is_a_statement() {
    let found = windows(&ledger(), &ControlStatements { ends: [99].into(), others: [2, 3].into() });
    assert_eq!(found[0].classes["shop"].requests, Some(200.0));
}

#[test]
fn windows_are_merged_before_they_are_too_many() {
    let mut log = WindowLog::default();
    let mut identity = Identity::default();
    let close = |log: &mut WindowLog, identity: &mut Identity, at: u64| {
        log.close(reading(1_000 * at, &[(1, "shop", 100 * at)], &[("shop", 1, 10 * at)]), identity);
    };
    for at in 0..=1_900 {
        close(&mut log, &mut identity, at);
    }
    let windows = log.windows();
    assert!((300..WINDOWS_MAX).contains(&windows.len()), "{}", windows.len());
    let whole: Duration = windows.iter().map(|window| window.length).sum();
    assert_eq!(whole, Duration::from_secs(1_900));
    let longest = windows.iter().map(|window| window.length).max().unwrap();
    assert!(windows[..windows.len() - 1].iter().all(|window| window.length == longest), "they are alike");
    let calls: u64 = windows.iter().map(|window| window.statements.as_ref().unwrap()[&key("shop", 1)].0).sum();
    assert_eq!(calls, 19_000);
    let cpu: Duration = windows.iter().map(|window| window.logins[&0].cpu.unwrap()).sum();
    assert_eq!(cpu, Duration::from_secs(190));
}

#[test]
fn a_server_elsewhere_shows_sessions_in_progress_only() {
    let mut ledger = Ledger::default();
    let bare = |at_ms| Reading { at: Duration::from_millis(at_ms), ..Reading::default() };
    ledger.close_window(bare(0));
    for step in 0..100_i64 {
        ledger.take(&look(step * 10_000, vec![doing(session(1, "shop", ""), "select 1", Doing::Running)], None));
    }
    ledger.close_window(bare(1_000));
    let shop = windows(&ledger, &ControlStatements::default())[0].classes["shop"];
    assert_eq!((shop.cpu_s, shop.requests, shop.counted_s), (None, None, None));
    assert!((shop.sessions - 1.0).abs() < 0.02, "{shop:?}");
}
