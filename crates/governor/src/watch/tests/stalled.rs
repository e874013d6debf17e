//! A control session whose server process stands still while victims are chosen, and goes on later.

use plimsoll_postgres::connection::Connection;
use plimsoll_postgres::url::ServerUrl;
use plimsoll_testing::until;
use rustix::process::{Pid, Signal, kill_process};

use super::acting::{looked_now, scene, target};
use super::stage::{Client, HIGH, LOW, Stage, governor, server, url};
use crate::governor::SessionCommand;
use crate::registry::Phase;
use crate::watch;
use crate::watch::act::{LookedAt, cancel};

/// A server process that stands still until this is dropped.
struct Stopped(i32);

impl Stopped {
    fn stop(process: i32) -> Stopped {
        kill_process(id(process), Signal::STOP).unwrap();
        Stopped(process)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // It cannot have ended; if it had, the test would say so.
        let _ = kill_process(id(self.0), Signal::CONT);
    }
}

fn id(process: i32) -> Pid {
    Pid::from_raw(process).expect("a process")
}

/// The control session's process stands still between the look and the cancel, for longer than the governor waits, and goes
/// on when the victim's session has been told to go on. Whether the victim was cancelled then.
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
    // What lay in the process's buffer has been carried out when it has seen that nobody is there any more.
    let gone = format!("select not exists (select from pg_stat_activity where pid = {process})");
    stage.until("the process that stood still has ended", &gone);
    holder.run("rollback");
    let is_cancelled = low.outcome().is_err();
    low.run("rollback");
    high.outcome().unwrap();
    high.run("rollback");
    is_cancelled
}

/// The statement that cancels lay in a buffer while the server's process stood still (a debugger, a paused machine, swap). The
/// governor gave it up after two seconds and told the victim's session to go on. When the process went on, it must not
/// cancel what the session had begun meanwhile.
#[test]
fn a_cancel_that_was_held_up_is_not_carried_out_later() {
    assert!(!is_cancelled_late(431, |looked_at| looked_at));
}

/// The canary: if what was decided could be done for longer, the test above would see it.
#[test]
fn a_cancel_without_a_lease_is_seen_to_come_late() {
    assert!(is_cancelled_late(432, |looked_at| LookedAt { server: looked_at.server + 3600.0, ..looked_at }));
}

/// While the control session's process stands still, traffic flows and the watcher finds another way; when it goes on, nobody
/// notices.
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
    // Over a connection of another process.
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
