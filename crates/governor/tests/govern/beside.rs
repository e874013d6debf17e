//! A governor beside its server, in a process of its own: clients open the governed sessions at the server directly.

use std::os::unix::fs::PermissionsExt;
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_pg::connection::{Connection, WireError};
use plimsoll_pg::url::ServerUrl;
use plimsoll_postgres::governor::{GovernorMode, GovernorProcess, GovernorSettings};
use plimsoll_postgres::server::PrivateServer;
use plimsoll_testing::{Need, skip, until};

use super::nice;
use super::process::{self, Governor, of_client, rows, socket, start_server, url, value};

/// `shop` is important; statements of `batch` may be cancelled, those of other users are only counted.
pub(super) const CLASSES: &str = r#"
[[class]]
name = "high"
priority = "high"
[[class]]
name = "batch"
priority = "low"
preemptible = "retry-by-application"
cpu = "nice 10"
[[class]]
name = "report"
priority = "low"
cpu = "nice 5"
[[rule]]
class = "high"
user = "shop"
[[rule]]
class = "batch"
user = "batch"
[[rule]]
class = "batch"
tag = "nightly"
"#;

/// A server with a table and the users of the tests.
pub(super) fn server() -> (PrivateServer, Connection) {
    let server = start_server();
    let mut own = open(&server, server.user());
    own.run("create role shop login; create role batch login; create role analyst login; create role timid login")
        .unwrap();
    own.run("create table account (id int primary key, money int); insert into account select g, 0 from generate_series(1, 9) g")
        .unwrap();
    own.run("grant all on account to public").unwrap();
    (server, own)
}

pub(super) fn open(server: &PrivateServer, user: &str) -> Connection {
    process::open(&url(server, user))
}

/// Settings of a governor beside the given server, with the given control role.
fn beside(server: &PrivateServer, role: &str, more: &str) -> impl FnOnce(String) -> String + use<> {
    beside_at(&format!("postgres://{role}@/{}?{}", server.database(), socket(server)), more)
}

/// The same with any control URL.
pub(super) fn beside_at(control: &str, more: &str) -> impl FnOnce(String) -> String + use<> {
    let control = control.to_owned();
    let more = more.to_owned();
    move |text| {
        let folder = text.split("socket_folders = [\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        format!(
            r#"
control = "{control}"
default_class = "report"
[mode]
proxy = false
[admin]
socket_folder = "{folder}"
[[admin.user]]
name = "admin"
password = "admin's password"
may_change = true
[http]
address = "127.0.0.1:0"
[log]
format = "json"
{more}"#
        )
    }
}

pub(super) fn start(server: &PrivateServer, more: &str) -> Governor {
    let governor = Governor::start_with(beside(server, server.user(), more), false);
    governor.logged("are governed from now on");
    governor
}

/// The row of a process in `SHOW CLIENTS`: class, chosen by, state.
pub(super) fn client(console: &mut Connection, process: i32) -> Option<(String, String, String)> {
    let row =
        rows(console, "SHOW CLIENTS").into_iter().find(|row| of_client(row, "server_pid") == process.to_string())?;
    let text = |name| of_client(&row, name).to_owned();
    Some((text("class"), text("chosen_by"), text("phase")))
}

/// The state of a lever, and the reason.
pub(super) fn lever(console: &mut Connection, name: &str) -> (bool, String) {
    let row = rows(console, "SHOW LEVERS").into_iter().find(|row| row[0] == name);
    let row = row.unwrap_or_else(|| panic!("there is no lever {name}"));
    (row[1] == "t", row[2].clone())
}

/// Runs a statement in a thread of its own.
pub(super) fn running(
    mut connection: Connection,
    sql: &'static str,
) -> JoinHandle<(Connection, Result<(), WireError>)> {
    std::thread::spawn(move || {
        let outcome = connection.run(sql);
        (connection, outcome)
    })
}

fn code(outcome: Result<(), WireError>) -> String {
    outcome.expect_err("it fails").server().expect("the server says so").code.clone()
}

