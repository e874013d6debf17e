//! The pages as clients receive them, over sockets.

use std::io::{Read, Write};
use std::net::TcpStream;

use plimsoll_policy::{ClassIndex, NoReplay, PreemptionPolicy};

use super::*;
use crate::governor::{Outcome, PreemptionEvent};
use crate::settings::{Http, for_tests};
use crate::testing::{self, blocked, preempted, preemption, queued};

fn governor() -> Arc<Governor> {
    let address = ([127, 0, 0, 1], 0).into();
    testing::governor(|settings| settings.http = Some(Http { address, hosts: vec!["db1.example".to_owned()] }))
}

/// The status line, and the rest of the answer.
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
    assert!(get("/elsewhere").0.contains("404"));
}

/// A load balancer polled `/healthz` and got 200 while every login failed, because the server was down. An orchestrator
/// polling the same endpoint would have restarted the governor for that, to no avail.
#[test]
fn health_says_whether_clients_should_come_and_why_not() {
    let governor = governor();
    let page = start(&governor).expect("it starts");
    let check = |status: &str, why: &str| {
        let (line, rest) = get_as(&page, "/healthz", "localhost");
        let body = rest.split_once("\r\n\r\n").expect("a body").1;
        assert!(line.contains(status) && body.contains(why) && body.lines().count() == 1, "{line} {body}");
        assert!(get_as(&page, "/livez", "localhost").0.contains("200"));
    };
    check("200", "ok");
    governor.reach.failed("Connection refused\nIs it running?");
    check("503", "cannot be reached: Connection refused Is it running?");
    governor.reach.succeeded();
    check("200", "ok");
    let mut settings = (*governor.settings()).clone();
    settings.control = Some(settings.server.clone());
    *governor.settings.write() = Arc::new(settings);
    check("503", "not up yet");
    governor.health.lock().control_error = Some("password authentication failed".to_owned());
    check("503", "the control login is down: password authentication failed");
    governor.health.lock().control_up = Some(std::time::SystemTime::now());
    check("200", "ok");
    governor.is_draining.store(true, std::sync::atomic::Ordering::Relaxed);
    check("503", "draining");
}

/// If `/healthz` keeps clients away, no client notices that the server is back.
#[test]
fn a_server_that_is_back_is_noticed_without_clients() {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut settings = (*governor().settings()).clone();
    settings.server.host = plimsoll_pg::url::ServerHost::Tcp("127.0.0.1".to_owned());
    settings.server.port = server.local_addr().expect("an address").port();
    let governor = Arc::new(Governor::new(settings, Instant::now()));
    let page = start(&governor).expect("it starts");
    governor.reach.failed("refused");
    assert!(get_as(&page, "/healthz", "localhost").0.contains("503"));
    let (_stream, _) = server.accept().expect("somebody looks again");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !get_as(&page, "/healthz", "localhost").0.contains("200") {
        assert!(Instant::now() < deadline, "it still says that the server cannot be reached");
    }
}

/// A client opened 64 connections to the page and sent nothing, or incomplete requests. `/healthz` did not answer for a
/// minute and a half, and the load balancer took the governor out.
#[test]
fn silent_connections_keep_no_health_check_out() {
    let page = start(&governor()).expect("it starts");
    let address = page.address().expect("it serves");
    let connect = || TcpStream::connect(address).expect("it listens");
    let silent: Vec<TcpStream> = (0..3 * CONNECTIONS_MAX)
        .map(|place| {
            let mut stream = connect();
            if place % 2 == 0 {
                stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: local").expect("it reads");
            }
            stream
        })
        .collect();
    let started = Instant::now();
    assert!(get_as(&page, "/healthz", "localhost").0.contains("200"));
    assert!(started.elapsed() < Duration::from_secs(60), "it waited for a silent client to go");
    // Replaced connections were closed, and the others close within seconds.
    for mut stream in silent {
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        assert!(matches!(stream.read(&mut [0; 64]), Ok(0)) || is_reset(&mut stream), "it was not closed");
    }
}

