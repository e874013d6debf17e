//! Hand-made looks, and their sums.

use super::*;
use crate::snapshot::LockRow;
use crate::testing::{doing, lock, session};

const MS: u64 = 1_000;

/// Looks every 10 ms, the first at 0.
struct Watcher {
    ledger: Ledger,
    at: Duration,
}

impl Watcher {
    fn new() -> Watcher {
        let mut watcher = Watcher { ledger: Ledger::default(), at: Duration::ZERO };
        watcher.look(&[], None);
        watcher
    }

    fn look(&mut self, sessions: &[Session], locks: Option<Vec<LockRow>>) {
        let server_us = i64::try_from(self.at.as_micros()).unwrap();
        self.ledger.take(&Snapshot {
            at: self.at,
            server_us,
            sessions: sessions.to_vec(),
            locks,
            ..Snapshot::default()
        });
        self.at += Duration::from_millis(10);
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap()
}

#[test]
fn each_look_counts_the_time_since_the_last_one() {
    let mut watcher = Watcher::new();
    let web = |what| doing(session(1, "ann", "web"), "update t set a = 1", what);
    for what in [Doing::Running, Doing::Running, Doing::Lock, Doing::Io, Doing::IoLatch, Doing::Client, Doing::Other] {
        watcher.look(&[web(what)], None);
    }
    let all = watcher.ledger.sum(|_| true);
    let parts = [all.running, all.lock, all.disk, all.client, all.other].map(micros);
    assert_eq!(parts, [20, 10, 20, 10, 10].map(|ms| ms * MS));
    assert_eq!(micros(all.response()), 70 * MS);
    assert_eq!(watcher.ledger.buckets.len(), 1);
    assert_eq!(watcher.ledger.concurrency[&0].most, 1);
}

#[test]
fn a_leader_does_what_its_workers_do() {
    let mut watcher = Watcher::new();
    let worker = |process, what| Session { leader: Some(1), doing: what, ..session(process, "ann", "") };
    let leader = doing(session(1, "ann", "report"), "select sum(a) from t", Doing::Other);
    let sessions = [leader, worker(2, Doing::Io), worker(3, Doing::Running), worker(4, Doing::Running)];
    watcher.look(&sessions, None);
    let all = watcher.ledger.sum(|_| true);
    assert_eq!(micros(all.response()), 10 * MS);
    assert!(all.disk > Duration::from_millis(3) && all.running > Duration::from_millis(6), "{all:?}");
    assert_eq!(watcher.ledger.concurrency[&0].most, 1);
}

#[test]
fn waiting_for_a_core_is_told_by_the_scheduler() {
    let mut watcher = Watcher::new();
    let times = |run, wait| {
        let (run, wait) = (Duration::from_millis(run), Duration::from_millis(wait));
        Session { times: Some(ThreadTimes { run, wait }), ..session(1, "ann", "web") }
    };
    watcher.look(&[times(100, 100)], None);
    assert_eq!(watcher.ledger.sum(|_| true).core_wait_share(), None);
    watcher.look(&[times(102, 108)], None);
    assert_eq!(watcher.ledger.sum(|_| true).core_wait_share(), Some(0.8));
}

#[test]
fn a_transaction_is_as_long_as_it_has_worked() {
    let mut watcher = Watcher::new();
    watcher.at = Duration::from_secs(5);
    watcher.ledger.last_at = Some(watcher.at - Duration::from_millis(10));
    // Its transaction is 5 s old, and was observed to wait all of that time.
    let began = |us| Some(us);
    let waits = Session { transaction_began_us: began(4_990_000), ..doing(session(1, "ann", "web"), "a", Doing::Lock) };
    watcher.look(std::slice::from_ref(&waits), None);
    let long = Session { transaction_began_us: began(0), ..session(2, "bob", "report") };
    watcher.look(&[Session { doing: Doing::Running, ..waits }, long], None);
    let ledger = &watcher.ledger;
    let (web, report) = (ledger.of_login(0), ledger.of_login(1));
    assert_eq!((web.transactions, micros(web.in_transactions), web.in_long[0]), (1, 10 * MS, Duration::ZERO));
    assert_eq!((report.transactions, micros(report.in_long[0])), (1, 10 * MS));
}

#[test]
fn time_behind_a_thinking_holder_is_put_down_to_it() {
    let mut watcher = Watcher::new();
    let waits = doing(session(1, "ann", "web"), "update t set a = 2", Doing::Lock);
    let holder = doing(session(2, "bob", "batch"), "update t set a = 3", Doing::Client);
    let holder = Session { is_in_statement: false, ..holder };
    let sessions = [waits.clone(), holder.clone()];
    watcher.look(&sessions, None);
    watcher.look(&sessions, Some(vec![lock(2, true), lock(1, false)]));
    // The last 10 ms are in no chain: the wait ends before locks are read again.
    watcher.look(&sessions, None);
    watcher.look(&[holder], None);
    let locks = &mut watcher.ledger.lock_waits;
    locks.finish();
    assert_eq!((micros(locks.explained()), micros(locks.unexplained), locks.waits), (20 * MS, 10 * MS, 1));
    let (chain, _) = locks.chains.first_key_value().unwrap();
    let states: Vec<HolderState> = chain.iter().map(|link| link.state).collect();
    assert_eq!(states, [HolderState::Waited, HolderState::Thought]);
    assert_eq!(chain[1].party.map(|(login, _)| login), Some(1));
    assert_eq!(micros(locks.longest), 30 * MS);
    let idle = watcher.ledger.transactions.idle[&1];
    assert_eq!((micros(idle.time), micros(idle.longest), idle.most), (40 * MS, 40 * MS, 1));
}

#[test]
fn holders_that_cannot_be_seen_are_named_as_such() {
    let mut watcher = Watcher::new();
    let waits = doing(session(1, "ann", "web"), "update t set a = 2", Doing::Lock);
    for holder in [9, 0] {
        let rows = vec![lock(holder, true), lock(1, false)];
        watcher.look(std::slice::from_ref(&waits), Some(rows));
    }
    let ends: Vec<Link> = watcher.ledger.lock_waits.chains.keys().map(|chain| chain[1]).collect();
    let link = |state| Link { party: None, state };
    assert_eq!(ends, [link(HolderState::Prepared), link(HolderState::Unseen)]);
}

#[test]
fn processes_of_the_server_hold_locks_but_have_no_response_time() {
    let mut watcher = Watcher::new();
    let vacuum = Session { is_of_client: false, ..session(5, "autovacuum", "") };
    let waits = doing(session(1, "ann", "web"), "alter table t add b int", Doing::Lock);
    let rows = vec![lock(5, true), lock(1, false)];
    watcher.look(&[waits, vacuum], Some(rows));
    assert_eq!(watcher.ledger.sum(|_| true).response(), Duration::from_millis(10));
    let chain = watcher.ledger.lock_waits.chains.keys().next().unwrap();
    assert_eq!(chain[1], Link { party: Some((1, 1)), state: HolderState::Ran });
}
