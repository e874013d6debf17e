//! The parts of `results.json` beside the figures.

use super::*;
use crate::analysis::made_up::{self, Paper, measure, plan, results};
use crate::results::AxisRole::{Allocation, Clients, Other};

const SWEPT: &str = r#"
name = "swept"
title = "All there is"
study = "SR"
[target]
options = { memory = 4 }
[[workload]]
name = "oltp"
kind = "rows"
scale = 0.5
think = "exp 5ms"
parameters = { updates = 0.25 }
[sweep]
policy = ["a", "b"]
dop = [1, 2]
"oltp.clients" = [1, 8]
"oltp.rows" = [1, 10]
[run]
warmup = "steady 20s"
measure = "1500ms"
repeats = 2
"#;

#[test]
fn every_setting_is_told_and_every_axis_has_its_role() {
    let plan = plan(SWEPT);
    let results = results(&plan, &measure(&plan, |_, _, _| 100.0));
    let settings = serde_json::to_value(&results.experiment.settings).expect("plain data");
    let expect = json!({
        "arms": ["alone:oltp"], "oltp.clients": 1, "oltp.columns": "bigint", "oltp.inserts": 0.0, "oltp.kind": "rows", "oltp.priority": "low", "oltp.rate": null,
        "oltp.retry_max": 1000, "oltp.round_trip": "none", "oltp.rows": 1.0, "oltp.scale": 0.5, "oltp.think": "exp 5ms", "oltp.updates": 0.25, "run.measure_s": 1.5,
        "run.reload": "when-grown", "run.repeats": 2, "run.search": "grid", "run.seed": 7,
        "run.server_lost": "go-on", "run.warmup": "steady 20s",
        "sweep.dop": [1, 2], "sweep.oltp.clients": [1, 8], "sweep.oltp.rows": [1, 10], "sweep.policy": ["a", "b"],
        "target.memory": "4", "target.url": "embedded:"
    });
    assert_eq!(settings, expect);
    let typed = made_up::plan(&SWEPT.replace("updates = 0.25", "updates = 0.25, rows = 1, columns = \"bigint\""));
    let typed = super::settings(&typed, &Paper);
    assert_eq!(json!(typed), expect, "a default that is typed is no other setting");
    let roles: Vec<_> = results.experiment.sweep.iter().map(|axis| (axis.key.as_str(), axis.role)).collect();
    assert_eq!(roles, [("policy", Other), ("dop", Allocation), ("oltp.clients", Clients), ("oltp.rows", Other)]);
    let experiment = &results.experiment;
    assert_eq!((experiment.title.as_deref(), experiment.study.as_deref()), (Some("All there is"), Some("SR")));
    assert_eq!(experiment.text.as_deref(), Some(SWEPT));
    assert_eq!(results.points.len(), plan.run_count());
}

#[test]
fn equal_settings_have_equal_hashes_and_others_have_not() {
    let hash = |from: &str, to: &str| settings_hash(&settings(&plan(&SWEPT.replace(from, to)), &Paper));
    let own = hash("", "");
    assert_eq!(own, hash("All there is", "The same by another name"));
    for (from, to) in [
        ("memory = 4", "memory = 5"),
        ("scale = 0.5", "scale = 0.25"),
        ("updates = 0.25", "updates = 0.5"),
        ("repeats = 2", "repeats = 2\nseed = 8"),
        ("steady 20s", "20s"),
        ("dop = [1, 2]", "dop = [1, 4]"),
        ("exp 5ms", "const 5ms"),
    ] {
        assert_ne!(own, hash(from, to), "{to}");
    }
}

#[test]
fn warnings_that_differ_in_numbers_are_told_once() {
    let told = |warnings: &[&str]| grouped(warnings.iter().map(|warning| (*warning).to_owned()));
    assert_eq!(told(&[]), [""; 0]);
    let same = "oltp: 3 requests were given up";
    assert_eq!(told(&[same, "other", same]), [same, "other"]);
    let expect = ["oltp: 3 requests were given up (and once more with other numbers)"];
    assert_eq!(told(&[same, "oltp: 14 requests were given up"]), expect);
    let expect = ["oltp: 3 requests were given up (and 2 times more with other numbers)"];
    assert_eq!(told(&[same, "oltp: 14 requests were given up", same, "oltp: 1.5 requests were given up"]), expect);
}

#[test]
fn tries_that_were_thrown_away_are_counted() {
    let plan = plan(SWEPT);
    let mut records = made_up::measure(&plan, |_, _, _| 10.0);
    assert_eq!(thrown_away(&records), None);
    records[0].point.thrown_away = vec!["others kept 2 cores busy".to_owned(); 2];
    records[3].point.thrown_away = vec!["others kept 1 core busy".to_owned()];
    let told = "3 tries of 2 runs were thrown away and run again, the first because others kept 2 cores busy";
    assert_eq!(thrown_away(&records).as_deref(), Some(told));
}