fn is_reset(stream: &mut TcpStream) -> bool {
    stream.read(&mut [0]).is_ok_and(|bytes| bytes == 0)
}

/// The counts of the last seconds and the controller of targets shared a thread with the pages: readers that kept the
/// pages busy held up the controller, and important work missed its target.
#[test]
fn who_reads_pages_does_not_delay_what_is_done_every_second() {
    let governor = governor();
    let page = start(&governor).expect("it starts");
    // The page of the queue waits for as long as this is held.
    let held = governor.admission.lock();
    let mut stream = TcpStream::connect(page.address().expect("it serves")).expect("it listens");
    stream.write_all(b"GET /state.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("it reads");
    let taken = || governor.history.lock().points().count();
    let before = taken();
    plimsoll_testing::until("three snapshots", || taken() >= before + 3);
    stream.set_read_timeout(Some(Duration::from_millis(10))).expect("a timeout");
    assert!(stream.read(&mut [0]).is_err(), "the page did not wait");
    drop(held);
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

/// The page shows the lines for a statement and what the console does with it. Whoever reads it, also by a foreign page in
/// the operator's browser, changes nothing.
#[test]
fn the_lines_for_a_statement_are_shown_and_nothing_is_changed() {
    let (_folder, file) = testing::settings_file("server = \"postgres://u@localhost:1/none\"\n");
    let governor = governor();
    governor.config_file.set(file).expect("it is new");
    let page = start(&governor).expect("it starts");
    let (before, path) =
        (governor.generation(), "/govern.json?words=%27select%20%27%2774%27%27%27%20rate%20%3D%20%275%2Fs%27");
    let (status, body) = get_as(&page, path, "localhost");
    let json: serde_json::Value = serde_json::from_str(body.split_once("\r\n\r\n").expect("a body").1).expect("JSON");
    let lines = json["lines"].as_str().expect("lines");
    assert!(status.contains("200") && lines.contains("rate = \"5/s\"\n") && json["error"].is_null(), "{json}");
    assert!(lines.contains(&format!("{:016x}", plimsoll_notation::sql::fingerprint(b"select '74'"))), "{lines}");
    for (words, why) in [
        ("words=%27select%201%27%20rate%20%3D%20fast", "`fast` is not a rate"),
        ("words=%27select", "a ' has no second one"),
        ("words=%ff", "percent-encoded"),
        ("words=a%20b%3Dc;d", "put the statement in quotes"),
        ("", "what would follow GOVERN"),
    ] {
        let (status, body) = get_as(&page, &format!("/govern.json?{words}"), "localhost");
        assert!(status.contains("200") && body.contains(why), "{words}: {status} {body}");
    }
    let post = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    assert!(ask(&page, &post).0.contains("405"));
    assert!(get_as(&page, path, "evil.example").0.contains("403"));
    assert_eq!((governor.generation(), governor.governed().len()), (before, 0));
}

#[test]
fn names_can_be_made_to_lead_here_and_addresses_cannot() {
    let hosts = ["db1.example".to_owned()];
    for ours in ["localhost", "LOCALHOST:6433", "127.0.0.1", "127.0.0.1:80", "[::1]:6433", "10.1.2.3:1", "DB1.example"]
    {
        assert!(is_ours(ours, &hosts), "{ours}");
    }
    for other in ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "[evil]:1", ":6433"]
        .into_iter()
        .chain([
            "[::1].evil.example",
            "[::1]evil.example:6433",
            "[::1",
            "[127.0.0.1]",
            "127.0.0.1:80.evil.example",
            "::1",
        ])
        .chain(["localhost:evil.example", "evil.example:127.0.0.1", "[::1]:6433:evil"])
    {
        assert!(!is_ours(other, &hosts), "{other}");
    }
}

#[test]
fn an_address_that_is_taken_is_told() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    let governor = testing::governor(|settings| settings.http = Some(Http { address, hosts: Vec::new() }));
    let error = start(&governor).expect_err("it is taken");
    assert!(error.to_string().contains("give another [http] address, or \"off\""), "{error}");
}

