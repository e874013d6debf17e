//! Real processes of a real server on this machine, if this process may change them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Instant;

use plimsoll_machine::groups::{Cgroups, GroupFolder};
use plimsoll_machine::host::Host;
use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_machine::process_share::{ProcessFacts, ProcessShare, children, title};
use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;
use plimsoll_policy::ClassIndex;
use plimsoll_postgres::server::PrivateServer;
use plimsoll_testing::{Need, skip, until};

use crate::governor::Governor;
use crate::registry::SessionCard;
use crate::settings::{Cpu, CpuShare, Settings};
use crate::{testing, watch};

const LOW: ClassIndex = ClassIndex(1);

fn share(process: i32) -> ProcessShare {
    ProcessFacts::of(&Host::real(), process).expect("it is there").share
}

pub(super) fn server() -> (PrivateServer, ServerUrl) {
    let server = testing::server(&[("shared_buffers", "64MB"), ("fsync", "off"), ("max_wal_size", "256MB")]);
    let url = testing::url(&server);
    (server, url)
}

/// A governor of the given server.
pub(super) fn governor(url: &ServerUrl, change: impl FnOnce(&mut Settings)) -> Arc<Governor> {
    testing::governor(|settings| {
        (settings.server, settings.control) = (url.clone(), Some(url.clone()));
        change(settings);
    })
}

/// A query with parallel workers, which runs until it is cancelled.
pub(super) fn scan_in_parallel(mut connection: Connection) -> JoinHandle<Connection> {
    connection.run("create table scanned as select g from generate_series(1, 20000) g").unwrap();
    let cheap = "set min_parallel_table_scan_size = 0; set parallel_setup_cost = 0; set parallel_tuple_cost = 0";
    connection.run(cheap).unwrap();
    std::thread::spawn(move || {
        let error = connection.run("select count(*) from scanned where pg_sleep(0.01)::text = 'never'").unwrap_err();
        assert_eq!(error.server().unwrap().code, "57014");
        connection
    })
}

/// The parallel workers of a process.
pub(super) fn workers(server: &PrivateServer, leader: i32) -> BTreeSet<i32> {
    let title_of_workers = format!("parallel worker for PID {leader}");
    let all = children(&Host::real(), server.postmaster()).expect("this kernel lists children").into_iter();
    all.filter(|child| title(&Host::real(), *child).is_some_and(|title| title.ends_with(&title_of_workers))).collect()
}

pub(super) fn session(governor: &Governor, connection: &Connection) -> Arc<SessionCard> {
    testing::session(governor, connection.process_id(), LOW, Instant::now())
}

#[test]
fn processes_and_workers_of_a_low_class_get_its_share_and_lose_it() {
    let (server, url) = server();
    let governor = governor(&url, |settings| {
        settings.cpu = Cpu { shares: true, inheritance: true, awake: false };
        (settings.classes[0].cpu, settings.classes[1].cpu) = (CpuShare::Prompt, CpuShare::Nice(15));
    });
    let connection = Connection::open(&url).unwrap();
    let process = connection.process_id();
    let before = share(process);
    let card = session(&governor, &connection);
    let watcher = watch::start(governor.clone());
    until("the agent knows whether it may", || {
        governor.health.lock().control_up.is_some() && governor.lever("cpu shares").is_some()
    });
    if !governor.lever("cpu shares").is_some_and(|lever| lever.is_on) {
        // Without the right to restore a change, no change is made.
        assert_eq!(share(process), before);
        return skip(Need::Root, "the shares of other users' processes cannot be changed and put back");
    }
    until("it has its share", || share(process) == before.with_nice(15));

    let cancel = connection.canceller();
    let scan = scan_in_parallel(connection);
    let all_workers = |is_so: &dyn Fn(ProcessShare) -> bool| {
        workers(&server, process)
            .into_iter()
            .all(|worker| ProcessFacts::of(&Host::real(), worker).is_none_or(|facts| is_so(facts.share)))
    };
    until("there are workers with their leader's share", || {
        !workers(&server, process).is_empty() && all_workers(&|share| share.nice == 15)
    });
    card.state().served = ClassIndex(0);
    let at_work = |count| governor.statistics.class(LOW).inside.store(count, Ordering::Relaxed);
    at_work(1);
    until("all have the nice value that they had, and short slices", || {
        share(process) == before.prompt() && all_workers(&|share| share == before.prompt())
    });
    at_work(0);
    until("no class that gets less is at work", || share(process) == before);
    cancel.send().unwrap();
    let _connection = scan.join().unwrap();

    card.state().served = LOW;
    until("it has its share again", || share(process).nice == 15);
    watcher.stop();
    assert_eq!(share(process), before, "a governor that ends puts everything back");
}

/// Tests nothing where this process may not create control groups.
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
    let governor = governor(&url, |settings| settings.classes[1].control_groups = [folder.clone()].into());
    let connection = Connection::open(&url).unwrap();
    let process = ProcessIdentity::of(&Host::real(), connection.process_id()).unwrap();
    let group = GroupFolder::at(&Host::real(), &folder).unwrap();
    let before = group.beside(&Host::real(), process);
    let _card = session(&governor, &connection);
    let watcher = watch::start(governor.clone());
    until("the agent knows whether it may", || {
        governor.lever("control groups").is_some_and(|lever| !lever.why.is_empty())
            && governor.health.lock().control_up.is_some()
    });
    if governor.lever("control groups").is_some_and(|lever| lever.is_on) {
        until("it is in its class's group", || group.beside(&Host::real(), process).as_ref() == Some(&group));
    }
    watcher.stop();
    let after = group.beside(&Host::real(), process);
    drop(connection);
    std::fs::remove_dir(&folder).unwrap();
    assert_eq!(after, before, "a governor that ends puts everything back");
}
