//! Keys that have an effect in one mode only.

use std::path::Path;

use crate::means_nothing;
use crate::read::{Config, Surroundings, parse};

const BESIDE: &str = "control = \"postgres://plimsoll@db.example\"\n[mode]\nproxy = false\n";

fn read(text: &str) -> Result<Config, String> {
    let surroundings = Surroundings { folder: Path::new("/etc"), environment: &|_| None, classes: &[] };
    parse(text, "x.toml", &surroundings).map_err(|error| error.to_string())
}

#[test]
fn keys_of_the_console_are_the_same_as_those_of_files() {
    for key in ["class.low.mpl", "class.a.b.retries", "admission.mpl", "listen.workers", "trust_clients"] {
        assert!(means_nothing(key, true).is_some(), "{key}");
    }
    for key in ["class.low.cpu", "class.low.preemptible", "preemption.policy", "cpu.shares", "class.mpl.cpu"] {
        assert_eq!(means_nothing(key, true), None, "{key}");
    }
}

#[test]
fn the_least_beside_a_server_is_its_control_login() {
    let Config { settings, warnings } = read(BESIDE).unwrap();
    assert!(settings.is_beside && settings.server.address() == "db.example:5432");
    assert_eq!(settings.listen.addresses, ["127.0.0.1:6432".parse().unwrap()], "the console");
    assert!(!settings.described().iter().any(|(key, _)| key.starts_with("listen.") || key.ends_with(".mpl")));
    assert!(warnings.iter().any(|warning| warning.contains("only tracks")), "{warnings:?}");
    let settings = read(&format!("{BESIDE}[admin]\nsocket_folder = \"run\"\n")).unwrap().settings;
    assert_eq!(settings.listen.socket_folders, [Path::new("/etc/run")]);
    assert!(settings.listen.addresses.is_empty());
    let without = read("[mode]\nproxy = false\n").unwrap_err();
    assert!(without.contains("the key `control` is missing here"), "{without}");
}

#[test]
fn sessions_at_the_server_are_seen_by_the_control_connection() {
    let text = "server = \"postgres://u@db.example\"\n[mode]\ndirect_sessions = true\n";
    let missing = read(text).unwrap_err();
    assert!(missing.starts_with("x.toml:3:19: sessions at the server are seen by"), "{missing}");
    let Config { settings, warnings } = read(&format!(
        "control = \"postgres://plimsoll@db.example\"\n{text}\
         [[class]]\nname = \"high\"\npriority = \"high\"\ntarget = \"p95 < 20ms\"\n[[class]]\nname = \"low\"\npriority = \"low\"\n"
    ))
    .unwrap();
    assert!(settings.governs_direct && !settings.is_beside && settings.observes());
    assert!(warnings.iter().any(|warning| warning.contains("`direct_sessions`")), "{warnings:?}");
    let beside = read(&format!("{BESIDE}direct_sessions = true\n")).unwrap_err();
    assert!(beside.contains("`direct_sessions` has no effect beside a server"), "{beside}");
}

#[test]
fn a_class_opts_in_to_cancels() {
    let class = |preemptible: &str| {
        let text = format!("{BESIDE}[[class]]\nname = \"low\"\npriority = \"low\"\npreemptible = {preemptible}\n");
        read(&text).map(|config| {
            let described = config.settings.described();
            let value = |key: &str| described.iter().find(|(other, _)| other == key).map(|(_, value)| value.clone());
            (config.settings.classes[0].preemptible, config.settings.classes[0].retries, value("class.low.preemptible"))
        })
    };
    let said = |word: &str| Some(word.to_owned());
    assert_eq!(class("\"retry-by-application\""), Ok((true, true, said("retry-by-application"))));
    assert_eq!(class("true"), Ok((true, false, said("true"))));
    assert_eq!(class("false"), Ok((false, false, said("false"))));
    let wrong = class("\"retry\"").unwrap_err();
    assert!(wrong.starts_with("x.toml:7:15: ") && wrong.contains("retry-by-application"), "{wrong}");
    let in_path = "server = \"postgres://u@a\"\n[[class]]\nname = \"low\"\npriority = \"low\"\npreemptible = \"retry-by-application\"\n";
    let wrong = read(in_path).unwrap_err();
    assert!(wrong.contains("is for a governor beside its server"), "{wrong}");
}

#[test]
fn keys_of_the_other_mode_are_refused_at_their_places() {
    let text = format!(
        "trust_clients = true\n{BESIDE}[listen]\nclients_max = 5\n[[class]]\nname = \"low\"\npriority = \"low\"\nmpl = 3\n\
         retries = true\n[admission]\nmpl = 4\n[preemption]\nreplay_bytes_max = \"1MiB\"\npolicy = \"pow\"\n"
    );
    let told = read(&text).unwrap_err();
    let places: Vec<&str> = told.lines().map(|line| line.split(": `").next().unwrap_or(line)).collect();
    assert_eq!(
        places,
        ["x.toml:1:1", "x.toml:5:2", "x.toml:10:1", "x.toml:11:1", "x.toml:12:2", "x.toml:15:1"],
        "{told}"
    );
    assert!(told.contains("write preemptible = \"retry-by-application\""), "{told}");
    let told = read("server = \"postgres://u@a\"\n[admin]\naddress = \"127.0.0.1:1\"\n").unwrap_err();
    assert!(told.starts_with("x.toml:3:1: `address` has no effect in the connection path"), "{told}");
}

#[test]
fn poolers_in_front_of_the_server_are_named_by_their_consoles() {
    let url = "postgres://stats@127.0.0.1:6432/pgbouncer";
    let settings = read(&format!("{BESIDE}pgbouncer = [\"{url}\"]\n")).unwrap().settings;
    assert_eq!(settings.pgbouncers.len(), 1);
    assert_eq!((settings.pgbouncers[0].port, settings.pgbouncers[0].database.as_str()), (6432, "pgbouncer"));
    let wrong = read(&format!("{BESIDE}pgbouncer = [\"{url}\", \"mysql://x\"]\n")).unwrap_err();
    assert!(wrong.starts_with("x.toml:4:59: "), "{wrong}");
    let in_path = format!("server = \"postgres://u@a\"\n[mode]\npgbouncer = [\"{url}\"]\n");
    let wrong = read(&in_path).unwrap_err();
    assert!(wrong.starts_with("x.toml:3:1: `pgbouncer` has no effect in the connection path"), "{wrong}");
}

#[test]
fn peers_have_a_port_or_a_socket() {
    let peers = |list: &str| read(&format!("server = \"postgres://u@a\"\n[listen]\npeers = [{list}]\n"));
    let settings = peers(r#""db2:6432", "[::1]:6432", "run/.s.PGSQL.6432""#).unwrap().settings;
    let shown: Vec<String> = settings.listen.peers.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["db2:6432", "[::1]:6432", "/etc/run/.s.PGSQL.6432"]);
    for wrong in ["db2", "db2:", "db2:x", ":6432", "::1:6432", "db2:0"] {
        let told = peers(&format!("\"{wrong}\"")).unwrap_err();
        assert!(told.starts_with("x.toml:3:10: ") && told.contains("is not the address of a governor"), "{told}");
    }
}
