//! Real processes of a real server on this machine, where this process may change them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_machine::cgroup::Cgroups;
use plimsoll_machine::group_folder::GroupFolder;
use plimsoll_machine::host::Host;
use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_machine::process_share::{ProcessFacts, ProcessShare, children, title};
use plimsoll_policy::{ClassIndex, Login};
use plimsoll_postgres::connection::Connection;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};
use plimsoll_postgres::url::ServerUrl;
use plimsoll_testing::{Need, skip};

use crate::governor::Governor;
use crate::registry::{BackendKey, Phase, SessionCard};
use crate::settings::{Cpu, CpuShare, for_tests};
use crate::watch;

const LOW: ClassIndex = ClassIndex(1);

fn share(process: i32) -> ProcessShare {
    ProcessFacts::of(&Host::real(), process).expect("it is there").share
}

pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(super) fn server() -> (PrivateServer, ServerUrl) {
    let mut settings = ServerSettings::for_this_machine();
    for (name, value) in [("shared_buffers", "64MB"), ("fsync", "off"), ("max_wal_size", "256MB")] {
        settings.set(name, value).unwrap();
    }
    let server = PrivateServer::start(settings).expect("these tests need a PostgreSQL server");
    let url = ServerUrl::of_socket(server.socket_folder(), server.port(), server.user(), server.database());
    (server, url)
}

pub(super) fn session(governor: &Governor, connection: &Connection) -> Arc<SessionCard> {
    testing::session(governor, connection.process_id(), LOW, Instant::now())
}

#[test]
fn processes_and_workers_of_a_low_class_get_its_share_and_lose_it() {
    let (server, url) = server();
    let mut settings = for_tests();
    (settings.server, settings.control) = (url.clone(), Some(url.clone()));
    settings.cpu = Cpu { shares: true, inheritance: true, awake: false };
    (settings.classes[0].cpu, settings.classes[1].cpu) = (CpuShare::Prompt, CpuShare::Nice(15));
    let governor = Arc::new(Governor::new(settings, Instant::now()));
    let mut connection = Connection::open(&url).unwrap();
    let process = connection.process_id();
    let before = share(process);
    let card = session(&governor, &connection);
    let watcher = watch::start(governor.clone());
    until("the agent knows whether it may", || {
        let health = governor.health.lock();
        health.control_up.is_some() && health.levers.iter().any(|lever| lever.name == "cpu shares")
    });
    let is_on = governor.health.lock().levers.iter().any(|lever| lever.name == "cpu shares" && lever.is_on);
    if !is_on {
        // Without rights nothing is given that could not be taken back.
        assert_eq!(share(process), before);
        return skip(Need::Root, "the shares of other users' processes cannot be changed and put back");
    }
    until("it has its share", || share(process) == before.with_nice(15));

    connection.run("create table scanned as select g from generate_series(1, 20000) g").unwrap();
    connection
        .run("set min_parallel_table_scan_size = 0; set parallel_setup_cost = 0; set parallel_tuple_cost = 0")
        .unwrap();
    let cancel = connection.canceller();
    let scan = std::thread::spawn(move || {
        let error = connection.run("select count(*) from scanned where pg_sleep(0.01)::text = 'never'").unwrap_err();
        (connection, error)
    });
    let worker_title = format!("parallel worker for PID {process}");
    let workers = || -> Vec<i32> {
        let all = children(&Host::real(), server.postmaster()).expect("this kernel lists children");
        all.into_iter()
            .filter(|child| title(&Host::real(), *child).is_some_and(|title| title.ends_with(&worker_title)))
            .collect()
    };
    until("there are workers with their leader's share", || {
        let workers = workers();
        !workers.is_empty()
            && workers
                .iter()
                .all(|worker| ProcessFacts::of(&Host::real(), *worker).is_none_or(|it| it.share.nice == 15))
    });
    card.state().served = ClassIndex(0);
    until("all have the nice value that they had, and short slices", || {
        share(process) == before.prompt()
            && workers()
                .iter()
                .all(|worker| ProcessFacts::of(&Host::real(), *worker).is_none_or(|it| it.share == before.prompt()))
    });
    cancel.send().unwrap();
    let (_connection, error) = scan.join().unwrap();
    assert_eq!(error.server().unwrap().code, "57014");

    card.state().served = LOW;
    until("it has its share again", || share(process).nice == 15);
    watcher.stop();
    assert_eq!(share(process), before, "a governor that ends puts everything back");
}

/// Where this process may make control groups; elsewhere nothing can be tried.
#[test]
fn processes_of_a_class_are_in_its_control_group_until_the_governor_ends() {
    let own = Cgroups::read(&Host::real());
    let Some(parent) = own.version_1_folder("cpu").or(own.version_2_folder()) else {
        return skip(Need::Cgroups, "no hierarchy of control groups is mounted");
    };
    let folder = parent.join(format!("plimsoll-agent-test-{}", std::process::id()));
    if let Err(error) = std::fs::create_dir(&folder) {
        return skip(Need::Cgroups, format!("no control group can be made: {error}"));
    }
    let (_server, url) = server();
    let mut settings = for_tests();
    (settings.server, settings.control) = (url.clone(), Some(url.clone()));
    settings.classes[1].control_groups = [folder.clone()].into();
    let governor = Arc::new(Governor::new(settings, Instant::now()));
    let connection = Connection::open(&url).unwrap();
    let process = ProcessIdentity::of(&Host::real(), connection.process_id()).unwrap();
    let group = GroupFolder::at(&Host::real(), &folder).unwrap();
    let before = group.beside(&Host::real(), process);
    let _card = session(&governor, &connection);
    let watcher = watch::start(governor.clone());
    until("the agent knows whether it may", || {
        governor.health.lock().levers.iter().any(|lever| lever.name == "control groups" && !lever.why.is_empty())
            && governor.health.lock().control_up.is_some()
    });
    let is_on = governor.health.lock().levers.iter().any(|lever| lever.name == "control groups" && lever.is_on);
    if is_on {
        until("it is in its class's group", || group.beside(&Host::real(), process).as_ref() == Some(&group));
    }
    watcher.stop();
    let after = group.beside(&Host::real(), process);
    drop(connection);
    std::fs::remove_dir(&folder).unwrap();
    assert_eq!(after, before, "a governor that ends puts everything back");
}