/// A state with a value in every field, which the test of the live page in `web/test` shows. Rewritten with
/// `PLIMSOLL_BLESS=1`.
#[test]
fn the_state_that_the_live_page_is_tested_with_is_one() {
    let text = serde_json::to_string_pretty(&sample()).expect("JSON") + "\n";
    plimsoll_testing::check_made("../../web/test/governor-state.json", &text);
}

#[test]
fn the_schema_of_states_in_the_documentation_is_up_to_date() {
    let schema = schemars::schema_for!(state::State).to_value();
    let text = serde_json::to_string_pretty(&schema).expect("JSON") + "\n";
    plimsoll_testing::check_made("../../docs/governor-state.schema.json", &text);
}

/// Under `track` an operator decides by two numbers: the transactions to be rolled back, and the clients to receive
/// 40001.
#[test]
fn under_track_each_class_counts_its_victims_and_the_40001s_to_expect() {
    let mut settings = for_tests();
    let of = |settings: &crate::settings::Settings| {
        let governor = Governor::new(settings.clone(), Instant::now());
        for outcome in [Outcome::Tracked(Ok(())), Outcome::Tracked(Err(NoReplay::TooLong)), Outcome::TooLate] {
            governor.note(PreemptionEvent { outcome, ..preemption() });
        }
        let classes = state::State::of(&governor, Instant::now()).classes;
        classes.into_iter().map(|class| class.tracked.map(|tracked| (tracked.victims, tracked.errors_40001)))
    };
    assert!(of(&settings).all(|tracked| tracked.is_none()), "pow does not track");
    settings.preemption.policy = PreemptionPolicy::parse("track").expect("a policy");
    assert_eq!(of(&settings).collect::<Vec<_>>(), [Some((0, 0)), Some((2, 1))]);
}

fn sample() -> state::State {
    let governor = governor();
    let low = governor.statistics.class(ClassIndex(1));
    let start = Instant::now();
    governor.history.lock().take(&governor.statistics, start);
    for count in 1..=25 {
        crate::statistics::count(&low.transactions);
        low.times.transaction.record(Duration::from_millis(if count <= 20 { 3 } else { 8 }));
    }
    governor.history.lock().take(&governor.statistics, start + Duration::from_secs(2));
    governor.history.lock().take(&governor.statistics, start + Duration::from_secs(2));
    governor.pause(&[ClassIndex(1)], true);
    let mut state = state::State::of(&governor, start);
    state.at = "2026-01-02T03:04:05.678Z".to_owned();
    (state.resident_bytes, state.cpu_s, state.uptime_s) = (Some(6_803_456), 1.5, 93.25);
    state.control.is_set = true;
    state.control.up_since = Some("2026-01-02T03:02:32.000Z".to_owned());
    state.classes[1].mpl = Some(4);
    (state.queue, state.preemptions, state.blocked) = (vec![queued()], vec![preempted()], vec![blocked()]);
    state.targets = targets();
    state.governed.push(state::GovernedStatement {
        fingerprint: "00000000000000ff".to_owned(),
        class: "statement-00000000000000ff".to_owned(),
        limits: "rate = 5/s, guards = warn".to_owned(),
        transactions_60_s: Some(600),
        beyond_rate: Some(295),
        runaways: Some(0),
    });
    state.activity = activity();
    state.levers.push(state::Lever {
        name: "cpu shares".to_owned(),
        works: false,
        state: "failing".to_owned(),
        why: "the server's processes cannot be given shares; run as root or with CAP_SYS_NICE".to_owned(),
    });
    state
}

