//! Whether the study that nobody typed is an experiment that runs.

use super::*;
use crate::analysis::made_up::Paper;
use crate::experiment::{Terms, parse, resolve};
use crate::plan::{Plan, Reload, Search};

const URL: &str = "postgres://me:\"x\\y\"@host/db?a='b'&c=ü";

fn plan(study: &Study<'_>) -> Plan {
    let text = study.experiment();
    let resolved = parse(&text, "study").and_then(|experiment| resolve(&experiment, &Terms::here(&Paper, false)));
    resolved.unwrap_or_else(|error| panic!("{error}\n{text}"))
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
                let plan = plan(&Study { url: URL, options: &options, cores, free_memory, quick, seed: 11 });
                assert_eq!((plan.base.url.as_str(), &plan.base.options), (URL, &options));
                let arms: Vec<&str> = plan.arms.iter().map(|arm| arm.name.as_str()).collect();
                assert_eq!(arms, ["alone:oltp", "alone:olap", "together"]);
                let [oltp, olap] = &plan.base.workloads[..] else { panic!("two workloads") };
                let clients = cores.clamp(1, 32);
                assert_eq!((oltp.clients.clients, olap.clients.clients), (clients, 1));
                let warehouses = if quick { clients.min(2) } else { clients };
                assert_eq!(oltp.scale, warehouses as f64);
                let is_small = quick || free_memory == Some(1 << 30);
                assert_eq!(olap.scale, if is_small { 0.1 } else { 1.0 });
                assert_eq!((plan.run.seed, plan.run.reload, plan.run.search), (11, Reload::Never, Search::Grid));
                assert!(plan.run.repeats >= 3, "fewer repeats can hardly tell a difference from noise");
                assert_eq!((plan.axes.len(), plan.run_count()), (0, 3 * plan.run.repeats as usize));
            }
        }
    }
}

#[test]
fn a_quick_study_takes_less_time() {
    let time = |quick| {
        let study = Study { url: "embedded:", options: &BTreeMap::new(), cores: 4, free_memory: None, quick, seed: 7 };
        let plan = plan(&study);
        plan.estimated_time(plan.run_count())
    };
    assert!(time(true) * 3 < time(false), "{:?} and {:?}", time(true), time(false));
}

#[test]
fn seeds_of_any_size_survive() {
    for seed in [0, 7, i64::MAX as u64, u64::MAX] {
        let study =
            Study { url: "embedded:", options: &BTreeMap::new(), cores: 1, free_memory: None, quick: true, seed };
        assert_eq!(plan(&study).run.seed, seed);
    }
}
