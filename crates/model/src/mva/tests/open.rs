//! Open classes, against closed forms, and against closed classes of so many clients that these arrive at random.

use super::*;
use crate::network::tests::open;

/// Mean response over demand at `servers` that are busy for the share `load` (Erlang's C formula).
fn stretch(servers: u32, load: f64) -> f64 {
    let offered = load * f64::from(servers);
    // Erlang's B formula by its recursion, then C.
    let blocked = (1..=servers).fold(1.0, |b, server| offered * b / (f64::from(server) + offered * b));
    let waits = blocked / (1.0 - load * (1.0 - blocked));
    1.0 + waits / (f64::from(servers) * (1.0 - load))
}

#[test]
fn one_server_and_one_class_is_m_m_1() {
    for (per_s, demand_s) in [(100.0, 0.005), (9.0, 0.1), (0.5, 1.99)] {
        let solution = solve(&network(&[cores(1)], vec![open(per_s, &[demand_s])])).unwrap();
        assert_eq!((solution.method, solution.classes[0].throughput), (Method::Exact, per_s));
        let load = per_s * demand_s;
        assert_near(solution.stations[0].utilisation.unwrap(), load, 1e-12);
        assert_near(solution.classes[0].response_s.unwrap(), demand_s / (1.0 - load), 1e-12);
        assert_near(solution.stations[0].present, load / (1.0 - load), 1e-12);
    }
}

#[test]
fn one_server_and_two_classes_is_m_m_1_with_two_classes() {
    let classes = vec![open(100.0, &[0.002]), open(5.0, &[0.1])];
    let solution = solve(&network(&[cores(1)], classes)).unwrap();
    let left = 1.0 - 0.2 - 0.5;
    assert_eq!([0, 1].map(|class| solution.classes[class].throughput), [100.0, 5.0]);
    assert_near(solution.classes[0].response_s.unwrap(), 0.002 / left, 1e-12);
    assert_near(solution.classes[1].response_s.unwrap(), 0.1 / left, 1e-12);
}

#[test]
fn several_servers_are_as_erlang_found() {
    for servers in [2, 3, 8, 64] {
        for load in [0.01, 0.5, 0.9, 0.999] {
            let rate = load * f64::from(servers) / 0.01;
            let services = [cores(servers), Service::Delay];
            let solution = solve(&network(&services, vec![open(rate, &[0.01, 2.0])])).unwrap();
            let found = solution.classes[0].residence_s.clone();
            assert_near(found[0], 0.01 * stretch(servers, load), 1e-9);
            assert_eq!(found[1], 2.0, "a delay does not wait");
        }
    }
}

#[test]
fn clients_beside_arrivals_get_the_part_of_a_single_server_that_these_leave() {
    let closed = |demand_s: f64| class(7, 2.0, &[demand_s]);
    let mixed = solve(&network(&[cores(1)], vec![open(3.0, &[0.2]), closed(0.3)])).unwrap();
    let alone = solve(&network(&[cores(1)], vec![closed(0.3 / 0.4)])).unwrap();
    assert_near(mixed.classes[1].throughput, alone.classes[0].throughput, 1e-12);
    assert_near(mixed.classes[0].response_s.unwrap(), 0.2 * (1.0 + alone.stations[0].present) / 0.4, 1e-12);
}

/// Very many clients who think for very long send requests at random times.
#[test]
fn an_open_class_is_as_one_of_very_many_clients_who_think_for_very_long() {
    const CLIENTS: u32 = 20_000;
    for services in [[cores(2), disk()], [cores(1), cores(3)], [disk(), Service::Delay]] {
        let own = || class(5, 0.4, &[0.3, 0.2]);
        let mixed = solve_exactly(&network(&services, vec![open(1.5, &[0.2, 0.6]), own()])).unwrap();
        let many = class(CLIENTS, f64::from(CLIENTS) / 1.5, &[0.2, 0.6]);
        let closed = solve_exactly(&network(&services, vec![many, own()])).unwrap();
        for (mixed, closed) in mixed.classes.iter().zip(&closed.classes) {
            for (mixed, closed) in mixed.residence_s.iter().zip(&closed.residence_s) {
                assert_near(*mixed, *closed, 2e-3);
            }
        }
    }
}

#[test]
fn a_rate_that_saturates_a_station_is_refused() {
    let of = |per_s: f64| network(&[cores(2), disk()], vec![open(per_s, &[0.01, 0.0]), class(3, 0.0, &[0.1, 0.1])]);
    assert!(solve(&of(199.0)).is_ok());
    for solved in [solve(&of(200.0)), solve_exactly(&of(1e9)), solve_approximately(&of(200.0))] {
        assert!(matches!(solved.unwrap_err(), Unsolved::Saturated(_)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// No request is lost: what arrives is answered, and clients are at a station or think. The more arrive, the longer
    /// each waits. Some clients may gain, if others wait longer where arrivals do and so leave another station to them.
    #[test]
    fn arrivals_are_answered_and_wait_the_longer_the_more_they_are(of_clients in networks(), load in 0.05..0.9_f64, cpu_s in 0.01..2.0_f64) {
        let servers = of_clients.stations()[0].service.rate_max().unwrap();
        let with = |load: f64| {
            let arrivals = open(load * servers / cpu_s, &[cpu_s, 0.0]);
            let classes = of_clients.classes().iter().cloned().chain([arrivals]).collect();
            Network::new(of_clients.stations().to_vec(), classes).unwrap()
        };
        let less = solve_exactly(&with(load / 2.0)).unwrap();
        for solution in [solve_exactly(&with(load)).unwrap(), solve_approximately(&with(load)).unwrap()] {
            prop_assert_eq!(solution.classes[2].throughput, load * servers / cpu_s);
            prop_assert!(solution.stations.iter().all(|station| station.utilisation.unwrap() < 1.0 + 1e-9));
            for (class, figures) in of_clients.classes().iter().zip(&solution.classes) {
                let clients = figures.throughput * (class.think_s + figures.response_s.unwrap());
                prop_assert!((clients - f64::from(class.population)).abs() < 1e-6 * clients);
            }
        }
        let response_s = |solution: &Solution| solution.classes[2].response_s.unwrap();
        prop_assert!(response_s(&solve_exactly(&with(load)).unwrap()) > response_s(&less));
    }
}
