//! A governor that has nothing of its server but the connection, as experiments start it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use plimsoll_postgres::governor::{GovernorMode, GovernorProcess, GovernorSettings};
use plimsoll_testing::{Need, skip, until};

use super::process::{open, start_server, url};

fn settings(mode: &str, program: std::path::PathBuf) -> GovernorSettings {
    GovernorSettings {
        low_floor: None,
        pool_size: 20,
        awake: false,
        target: None,
        mode: GovernorMode::named(mode).unwrap(),
        low_mpl: Some(1),
        low_workers_max: Some(0),
        preemption: "pow".to_owned(),
        threshold: Duration::from_millis(2),
        look_interval: None,
        low_share: "nice-10".to_owned(),
        config: None,
        program: Some(program),
    }
}

/// It is asked for every lever, sees no process of the server, and says what remains. Admission, and rollbacks by a role
/// that is no superuser, work.
#[test]
fn one_without_the_servers_machine_finds_out_what_works() {
    if !rustix::process::geteuid().is_root() {
        return skip(Need::Root, "only root may make namespaces and become another user");
    }
    let server = start_server();
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // The other user may not enter the folder of this program.
    let own = folder.path().join("own");
    fs::copy(std::env::current_exe().unwrap(), &own).unwrap();
    let program = folder.path().join("plimsoll");
    let script = format!(
        "#!/bin/sh\n{}=\"$3\" exec {} governor --exact --nocapture --test-threads=1\n",
        super::SETTINGS,
        own.display()
    );
    fs::write(&program, script).unwrap();
    for file in [&own, &program] {
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for mode in ["sql-only", "sql-only-split"] {
        let settings = settings(mode, program.clone());
        let governor = GovernorProcess::start(&url(&server, server.user()), true, settings)
            .unwrap_or_else(|error| panic!("{mode}: {error}"));
        let status = fs::read_to_string(format!("/proc/{}/status", governor.id())).unwrap();
        for line in ["Uid:\t65534\t", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000"] {
            assert!(status.contains(line), "{mode}: no {line:?} in {status}");
        }
        let lever = |name: &str| {
            let levers = governor.levers().unwrap_or_else(|error| panic!("{mode}: {error}"));
            levers.into_iter().find(|(other, ..)| other == name).unwrap_or_else(|| panic!("{mode}: no {name}"))
        };
        until("the governor has asked the server", || lever("control connection").1);
        until("it has tried the server's processes", || !lever("cpu shares").2.contains("not known yet"));
        let (_, works, why) = lever("preemption");
        assert!(works && why.contains("the role plimsoll_monitor cancels by pg_cancel_backend"), "{mode}: {why}");
        assert!(lever("admission").1 && lever("replay").1, "{mode}");
        for name in ["cpu shares", "inheritance", "disk limits"] {
            assert!(!lever(name).1, "{mode}: {name} cannot work");
        }
        let (_, _, why) = lever("host");
        assert!(why.starts_with("by SQL alone: admission, replay, "), "{mode}: {why}");
        if mode == "sql-only-split" {
            // pg_monitor is enough for that.
            until("the governor sees the sessions at the server", || lever("sessions").1);
        }
        // A client comes through it.
        let mut client = open(governor.url());
        assert_eq!(client.text("select 1").unwrap().as_deref(), Some("1"));
    }
}
