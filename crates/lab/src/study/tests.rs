//! The default study is an experiment that can be run.

use super::*;
use crate::analysis::made_up;
use crate::plan::{Plan, Reload, Search};

const URL: &str = "postgres://me:\"x\\y\"@host/db?a='b'&c=ü";

fn plan(study: &Study<'_>) -> Plan {
    made_up::plan(&study.experiment(study.shortest()))
}

#[test]
fn it_resolves_on_machines_of_any_size() {
    let options: BTreeMap<String, String> = [
        ("dop", "2"),
        ("search_path", "\"my schema\", 'other'"),
        ("odd key = [x]\n\"y\"", "back\\slash\ttab\nline\u{1}\u{7f}"),
        ("empty", ""),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    for cores in [0, 1, 2, 200] {
        for quick in [false, true] {
            for free_memory in [None, Some(1 << 30), Some(1 << 40)] {
                let plan = plan(&Study {
                    url: URL,
                    options: &options,
                    cores,
                    free_memory,
                    quick,
                    seed: 11,
                    sides: Sides::default(),
                    line: None,
                    budget: None,
                });
                assert_eq!((plan.base.url.as_str(), &plan.base.options), (URL, &options));
                let arms: Vec<&str> = plan.arms.iter().map(|arm| arm.name.as_str()).collect();
                assert_eq!(arms, ["alone:oltp", "alone:olap", "together"]);
                let [oltp, olap] = &plan.base.workloads[..] else { panic!("two workloads") };
                let clients = cores.clamp(1, 32);
                assert_eq!((oltp.clients.clients, olap.clients.clients), (clients, 1));
                let warehouses = if quick { clients.min(2) } else { clients };
                assert_eq!(oltp.scale, warehouses as f64);
                assert_eq!(olap.scale, if quick { 0.02 } else { 0.05 });
                assert_eq!((plan.run.seed, plan.run.reload, plan.run.search), (11, Reload::Never, Search::Grid));
                // Each block has the three arms, and `together` once more.
                assert_eq!((plan.axes.len(), plan.run_count()), (0, 4 * plan.run.repeats as usize));
                assert!(plan.run.repeats >= 5, "a verdict is printed");
            }
        }
    }
}

#[test]
fn queries_of_the_embedded_engine_read_what_transactions_write() {
    let check = |url, said: &[(&str, &str)], kinds: [&str; 2], propagation: Option<&str>| {
        let options: BTreeMap<String, String> =
            said.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let plan = plan(&Study {
            url,
            options: &options,
            cores: 2,
            free_memory: None,
            quick: true,
            seed: 7,
            sides: Sides::default(),
            line: None,
            budget: None,
        });
        let [oltp, olap] = &plan.base.workloads[..] else { panic!("two workloads") };
        assert_eq!([oltp.kind.as_str(), olap.kind.as_str()], kinds, "{said:?}");
        assert_eq!(plan.base.options.get("propagation").map(String::as_str), propagation, "{said:?}");
        if oltp.kind == "ch" {
            assert_eq!((oltp.scale, oltp.parameters["mix"].as_str()), (olap.scale, Some("transactions")));
        }
    };
    check("embedded:", &[], ["ch", "ch"], Some("background"));
    check("embedded:", &[("propagation", "blocking")], ["ch", "ch"], Some("blocking"));
    check("embedded:", &[("propagation", "off")], ["tpcc", "tpch"], Some("off"));
    check("embedded:", &[("column_store", "file")], ["tpcc", "tpch"], None);
    check("cluster:", &[("export_every", "1s")], ["ch", "ch"], None);
    check("cluster:", &[("export_every", "never")], ["tpcc", "tpch"], None);
    check(URL, &[], ["tpcc", "tpch"], None);
}

#[test]
fn a_quick_study_takes_less_time() {
    let time = |quick| {
        let study = Study {
            url: "embedded:",
            options: &BTreeMap::new(),
            cores: 4,
            free_memory: None,
            quick,
            seed: 7,
            sides: Sides::default(),
            line: None,
            budget: None,
        };
        let plan = plan(&study);
        plan.estimated_time(plan.run_count())
    };
    assert!(time(true) * 3 < time(false), "{:?} and {:?}", time(true), time(false));
}

#[test]
fn seeds_of_any_size_survive() {
    for seed in [0, 7, i64::MAX as u64, u64::MAX] {
        let study = Study {
            url: "embedded:",
            options: &BTreeMap::new(),
            cores: 1,
            free_memory: None,
            quick: true,
            seed,
            sides: Sides::default(),
            line: None,
            budget: None,
        };
        assert_eq!(plan(&study).run.seed, seed);
    }
}

fn study<'a>(quick: bool, options: &'a BTreeMap<String, String>) -> Study<'a> {
    let (sides, line, budget) = (Sides::default(), None, None);
    Study { url: "memory:", options, cores: 2, free_memory: None, quick, seed: 7, sides, line, budget }
}

