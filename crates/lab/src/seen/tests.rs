//! Folders of observations, whole and faulty, and what is predicted from them.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::advise;
use crate::table;

/// A shop of four sessions, whose requests need 5 ms of a core, and beside it no, one or two reports of half a second.
fn windows(count: usize) -> Vec<Value> {
    let window = |at: usize| {
        let reports = (at / 4 % 3) as f64;
        let noise = 1.0 + 0.02 * (at % 5) as f64;
        // By even sharing of two cores, requests take longer with the second report.
        let response_s = 0.005 * [1.0, 1.1, 1.6][at / 4 % 3] * noise;
        let requests = 4.0 / (0.1 + response_s);
        let class = |requests: f64, sessions: f64, active_s: f64, cpu_s: f64| {
            json!({
                "sessions": sessions, "running_s": active_s, "lock_s": 0.0, "disk_s": 0.0, "client_s": 0.0, "other_s": 0.0,
                "cpu_s": cpu_s, "requests": requests, "counted_s": active_s,
            })
        };
        let mut classes = json!({ "shop": class(requests, 4.0, requests * response_s, requests * 0.005) });
        if reports > 0.0 {
            classes["reports"] = class(1.8 * reports, reports, reports, 0.9 * reports);
        }
        let cpu_s = requests * 0.005 + 0.9 * reports + 0.05;
        json!({ "at_s": at as f64, "seconds": 1.0, "machine_cpu_s": cpu_s, "disk_busy_s": 0.01, "classes": classes })
    };
    (0..count).map(window).collect()
}

fn results() -> Value {
    json!({
        "kind": "observation", "format": 1, "plimsoll": "0.1.0",
        "server": { "cores": 2 },
        "missing": [],
        "host": { "cores": { "named": [{ "name": "cc", "count": 1, "cores": 0.05 }] } },
    })
}

fn write(place: &Path, results: &Value, windows: &[Value]) {
    fs::write(place.join("results.json"), results.to_string()).unwrap();
    fs::write(place.join("windows.jsonl"), windows.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
}

fn observation(results: &Value, windows: &[Value]) -> Result<Observation, SeenError> {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), results, windows);
    assert!(is_observation(folder.path()));
    Observation::read(folder.path())
}

fn request(vary: &str) -> Request {
    Request { vary: Some(vary.parse().unwrap()), workloads: Vec::new(), model: Model::Idd }
}

fn whole() -> Observation {
    observation(&results(), &windows(60)).unwrap()
}

#[test]
fn reports_that_were_not_seen_together_are_predicted() {
    let found = predict(&whole(), &request("reports.clients=1..5")).unwrap();
    assert_eq!(found.mixes.len(), 5);
    let shop = |at: usize| found.mixes[at].workloads.iter().find(|one| one.name == "shop").unwrap();
    assert_eq!((shop(0).clients, found.mixes[0].is_calibration, found.mixes[4].is_calibration), (4, true, false));
    let measured = shop(1).measured.unwrap().response_ms.unwrap().value;
    let (near, far) = (shop(1).response_ms.unwrap(), shop(4).response_ms.unwrap());
    assert!((near.value / measured - 1.0).abs() < 0.2, "{near:?} of {measured}");
    assert!(far.value > near.value && far.low.unwrap() < far.value && far.high.unwrap() < 5.0 * far.value, "{far:?}");
    assert!(!found.mixes[1].is_extrapolated && found.mixes[4].is_extrapolated);
    let seen = found.seen.as_ref().unwrap();
    let [sentence] = &seen.sentences[..] else { panic!("{:?}", seen.sentences) };
    assert!(sentence.starts_with("With 5 reports at once shop goes from "), "{sentence}");
    let text = table::prediction::render(&found);
    for part in [sentence.as_str(), "A request, as seen", "4 x shop + 5 x reports", "* beyond what was seen"] {
        assert!(text.contains(part) || text.replace("\n  ", " ").contains(part), "{part} in\n{text}");
    }
    // Without a key, the mixes that were seen.
    let own = predict(&whole(), &Request { vary: None, ..request("cores=1") }).unwrap();
    assert_eq!(own.mixes.len(), 3);
    assert!(own.mixes.iter().all(|mix| mix.is_calibration && !mix.is_extrapolated), "{own:?}");
    let fewer = predict(&whole(), &request("cores=1,2")).unwrap();
    assert_eq!(fewer.mixes[0].setting["cores"], json!(1));
    let part = Request { workloads: vec!["shop".to_owned()], ..request("shop.clients=8") };
    assert_eq!(predict(&whole(), &part).unwrap().mixes[0].workloads.len(), 1);
}

