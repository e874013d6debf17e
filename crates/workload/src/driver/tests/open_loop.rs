//! Requests that arrive at a rate independent of the database's speed.

use super::*;

#[test]
fn open_loop_latency_shows_the_backlog_of_one_long_block() {
    let options = ClientOptions { rate: Some(1000.0), ..ClientOptions::default() };
    let window = Bounds { begin: 0, end: 1000 * MS };
    // The database blocks for 100 ms once, and else takes 10 us.
    let service = |number| if number == 50 { 100 * MS } else { MS / 100 };
    let all = latencies(&simulate(&options, window, service, |_| Ok(())).expect("it runs"));
    // About a hundred requests arrive while it is blocked, evenly late by up to 100 ms; a driver that measured from the
    // actual start would see one.
    let late = all.count_between(10_000, 3_600_000_000);
    assert!((60..=130).contains(&late), "{late} of {}", all.len());
    let evenly = all.count_between(40_000, 60_000);
    assert!((8..=40).contains(&evenly), "{evenly}");
    // All arrivals of the second are recorded.
    assert!((850..=1150).contains(&all.len()), "{}", all.len());
}

#[test]
fn requests_that_wait_for_a_client_are_in_the_system_and_those_never_begun_are_backlog() {
    let options = ClientOptions { rate: Some(1000.0), ..ClientOptions::default() };
    let window = Bounds { begin: 0, end: 1000 * MS };
    // Two requests arrive while one is run.
    let recorder = simulate(&options, window, |_| 2 * MS, |_| Ok(())).expect("it runs");
    // The client alone has some 500. It recorded the arrival that it took and did not begin; arrivals that no client
    // took are in the coordinator's record.
    assert!((470..=501).contains(&recorder.offered), "{}", recorder.offered);
    assert_eq!(recorder.backlog, 1);
    let in_system: Nanos = recorder.cells.values().map(|cell| cell.in_system).sum();
    assert!(in_system > 20 * recorder.occupied(), "{} of {in_system}", recorder.occupied());
}

#[test]
fn the_backlog_of_an_overloaded_run_is_counted_and_told() {
    let options = ClientOptions { clients: 2, rate: Some(1e6), ..ClientOptions::default() };
    // Each request gives the others 100 us at least; so that two clients end at most 2000 of 100 000 arrivals.
    let database = FakeDatabase::scripted(|_| {
        std::thread::sleep(Duration::from_micros(100));
        Ok(())
    });
    let measured = run_one(&database, &options, SHORT, &mut Log::default()).expect("it runs");
    let workload = &measured.workloads[0];
    let WorkloadMeasurement { all, window, .. } = &workload.measured;
    let (offered_per_s, backlog) = window.offered_per_s.zip(window.backlog).expect("it is an open loop");
    // 1e6 per second for 100 ms; the standard deviation is 316.
    let offered = (offered_per_s * SHORT.measure.as_secs_f64()).round() as u64;
    assert!(offered.abs_diff(100_000) < 2_000, "{window:?}");
    let in_flight = all.in_flight.expect("a single run");
    let waiting = in_flight.end - backlog;
    assert!(waiting <= 2 && backlog > 90_000, "{window:?} {in_flight:?}");
    assert_eq!(offered - (in_flight.end - in_flight.begin), all.completed, "what arrived has ended or is there still");
    assert!(window.doubts.iter().any(|doubt| doubt.about == DoubtAbout::Overload), "{:?}", window.doubts);
    let [(_, class)] = &workload.classes[..] else { panic!("{:?}", workload.classes) };
    assert!(class.times.served_share() < 0.5, "most of the time its requests waited for a client: {:?}", class.times);
    assert!(class.times.in_system < workload.all.times.in_system, "those that nobody took are of no class");
    let is_told = |doubt: &Doubt| doubt.told.contains("waited for a free client");
    assert!(window.doubts.iter().any(is_told), "{:?}", window.doubts);
}
