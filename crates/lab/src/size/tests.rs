//! Requests, and the experiments that they become.

use plimsoll_workload::registry::NoKinds;

use super::*;
use crate::analysis::made_up;

fn request() -> SizeRequest {
    SizeRequest {
        workload: "tpcc:2".to_owned(),
        parameters: BTreeMap::new(),
        url: "embedded:".to_owned(),
        options: BTreeMap::new(),
        clients: 4,
        think: Delay::None,
        rate: None,
        promise: promise("p95=20ms").ok(),
        resources: Vec::new(),
        budget: BUDGET,
        seed: 11,
    }
}

fn axes() -> Vec<(&'static str, Vec<Value>)> {
    vec![("dop", vec![1.into(), 2.into(), 4.into()]), ("memory", vec!["64MB".into(), "1GB".into()])]
}

#[test]
fn a_request_becomes_an_experiment_that_can_be_run_again() {
    let text = request().text(&axes(), Duration::from_millis(2_500), &NoKinds).expect("it is known");
    let plan = made_up::plan(&text);
    assert_eq!((plan.run.search, plan.run.sizing.budget), (crate::plan::Search::Size, BUDGET));
    assert_eq!(plan.run.sizing.promise, promise("p95 < 20ms").ok());
    let load = plan.axes.iter().find(|axis| axis.key == "clients").expect("twice the clients");
    assert_eq!(load.values, [Value::from(8), Value::from(4)]);
    let (workload, run) = (&plan.base.workloads[0], &plan.run);
    assert_eq!((workload.kind.as_str(), workload.scale, workload.clients.clients, run.seed), ("tpcc", 2.0, 4, 11));
    let rated = SizeRequest { rate: Some(50.0), ..request() };
    let plan = made_up::plan(&rated.text(&axes(), Duration::from_secs(1), &NoKinds).expect("it is known"));
    assert!(plan.axes.iter().any(|axis| axis.key == "rate" && axis.values == [Value::from(100), Value::from(50)]));
    let pilot = made_up::plan(&request().text(&[], Duration::from_secs(1), &NoKinds).expect("it is known"));
    assert_eq!((pilot.axes.len(), pilot.run_count()), (0, 1));
}

#[test]
fn promises_are_percentiles_and_lengths() {
    assert_eq!(promise("p99=5ms").map(|target| target.to_string()), Ok("p99 < 5ms".to_owned()));
    for wrong in ["p95", "p95<1.3 x alone", "p37=5ms", "mean=5ms", "p95=fast"] {
        let error = promise(wrong).expect_err(wrong);
        assert!(error.ends_with("such as p95=20ms"), "{error}");
    }
}

#[test]
fn what_cannot_be_sized_is_refused_with_the_remedy() {
    let check = |request: SizeRequest, expect: &str| {
        let error = request.check(&made_up::Paper).expect_err(expect);
        assert!(error.contains(expect), "{error}");
    };
    let url = "postgres://me@db.example/shop".to_owned();
    check(SizeRequest { url, ..request() }, "cannot be limited from outside; size the workload on a private server");
    check(SizeRequest { resources: vec!["core".to_owned()], ..request() }, "there is no resource `core`");
    check(SizeRequest { budget: Duration::from_secs(5), ..request() }, "a search needs at least 20 s");
}

#[test]
fn experiments_that_are_no_search_for_sizes_are_refused() {
    let check = |from: &str, to: &str, expect: &str| {
        let text = request().text(&axes(), Duration::from_secs(1), &NoKinds).expect("it is known").replace(from, to);
        let parsed = parse(&text, "x.toml").expect("it is TOML");
        let error = crate::experiment::resolve(&parsed, &crate::experiment::Terms::here(&made_up::Paper, false));
        let error = error.expect_err(expect).to_string();
        assert!(error.contains(expect), "{error}");
    };
    check("[1, 2, 4]", "[4, 2, 1]", "`dop` needs at least two amounts in ascending order, the full one last");
    check("clients = [8, 4]", "scale = [1, 2]", "`scale` is no amount of a resource");
    check("promise    = \"p95 < 20ms\"", "promise = \"soon\"", "`soon` is no promise");
}