#[test]
fn sessions_that_others_open_are_seen_and_classified() {
    let (server, _own) = server();
    let governor = start(&server, CLASSES);
    let mut admin = governor.console("admin");
    assert_eq!(value(&rows(&mut admin, "SHOW STATE"), "mode"), "beside the server");
    let (mut shop, analyst) = (open(&server, "shop"), open(&server, "analyst"));
    let (shop_process, analyst_process) = (shop.process_id(), analyst.process_id());
    until("both to be seen", || {
        client(&mut admin, shop_process).is_some() && client(&mut admin, analyst_process).is_some()
    });
    assert_eq!(client(&mut admin, shop_process).unwrap().0, "high");
    let (class, chosen_by, state) = client(&mut admin, analyst_process).unwrap();
    assert_eq!((class.as_str(), chosen_by.as_str(), state.as_str()), ("report", "default", "idle"));
    // A tag lowers the class of a transaction, and the next one has the class of its login again.
    shop.run("begin; select 1 /*class='nightly'*/").unwrap();
    until("the tag to count", || client(&mut admin, shop_process).is_some_and(|(class, ..)| class == "batch"));
    assert_eq!(client(&mut admin, shop_process).unwrap().2, "idle in transaction");
    shop.run("commit").unwrap();
    until("the login to count", || client(&mut admin, shop_process).is_some_and(|(class, ..)| class == "high"));
    drop(analyst);
    until("a session that has ended to be forgotten", || client(&mut admin, analyst_process).is_none());

    // Clients cannot connect through the governor, and commands that need that are refused.
    let through = ServerUrl::of_socket(governor.folder.path(), 6432, "shop", "shop");
    let refused = Connection::open(&through).expect_err("it takes no clients").to_string();
    assert!(refused.contains("works beside the server"), "{refused}");
    for statement in ["PAUSE", "KILL 1", "SET class.batch.mpl = 3", "SET admission.mpl = 3"] {
        let error = admin.run(statement).expect_err(statement).to_string();
        assert!(error.contains("works beside its server") || error.contains("no session"), "{statement}: {error}");
    }
    assert_eq!(value(&rows(&mut admin, "SHOW CLASS_STATS"), "high"), "", "what is not counted is null");
    let (is_on, why) = lever(&mut admin, "admission");
    assert!(!is_on && why.contains("beside"), "{why}");
    drop((admin, shop));
    governor.end();
}

/// Statements of classes that opted in are cancelled for an important waiter; those of other classes are only counted.
#[test]
fn only_classes_that_opted_in_are_cancelled() {
    let (server, mut own) = server();
    let governor = start(&server, &format!("{CLASSES}[preemption]\npolicy = \"pabort\"\n"));
    let mut admin = governor.console("admin");
    let holder = |user: &str, id: i32| {
        let mut holder = open(&server, user);
        holder.run(&format!("begin; update account set money = money + 1 where id = {id}")).unwrap();
        (holder.process_id(), running(holder, "select pg_sleep(60)"))
    };
    let (_, batch) = holder("batch", 1);
    let (analyst_process, analyst) = holder("analyst", 2);
    let mut shop = open(&server, "shop");
    shop.run("update account set money = money + 1 where id = 1").unwrap();
    let (mut batch, outcome) = batch.join().unwrap();
    assert_eq!(code(outcome), "57014");
    batch.run("rollback").unwrap();

    // The other continues, and is counted.
    let waiting = running(shop, "update account set money = money + 1 where id = 2");
    until("the other to be counted", || {
        rows(&mut admin, "SHOW PREEMPTIONS").iter().flatten().any(|cell| cell.contains("would be cancelled"))
    });
    let active = format!("select state from pg_stat_activity where pid = {analyst_process}");
    assert_eq!(own.text(&active).unwrap().as_deref(), Some("active"));
    assert!(!analyst.is_finished() && !waiting.is_finished());
    own.run(&format!("select pg_terminate_backend({analyst_process})")).unwrap();
    assert!(analyst.join().unwrap().1.is_err());
    waiting.join().unwrap().1.unwrap();
    governor.end();
}

#[test]
fn a_transaction_that_waits_for_its_client_for_too_long_is_ended() {
    let (server, _own) = server();
    let classes = CLASSES.replace("cpu = \"nice 5\"", "cpu = \"nice 5\"\nidle_in_transaction_timeout = \"300ms\"");
    let governor = start(&server, &classes);
    let (mut analyst, mut shop) = (open(&server, "analyst"), open(&server, "shop"));
    analyst.run("begin").unwrap();
    shop.run("begin").unwrap();
    governor.logged("its transaction waited for its client");
    assert!(analyst.run("select 1").is_err());
    shop.run("commit").unwrap();
    governor.end();
}

/// The governor leaves alone the sessions that its role may not see, and reports the missing right.
#[test]
fn a_role_without_rights_says_what_is_missing() {
    let (server, mut own) = server();
    let more = format!("{CLASSES}[preemption]\npolicy = \"pabort\"\n");
    let governor = Governor::start_with(beside(&server, "timid", &more), false);
    governor.logged("are governed from now on");
    let batch = open(&server, "batch");
    let mut admin = governor.console("admin");
    until("the levers to be known", || {
        !lever(&mut admin, "sessions").0 && lever(&mut admin, "sessions").1.contains("GRANT")
    });
    let (is_on, why) = lever(&mut admin, "preemption");
    assert!(!is_on && why.contains("GRANT pg_signal_backend TO timid"), "{why}");
    let (is_on, why) = lever(&mut admin, "sessions");
    assert!(!is_on && why.contains("GRANT pg_read_all_stats TO timid"), "{why}");
    assert_eq!(client(&mut admin, batch.process_id()), None, "it has no process for us");
    assert_eq!(nice(batch.process_id()), Some(0));
    // The next connection sees the role's new rights.
    own.run("grant pg_read_all_stats, pg_signal_backend to timid").unwrap();
    own.run(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'plimsoll governor beside'",
    )
    .unwrap();
    until("the levers to work", || lever(&mut admin, "sessions").0 && lever(&mut admin, "preemption").0);
    until("the session to be seen", || client(&mut admin, batch.process_id()).is_some());
    drop(admin);
    governor.end();
}

