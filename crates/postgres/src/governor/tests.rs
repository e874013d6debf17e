//! A governor's configuration, start and end.

use std::os::unix::fs::PermissionsExt;

use plimsoll_pg::url::ServerUrl;

use super::configuration::text;
use super::*;
use crate::server::ServerSettings;
use crate::server::options::MachineSize;

fn with(options: &[(&str, &str)]) -> ServerSettings {
    ServerSettings::for_machine(MachineSize { memory_bytes: 1 << 34, cores: 4 }).with(options).unwrap()
}

fn settings(options: &[(&str, &str)]) -> Option<GovernorSettings> {
    with(options).governor()
}

#[test]
fn every_mode_is_known_and_each_differs() {
    assert_eq!(GovernorMode::named("none"), None);
    let modes: Vec<GovernorMode> =
        GOVERNOR_MODES[1..].iter().map(|name| GovernorMode::named(name).unwrap_or_else(|| panic!("{name}"))).collect();
    for (at, mode) in modes.iter().enumerate() {
        assert!(!modes[..at].contains(mode), "{}", GOVERNOR_MODES[at + 1]);
    }
}

#[test]
fn there_is_none_unless_it_is_asked_for() {
    assert_eq!(settings(&[]), None);
    assert_eq!(settings(&[("governor_mpl", "8")]), None);
    let asked = settings(&[("governor", "on"), ("governor_mpl", "8"), ("governor_threshold", "5ms")]).unwrap();
    assert_eq!((asked.mode, asked.low_mpl, asked.look_interval), (GovernorMode::ON, Some(8), None));
    assert_eq!((asked.preemption.as_str(), asked.threshold), ("pow", Duration::from_millis(5)));
    let none = settings(&[("governor", "without-replay"), ("governor_mpl", "none")]).unwrap();
    assert_eq!((none.mode, none.low_mpl), (GovernorMode { replay: false, retry: false, ..GovernorMode::ON }, None));
}

#[test]
fn a_file_of_the_operators_own_says_everything() {
    let asked =
        settings(&[("governor_config", "shop/plimsoll.toml")]).expect("the file is enough to ask for a governor");
    assert_eq!(asked.config.as_deref(), Some(std::path::Path::new("shop/plimsoll.toml")));
    for (governor, expect) in [("on", Some(true)), ("off", Some(false)), ("none", None)] {
        let asked = settings(&[("governor", governor), ("governor_config", "plimsoll.toml")]);
        assert_eq!(asked.map(|asked| asked.config.is_some()), expect, "{governor}");
    }
    assert_eq!(settings(&[("governor_config", "none")]), None);
    let conflict = |options: &[(&str, &str)]| with(options).conflict();
    let file = ("governor_config", "plimsoll.toml");
    assert_eq!(conflict(&[file, ("governor_program", "/bin/true")]), None);
    assert_eq!(conflict(&[("governor_config", "none"), ("governor_mpl", "3")]), None);
    assert!(conflict(&[file, ("governor_mpl", "3")]).unwrap().contains("`governor_mpl`"));
    assert!(conflict(&[file, ("governor", "without-shares")]).unwrap().contains("`without-shares`"));
}

