//! The pages as clients get them, over sockets.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::*;
use crate::settings::{Http, for_tests};

fn governor() -> Arc<Governor> {
    let mut settings = for_tests();
    settings.http = Some(Http { address: ([127, 0, 0, 1], 0).into(), hosts: vec!["db1.example".to_owned()] });
    Arc::new(Governor::new(settings, Instant::now()))
}

/// Status line and the rest.
fn ask(page: &Page, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(page.address().expect("it serves")).expect("it listens");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (status, rest) = answer.split_once("\r\n").expect("a status line");
    (status.to_owned(), rest.to_owned())
}

fn get_as(page: &Page, path: &str, host: &str) -> (String, String) {
    ask(page, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
}

#[test]
fn everything_is_served() {
    let governor = governor();
    let page = start(&governor).expect("it starts");
    let get = |path| get_as(&page, path, "127.0.0.1:1");
    let (status, body) = get("/");
    assert!(status.contains("200") && body.contains("<!doctype html>"), "{status}");
    assert!(body.contains("default-src 'none'"), "nothing from elsewhere is loaded");
    let (status, body) = get("/metrics");
    assert!(status.contains("200") && body.contains("plimsoll_transactions_total"), "{status}");
    assert!(body.contains("content-type: application/openmetrics-text"));
    let (status, body) = get("/state.json");
    let json = body.split_once("\r\n\r\n").expect("a body").1;
    let state: state::State = serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"));
    assert!(status.contains("200"));
    assert_eq!(state.classes.iter().map(|class| class.name.as_str()).collect::<Vec<_>>(), ["high", "low"]);
    assert!(get("/healthz").0.contains("200"));
    governor.is_draining.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(get("/healthz").0.contains("503"));
    assert!(get("/elsewhere").0.contains("404"));
}

#[test]
fn only_get_and_only_by_a_name_of_ours() {
    let page = start(&governor()).expect("it starts");
    let (status, _) =
        ask(&page, "POST /state.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    assert!(status.contains("405"), "{status}");
    assert!(get_as(&page, "/", "db1.example:6433").0.contains("200"));
    let (status, body) = get_as(&page, "/state.json", "evil.example");
    assert!(status.contains("403") && body.contains("`hosts` in [http]"), "{status}");
    assert!(!body.contains("classes"));
    assert!(ask(&page, "GET / HTTP/1.0\r\n\r\n").0.contains("400"));
}

#[test]
fn names_can_be_made_to_lead_here_and_addresses_cannot() {
    let hosts = ["db1.example".to_owned()];
    for ours in ["localhost", "LOCALHOST:6433", "127.0.0.1", "127.0.0.1:80", "[::1]:6433", "10.1.2.3:1", "DB1.example"]
    {
        assert!(is_ours(ours, &hosts), "{ours}");
    }
    for other in ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "[evil]:1", ":6433"] {
        assert!(!is_ours(other, &hosts), "{other}");
    }
}

#[test]
fn an_address_that_is_taken_is_told() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut settings = for_tests();
    settings.http = Some(Http { address: taken.local_addr().expect("an address"), hosts: Vec::new() });
    let error = start(&Arc::new(Governor::new(settings, Instant::now()))).expect_err("it is taken");
    assert!(error.to_string().contains("give another [http] address, or \"off\""), "{error}");
}
