//! The thesis' procedure among the ways that predictions are compared with.

use super::{DEMANDS_S, EXPERIMENT, alone_only, request, run};
use crate::predict::{ALL, Accuracy, MIX, Model, predict};
use crate::results::{Counters, Results};

/// Workloads alone, with instructions counted at this rate per busy second, or not at all.
fn alone(rate: Option<f64>) -> Results {
    run(&alone_only(EXPERIMENT), 1.0, 0.0, move |_, one| {
        let demand = DEMANDS_S.iter().find(|(of, _)| *of == one.name).expect("one of the two").1;
        one.counters = rate.map(|rate| Counters {
            instructions: Some((rate * demand * one.all.completed as f64) as u64),
            kernel_instructions: Some(0),
            spin_instructions: Some(0),
            ..Counters::default()
        });
    })
}

fn accuracy(alone: &Results) -> Vec<Accuracy> {
    let together = run(EXPERIMENT, 1.0, 0.0, |_, _| {});
    predict(alone, Some(&together), &request(None, Model::Mva)).expect("all is there").accuracy
}

/// Clients keep all cores busy, where its bound is what happens: the mean over all requests is near.
#[test]
fn it_is_compared_with_and_near_where_cores_are_saturated() {
    let found = accuracy(&alone(None));
    let of = |name: &str| found.iter().find(|one| one.model == "idd-thesis uncounted" && one.of == name);
    let (all, mix) = (of(ALL).expect("judged"), of(MIX).expect("judged"));
    assert_eq!((all.count, mix.count, all.is_calibrated, all.covered), (6, 3, false, None));
    assert!(mix.mean_absolute < 0.05, "{mix:?}");
}

#[test]
fn it_is_named_by_what_was_counted() {
    let names = |rate: Option<f64>| {
        let found = accuracy(&alone(rate));
        let mut names: Vec<&str> = found.iter().map(|one| one.model).filter(|name| name.starts_with("idd")).collect();
        names.dedup();
        names
    };
    assert_eq!(names(Some(2e9)), ["idd-thesis"; 1]);
    assert_eq!(names(None), ["idd-thesis uncounted"; 1]);
}
