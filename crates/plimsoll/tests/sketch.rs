//! From a look at a live server to a sketch of its work, as a user takes it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/program.rs"]
mod program;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::spawn;

use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};
use program::{assert_ended, items, json, printed, run, said};
use serde_json::Value;

const SETUP: &str = "create table item (id int primary key, n int, name text); \
    insert into item select i, 0, 'item ' || i % 50 from generate_series(1, 20000) as i; \
    create table note (id int primary key); analyze; grant all on item, note to public; \
    create role shop login; create role reports login; create role monitor login in role pg_monitor";

/// What the shop's client does again and again; `#` is a number that differs each time.
const SHOP: [&str; 5] = [
    "begin",
    "select n from item where id = #",
    "update item set n = n + 1 where id = #",
    "insert into note values (#)",
    "commit",
];

const REPORTS: [&str; 3] = [
    "select name, sum(n) from item where id between # and # + 500 group by name",
    "select count(*) from item where name = 'item 7' and id > #",
    "select lower(name) from item where lower(name) = 'item #'",
];

fn server() -> PrivateServer {
    let settings = ServerSettings::for_this_machine().with(&[("shared_buffers", "64MB"), ("fsync", "off")]).unwrap();
    let server = PrivateServer::start(settings).expect("this test needs a PostgreSQL server");
    Connection::open(&server.url()).unwrap().run(SETUP).unwrap();
    server
}

fn url(server: &PrivateServer, user: &str) -> ServerUrl {
    ServerUrl::of_socket(server.socket_folder(), server.port(), user, server.database())
}

/// Looks at the server for some seconds while two clients work.
fn look(server: &PrivateServer, folder: &Path) {
    let stop = Arc::new(AtomicBool::new(false));
    let client = |user: &str, script: &'static [&'static str]| {
        let (url, stop) = (url(server, user), Arc::clone(&stop));
        spawn(move || {
            let mut connection = Connection::open(&url).unwrap();
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                number += 1;
                for sql in script {
                    connection.run(&sql.replace('#', &number.to_string())).unwrap();
                }
            }
        })
    };
    let clients = [client("shop", &SHOP), client("reports", &REPORTS)];
    let monitor = url(server, "monitor").to_string();
    assert_ended(&run(&["observe", &monitor, "--seconds", "5", "--out", "seen"], folder), 0);
    stop.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().unwrap());
}

/// The sum over a column that only updates change.
fn sum(server: &PrivateServer) -> Option<String> {
    Connection::open(&server.url()).unwrap().text("select sum(n) from item").unwrap()
}

#[test]
fn what_was_seen_is_sketched_on_a_copy_and_on_the_server_itself() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    look(&server, folder.path());
    let results: Value = serde_json::from_slice(&fs::read(folder.path().join("seen/results.json")).unwrap()).unwrap();
    let calls = items(&results["calls"]);
    let update =
        calls.iter().find(|call| call["text"].as_str().unwrap().starts_with("update item")).expect("the update");
    assert_eq!(
        (&update["class"], &update["text"]),
        (&"shop".into(), &"update item set n = n + $1 where id = $2".into())
    );
    assert!(calls.iter().all(|call| !call["text"].as_str().unwrap().starts_with("begin")), "{calls:?}");

    let own = url(&server, server.user()).to_string();
    let before = sum(&server);
    // The user's own server: nothing is written.
    let checked = run(&["check", "sketch:seen", "--target", &own], folder.path());
    assert_ended(&checked, 0);
    let told = printed(&checked).split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "shop_select_item",
        "it writes or locks rows, and this server is yours",
        "it adds rows, whose keys are not known",
        "is compared with no column",
    ] {
        assert!(told.contains(part), "{part} in {told}");
    }
    let class = ["bench", "sketch:seen?class=reports", "--target", &own, "--clients", "1", "--seconds", "1", "--json"];
    let benched = json(&run(&class, folder.path())).to_string();
    assert!(benched.contains("sketch_seen_reports") && !benched.contains("shop_select_item"), "{benched}");
    assert!(benched.contains("is a sketch of what") && benched.contains("width is drawn, too"), "{benched}");
    assert_eq!(sum(&server), before, "the user's server is as it was");

    // A copy: updates run, too.
    let copy_of = format!("copy_of={own}");
    let copied = ["--option", &copy_of, "--option", "shared_buffers=64MB"];
    let bench = ["bench", "sketch:seen", "--target", "postgres:", "--clients", "2", "--seconds", "2", "--json"];
    let benched = json(&run(&[&bench[..], &copied].concat(), folder.path()));
    let text = benched.to_string();
    assert!(text.contains("shop_update_item") && text.contains("reports_select_item"), "{text}");
    assert!(!text.contains("it writes or locks rows"), "{text}");
    assert_eq!(sum(&server), before, "a copy is written, not the original");

    let size = ["size", "sketch:seen", "--copy", &own, "--clients", "2", "--resources", "work_mem", "--budget", "25s"];
    let sized = json(&run(&[&size[..], &["--option", "shared_buffers=64MB", "--json"]].concat(), folder.path()));
    assert!(sized["sizes"]["full_per_s"]["value"].as_f64().is_some_and(|full| full > 1.0), "{}", sized["sizes"]);
    assert!(sized.to_string().contains("is a sketch of what"), "{sized}");
}

#[test]
fn a_sketch_without_data_or_of_something_else_is_refused_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let seen = folder.path().join("seen");
    fs::create_dir(&seen).unwrap();
    let call = r#"{"class": "shop", "database": "shop", "text": "SELECT n FROM item WHERE id = $1", "calls_per_s": 1, "mean_s": 1,
        "rows_per_call": 1}"#;
    let results = format!(r#"{{"kind": "observation", "server": {{"url": "postgres://db/shop"}}, "calls": [{call}]}}"#);
    fs::write(seen.join("results.json"), results).unwrap();
    for (workload, target, code, expect) in [
        ("sketch:nowhere", "postgres:", 2, "name the folder of an observation: plimsoll observe URL --out DIR"),
        ("sketch:seen?clas=shop", "postgres:", 2, "did you mean `class`?"),
        ("sketch:seen?class=web", "postgres:", 2, "no class `web` was seen to call statements; these were: shop"),
        ("sketch:seen", "embedded:", 3, "a sketch has the SQL of a server"),
        ("sketch:seen", "postgres:?fsync=off", 3, "a private server begins empty: give it a copy"),
    ] {
        let output = run(&["bench", workload, "--target", target, "--seconds", "1"], folder.path());
        assert_ended(&output, code);
        let told = said(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains(expect), "{workload}: {told}");
    }
}
