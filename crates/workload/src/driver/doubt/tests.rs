//! Which windows are doubted, and in which words.

use super::*;
use crate::driver::measurement::{About, InFlight, OpenLoopMeasurement};
use crate::driver::recorder::Recorder;

const SECOND: Duration = Duration::from_secs(1);

/// A workload in a window of 10 s, whose requests took 100 ms each and were always under way at one client.
fn measured() -> WorkloadMeasurement {
    let about = About {
        name: "w",
        benchmark: "fake",
        is_analytical: false,
        transactions: &["one"],
        clients: 1,
        is_open: false,
        window: 10 * SECOND,
    };
    let mut measured = about.measurement(&Recorder::new());
    measured.all.completed = 100;
    measured.response_total = 10 * SECOND;
    (measured.in_system, measured.ended_total) = (10 * SECOND, 10 * SECOND);
    measured
}

/// The doubts after a fixed warm-up of 2 s.
fn found(think: &str, verdict: &Verdict, measured: &WorkloadMeasurement) -> Vec<(DoubtAbout, String)> {
    let options = ClientOptions { think: think.parse().expect("a delay"), ..ClientOptions::default() };
    let warm_up = WarmUpMeasurement { lasted: 2 * SECOND, is_steady: None };
    let doubts = doubts(&options, (WarmUp::For(2 * SECOND), &warm_up, verdict), measured);
    doubts.into_iter().map(|doubt| (doubt.about, doubt.told)).collect()
}

#[test]
fn a_long_window_in_a_steady_state_is_not_doubted() {
    assert_eq!(found("none", &Verdict::Steady, &measured()), []);
    assert_eq!(found("exp 400ms", &Verdict::Steady, &measured()), [], "20 cycles of half a second");
}

#[test]
fn a_fixed_warm_up_is_judged_too() {
    let of = |verdict| found("none", &verdict, &measured());
    let rose = "was not steady after its warm-up of 2s: throughput rose by 30 % of its mean; its beginning may reach into the \
        window, so make the warm-up longer";
    assert_eq!(of(Verdict::Trend(0.3)), [(DoubtAbout::Steadiness, rose.to_owned())]);
    let unknown = "may not have been steady after its warm-up of 2s: throughput cannot be judged by 3 completed requests, 400 \
        are needed";
    assert_eq!(of(Verdict::TooFew(3.0)), [(DoubtAbout::Steadiness, unknown.to_owned())]);
}

#[test]
fn warm_up_and_window_are_some_cycles_of_think_time_and_response_long() {
    let window =
        "had a window of only 9.1 times its cycle of think time and response, 1.1 s; make it 20 times, at least 22.0 s";
    let warm_up =
        "had a warm-up of only 1.8 times its cycle of think time and response, 1.1 s; make it 3 times, at least 3.3 s";
    let expect = [(DoubtAbout::ShortWarmUp, warm_up.to_owned()), (DoubtAbout::ShortWindow, window.to_owned())];
    assert_eq!(found("exp 1s", &Verdict::Steady, &measured()), expect);
    // Without requests there is no cycle; such a run is invalid.
    let mut none = measured();
    none.all.completed = 0;
    (none.in_system, none.ended_total) = (Duration::ZERO, Duration::ZERO);
    assert_eq!(found("exp 1s", &Verdict::Steady, &none), []);
}

#[test]
fn windows_that_cut_off_long_requests_are_doubted_by_little_s_law() {
    let with = |in_system, ended_total| {
        let measured = WorkloadMeasurement { in_system, ended_total, ..measured() };
        found("none", &Verdict::Steady, &measured)
    };
    assert_eq!(with(10 * SECOND, 10 * SECOND.mul_f64(0.96)), []);
    let cut = with(10 * SECOND, 8 * SECOND);
    assert_eq!(cut[0].0, DoubtAbout::LittlesLaw);
    assert!(cut[0].1.starts_with("spent 25 % more time within the window than the responses"), "{cut:?}");
    let reached_in = with(8 * SECOND, 10 * SECOND);
    assert!(reached_in[0].1.starts_with("spent 20 % less time"), "{reached_in:?}");
    let none = with(10 * SECOND, Duration::ZERO);
    assert!(none[0].1.contains("none ended"), "{none:?}");
}

#[test]
fn what_windows_cut_off_at_either_end_averages_out() {
    let law = |in_system_s, response_s| LittlesLaw { in_system_s, response_s };
    assert!(law(10.0, 8.0).doubt().is_some() && law(10.0, 12.0).doubt().is_some());
    assert_eq!(LittlesLaw::sum([law(10.0, 8.0), law(10.0, 12.0)]).doubt(), None);
    assert_eq!(LittlesLaw::sum([law(10.0, 8.0), law(10.0, 8.0)]).doubt(), law(10.0, 8.0).doubt());
    assert_eq!(LittlesLaw::default().difference(), None);
}

#[test]
fn an_open_loop_that_offers_more_than_ends_is_doubted() {
    let with = |offered, backlog, begin, end| {
        let mut measured = measured();
        measured.open_loop = Some(OpenLoopMeasurement { offered, backlog });
        measured.all.in_flight = InFlight { begin, end };
        found("none", &Verdict::Steady, &measured)
    };
    assert_eq!(with(100, 0, 1, 1), []);
    assert_eq!(with(100, 4, 1, 5), [], "a queue of some requests is no overload");
    let over = with(200, 99, 1, 100);
    assert_eq!(over[0].0, DoubtAbout::Overload);
    assert!(
        over[0].1.starts_with("got 20.0 requests per second and ended 10.1: 99 waited for a free client"),
        "{over:?}"
    );
}
