//! Statements at the server that a governor beside it must not cancel, because they may be committing.

use plimsoll_testing::until;

use super::beside::{CLASSES, client, lever, open, running, server, start};
use super::process::of_client;
use super::process::rows;

/// A driver's comment before a CALL was longer than the part of a text that the server keeps. The governor cancelled
/// what it took for a harmless statement, and half of the procedure was committed.
#[test]
fn a_text_that_was_cut_is_not_cancelled() {
    let (server, mut own) = server();
    own.run(
        "create procedure halves() language plpgsql as $$ begin
             update account set money = money + 1 where id = 1; commit;
             update account set money = money + 1 where id = 2; perform pg_sleep(1);
         end $$",
    )
    .unwrap();
    let governor = start(&server, &format!("{CLASSES}[preemption]\npolicy = \"pabort\"\n"));
    let mut admin = governor.console("admin");
    for (round, letter) in ["x", "\u{20ac}"].into_iter().enumerate() {
        let mut batch = open(&server, "batch");
        let process = batch.process_id();
        let text = format!("/* {} */ call halves()", letter.repeat(4000 / letter.len()));
        let calling = std::thread::spawn(move || batch.run(&text));
        let has_first = format!("select money = {} from account where id = 1", round + 1);
        until("the first half to be committed", || own.text(&has_first).unwrap().as_deref() == Some("t"));
        let waiting = running(open(&server, "shop"), "update account set money = money where id = 2");
        until("the governor to know why it must not", || {
            rows(&mut admin, "SHOW CLIENTS").iter().any(|row| {
                of_client(row, "server_pid") == process.to_string() && of_client(row, "immune") == "may-have-ended"
            })
        });
        calling.join().unwrap().unwrap();
        waiting.join().unwrap().1.unwrap();
    }
    assert_eq!(own.text("select money from account where id = 2").unwrap().as_deref(), Some("2"));
    drop(admin);
    governor.end();
}

/// The session goes on while a signal is on its way, so that it may meet a commit that waits for a standby, and end that
/// wait with a success. With `synchronous_standby_names` nothing is cancelled beside a server, and the lever reports it.
#[test]
fn nothing_is_cancelled_beside_a_server_whose_commits_wait_for_a_standby() {
    let (mut server, own) = server();
    drop(own);
    let mut own = open(&server, server.user());
    own.run("alter system set wal_level = 'replica'").unwrap();
    own.run("alter system set max_wal_senders = 4").unwrap();
    drop(own);
    server.restart().unwrap();
    let mut own = open(&server, server.user());
    own.run("alter role shop set synchronous_commit = local; set synchronous_commit = local").unwrap();
    own.run("alter system set synchronous_standby_names = 'nobody'").unwrap();
    own.run("select pg_reload_conf()").unwrap();
    let governor = start(&server, &format!("{CLASSES}[preemption]\npolicy = \"pabort\"\n"));
    let mut admin = governor.console("admin");
    until("the lever to say so", || {
        let (works, why) = lever(&mut admin, "preemption");
        !works && why.contains("synchronous_standby_names")
    });
    let batch = open(&server, "batch");
    let process = batch.process_id();
    let committing = running(batch, "update account set money = money + 1 where id = 1");
    let sql = format!("select wait_event = 'SyncRep' from pg_stat_activity where pid = {process}");
    until("its commit to wait", || own.text(&sql).unwrap().as_deref() == Some("t"));
    let waiting = running(open(&server, "shop"), "update account set money = money + 1 where id = 1");
    until("the reason to be shown", || {
        rows(&mut admin, "SHOW CLIENTS")
            .iter()
            .any(|row| of_client(row, "server_pid") == process.to_string() && of_client(row, "immune") == "standby")
    });
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(own.text(&sql).unwrap().as_deref(), Some("t"), "it still waits");
    own.run("alter system reset synchronous_standby_names").unwrap();
    own.run("select pg_reload_conf()").unwrap();
    let (mut batch, outcome) = committing.join().unwrap();
    outcome.unwrap();
    assert!(batch.take_notices().is_empty());
    waiting.join().unwrap().1.unwrap();
    // Then statements are cancelled again.
    until("the lever to work", || lever(&mut admin, "preemption").0);
    assert!(client(&mut admin, process).is_some());
    drop(admin);
    governor.end();
}
