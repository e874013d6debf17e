//! Classes whose requests arrive at a rate.

use super::*;

/// Requests that arrive at a rate are M/M/1, alone and as two classes.
#[test]
fn a_class_with_a_rate_keeps_it_and_waits_as_m_m_1() {
    let arriving =
        |name: &str, per_s: f64, blocks| Member { arrivals_per_s: Some(per_s), ..member(name, 8, 0.0, blocks) };
    let short = || arriving("short", 100.0, vec![block(1_000, 0.005, 0.0); 3]);
    let alone = predict(&mix(Slowdown::None, vec![short()]), &ONE_CORE).unwrap();
    let [one] = &alone.classes[..] else { panic!("one class") };
    assert_eq!((one.throughput.value, one.throughput.low, one.throughput.high), (100.0, Some(100.0), Some(100.0)));
    assert_near(one.response_s.unwrap().value, 0.005 / 0.5);
    let long = arriving("long", 1.0, vec![block(100, 0.3, 0.0); 3]);
    let both = predict(&mix(Slowdown::None, vec![short(), long]), &ONE_CORE).unwrap();
    assert_eq!([0, 1].map(|class| both.classes[class].throughput.value), [100.0, 1.0]);
    assert_near(both.classes[0].response_s.unwrap().value, 0.005 / 0.2);
    assert_near(both.classes[1].response_s.unwrap().value, 0.3 / 0.2);
    assert_near(both.response_s.unwrap().value, (100.0 * 0.025 + 1.5) / 101.0);
}

#[test]
fn beside_clients_a_class_with_a_rate_keeps_it_and_slows_them_down() {
    let with = |per_s| {
        let [oltp, olap] = &pair()[..] else { panic!("a pair") };
        let olap = Member { arrivals_per_s: Some(per_s), ..olap.clone() };
        predict(&mix(Slowdown::None, vec![oltp.clone(), olap]), &machine(2))
    };
    let [few, many] = [0.5, 3.0].map(|per_s| with(per_s).unwrap());
    assert_eq!([&few, &many].map(|found| found.classes[1].throughput.value), [0.5, 3.0]);
    let response_s = |found: &Prediction| found.classes[0].response_s.unwrap().value;
    assert!(response_s(&few) < response_s(&many));
    let refused = with(4.5).unwrap_err().to_string();
    let expect = "requests that arrive at a rate bring 2.25 s of work per second to `cpu`, which can do 2.00: lower the rate of `olap`";
    assert_eq!(refused, expect);
}

/// Two threads for queries of half a second each can do four per second, however many cores there are.
#[test]
fn queries_with_a_rate_wait_for_threads() {
    let with = |per_s| {
        let olap = Member { arrivals_per_s: Some(per_s), needs_thread: true, ..pair().remove(1) };
        let machine = Machine { query_threads: Some(2), ..machine(64) };
        let plain =
            Member { alone: Alone { blocks: vec![Some(block(100, 0.5, 0.0)); 3], ..olap.alone.clone() }, ..olap };
        predict(&mix(Slowdown::None, vec![plain]), &machine)
    };
    // M/M/2 at half its capacity: 1 / (1 - 0.5^2) times as long.
    assert_near(with(2.0).unwrap().classes[0].response_s.unwrap().value, 0.5 / 0.75);
    assert!(with(4.5).unwrap_err().to_string().contains("`threads`, which can do 2.00"), "{:?}", with(4.5));
}