/// A statement of a class, one that the server has cut, and the others.
fn activity() -> state::ActivityState {
    let running = |text: Option<&str>, fingerprint: Option<&str>, class: Option<&str>, samples: u64| {
        let share = samples as f64 / 100.0;
        state::RunningStatement {
            fingerprint: fingerprint.map(str::to_owned),
            text: text.map(str::to_owned),
            class: class.map(str::to_owned),
            share,
            share_low: (share - 0.09).max(0.0),
            share_high: share + 0.09,
            samples,
            running: samples / 20,
            longest_s: 4.5,
        }
    };
    let statements = vec![
        running(Some("select * from items where title like $1"), Some("7cbb0a35b9c3e2d1"), Some("low"), 61),
        running(Some("select <i>a</i> from many"), None, None, 30),
        running(None, None, None, 9),
    ];
    state::ActivityState { looks: 60, hidden: 2, statements }
}

/// A target that cannot be met, with the last move for it.
fn targets() -> state::TargetsState {
    let mut targets = state::TargetsState::default();
    targets.promises.push(state::TargetState {
        class: "high".to_owned(),
        target: "p95 < 20ms".to_owned(),
        state: "cannot hold".to_owned(),
        why: "nothing below is left to limit; the best was 24.1 ms".to_owned(),
        since_s: 42.0,
        bound_s: Some(0.02),
        alone_s: None,
        now_s: Some(0.0252),
        transactions: 1985,
        before_s: Some(0.1558),
        best_s: Some(0.0241),
    });
    targets.levers.push(state::TargetLever {
        class: "low".to_owned(),
        lever: "mpl".to_owned(),
        now: "1".to_owned(),
        set: "4".to_owned(),
        is_limited: true,
    });
    targets.moves.push(state::TargetMove {
        at: "2026-01-02T03:03:23.001Z".to_owned(),
        class: "low".to_owned(),
        lever: "mpl".to_owned(),
        from: "2".to_owned(),
        to: "1".to_owned(),
        promised_to: "high".to_owned(),
        why: "29 of 198 transactions were beyond the target".to_owned(),
    });
    targets
}

/// The luminance of a colour `#rrggbb` (WCAG 2.1).
fn luminance(colour: &str) -> f64 {
    let part = |at: usize| {
        let part = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).expect("two hexadecimal digits")) / 255.0;
        if part <= 0.039_28 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
}

/// An operator who cannot distinguish red and green could not see which lever works. Signs and words now show it, and
/// every text contrasts with its background, in the light scheme and the dark one.
#[test]
fn the_page_can_be_read_without_colours() {
    assert!(
        LIVE_PAGE.contains(".good::before { content: \"\\2713")
            && LIVE_PAGE.contains(".bad::before { content: \"\\2717")
    );
    assert!(LIVE_PAGE.contains("[lever.state, {"));
    let schemes: Vec<&str> = LIVE_PAGE.split(":root {").skip(1).take(2).collect();
    for scheme in schemes {
        let colour = |name: &str| {
            let after = scheme.split(&format!("--{name}: ")).nth(1).unwrap_or_else(|| panic!("no colour {name}"));
            &after[..7]
        };
        for ink in ["ink", "quiet", "rate", "time", "good", "bad"] {
            for behind in ["page", "card"] {
                let (ink, behind) = (luminance(colour(ink)), luminance(colour(behind)));
                let contrast = (ink.max(behind) + 0.05) / (ink.min(behind) + 0.05);
                assert!(contrast >= 4.5, "{contrast:.1} is less than texts need (WCAG 2.1, 1.4.3): {scheme}");
            }
        }
    }
}

/// The governor saw no session at all, and `/healthz` said that all was well.
#[test]
fn who_cannot_see_is_not_well() {
    let governor = testing::governor(|settings| settings.control = Some(settings.server.clone()));
    governor.health.lock().control_up = Some(std::time::SystemTime::now());
    let why = || crate::page::health::why_not_ready(&governor);
    assert_eq!(why(), None);
    governor.health.lock().blind = Some("permission denied for view pg_stat_activity".to_owned());
    assert!(why().is_some_and(|why| why.contains("cannot see") && why.contains("permission denied")), "{:?}", why());
}
