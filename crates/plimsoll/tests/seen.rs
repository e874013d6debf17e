//! From a look at a live server to a prediction, as a user does it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/program.rs"]
mod program;
#[path = "common/shop.rs"]
mod shop;

use std::path::Path;
use std::process::Output;
use std::thread::sleep;
use std::time::{Duration, Instant};

use plimsoll_postgres::server::PrivateServer;
use program::{assert_ended, items, json, names, plimsoll, printed, run, said};
use shop::{Clients, REPORTS, SHOP, server, url};

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
    // Reports slow the shop down; beside the builds of a busy machine nothing may be known of so many.
    match mixes[2]["refused"].as_str() {
        Some(why) => assert!(
            why.contains("4 x shop + 5 x reports: the response of `") && why.contains("observe for longer"),
            "{why}"
        ),
        None => {
            let five = response(2);
            assert!(ms(&five, "value") >= 0.9 * ms(&one, "value"), "{one} {five}");
            assert!(ms(&five, "high") < 200.0 * ms(&five, "low"), "{one} {five}");
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
