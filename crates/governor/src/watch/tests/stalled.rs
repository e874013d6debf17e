//! A control session whose server process is stopped while victims are chosen, and continues later.

use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;
use plimsoll_testing::until;
use rustix::process::{Pid, Signal, kill_process};

use super::acting::{looked_now, scene, target};
use super::stage::{Client, HIGH, LOW, Stage, governor, server, url};
use crate::governor::SessionCommand;
use crate::registry::Phase;
use crate::watch;
use crate::watch::act::{LookedAt, cancel};

/// A server process that is stopped until this is dropped.
struct Stopped(i32);

impl Stopped {
    fn stop(process: i32) -> Stopped {
        kill_process(id(process), Signal::STOP).unwrap();
        Stopped(process)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // It cannot have ended; if it had, the test would fail.
        let _ = kill_process(id(self.0), Signal::CONT);
    }
}

fn id(process: i32) -> Pid {
    Pid::from_raw(process).expect("a process")
}

/// The control session's process is stopped between the look and the cancel, for longer than the governor waits. It
/// continues once the victim's session has been allowed to continue. Returns whether the victim was cancelled then.
fn is_cancelled_late(key: u32, change: impl FnOnce(LookedAt) -> LookedAt) -> bool {
    let mut stage = Stage::new("pow");
    let (holder, low, high) = scene(&stage, key);
    let victim = target(&stage.governor, &low, &high);
    let settings = stage.governor.settings();
    let up = stage.control.connection().unwrap();
    let process = up.connection.process_id();
    let looked_at = change(looked_now(up));
    let stopped = Stopped::stop(process);
    let error = cancel(up, &stage.governor, &settings, &[victim], looked_at).unwrap_err();
    assert_eq!(low.card.state().cancels.in_flight, 0);
    assert_eq!(stage.told(), [(low.card.id, SessionCommand::CancelArrived)], "it goes on");
    assert!(stage.control.lost_or_refused(&error));
    drop(stopped);
    // Once the process has noticed the lost connection and ended, it has executed what was in its buffer.
    let gone = format!("select not exists (select from pg_stat_activity where pid = {process})");
    stage.until("the process that stood still has ended", &gone);
    holder.run("rollback");
    let is_cancelled = low.outcome().is_err();
    low.run("rollback");
    high.outcome().unwrap();
    high.run("rollback");
    is_cancelled
}

/// The statement that cancels was in a buffer while the server's process was stopped (a debugger, a paused machine,
/// swap). The governor gave up after two seconds and let the victim's session continue. When the process continued, it
/// must not cancel what the session had begun in between.
#[test]
fn a_cancel_that_was_held_up_is_not_carried_out_later() {
    assert!(!is_cancelled_late(431, |looked_at| looked_at));
}

/// The canary: without the lease, the test above would fail.
#[test]
fn a_cancel_without_a_lease_is_seen_to_come_late() {
    assert!(is_cancelled_late(432, |looked_at| LookedAt { server: looked_at.server + 3600.0, ..looked_at }));
}

/// While the control session's process is stopped, traffic flows and the watcher finds another way; when it continues,
/// no session is affected.
#[test]
fn the_watcher_recovers_from_a_process_that_stands_still() {
    let server = server();
    let mut connection = Connection::open(&url(&server)).unwrap();
    connection.run("create database stalled").unwrap();
    let own = ServerUrl { database: "stalled".to_owned(), ..url(&server) };
    let (governor, _commands, _poll) = governor(&server, "pow", |settings| settings.control = Some(own));
    let watcher = watch::start(governor.clone());
    until("it connects", || governor.health.lock().control_up.is_some());
    let process = connection.text("select pid from pg_stat_activity where datname = 'stalled'").unwrap().unwrap();
    let stopped = Stopped::stop(process.parse().unwrap());

    let [high, low, stranger] = [HIGH, LOW, LOW].map(|class| Client::new(&governor, &url(&server), class));
    governor.registry.remove(stranger.card.id);
    stranger.run("begin; select pg_advisory_xact_lock(441)");
    low.run("begin; select pg_advisory_xact_lock(442)");
    high.send("begin; select pg_advisory_xact_lock(442)");
    low.send("select pg_advisory_xact_lock(441)");
    governor.bell.ring();
    stranger.run("select 1");
    until("it notices", || governor.health.lock().control_error.is_some());
    // Cancelled over a connection to another process.
    assert_eq!(low.failure(), "57014");
    low.run("rollback");
    low.card.state().phase = Phase::Idle;
    high.outcome().unwrap();
    drop(stopped);
    let gone = format!("select not exists (select from pg_stat_activity where pid = {process})");
    until("the process that stood still has ended", || {
        low.run("select pg_sleep(0.001)");
        connection.text(&gone).unwrap().as_deref() == Some("t")
    });
    low.run("select pg_sleep(0.001)");
    high.run("rollback");
    stranger.run("rollback");
    watcher.stop();
}
