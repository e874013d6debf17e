//! Transactions beside queries, which read one export after another.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use plimsoll_cluster::ClusterDatabase;
use plimsoll_cluster::options::ClusterOptions;
use plimsoll_testing::says;
use plimsoll_workload::benchmark::{Benchmark, LoadProgress};
use plimsoll_workload::cancelling::cancelling;
use plimsoll_workload::database::{Database, DatabaseError, Login, Session};
use plimsoll_workload::driver::{ClientOptions, Drive, WarmUp, Window, drive};
use plimsoll_workload::registry::Catalog;
use plimsoll_workload::tpch::cells::{TextRow, text_rows};
use tempfile::TempDir;

use crate::program::{items, json, names, run};

/// A cluster with the tables of TPC-C, and the folder in which it keeps its own.
fn live(every: &str) -> (ClusterDatabase, Arc<dyn Benchmark>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut options = ClusterOptions::of_url("cluster:").unwrap();
    let place = folder.path().display().to_string();
    for (name, value) in [("folder", place.as_str()), ("dop", "2"), ("export_every", every), ("query_share", "nice-5")]
    {
        options.set(name, value).unwrap();
    }
    let program = Path::new(env!("CARGO_BIN_EXE_plimsoll"));
    let cluster = ClusterDatabase::open(&options, program, plimsoll_target::cluster_loader).unwrap();
    let transactions = BTreeMap::from([("mix".to_owned(), "transactions".into())]);
    let (benchmark, _) = Catalog::new(7).of_spec("ch:1", &transactions).unwrap();
    benchmark.load(&cluster, &LoadProgress { report: &|_, _, _| (), stop: &AtomicBool::new(false) }).unwrap();
    (cluster, benchmark, folder)
}

/// Runs transactions for a second.
fn transact(cluster: &ClusterDatabase, benchmark: &dyn Benchmark) {
    let options = ClientOptions { clients: 2, ..ClientOptions::default() };
    let drives = [Drive { name: "oltp", benchmark, database: cluster, options: &options }];
    let window = Window { warmup: WarmUp::For(Duration::ZERO), measure: Duration::from_secs(1) };
    let measured = drive(&drives, window, &mut (), &AtomicBool::new(false)).unwrap();
    assert!(measured.workloads[0].measured.all.completed > 0);
}

fn rows(session: Result<Box<dyn Session>, DatabaseError>, sql: &str) -> Vec<TextRow> {
    text_rows(&session.unwrap().query(sql).unwrap().batches).unwrap()
}

const ALL: &str = "select count(*), sum(ol_amount), max(ol_o_id), (select sum(d_next_o_id) from district), \
                   (select sum(w_ytd) from warehouse), (select sum(s_ytd) from stock) from order_line";

/// Once Ctrl-C waited for the export that a run begins with.
#[test]
fn an_export_that_somebody_waits_for_can_be_cancelled() {
    let (cluster, benchmark, _folder) = live("3600s");
    let schema = benchmark.schema();
    let stopped = (0..20).find_map(|_| {
        transact(&cluster, &*benchmark);
        cancelling(&cluster, &AtomicBool::new(true), || cluster.refresh(schema)).err()
    });
    let error = stopped.expect("an export of twenty takes longer than a look for Ctrl-C").to_string();
    says("the export", &error, "stopped");
    cluster.refresh(schema).unwrap();
    let on_cluster = rows(cluster.query_session(schema, Login::default()), ALL);
    assert_eq!(on_cluster, rows(cluster.session(schema), ALL));
}

/// Without an export queries see what was loaded, and after one what the engine has.
#[test]
fn queries_see_the_last_export_and_all_of_it() {
    let (cluster, benchmark, _folder) = live("3600s");
    let schema = benchmark.schema();
    let on_cluster = || rows(cluster.query_session(schema, Login::default()), ALL);
    let on_engine = || rows(cluster.session(schema), ALL);
    let mut watch = cluster.freshness().unwrap().unwrap();
    let loaded = on_engine();
    for _ in 0..3 {
        let before = on_cluster();
        transact(&cluster, &*benchmark);
        assert_eq!(on_cluster(), before, "nothing was exported");
        assert_ne!(on_engine(), before);
        let state = watch.look().unwrap();
        assert!(state.readable == state.applied && state.applied < state.published, "{state:?}");
        cluster.refresh(schema).unwrap();
        assert_eq!(on_cluster(), on_engine());
        let state = watch.look().unwrap();
        assert_eq!((state.applied, state.readable), (state.published, state.published));
    }
    assert_ne!(on_engine(), loaded);
    assert_eq!(cluster.warnings(), [""; 0]);
    cluster.drop_tables(schema).unwrap();
    let gone = cluster.query_session(schema, Login::default()).err().unwrap().to_string();
    says("tables that were dropped", &gone, "do not exist; load them first");
}

/// The number of lines that orders have (condition 4 of TPC-C 3.3.2) is that of the lines in every single answer, and no query
/// loses its files to the exports that are made meanwhile.
#[test]
fn every_answer_is_of_one_state_while_exports_go_on() {
    let (cluster, benchmark, folder) = live("1ms");
    let schema = benchmark.schema();
    let sql = "select (select sum(o_ol_cnt) from orders) - (select count(*) from order_line), max(o_id), count(*) from orders";
    let has_ended = AtomicBool::new(false);
    let states = thread::scope(|scope| {
        let queries = [(); 2].map(|()| {
            scope.spawn(|| {
                let mut states = Vec::new();
                while !has_ended.load(Ordering::Relaxed) {
                    let found = rows(cluster.query_session(schema, Login::default()), sql);
                    assert_eq!(found[0][0].as_deref(), Some("0"), "{found:?}");
                    states.push(found[0][2].clone());
                }
                states.dedup();
                states.len()
            })
        });
        for _ in 0..4 {
            transact(&cluster, &*benchmark);
        }
        has_ended.store(true, Ordering::Relaxed);
        queries.map(|queries| queries.join().unwrap())
    });
    assert!(states.iter().all(|states| *states >= 2), "answers of {states:?} states");
    assert_eq!(cluster.warnings(), [""; 0]);
    drop(cluster);
    assert_eq!(names(folder.path()), [""; 0]);
}

/// The report of a study has what each side keeps and how old answers were.
#[test]
fn a_study_runs_its_queries_on_a_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let study = |olap: &str, more: &[&str]| {
        let common = ["study", "--quick", "--no-line", "--budget", "10s", "--json", "--out", "out", "--olap", olap];
        run(&[&common[..], more].concat(), folder.path())
    };
    let document = json(&study("cluster:?workers=2&dop=1", &[]));
    let settings = &document["experiment"]["settings"];
    assert_eq!((&settings["target.url"], &settings["target.export_every"]), (&"cluster:".into(), &"1s".into()));
    for estimate in items(&document["estimates"]) {
        assert!(estimate["throughput_per_s"]["value"].as_f64() > Some(0.0), "{estimate}");
        if estimate["arm"] == "together" {
            let staleness = &estimate["device"]["freshness"]["staleness_us"]["max"];
            assert!(staleness.as_f64() > Some(0.0), "{estimate}");
        }
    }
    for (olap, more, expect) in [
        ("cluster:?workers=0", &[][..], "a whole number from 1 to 64"),
        ("cluster:", &["--target", "postgres:"][..], "leave --target out"),
        ("cluster://one:7450?data=out", &[][..], "needs workers that a study starts itself"),
        ("cluster:?data=out", &[][..], "leave data out"),
    ] {
        says(olap, &crate::program::said(&study(olap, more)), expect);
    }
}
