//! Which windows are doubted, and in which words.

use super::*;
use crate::driver::driven::WorkloadFacts;
use crate::driver::measurement::InFlight;
use crate::driver::recorder::Recorder;

const SECOND: Duration = Duration::from_secs(1);

/// A workload in a window of 10 s, whose requests took 100 ms each and were always under way at one client.
fn driven() -> DrivenWorkload {
    let about = WorkloadFacts {
        name: "w",
        benchmark: "fake",
        is_analytical: false,
        transactions: vec!["one"],
        clients: 1,
        is_open: false,
        window: 10 * SECOND,
    };
    let mut driven = about.measurement(&Recorder::new());
    driven.measured.all.completed = 100;
    driven.response_total = 10 * SECOND;
    driven.measured.window.littles_law = Some(LittlesLaw { in_system_s: 10.0, response_s: 10.0 });
    driven
}

/// The doubts after a fixed warm-up of 2 s.
fn found(think: &str, verdict: &Verdict, driven: &DrivenWorkload) -> Vec<(DoubtAbout, String)> {
    let options = ClientOptions { think: think.parse().expect("a delay"), ..ClientOptions::default() };
    let warm_up = WarmUpMeasurement { lasted: 2 * SECOND, is_steady: None };
    let doubts = doubts(&options, (WarmUp::For(2 * SECOND), &warm_up, verdict), driven);
    doubts.into_iter().map(|doubt| (doubt.about, doubt.told)).collect()
}

#[test]
fn a_long_window_in_a_steady_state_is_not_doubted() {
    assert_eq!(found("none", &Verdict::Steady, &driven()), []);
    assert_eq!(found("exp 400ms", &Verdict::Steady, &driven()), [], "20 cycles of half a second");
}

#[test]
fn a_fixed_warm_up_is_judged_too() {
    let of = |verdict| found("none", &verdict, &driven());
    let rose = "was not steady after its warm-up of 2s: throughput rose by 30 % of its mean; its beginning may reach into the \
        window, so make the warm-up longer";
    assert_eq!(of(Verdict::Trend(0.3)), [(DoubtAbout::Steadiness, rose.to_owned())]);
    let unknown = "may not have been steady after its warm-up of 2s: throughput cannot be judged by 3 completed requests, 400 \
        are needed";
    assert_eq!(of(Verdict::TooFew(3.0)), [(DoubtAbout::Steadiness, unknown.to_owned())]);
}

#[test]
fn warm_up_and_window_are_some_cycles_of_think_time_and_response_long() {
    let window = "had a window of only 9.1 times its cycle of think time and response, 1.10 s; make it 20 times, at least 22.0 s";
    let warm_up = "had a warm-up of only 1.8 times its cycle of think time and response, 1.10 s; make it 3 times, at least 3.30 s";
    let expect = [(DoubtAbout::ShortWarmUp, warm_up.to_owned()), (DoubtAbout::ShortWindow, window.to_owned())];
    assert_eq!(found("exp 1s", &Verdict::Steady, &driven()), expect);
    // Without requests there is no cycle; such a run is invalid.
    let mut none = driven();
    none.measured.all.completed = 0;
    none.measured.window.littles_law = Some(LittlesLaw::default());
    assert_eq!(found("exp 1s", &Verdict::Steady, &none), []);
}

#[test]
fn windows_that_cut_off_long_requests_are_doubted_by_little_s_law() {
    let with = |in_system_s, response_s| {
        let mut driven = driven();
        driven.measured.window.littles_law = Some(LittlesLaw { in_system_s, response_s });
        found("none", &Verdict::Steady, &driven)
    };
    assert_eq!(with(10.0, 9.6), []);
    let cut = with(10.0, 8.0);
    assert_eq!(cut[0].0, DoubtAbout::LittlesLaw);
    assert!(cut[0].1.starts_with("spent 25 % more time within the window than the responses"), "{cut:?}");
    let reached_in = with(8.0, 10.0);
    assert!(reached_in[0].1.starts_with("spent 20 % less time"), "{reached_in:?}");
    let none = with(10.0, 0.0);
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
    let with = |offered_per_s, backlog, begin, end| {
        let mut driven = driven();
        let WorkloadMeasurement { window, all, .. } = &mut driven.measured;
        (window.offered_per_s, window.backlog) = (Some(offered_per_s), Some(backlog));
        all.in_flight = Some(InFlight { begin, end });
        found("none", &Verdict::Steady, &driven)
    };
    assert_eq!(with(10.0, 0, 1, 1), []);
    assert_eq!(with(10.0, 4, 1, 5), [], "a queue of some requests is no overload");
    let over = with(20.0, 99, 1, 100);
    assert_eq!(over[0].0, DoubtAbout::Overload);
    assert!(
        over[0].1.starts_with("got 20.0 requests per second and ended 10.1: 99 waited for a free client"),
        "{over:?}"
    );
}
