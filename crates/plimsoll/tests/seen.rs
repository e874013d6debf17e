//! From a look at a live server to a prediction, as a user does it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/program.rs"]
mod program;

use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};
use program::{assert_ended, items, json, names, plimsoll, printed, run, said};

/// Each client changes a row of its own: a shop that waits for locks would not be predicted.
const SHOP: &[&str] = &[
    "begin",
    "select sum(id) from items where id < 3000",
    "update items set n = n + 1 where id = 1 + pg_backend_pid() % 20000",
    "commit",
];
const REPORTS: &[&str] = &["select sum(a.id * b.id % 7) from items as a, items as b where b.id < 80"];

fn server() -> PrivateServer {
    let mut settings = ServerSettings::for_this_machine();
    for (name, value) in [("shared_buffers", "64MB"), ("fsync", "off")] {
        settings.set(name, value).unwrap();
    }
    let server = PrivateServer::start(settings).expect("these tests need a PostgreSQL server");
    let setup = "create table items (id int primary key, n int); \
        insert into items select i, 0 from generate_series(1, 20000) as i; analyze items; grant all on items to public; \
        create role shop login; create role reports login; create role monitor login in role pg_monitor; \
        alter role reports set max_parallel_workers_per_gather = 0";
    Connection::open(&url(&server, server.user())).unwrap().run(setup).unwrap();
    server
}

fn url(server: &PrivateServer, user: &str) -> ServerUrl {
    ServerUrl::of_socket(server.socket_folder(), server.port(), user, server.database())
}

/// Clients that run a script again and again, with pauses, until they are dropped.
struct Clients {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Clients {
    fn start(
        server: &PrivateServer,
        user: &str,
        count: usize,
        script: &'static [&'static str],
        pause: Duration,
    ) -> Clients {
        let stop = Arc::new(AtomicBool::new(false));
        let client = |at: usize| {
            let (url, stop) = (url(server, user), Arc::clone(&stop));
            spawn(move || {
                let mut connection = Connection::open(&url).unwrap();
                sleep(pause.mul_f64(at as f64 / count as f64));
                while !stop.load(Ordering::Relaxed) {
                    for sql in script {
                        connection.run(sql).unwrap();
                    }
                    sleep(pause);
                }
            })
        };
        let threads = (0..count).map(client).collect();
        Clients { stop, threads }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The most looks that are taken. What others on the machine do within one may make it too noisy to predict from.
const LOOKS_MAX: usize = 4;

/// Looks at the server for half a minute, while none, one and two reports run.
fn look(server: &PrivateServer, folder: &Path) {
    let shop = Clients::start(server, "shop", 4, SHOP, Duration::from_millis(40));
    let monitor = url(server, "monitor").to_string();
    let began = Instant::now();
    let observe = ["observe", &monitor, "--seconds", "30", "--out", "seen"];
    let mut observing = plimsoll(&observe, folder).spawn().unwrap();
    for (at, reports) in [(0, 0), (5, 1), (10, 2), (15, 0), (20, 2), (25, 1)] {
        while began.elapsed() < Duration::from_secs(at) {
            sleep(Duration::from_millis(10));
        }
        let running = Clients::start(server, "reports", reports, REPORTS, Duration::from_millis(20));
        sleep(Duration::from_millis(4_600));
        drop(running);
    }
    assert!(observing.wait().unwrap().success());
    drop(shop);
}

/// A prediction with one, two and five reports, and how many keep a promise. A refusal because of noise shows in either.
fn answers(folder: &Path) -> [Output; 2] {
    let promise = ["advise", "seen", "--slo", "shop.p95 < 30 x alone", "--vary", "reports.clients=0..2"];
    [run(&["predict", "seen", "--vary", "reports.clients=1,2,5", "--json"], folder), run(&promise, folder)]
}

/// Seen with none, one and two reports, predicted with five.
#[test]
fn what_was_seen_is_predicted_with_more_reports() {
    let server = server();
    let mut looks = 0;
    let (folder, output, advised) = loop {
        let folder = tempfile::tempdir().unwrap();
        look(&server, folder.path());
        looks += 1;
        let [output, advised] = answers(folder.path());
        let told = printed(&output) + &printed(&advised) + &said(&advised);
        if (output.status.success() && printed(&advised).contains("reports.clients=")) || looks == LOOKS_MAX {
            break (folder, output, advised);
        }
        assert!(told.contains("observe for longer") || told.contains("undecided"), "{told}");
    };
    assert_eq!(names(&folder.path().join("seen")), ["report.html", "results.json", "windows.jsonl"]);
    let results = json_file(&folder.path().join("seen/results.json"));
    let cores = &results["host"]["cores"];
    assert!(cores["postgres"].as_f64().unwrap() > 0.1, "{cores}");
    assert!(cores["machine"].as_u64().unwrap() >= 1 && cores["others"].is_number(), "{cores}");

    let predicted = json(&output);
    let mixes = items(&predicted["mixes"]);
    assert_eq!(mixes.len(), 3, "{predicted}");
    let response = |at: usize| {
        let shop = items(&mixes[at]["workloads"]).iter().find(|one| one["name"] == "shop").expect("the shop").clone();
        shop["response_ms"].clone()
    };
    let one = response(0);
    let ms = |interval: &serde_json::Value, key: &str| interval[key].as_f64().unwrap_or_else(|| panic!("{predicted}"));
    assert!(ms(&one, "value") > 0.1 && ms(&one, "value") < 1_000.0, "{one}");
    // Reports slow the shop down, and the further from what was seen, the less is known: beside the builds of a busy machine, nothing.
    match mixes[2]["refused"].as_str() {
        Some(why) => assert!(
            why.contains("4 x shop + 5 x reports: the response of `") && why.contains("observe for longer"),
            "{why}"
        ),
        None => {
            let five = response(2);
            assert!(ms(&five, "value") >= 0.9 * ms(&one, "value"), "{one} {five}");
            let width = |interval: &serde_json::Value| ms(interval, "high") / ms(interval, "low");
            assert!(width(&five) > width(&one) && width(&five) < 200.0, "{one} {five}");
        }
    }
    let demands = items(&predicted["seen"]["demands"]);
    assert_eq!(demands.len(), 2, "{demands:?}");
    let text = run(&["predict", "seen", "--vary", "reports.clients=2"], folder.path());
    assert_ended(&text, 0);
    assert!(printed(&text).starts_with("With 2 reports at once shop goes from "), "{}", printed(&text));

    assert!(printed(&advised).contains("reports.clients="), "{}{}", printed(&advised), said(&advised));
    let unknown = run(&["predict", "seen", "--vary", "nightly.clients=1..4"], folder.path());
    assert_ended(&unknown, 2);
    assert!(said(&unknown).contains("no class `nightly` was seen; these were: `"), "{}", said(&unknown));
    let verify = run(&["advise", "seen", "--slo", "shop.p95 < 1s", "--verify"], folder.path());
    assert_ended(&verify, 2);
    assert!(said(&verify).contains("--verify is for runs of experiments"), "{}", said(&verify));
}

fn json_file(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}
