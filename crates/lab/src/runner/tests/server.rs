//! Runs on a database whose sessions are served by processes, as on a server: here all by this one.

use std::collections::BTreeMap;

use plimsoll_workload::driver::ClientOptions;
use plimsoll_workload::registry::make;

use super::*;

fn record(watch: &str, measure: &str) -> RunRecord {
    let text = format!(
        "name = \"server\"\n[target]\nurl = \"memory:\"\noptions = {{ watch = \"{watch}\" }}\n[[workload]]\nname = \"shop\"\n\
         kind = \"rows\"\nscale = 0.001\n[run]\nothers_max = 1000\nwarmup = \"0s\"\nmeasure = \"{measure}\"\nrepeats = 1\n"
    );
    run(&text).1.remove(0)
}

#[test]
fn a_server_is_looked_at_while_the_window_is_open() {
    let record = record("sound", "1100ms");
    let point = &record.point;
    assert!(point.valid, "{:?}", point.why_invalid);
    let sampler = &point.server.as_ref().expect("somebody looked").sampler;
    assert!(sampler.looks > 0 && sampler.ended.is_none() && sampler.duty < 1.0, "{sampler:?}");
    let shop = &point.workloads[0];
    let on_server = shop.server.as_ref().expect("it is on a server");
    assert_eq!((on_server.seen.lock, on_server.seen.sum()), (sampler.looks, sampler.looks));
    let share = shop.all.time_share.expect("requests were under way");
    let sum: f64 = share.parts().iter().flatten().sum();
    assert!((sum - 1.0).abs() < 1e-9, "{share:?}");
    // A machine that is too busy for enough looks has no share.
    assert_eq!(share.lock.is_some(), sampler.looks >= 100, "{share:?} {sampler:?}");
    assert_eq!(share.io, share.lock.map(|_| 0.0));
    let samples: u64 = shop.transactions.values().filter_map(|part| part.samples).sum();
    assert_eq!(samples, on_server.under_way);
    assert!(record.warnings.iter().any(|warning| warning.starts_with("no statistics of statements")));
}

#[test]
fn a_watch_that_dies_makes_the_run_invalid_and_says_why() {
    let record = record("dying", "300ms");
    let expect =
        "the server could not be watched to the end of the window: the connection was lost: terminating connection";
    assert_eq!((record.point.valid, record.point.why_invalid.as_deref()), (false, Some(expect)));
    assert_eq!(record.point.server.expect("somebody looked").sampler.looks, 2);
    assert!(record.point.workloads[0].all.completed > 0, "what the clients did is known");
}

#[test]
fn without_a_watch_the_scheduler_s_books_are_what_there_is() {
    let record = record("refused", "50ms");
    assert!(record.point.valid && record.point.server.is_none());
    let share = record.point.workloads[0].all.time_share.expect("requests were under way");
    assert_eq!((share.lock, share.io, share.client), (None, None, None));
    for reason in ["what the server's processes do is not seen: too many connections", "no statistics of statements"] {
        assert!(record.warnings.iter().any(|warning| warning == reason), "{:?}", record.warnings);
    }
}

#[test]
fn a_copy_for_queries_is_looked_at_and_one_that_stands_still_makes_the_run_invalid() {
    let kept_up = record("copied", "1100ms");
    assert!(kept_up.point.valid, "{:?}", kept_up.point.why_invalid);
    let whole = kept_up.point.device.freshness.expect("somebody looked");
    let lag_us = whole.lag_us.and_then(|lag| lag.p50).expect("there were looks");
    assert!(whole.lambda > Some(0.0) && lag_us >= 20_000.0, "{whole:?}");
    assert!(kept_up.samples[0].device.freshness.is_some(), "and in its seconds");
    let why = record("stuck", "300ms").point.why_invalid.expect("it holds nothing of the window");
    assert!(why.starts_with("queries read none of the window's changes"), "{why}");
    let unseen = record("unseen", "50ms");
    assert!(unseen.point.valid && unseen.point.device.freshness.is_none());
    let reason = "how fresh the data are that queries read is not seen: too many connections";
    assert!(unseen.warnings.iter().any(|warning| warning == reason), "{:?}", unseen.warnings);
    let figure = crate::figures::figure("device.freshness.lag_us.p95");
    let reading = crate::figures::Reading::of_run(&unseen.point, &unseen.point.workloads[0]);
    let told = figure.read(&reading, crate::figures::FigureArgument::Nothing).unwrap_err();
    assert!(told.contains("`standby=1` gives them one"), "{told}");
}

#[test]
fn plans_are_asked_for_once_for_each_setting_and_load() {
    let (benchmark, _) = make("tpch", Some(0.01), &BTreeMap::new(), 7).expect("there is TPC-H");
    let (targets, options) = (Watched::default(), [("watch".to_owned(), "sound".to_owned())].into());
    let database = targets.target("memory:", &options).and_then(|target| target.open()).expect("it is in memory");
    database.create(benchmark.schema()).expect("new");
    let options = ClientOptions::default();
    let drives =
        [Drive { name: "olap", benchmark: benchmark.as_ref(), database: database.as_ref(), options: &options }];
    let mut plans = Plans::default();
    let mut asked = |setting, generation| {
        let (mut warnings, before) = (Vec::new(), targets.seen().plans);
        let found = plans.of(setting, &drives, generation, &mut warnings);
        (found.len(), targets.seen().plans - before, warnings)
    };
    // The second query reads other tables, which the fake does not know.
    let unknown = vec!["olap: not all plans of its queries are known: relation does not exist".to_owned()];
    assert_eq!(asked(0, 1), (1, 2, unknown.clone()));
    assert_eq!(asked(0, 1), (1, 0, Vec::new()));
    assert_eq!(asked(1, 1), (1, 2, unknown.clone()));
    assert_eq!(asked(0, 2), (1, 2, unknown));
}