#[test]
fn a_server_that_comes_back_is_governed_again() {
    let (mut server, own) = server();
    let governor = start(&server, CLASSES);
    drop(own);
    server.restart().unwrap();
    governor.logged("control connection is down");
    governor.logged("are governed from now on");
    let shop = open(&server, "shop");
    let mut admin = governor.console("admin");
    until("a new session to be seen", || client(&mut admin, shop.process_id()).is_some());
    drop(admin);
    governor.end();
}

/// Two governors beside one server do not change the same processes: the younger one waits until the older has ended.
#[test]
fn only_one_governor_works_beside_a_server() {
    let (server, _own) = server();
    let first = start(&server, CLASSES);
    let second = Governor::start_with(beside(&server, server.user(), CLASSES), false);
    second.logged("this one stands by");
    let shop = open(&server, "shop");
    let mut admin = second.console("admin");
    let (is_on, why) = lever(&mut admin, "preemption");
    assert!(!is_on && why.contains("another governor works beside this server"), "{why}");
    assert_eq!(client(&mut admin, shop.process_id()), None);
    first.end();
    second.logged("are governed from now on");
    until("it to take over", || client(&mut admin, shop.process_id()).is_some());
    drop(admin);
    second.end();
}

/// Sessions outlive a killed governor, with the shares that it set. The next one restores them.
#[test]
fn a_killed_governor_leaves_no_share_that_the_next_does_not_restore() {
    if !rustix::process::geteuid().is_root() {
        return skip(Need::Root, "only root may give processes back what others took");
    }
    let (server, _own) = server();
    let mut governor = start(&server, CLASSES);
    let (batch, shop) = (open(&server, "batch"), open(&server, "shop"));
    let has = |process: i32, expect: i32| nice(process) == Some(expect);
    until("batch to have its share", || has(batch.process_id(), 10));
    assert!(has(shop.process_id(), 0));
    // The next one sets no shares, and the one after that ends normally.
    let text = std::fs::read_to_string(&governor.file).unwrap();
    std::fs::write(&governor.file, text.replace("cpu = \"nice 10\"", "cpu = \"untouched\"")).unwrap();
    governor.kill_and_start();
    assert!(has(batch.process_id(), 10) || has(batch.process_id(), 0));
    until("the share to be restored", || has(batch.process_id(), 0));
    std::fs::write(&governor.file, &text).unwrap();
    governor.kill_and_start();
    until("batch to have its share again", || has(batch.process_id(), 10));
    // A holder inherits the share of the important session that waits for it.
    let mut holder = batch;
    let process = holder.process_id();
    holder.run("begin; update account set money = 1 where id = 5").unwrap();
    let holder = running(holder, "select pg_sleep(3)");
    let waiting = running(shop, "update account set money = 2 where id = 5");
    until("the holder to inherit", || has(process, 0));
    let (mut holder, outcome) = holder.join().unwrap();
    outcome.unwrap();
    holder.run("commit").unwrap();
    waiting.join().unwrap().1.unwrap();
    until("the holder to have its own share", || has(process, 10));
    governor.end();
    assert!(has(process, 0), "an end puts everything back");
}

/// An experiment runs a governor beside its server: its settings are valid, and sessions whose application name is that
/// of a class belong to it.
#[test]
fn experiments_have_one_beside_their_server() {
    let (server, _own) = server();
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("plimsoll");
    let own = std::env::current_exe().unwrap();
    // This program acts as `plimsoll govern --config FILE`.
    let script = format!(
        "#!/bin/sh\n{}=\"$3\" exec {} governor --exact --nocapture --test-threads=1\n",
        super::SETTINGS,
        own.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    let settings = GovernorSettings {
        low_floor: None,
        pool_size: 20,
        awake: false,
        target: None,
        mode: GovernorMode::named("beside").unwrap(),
        low_mpl: None,
        low_workers_max: None,
        preemption: "pow".to_owned(),
        threshold: Duration::from_millis(2),
        look_interval: None,
        low_share: "nice-10".to_owned(),
        config: None,
        program: Some(program),
    };
    let governor =
        GovernorProcess::start(&url(&server, server.user()), true, settings).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(governor.url().port, server.port(), "clients connect to the server");
    assert!(governor.counts().unwrap().is_empty(), "nobody counts transactions that do not pass through");
    if !rustix::process::geteuid().is_root() {
        return skip(Need::Root, "only root may give processes back what others took");
    }
    let (mut low, high) = (open(&server, "batch"), open(&server, "shop"));
    low.run("set application_name = 'plimsoll low'").unwrap();
    until("the low session to have its share", || nice(low.process_id()) == Some(10));
    assert_eq!(nice(high.process_id()), Some(0));
    low.run("set application_name = 'plimsoll high'").unwrap();
    until("the session to be high", || nice(low.process_id()) == Some(0));
}
