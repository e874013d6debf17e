//! What the processes of a query receive from each other, against what a network between them sees.

use std::path::Path;

use plimsoll_cluster::ClusterDatabase;
use plimsoll_cluster::options::ClusterOptions;
use plimsoll_testing::says;
use plimsoll_workload::database::{Database, Login, NetworkBytes, Session};
use plimsoll_workload::registry::Catalog;

use crate::command_line::{SECRET, worker_with};
use crate::pair::{WORKLOAD, exported};
use crate::recording_proxy::RecordingProxy;

/// Rows of `lineitem` in the data.
const ROWS: u64 = 300_000;

/// A key of about 31 bits without a pattern, another one for nearly every row, so that no compression makes it shorter.
const KEY: &str =
    "(l_orderkey * 7919 + l_linenumber * 104729 + l_partkey * 1299709 + l_suppkey * 15485863) * 48271 % 2147483647";

/// What a query makes processes receive, and all bytes that go over the network meanwhile.
fn measured(session: &mut dyn Session, proxies: &[RecordingProxy], sql: &str) -> (NetworkBytes, u64) {
    let seen = || proxies.iter().map(RecordingProxy::bytes).sum::<u64>();
    let known = |session: &mut dyn Session| session.usage().network_bytes.expect("all workers have told their part");
    let (before, seen_before) = (known(session), seen());
    session.query(sql).unwrap();
    let after = known(session);
    let received = NetworkBytes {
        shuffle: after.shuffle - before.shuffle,
        broadcast: after.broadcast - before.broadcast,
        gather: after.gather - before.gather,
    };
    (received, seen() - seen_before)
}

/// The user's workers behind the proxies, as a cluster.
fn cluster(folder: &Path, proxies: &[RecordingProxy], broadcast_joins: &str) -> ClusterDatabase {
    let addresses: Vec<&str> = proxies.iter().map(|proxy| proxy.address.as_str()).collect();
    let mut options = ClusterOptions::of_url(&format!("cluster://{}", addresses.join(","))).unwrap();
    let file = |name: &str| folder.join(name).display().to_string();
    std::fs::write(file("secret"), SECRET).unwrap();
    let (data, secret) = (file("out"), file("secret"));
    let files = [("data", data.as_str()), ("secret_file", &secret)];
    let all = [&files[..], &[("dop", "2"), ("partition_kib", "64"), ("broadcast_joins", broadcast_joins)]].concat();
    all.iter().for_each(|(name, value)| options.set(name, value).unwrap());
    ClusterDatabase::open(&options, Path::new("none"), |_, _| unreachable!("the data are given")).unwrap()
}

#[test]
fn bytes_between_processes_are_those_that_the_network_sees() {
    let folder = exported(WORKLOAD);
    let workers = [(); 2].map(|()| worker_with(folder.path(), SECRET, &["--listen", "127.0.0.1:0"]));
    let proxies = workers.each_ref().map(|(_, address)| RecordingProxy::before(address));
    let (benchmark, _) = Catalog::new(7).of_spec(WORKLOAD, &Default::default()).unwrap();
    let database = cluster(folder.path(), &proxies, "off");
    let mut session = database.query_session(benchmark.schema(), Login::default()).unwrap();

    // The files have the number of their rows, so the coordinator asks no worker.
    let (none, _) = measured(&mut *session, &proxies, "select count(*) from lineitem");
    assert_eq!(none, NetworkBytes::default());
    // A count of each partition goes to the coordinator.
    let (few, _) = measured(&mut *session, &proxies, "select count(*) from lineitem where l_quantity > 10");
    assert!(few.gather > 0 && few.all() < 10_000 && few.all() == few.gather, "{few:?}");

    // Half of the keys belong to the other worker.
    let least = ROWS / 2 * 31 / 8;
    let sql = format!("select k, count(*) from (select {KEY} as k from lineitem) a group by k having count(*) > 9");
    let (shuffled, seen) = measured(&mut *session, &proxies, &sql);
    assert!((least..2 * least).contains(&shuffled.shuffle) && shuffled.gather < 10_000, "{shuffled:?}, {least}");
    // Plans, metrics and the headers of HTTP/2 are the rest.
    assert!((seen * 8 / 10..seen).contains(&shuffled.all()), "{shuffled:?} of {seen} bytes");

    // All keys go to the coordinator.
    let least = ROWS * 31 / 8;
    let (gathered, seen) = measured(&mut *session, &proxies, &format!("select count(distinct {KEY}) from lineitem"));
    assert!((least..2 * least).contains(&gathered.all()), "{gathered:?}, {least}");
    assert!((seen * 8 / 10..seen).contains(&gathered.all()), "{gathered:?} of {seen} bytes");

    // Few suppliers go to each worker, and the lines stay where they are.
    let sql = "select count(*) from lineitem join supplier on l_suppkey = s_suppkey where s_acctbal > 0";
    let database = cluster(folder.path(), &proxies, "on");
    says("the plan", &database.explain(benchmark.schema(), sql).unwrap(), "NetworkBroadcastExec");
    let mut session = database.query_session(benchmark.schema(), Login::default()).unwrap();
    let (broadcast, _) = measured(&mut *session, &proxies, sql);
    assert!(broadcast.broadcast > 0 && broadcast.all() < 50_000, "{broadcast:?}");
}
