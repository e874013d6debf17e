//! Advice about machines whose truth is known.

use super::verify::{Verification, VerifyError};
use super::*;
use crate::predict::CacheShared;
use crate::predict::tests::{EXPERIMENT, alone_only, run};
use crate::results::{ClaimVerdict, Mode};

fn request(slo: &str, vary: Option<&str>) -> Request {
    let vary = vary.map(|text| text.parse().expect(text));
    Request { slo: slo.parse().unwrap_or_else(|error| panic!("{error}")), vary, maximise: None }
}

#[test]
fn the_most_load_that_keeps_the_promise_is_found() {
    let measured = run(EXPERIMENT, 1.0, 0.0, |_, _| {});
    let advice =
        advise(&measured, &request("short.p95 < 1.8 x alone", Some("long.clients=0..60 by 5"))).expect("known");
    let best = &advice.tried[advice.best.expect("few long ones do no harm")];
    assert!(best.value > 0 && best.value < 60, "{advice:?}");
    let after = advice.tried.iter().filter(|tried| tried.value > best.value);
    assert!(after.clone().all(|tried| tried.standing != Standing::Kept), "{advice:?}");
    assert!(after.clone().any(|tried| tried.standing == Standing::Broken), "{advice:?}");
    assert_eq!((advice.key.as_str(), advice.maximise.as_str()), ("long.clients", "long"));
    let text = crate::table::advice::render(&advice);
    assert!(text.starts_with(&format!("long.clients={} keeps short.p95 < 1.8 x alone", best.value)), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let file = settings_file(&advice).expect("clients are an mpl");
    assert!(file.contains(&format!("\nmpl = {}\n", best.value)) && file.contains("keep short.p95"), "{file}");
}

/// Where no mix was measured, a response is known to a factor of three. A promise that lies within it is neither kept nor broken, and one
/// far beyond it is.
#[test]
fn without_measured_mixes_promises_within_the_error_of_such_predictions_are_undecided() {
    let alone = run(&alone_only(EXPERIMENT), 1.0, 0.0, |_, _| {});
    let standings = |slo: &str| {
        let advice = advise(&alone, &request(slo, Some("long.clients=0,10,30"))).expect("known");
        advice.tried.iter().map(|one| one.standing).collect::<Vec<_>>()
    };
    assert_eq!(standings("short.p95 < 1.8 x alone"), [Standing::Kept, Standing::Undecided, Standing::Undecided]);
    assert_eq!(standings("short.p95 < 20 x alone"), [Standing::Kept; 3]);
    assert_eq!(standings("short.p95 < 100us"), [Standing::Broken; 3]);
}

/// A degree of queries is advised in the same way as a number of clients. For a governor it is a limit of parallel
/// workers.
#[test]
fn a_degree_is_advised_from_those_that_were_measured() {
    let text = alone_only(EXPERIMENT).replace("[10, 30, 60]", "[10]").replace("[sweep]", "[sweep]\ndop = [1, 2]");
    let alone = run(&text, 1.0, 0.005, |_, _| {});
    let request = request("short.p95 < 10s", Some("dop=1,2"));
    let advice = advise(&alone, &request).expect("known");
    assert_eq!((advice.key.as_str(), advice.tried.len()), ("dop", 2));
    let best = advice.tried[advice.best.expect("ten seconds are long")].value;
    let file = settings_file(&advice).expect("workers are a governor's to limit");
    assert!(file.contains(&format!("\nworkers_max = {}\n", best - 1)) && !file.contains("mpl ="), "{file}");
    let verification = Verification::of(&alone, &advice, &request.slo).expect("a value keeps it");
    assert!(verification.text.contains("dop = [") && verification.words().contains(" and dop="), "both are measured");
}

/// For a run that has swept the cache, the advice includes the gain from partitioning.
#[test]
fn what_cache_partitioning_would_bring_each_pair_is_said() {
    let alone = run(&alone_only(EXPERIMENT), 1.0, 0.0, |_, _| {});
    let request = request("short.p95 < 1.3 x alone", Some("long.clients=0..10 by 5"));
    let mut advice = advise(&alone, &request).expect("known");
    assert!(advice.cache.is_empty() && !crate::table::advice::render(&advice).contains("partitioning"));
    let of = |value: f64| Interval { value, low: Some(value - 0.05), high: Some(value + 0.05) };
    let one = |name: &str, class: &'static str, shared: f64, with_masks: f64| CacheShared {
        name: name.to_owned(),
        share: Some(0.5),
        shared: of(shared),
        class,
        with_masks: of(with_masks),
        measured: None,
        error: None,
    };
    let workloads = vec![one("short", "sensitive", 0.7, 0.9), one("long", "polluting", 0.95, 0.94)];
    advice.cache = vec![CachePair { setting: BTreeMap::new(), key: "llc_mib", has_fill_rates: true, workloads }];
    let text = crate::table::advice::render(&advice);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let expect = "What cache partitioning would bring with the masks of their classes short (sensitive) keeps 0.90 (0.85 to 0.95) of \
                  its throughput alone, and 0.70 (0.65 to 0.75) with the cache shared; long (polluting) keeps 0.94 (0.89 to 0.99)";
    assert!(words.contains(expect) && text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn a_promise_that_nothing_keeps_is_said_to_be_one() {
    let alone = run(&alone_only(EXPERIMENT), 1.0, 0.0, |_, _| {});
    let advice = advise(&alone, &request("short.p95 < 200us", Some("long.clients=0,10"))).expect("known");
    assert_eq!(advice.best, None);
    let text = crate::table::advice::render(&advice);
    assert!(text.starts_with("No value of long.clients is predicted to keep short.p95 < 200us: 2 break it"), "{text}");
    assert_eq!(settings_file(&advice), None);
}

#[test]
fn the_default_is_to_vary_the_clients_of_the_other() {
    let alone = run(&alone_only(EXPERIMENT).replace("clients = 40", "clients = 4"), 1.0, 0.0, |_, _| {});
    let advice = advise(&alone, &request("long.p50 < 10s", None)).expect("known");
    assert_eq!((advice.key.as_str(), advice.tried.len()), ("short.clients", 9), "up to twice as many as ran");
}

#[test]
fn the_default_is_to_vary_the_rate_of_one_that_has_a_rate() {
    let text = EXPERIMENT.replace("kind = \"tpcc\"\nclients = 30", "kind = \"tpcc\"\nclients = 30\nrate = 20");
    let text = text.replace("[sweep]\n\"long.clients\" = [10, 30, 60]\n", "").replace("clients = 40", "clients = 4");
    let advice =
        advise(&run(&alone_only(&text), 1.0, 0.0, |_, _| {}), &request("short.p50 < 10s", None)).expect("known");
    let values: Vec<u32> = advice.tried.iter().map(|one| one.value).collect();
    assert_eq!(advice.key, "long.rate");
    assert_eq!((values.first(), values.last(), values.len()), (Some(&0), Some(&40), 21), "up to twice as many as ran");
    let throughput = |at: usize| advice.tried[at].throughput_per_s.expect("predicted").value;
    assert_eq!([1, 20].map(throughput), [2.0, 40.0]);
    assert_eq!(settings_file(&advice), None, "a governor limits sessions, not arrivals");
}

/// The run of a single workload: how many of its own clients keep its promise. It was refused.
#[test]
fn a_single_workload_is_advised_about_its_own_clients() {
    let text = alone_only(EXPERIMENT).replace(r#"arms = ["alone:short", "alone:long"]"#, r#"arms = ["alone:long"]"#);
    let text = text.replace("[[workload]]\nname = \"short\"\nkind = \"tpcw\"\nclients = 40\n", "");
    let alone = run(&text, 1.0, 0.005, |_, _| {});
    assert_eq!(alone.experiment.workloads, ["long"]);
    let advice = advise(&alone, &request("long.p95 < 40ms", None)).expect("it is about itself");
    assert_eq!((advice.key.as_str(), advice.maximise.as_str(), advice.tried[0].value), ("long.clients", "long", 1));
    let best = &advice.tried[advice.best.expect("few clients keep it")];
    assert!(
        (1..120).contains(&best.value) && advice.tried.last().expect("120").standing == Standing::Broken,
        "{best:?}"
    );
    let text = crate::table::advice::render(&advice);
    assert!(text.starts_with(&format!("long.clients={} keeps long.p95 < 40ms, and long gets", best.value)), "{text}");
    assert_eq!(settings_file(&advice), None, "a governor does not limit the important class");
}

#[test]
fn what_cannot_be_read_or_is_not_there_is_refused_with_the_remedy() {
    for (text, why) in [
        ("p95 < 20ms", "names no workload"),
        ("short < 20ms", "names no workload"),
        (".p95 < 20ms", "names no workload"),
        ("short.p95 < fast", "write `p95 < 20ms`"),
        ("short.p90 < 20ms", "p50, p95 and p99 are"),
    ] {
        let error = text.parse::<Slo>().expect_err(text).to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
    let alone = run(&alone_only(EXPERIMENT), 1.0, 0.0, |_, _| {});
    let refused = |request: &Request| advise(&alone, request).expect_err("wrong").to_string();
    assert!(refused(&request("shrot.p95 < 20ms", None)).contains("did you mean `short`?"));
    let unknown = Request { maximise: Some("lnog".to_owned()), ..request("short.p95 < 20ms", None) };
    assert!(refused(&unknown).contains("did you mean `long`?"));
}

/// Advice from workloads alone and mixes, and the experiment that measures it.
fn to_verify(slo: &str) -> (Results, Advice, Verification) {
    let measured = run(EXPERIMENT, 1.0, 0.005, |_, _| {});
    let request = request(slo, Some("long.clients=5..60 by 5"));
    let advice = advise(&measured, &request).expect("known");
    let verification = Verification::of(&measured, &advice, &request.slo).expect("a value keeps it");
    (measured, advice, verification)
}

#[test]
fn advice_is_measured_beside_its_neighbour() {
    let slo = "short.p95 < 15ms";
    let (_, mut advice, verification) = to_verify(slo);
    let measured = run(&verification.text, 1.0, 0.005, |_, _| {});
    let verified = verification.verified(&measured);
    let [best, next] = &verified.settings[..] else { panic!("{verified:?}") };
    assert_eq!((best.value, next.value), (advice.tried[advice.best.unwrap()].value, best.value + 5), "{verified:?}");
    assert!(verified.is_kept() && best.verdict == ClaimVerdict::Holds, "{verified:?}");
    let (predicted, is) = (best.predicted_per_s.unwrap().value, best.measured_per_s.unwrap().value);
    assert!((predicted / is - 1.0).abs() < 0.05, "{verified:?}");
    assert!(next.measured_ms.unwrap().value > best.measured_ms.unwrap().value, "{verified:?}");
    advice.verified = Some(verified);
    let text = crate::table::advice::render(&advice);
    assert!(text.contains(&format!("Measured, long.clients={} keeps {slo}", advice.tried[advice.best.unwrap()].value)));
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

/// On a machine where requests cost more beside others than when the advice was taken, it does not keep its promise.
#[test]
fn advice_that_does_not_keep_its_promise_is_found_out() {
    let (mut results, _, verification) = to_verify("short.p95 < 25ms");
    let verified = verification.verified(&run(&verification.text, 1.6, 0.005, |_, _| {}));
    assert!(!verified.is_kept() && verified.settings[0].verdict == ClaimVerdict::Fails, "{verified:?}");
    assert!(verified.sentence.contains("breaks short.p95 < 25ms"), "{}", verified.sentence);
    results.verified = Some(verified.clone());
    let page = crate::report::render(crate::report::ReportInput::new(&results, &[]));
    assert!(page.contains("Advice, measured") && page.contains(&verified.sentence.replace('<', "&lt;")));
}

#[test]
fn advice_that_cannot_be_measured_is_refused() {
    let (alone, advice, _) = to_verify("short.p95 < 25ms");
    let slo: Slo = "short.p95 < 25ms".parse().expect("a promise");
    let refused = |results: &Results, advice: &Advice| Verification::of(results, advice, &slo).expect_err("refused");
    let nothing = Advice { best: None, ..advice.clone() };
    assert_eq!(refused(&alone, &nothing), VerifyError::NoBest("long.clients".to_owned()));
    let mut nobody = advice.clone();
    nobody.tried[0].value = 0;
    nobody.best = Some(0);
    assert!(refused(&alone, &nobody).to_string().contains("leaves nothing to measure beside `short`"));
    let mut lost = alone.clone();
    lost.experiment.text = None;
    assert_eq!(refused(&lost, &advice), VerifyError::NoText);
    let simulated = Results { mode: Mode::Simulated, ..alone };
    assert_eq!(refused(&simulated, &advice), VerifyError::Simulated);
}