#[test]
fn windows_hold_enough_requests_or_say_that_they_cannot() {
    let options = BTreeMap::new();
    let choose = |quick, olap: f64| {
        let seen = [("oltp", 900.0), ("olap", olap)];
        let seen = seen.map(|(name, per_s)| MeasuredSpeed { workload: name.to_owned(), per_s });
        let ChosenLengths { lengths, too_short } = study(quick, &options).choose(&seen);
        (lengths.measure.as_secs_f64(), too_short)
    };
    assert_eq!(choose(true, 100.0), (0.9, None), "the shortest will do");
    assert_eq!(choose(true, 12.0), (2.5, None), "half as many again as are needed");
    assert_eq!(choose(true, 8.0), (2.7, None), "up to the limit");
    let (measure, why) = choose(true, 2.5);
    assert_eq!(measure, 2.7);
    assert_eq!(
        why.as_deref(),
        Some(
            "olap completes 2.50 /s, so that 20 take 8.00 s beside the others, and windows are at most 2.70 s long; study without --quick"
        )
    );
    assert_eq!(choose(false, 2.5), (11.0, None), "a full study has the time");
    let why = choose(false, 0.8).1.expect("25 s do not fit");
    assert!(why.ends_with("; give it more time (--budget 9min), or smaller data"), "{why}");
    let why = choose(false, 0.0).1.expect("nothing was completed");
    assert!(why.starts_with("olap completes nothing that was seen beside the others, and windows"), "{why}");
}

/// A study takes as long as the README says, on databases of any speed, and longer only if it was asked to.
#[test]
fn all_runs_keep_to_the_budget() {
    let options = BTreeMap::new();
    let sides = Sides::default();
    let line = Some(LineRequest::of_study("oltp", 0.9, &sides).expect("a study has it"));
    for (quick, budget, most) in [(true, None, 60), (false, None, 240), (false, Some(900), 900), (false, Some(30), 240)]
    {
        let budget = budget.map(Duration::from_secs);
        let study = Study { line: line.clone(), budget, ..study(quick, &options) };
        for per_s in [0.01, 1.0, 3.0, 10.0, 1_000.0] {
            let seen = [MeasuredSpeed { workload: "olap".to_owned(), per_s }];
            let time = study.time(study.choose(&seen).lengths);
            assert!(time <= Duration::from_secs(most), "{time:?} at {per_s} in {budget:?}");
        }
    }
}

/// Workloads of one's own keep their names and their scale, and share their tables on the embedded engine.
#[test]
fn workloads_of_ones_own_are_studied_like_the_studys() {
    let file =
        |name: &str, clients| SideRequest { kind: Some(format!("file:../../docs/examples/{name}.toml")), clients };
    let sides = Sides::read(&[file("shop", None), file("reports", Some(5))], 7, &plimsoll_workload::registry::NoKinds)
        .expect("two files");
    let of = |url| {
        let options = BTreeMap::new();
        plan(&Study { url, sides: sides.clone(), ..study(true, &options) })
    };
    let on_engine = of("embedded:");
    let [shop, reports] = &on_engine.base.workloads[..] else { panic!("two workloads") };
    assert_eq!((shop.name.as_str(), shop.clients.clients, shop.scale), ("shop", 2, 1.0));
    assert_eq!((reports.name.as_str(), reports.clients.clients, reports.scale), ("reports", 5, 1.0));
    assert_eq!(on_engine.base.options["propagation"], "background");
    assert_eq!(on_engine.run.disturbed, crate::plan::Disturbed::Keep);
    assert_eq!(of(URL).base.options.len(), 0);
    let sides = Sides::read(&[SideRequest::default(), file("reports", None)], 7, &plimsoll_workload::registry::NoKinds)
        .expect("one file");
    assert_eq!(sides.names(), ["oltp", "reports"]);
}
