//! A canary: without the check of the statement that signals, a cancel ends a commit's wait for a standby.

use plimsoll_pg::connection::Connection;

use super::stage::url;
use crate::testing;
use crate::watch::statements::CANCEL;

/// Signals a process that may, or is said not to, reach its commit; returns whether it was signalled.
fn cancels(connection: &mut Connection, process: i32, may_commit: bool) -> bool {
    let cancel = connection.prepare_text("", CANCEL).unwrap();
    let (victim, may_commit) = (format!("{{{process}}}"), format!("{{{may_commit}}}"));
    let mut is_done = false;
    let parameters = [victim.as_str(), "{false}", "{}", "{}", "{}", "9999999999", may_commit.as_str()];
    connection.prepared_text_rows(&cancel, &parameters, &mut |row| is_done |= row.last() == Some(&Some("t"))).unwrap();
    is_done
}

/// The server answers with a success and a warning, and its standby, if it came, could miss what was acknowledged.
#[test]
fn without_the_check_a_cancel_ends_a_commits_wait_for_a_standby() {
    let mut server = testing::server(&[("shared_buffers", "64MB"), ("fsync", "off")]);
    let mut own = Connection::open(&url(&server)).unwrap();
    own.run("create table acknowledged (id int)").unwrap();
    own.run("alter system set wal_level = 'replica'").unwrap();
    own.run("alter system set max_wal_senders = 4").unwrap();
    own.run("alter system set synchronous_standby_names = 'nobody'").unwrap();
    drop(own);
    server.restart().unwrap();
    let mut own = Connection::open_isolated(&url(&server)).unwrap();
    let mut victim = Connection::open(&url(&server)).unwrap();
    let process = victim.process_id();
    let committing =
        std::thread::spawn(move || victim.run("insert into acknowledged values (1)").map(|()| victim.take_notices()));
    let waits = format!("select wait_event = 'SyncRep' from pg_stat_activity where pid = {process}");
    plimsoll_testing::until("it to wait", || own.text(&waits).unwrap().as_deref() == Some("t"));
    assert!(!cancels(&mut own, process, true));
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(own.text(&waits).unwrap().as_deref(), Some("t"), "it still waits");
    assert!(cancels(&mut own, process, false), "as if the check were forgotten");
    let notices = committing.join().unwrap().expect("the insert has succeeded");
    assert!(notices.iter().any(|notice| notice.message.contains("synchronous replication")), "{notices:?}");
}