#[test]
fn a_key_that_was_not_seen_names_those_that_were() {
    let check = |vary: &str, expect: &str| {
        let error = predict(&whole(), &request(vary)).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    check(
        "reprots.clients=1..5",
        "no class `reprots` was seen (did you mean `reports`?); these were: `shop` and `reports`",
    );
    check("reports.rate=5", "reports.clients");
    check("cores=0,1", "nothing runs on 0 cores");
    let wrong = Request { model: Model::Mva, ..request("cores=1") };
    assert!(predict(&whole(), &wrong).unwrap_err().to_string().contains("--model mva"));
}

#[test]
fn faulty_folders_are_refused_with_a_remedy() {
    let check = |change: &dyn Fn(&mut Value, &mut Vec<Value>), expect: &str| {
        let (mut results, mut windows) = (results(), windows(60));
        change(&mut results, &mut windows);
        let found = observation(&results, &windows).and_then(|seen| predict(&seen, &request("cores=1")).map(drop));
        let error = found.unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    check(&|results, _| results["format"] = json!(2), "in format 2 by plimsoll 0.1.0; this program reads format 1");
    check(&|results, _| results["server"]["cores"] = Value::Null, "run plimsoll observe on the server's own machine");
    check(&|_, windows| windows[7]["classes"]["shop"]["cpu_s"] = Value::Null, "CPU time");
    check(&|_, windows| windows.truncate(9), "has 9 windows, and at least 12 are needed");
    check(&|_, windows| windows.iter_mut().for_each(|window| window["classes"] = json!({})), "no session was seen");
    check(&|_, windows| windows[3] = json!({ "seconds": 1.0 }), "windows.jsonl, line 4: not a file of an observation");
    check(&|_, windows| windows[3]["seconds"] = json!(0.0), "line 4");
    let no_calls = |results: &mut Value, windows: &mut Vec<Value>| {
        windows[5]["classes"]["shop"]["requests"] = Value::Null;
        results["missing"] = json!([{
            "what": "calls and latency of each statement, changes of plans", "why": "the extension is not created",
            "works": "the rest", "remedy": "run CREATE EXTENSION",
        }]);
    };
    check(
        &no_calls,
        "how many requests each class ends was not visible to the observation (the extension is not created); run CREATE",
    );
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("results.json"), results().to_string()).unwrap();
    let error = Observation::read(folder.path()).unwrap_err().to_string();
    assert!(error.contains("has no windows.jsonl"), "{error}");
    assert!(!is_observation(&folder.path().join("nowhere")));
}

#[test]
fn small_classes_count_as_others_and_short_windows_are_put_together() {
    let mut lines = windows(120);
    for line in &mut lines {
        line["classes"]["cron"] = json!({
            "sessions": 0.1, "running_s": 0.001, "lock_s": 0.0, "disk_s": 0.0, "client_s": 0.0, "other_s": 0.0,
            "cpu_s": 0.001, "requests": 0.01, "counted_s": 0.001,
        });
    }
    let found = observation(&results(), &lines).unwrap();
    assert_eq!(
        (found.seen.classes.as_slice(), found.small.as_slice()),
        (&["shop".to_owned(), "reports".to_owned()][..], &["cron".to_owned()][..])
    );
    assert_eq!(found.seen.windows.len(), 40, "windows of three seconds");
    let whole_s: f64 = found.seen.windows.iter().map(|window| window.seconds).sum();
    assert!((whole_s - 120.0).abs() < 1e-9);
    assert!((found.seen.windows[0].classes[0].sessions - 4.0).abs() < 1e-9);
    let told = predict(&found, &request("reports.clients=3")).unwrap();
    assert!(told.cautions().iter().any(|caution| caution.contains("counted with others: cron")), "{told:?}");
}

#[test]
fn the_load_that_keeps_a_promise_is_found() {
    let ask = |slo: &str, vary: Option<&str>| {
        let vary = vary.map(|vary| vary.parse().unwrap());
        advise(&whole(), &advise::Request { slo: slo.parse().unwrap(), vary, maximise: None })
    };
    let found = ask("shop.p95 < 3 x alone", None).unwrap();
    assert_eq!((found.key.as_str(), found.maximise.as_str(), found.tried.len()), ("reports.clients", "reports", 5));
    let first = &found.tried[0];
    assert!(first.percentile_ms.unwrap().value > 5.0, "{first:?}");
    assert!(found.best.is_some(), "{found:?}");
    // In milliseconds the form of the distribution counts.
    let wide = ask("shop.p95 < 60ms", Some("reports.clients=1")).unwrap();
    let wider = wide.tried[0].percentile_ms.unwrap();
    let narrow = found.tried[1].percentile_ms.unwrap();
    assert!(wider.high.unwrap() / wider.value > narrow.high.unwrap() / narrow.value);
    assert!(wide.cautions.iter().any(|caution| caution.contains("factor of 2.4")), "{:?}", wide.cautions);
    let error = ask("shpo.p95 < 5ms", None).unwrap_err().to_string();
    assert!(error.contains("did you mean `shop`?"), "{error}");
    assert!(table::advice::render(&found).contains("reports.clients="));
}

#[test]
fn one_workload_alone_is_advised() {
    let alone: Vec<Value> = windows(60)
        .into_iter()
        .map(|mut window| {
            window["classes"] = json!({ "shop": window["classes"]["shop"] });
            window
        })
        .collect();
    let seen = observation(&results(), &alone).unwrap();
    let request = advise::Request { slo: "shop.p95 < 500ms".parse().unwrap(), vary: None, maximise: None };
    let found = advise(&seen, &request).unwrap();
    assert_eq!((found.key.as_str(), found.tried[0].value), ("shop.clients", 1));
    assert!(found.best.is_some(), "{found:?}");
}