#[test]
fn the_configuration_has_the_levers_that_are_pulled() {
    let server = ServerUrl::of_socket("/tmp/a \"b\"", 5432, "me", "shop");
    let has = |options: &[(&str, &str)], line: &str| {
        let all = text((&server, &server), std::path::Path::new("/tmp/g"), "secret", &settings(options).unwrap());
        all.lines().any(|found| found == line)
    };
    let common = [("governor_mpl", "8"), ("governor_preemption", "after(50ms)"), ("governor_workers_max", "0")];
    let with = |mode: &'static str| [common[0], common[1], common[2], ("governor", mode)];
    for (mode, line, expect) in [
        ("on", "mpl = 8", true),
        ("off", "mpl = 8", false),
        ("without-admission", "mpl = 8", false),
        ("on", "auto_mpl = true", true),
        ("without-admission", "auto_mpl = true", false),
        ("on", "policy = \"after(50ms)\"", true),
        ("without-preemption", "policy = \"never\"", true),
        ("off", "policy = \"never\"", true),
        ("without-replay", "replay = false", true),
        ("on", "retry_aborted = 20", true),
        ("off", "retry_aborted = 20", false),
        ("without-retry", "retry_aborted = 0", true),
        ("on", "idle_counts_as_waiting = true", true),
        ("without-idle-preemption", "idle_counts_as_waiting = false", true),
        ("only-shares", "shares = true", true),
        ("only-shares", "limits = false", true),
        ("only-disk", "limits = true", true),
        // It is asked for every lever, and finds out which ones work.
        ("sql-only", "shares = true", true),
        ("sql-only", "workers_max = 0", true),
        ("off", "workers_max = 0", false),
        ("only-guards", "migrations = \"enforce\"", true),
        ("only-disk", "migrations = \"off\"", true),
        ("pool", "mode = \"transaction\"", true),
        ("pool", "size = 20", true),
        ("pool", "fair_by = \"application\"", true),
        ("pool", "auto_mpl = true", true),
        ("on", "mode = \"transaction\"", false),
        ("only-shares", "policy = \"never\"", true),
        ("only-shares", "inheritance = true", true),
        ("only-shares-without-inheritance", "shares = true", true),
        ("only-shares-without-inheritance", "inheritance = false", true),
        ("only-shares-without-inheritance", "policy = \"never\"", true),
        ("only-shares-and-preemption", "shares = true", true),
        ("only-shares-and-preemption", "inheritance = false", true),
        ("only-shares-and-preemption", "policy = \"after(50ms)\"", true),
        ("without-inheritance", "inheritance = false", true),
        // Our clients run a transaction again after 40001, so transactions that wait for their clients may be rolled
        // back.
        ("on", "retries = true", true),
    ] {
        assert_eq!(has(&with(mode), line), expect, "{mode}: {line}");
    }
    let promised = |mode| [("governor_target", "p95<20ms"), ("governor", mode)];
    assert!(has(&promised("on"), "target = \"p95 < 20ms\"") && has(&promised("on"), "queue_max = 100000"));
    assert!(!has(&promised("off"), "target = \"p95 < 20ms\""), "it pulls no lever");
    let all = text((&server, &server), std::path::Path::new("/tmp/g"), "secret", &settings(&with("on")).unwrap());
    assert!(all.contains(r#"socket_folders = ["/tmp/g"]"#), "{all}");
    assert!(all.contains("host=/tmp/a%20%22b%22"), "{all}");
}

/// Whoever does not read comments gets none, and whoever reads names gets those.
#[test]
fn a_mode_reads_comments_or_names_or_neither() {
    for name in &GOVERNOR_MODES[1..] {
        let mode = GovernorMode::named(name).unwrap();
        let expect = match *name {
            "beside" | "split" | "sql-only-split" => (false, true),
            "pgbouncer" => (false, false),
            _ => (true, false),
        };
        assert_eq!((mode.reads_comments(), mode.reads_names()), expect, "{name}");
    }
}

#[test]
fn what_is_behind_a_statement_moves_no_place_in_it() {
    assert_eq!(tagged("BEGIN", None), "BEGIN");
    assert_eq!(tagged("select 1 -- one", Some(1)), "select 1 -- one\n/*class='high'*/");
    let classes = [Priority::LOW, Priority::HIGH, Priority::of_level(7).unwrap()].map(class_of);
    assert_eq!(classes.map(|class| CLASSES[class]), ["low", "high", "high"]);
}

/// A stub governor that runs this shell script.
fn stand_in(folder: &std::path::Path, script: &str) -> std::path::PathBuf {
    let program = folder.join("governor");
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    program
}

#[test]
fn a_governor_that_does_not_come_up_is_told_with_its_words_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo \"$2 $(dirname \"$3\")\" >\"$(dirname \"$0\")/told\"; echo no such class >&2; exit 2";
    let program = stand_in(folder.path(), script);
    let settings = GovernorSettings { program: Some(program), ..settings(&[("governor", "on")]).unwrap() };
    let server = ServerUrl::of_socket(folder.path(), 5432, "me", "shop");
    let error = GovernorProcess::start(&server, true, settings).unwrap_err().to_string();
    assert!(error.contains("did not start") && error.contains("no such class"), "{error}");
    let told = std::fs::read_to_string(folder.path().join("told")).unwrap();
    let own = told.trim().strip_prefix("--config ").unwrap();
    assert!(!std::path::Path::new(own).exists(), "{own}");
}

/// Sessions of no client, such as those that observe the server, are of the high class and not changed.
#[test]
fn a_split_governor_sees_the_sessions_at_the_server() {
    let server = ServerUrl::of_socket("/tmp/s", 5432, "me", "shop");
    let made = |mode: &str| {
        let text = text(
            (&server, &server),
            std::path::Path::new("/tmp/g"),
            "secret",
            &settings(&[("governor", mode)]).unwrap(),
        );
        text.parse::<toml::Table>().unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    let (mut split, on) = (made("split"), made("on"));
    assert_eq!(split.remove("mode").unwrap()["direct_sessions"].as_bool(), Some(true));
    assert_eq!(split.insert("default_class".to_owned(), "low".into()), Some("high".into()));
    let rules = split.remove("rule").unwrap();
    let of = |rule: &toml::Value| ["class", "application_name"].map(|key| rule[key].as_str().unwrap().to_owned());
    let rules: Vec<_> = rules.as_array().unwrap().iter().map(of).collect();
    assert_eq!(rules, [["low", "plimsoll low"], ["high", "plimsoll high"]]);
    assert_eq!(split, on, "every lever is pulled");
}

#[test]
fn beside_a_server_sessions_say_of_which_class_they_are_by_their_names() {
    let asked =
        settings(&[("governor", "beside"), ("governor_low_share", "idle"), ("governor_low_floor", "20")]).unwrap();
    assert!(asked.mode.beside && asked.mode.shares && !asked.mode.admission && !asked.mode.replay);
    let server = ServerUrl::of_socket("/tmp/s", 5432, "me", "shop");
    let text = text((&server, &server), std::path::Path::new("/tmp/g"), "secret", &asked);
    let made: toml::Table = text.parse().unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(made["mode"]["proxy"].as_bool(), Some(false));
    assert!(made.get("listen").is_none() && made.get("server").is_none());
    let names: Vec<_> = made["rule"].as_array().unwrap().iter().map(|rule| rule["application_name"].as_str()).collect();
    assert_eq!(names, [0, 1].map(name_of_class).iter().map(|name| Some(name.as_str())).collect::<Vec<_>>());
    let low = &made["class"].as_array().unwrap()[1];
    assert_eq!((low["preemptible"].as_str(), low["cpu"].as_str()), (Some("retry-by-application"), Some("idle")));
    assert_eq!(low["cpu_floor_percent"].as_integer(), Some(20));
}

#[test]
fn texts_within_messages_name_the_class() {
    let message = |tag: u8, body: &[u8]| [&[tag][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat();
    let request =
        [message(b'P', b"s1\0select $1\0\0\0"), message(b'B', b"\0s1\0"), message(b'Q', b"commit\0")].concat();
    assert_eq!(*class_in_messages(&request, None), request[..]);
    let comment = tagged("", Some(1)).into_owned();
    let parse = format!("s1\0select $1{comment}\0\0\0");
    let expect = [
        message(b'P', parse.as_bytes()),
        message(b'B', b"\0s1\0"),
        message(b'Q', format!("commit{comment}\0").as_bytes()),
    ];
    assert_eq!(*class_in_messages(&request, Some(1)), expect.concat()[..]);
    assert_eq!(*class_in_messages(&request[..7], Some(1)), request[..7], "what is no message is left as it is");
}
