//! Workloads whose requests arrive at a rate.

use super::{EXPERIMENT, alone_only, request, run};
use crate::predict::{ALL, Model, PredictedMix, predict};

/// Short transactions arrive, 100 per second; long ones are those of clients.
fn arriving() -> String {
    EXPERIMENT.replace("clients = 40", "clients = 40\nrate = 100")
}

#[test]
fn a_rate_is_the_throughput_and_the_rest_is_as_in_a_mixed_network() {
    let (alone, together) = (run(&alone_only(&arriving()), 1.0, 0.0, |_, _| {}), run(&arriving(), 1.0, 0.0, |_, _| {}));
    let predicted = predict(&alone, Some(&together), &request(None, Model::Mva)).expect("all is there");
    assert_eq!(predicted.mixes.len(), 3);
    for mix in &predicted.mixes {
        let [short, long] = &mix.workloads[..] else { panic!("two workloads: {mix:?}") };
        let throughput = short.throughput_per_s;
        assert_eq!((throughput.value, throughput.low, throughput.high), (100.0, Some(100.0), Some(100.0)));
        assert_eq!((short.rate, long.rate, mix.is_extrapolated), (Some(100.0), None, false));
        for one in [short, long] {
            let measured = one.measured.expect("it was").response_ms.expect("answered").value;
            let response = one.response_ms.expect("has requests").value;
            assert!((response / measured - 1.0).abs() < 0.03, "{one:?}");
        }
    }
    let bounds = predicted.accuracy.iter().find(|one| one.model == "asymptotic bounds" && one.of == ALL);
    assert!(bounds.is_some_and(|bounds| bounds.covered == Some(1.0)), "nothing bounds a response from above");
}

#[test]
fn a_rate_is_varied_instead_of_clients_and_refused_where_it_saturates() {
    let alone = run(&alone_only(&arriving()), 1.0, 0.0, |_, _| {});
    let cores = alone.machine.cores_usable;
    // A short transaction needs 2 ms of a core.
    let too_many = 500 * cores as u32 + 100;
    let vary = |text: &str| predict(&alone, None, &request(Some(text), Model::Mva));
    let predicted = vary(&format!("short.rate=0,100,200,{too_many}")).expect("known key");
    let [none, measured, more, saturated] = &predicted.mixes[..] else { panic!("four values: {predicted:?}") };
    let throughput = |mix: &PredictedMix| mix.workloads[0].throughput_per_s.value;
    assert_eq!([none, measured, more].map(throughput), [0.0, 100.0, 200.0]);
    assert!(none.workloads[0].response_ms.is_none(), "no request, no response");
    assert_eq!([none, measured, more].map(|mix| mix.is_extrapolated), [false, false, true]);
    let why = saturated.refused.as_deref().expect("more than the cores can do");
    assert!(
        why.contains("of work per second to `cpu`, which can do") && why.ends_with("lower the rate of `short`"),
        "{why}"
    );
    let table = crate::table::prediction::render(&predicted);
    assert!(table.contains("short at 100 /s + 30 x long"), "{table}");
    let clients = vary("short.clients=10").expect_err("its clients are not its load").to_string();
    assert!(clients.contains("`short.rate`"), "{clients}");
}

/// The rate of each mix may differ from that of the runs alone.
#[test]
fn needs_alone_are_those_of_the_nearest_rate() {
    let swept = |rates: &str| arriving().replace("[run]", &format!("\"short.rate\" = {rates}\n[run]"));
    let (alone, together) = (
        run(&alone_only(&swept("[50, 400]")), 1.0, 0.0, |_, _| {}),
        run(&swept("[100, 300]").replace("[10, 30, 60]", "[30]"), 1.0, 0.0, |_, _| {}),
    );
    let predicted = predict(&alone, Some(&together), &request(None, Model::Mva)).expect("all is there");
    let rates: Vec<f64> = predicted.mixes.iter().map(|mix| mix.workloads[0].throughput_per_s.value).collect();
    assert_eq!(rates, [100.0, 300.0]);
    assert!(predicted.mixes.iter().all(|mix| !mix.is_extrapolated), "{predicted:?}");
}

#[test]
fn the_simulation_has_percentiles_of_requests_that_arrive() {
    let alone = run(&alone_only(&arriving()), 1.0, 0.0, |_, _| {});
    let predicted = predict(&alone, None, &request(Some("long.clients=0,2"), Model::Des)).expect("known key");
    for mix in &predicted.mixes {
        let short = &mix.workloads[0];
        assert_eq!(short.throughput_per_s.value, 100.0);
        let p95 = short.percentiles_ms.as_ref().expect("simulated")["p95"].expect("enough");
        assert!(p95.value > short.response_ms.expect("has requests").value, "{short:?}");
    }
}
