//! A server whose commits wait for a standby that never comes.
//!
//! A cancel ends such a wait: the server answers with a success and a warning, and a failover then loses what it has
//! acknowledged. No rollback may therefore reach a unit that may be committing.

use std::thread;
use std::time::Duration;

use plimsoll_testing::until;
use rustix::process::{Pid, Signal, kill_process};

use super::client::Client;
use super::governed::Governed;
use super::requests::{bind, execute, parse, sync};
use super::server::Server;

/// The server, whose important clients do not wait for the standby.
fn server() -> Server {
    let mut server = Server::start();
    server.connection().run("ALTER SYSTEM SET wal_level = 'replica'").unwrap();
    server.restart_with("max_wal_senders", "4");
    server.connection().run("ALTER ROLE high SET synchronous_commit = local").unwrap();
    wait_for(&server, "nobody");
    server
}

fn wait_for(server: &Server, standby: &str) {
    let mut connection = server.connection();
    connection.run("SET synchronous_commit = local").unwrap();
    connection.run(&format!("ALTER SYSTEM SET synchronous_standby_names = '{standby}'")).unwrap();
    connection.run("SELECT pg_reload_conf()").unwrap();
    let is_set = format!("SELECT current_setting('synchronous_standby_names') = '{standby}'");
    until("the server to read its settings", || server.value(&is_set) == "t");
}

fn until_it_waits(server: &Server, user: &str, event: &str) {
    let sql = format!("SELECT count(*) FROM pg_stat_activity WHERE usename = '{user}' AND wait_event = '{event}'");
    until(&format!("{user} to wait ({event})"), || server.value(&sql) == "1");
}

/// The server's checkpointer, stopped until this is dropped.
struct Checkpointer(Pid);

impl Checkpointer {
    fn stopped(server: &Server) -> Checkpointer {
        let process = server.value("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'");
        let process = process.parse().ok().and_then(Pid::from_raw).expect("the checkpointer has a process");
        kill_process(process, Signal::STOP).unwrap();
        Checkpointer(process)
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        kill_process(self.0, Signal::CONT).unwrap();
    }
}

fn update(id: i32) -> String {
    format!("UPDATE hot SET low = low + 1 WHERE id = {id}")
}

/// A statement outside of a block held a row while its commit waited for a standby, an important client wanted the row,
/// and the policies that roll back running transactions cancelled the wait: `UPDATE 1`, and a warning. Later that was seen when
/// the setting was taken back: the governor's own session had read it before the server had woken those that waited.
#[test]
fn a_commit_that_waits_for_a_standby_is_not_cancelled() {
    for policy in ["pabort", "after(20ms)"] {
        let server = server();
        let governed = Governed::start_with_policy(&server, policy, "");
        let client = |user: &str| governed.client(user, server.database());
        let (mut low, mut high) = (client("low"), client("high"));
        let mut console = governed.console().unwrap();
        // Its text becomes known: a statement that may act elsewhere is left alone for another reason.
        for sql in ["BEGIN", &update(2), "ROLLBACK"] {
            low.query(sql).unwrap();
        }
        let committing = thread::spawn(move || low.query(&update(1)).unwrap());
        until_it_waits(&server, "low", "SyncRep");
        let waiting = thread::spawn(move || high.query(&update(1)).unwrap());
        until_it_waits(&server, "high", "transactionid");
        until("the reason to be shown", || {
            let rows = console.query("SHOW CLIENTS").unwrap().rows;
            let (user, immune) = (Governed::column("user"), Governed::column("immune"));
            rows.iter().any(|row| row[user].as_deref() == Some("low") && row[immune].as_deref() == Some("standby"))
        });
        // Many looks later, it still waits.
        thread::sleep(Duration::from_millis(300));
        assert!(!committing.is_finished() && !waiting.is_finished(), "{policy}");
        until_it_waits(&server, "low", "SyncRep");
        // Whoever wakes those that wait is late: the server's sessions know already that nobody is waited for.
        let checkpointer = Checkpointer::stopped(&server);
        wait_for(&server, "");
        thread::sleep(Duration::from_millis(300));
        assert!(!committing.is_finished() && !waiting.is_finished(), "{policy}");
        drop(checkpointer);
        let answer = committing.join().unwrap();
        assert!(!answer.tags.contains(&b'N'), "{policy}: {answer:?}");
        waiting.join().unwrap();
        assert_eq!(governed.count(Some("low"), "commit_waits_cancelled"), 0);
    }
}

/// Within a block a statement cannot be committing, however the block has begun: such transactions give way as ever.
#[test]
fn blocks_are_rolled_back_while_commits_wait_for_a_standby() {
    let server = server();
    let governed = Governed::start_with_policy(&server, "pabort", "");
    let client = |user: &str| governed.client(user, server.database());
    let in_one_unit = |low: &mut Client| {
        let each = ["BEGIN", &update(2), "SELECT pg_sleep(60)"];
        let each = each.iter().flat_map(|sql| [parse("", sql), bind("", &[]), execute()]);
        low.send(&[each.collect::<Vec<_>>().concat(), sync()].concat()).unwrap();
    };
    let in_several = |low: &mut Client| {
        low.query("BEGIN").unwrap();
        low.query(&update(2)).unwrap();
        low.send_query("SELECT pg_sleep(60)").unwrap();
    };
    let begins: [&dyn Fn(&mut Client); 2] = [&in_several, &in_one_unit];
    for (place, begin) in begins.into_iter().enumerate() {
        let (mut low, mut high) = (client("low"), client("high"));
        begin(&mut low);
        until_it_waits(&server, "low", "PgSleep");
        high.query(&update(2)).unwrap_or_else(|failure| panic!("{place}: {failure}"));
    }
}
