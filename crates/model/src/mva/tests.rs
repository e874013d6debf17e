//! Against closed forms, and against the Markov chain of the network, state by state.

use proptest::prelude::*;

use super::*;
use crate::network::Service;
use crate::network::tests::{class, station};

mod chain;
mod open;

fn network(services: &[Service], classes: Vec<crate::network::Class>) -> Network {
    let stations = services.iter().map(|service| station("station", service.clone())).collect();
    Network::new(stations, classes).unwrap()
}

fn cores(servers: u32) -> Service {
    Service::Processors { servers }
}

fn disk() -> Service {
    Service::Curve { rates: vec![1.0, 1.7, 2.1, 2.3] }
}

fn assert_near(found: f64, expect: f64, tolerance: f64) {
    assert!((found - expect).abs() <= tolerance * expect.abs().max(1e-300), "{found} is not {expect}");
}

/// Throughput of `clients` machines that run for `think_s` and are repaired in `demand_s` by `servers`, by the steady state of
/// its birth-death chain, in logarithms so that nothing overflows.
fn repaired_per_s(clients: u32, servers: u32, think_s: f64, demand_s: f64) -> f64 {
    let mut logarithms = vec![0.0];
    for broken in 1..=clients {
        let breaks = f64::from(clients - broken + 1) / think_s;
        let repairs = f64::from(broken.min(servers)) / demand_s;
        logarithms.push(logarithms[broken as usize - 1] + (breaks / repairs).ln());
    }
    let most = logarithms.iter().copied().fold(f64::MIN, f64::max);
    let weights: Vec<f64> = logarithms.iter().map(|logarithm| (logarithm - most).exp()).collect();
    let rate = |broken: usize| (broken as f64).min(f64::from(servers)) / demand_s;
    let sum: f64 = weights.iter().sum();
    weights.iter().enumerate().map(|(broken, weight)| weight * rate(broken)).sum::<f64>() / sum
}

#[test]
fn the_machine_repairman_is_exact_at_any_load() {
    // The last ones saturate: the complement to 1 would lose all digits of the probability of an idle server.
    for (clients, servers, think_s, demand_s) in
        [(1, 1, 2.0, 1.0), (5, 1, 2.0, 1.0), (20, 4, 3.0, 1.0), (100, 8, 1.0, 0.5), (400, 16, 0.5, 1.0)]
    {
        let solution = solve(&network(&[cores(servers)], vec![class(clients, think_s, &[demand_s])])).unwrap();
        assert_eq!(solution.method, Method::Exact);
        let expect = repaired_per_s(clients, servers, think_s, demand_s);
        assert_near(solution.classes[0].throughput, expect, 1e-10);
        assert_near(solution.stations[0].utilisation.unwrap(), expect * demand_s / f64::from(servers), 1e-10);
        assert_near(solution.classes[0].response_s.unwrap(), f64::from(clients) / expect - think_s, 1e-8);
    }
}

/// Networks small enough for their chain: services, and classes with think time and demands.
pub(crate) fn small_networks() -> Vec<Network> {
    vec![
        network(&[cores(1), cores(1)], vec![class(3, 2.0, &[0.3, 0.5]), class(3, 0.0, &[1.0, 0.2])]),
        network(&[cores(2), disk()], vec![class(3, 0.7, &[0.3, 0.5]), class(4, 0.0, &[1.0, 0.6])]),
        network(&[cores(3), disk()], vec![class(2, 0.0, &[0.3, 0.5]), class(2, 0.0, &[1.0, 0.0])]),
        network(&[cores(2), cores(1)], vec![class(2, 0.1, &[0.02, 4.0]), class(5, 0.0, &[3.0, 0.0])]),
        network(&[disk(), Service::Delay], vec![class(4, 1.0, &[0.3, 0.2]), class(3, 0.0, &[0.6, 0.1])]),
        network(
            &[cores(2), disk()],
            vec![class(2, 1.0, &[0.3, 0.5]), class(2, 0.0, &[1.0, 0.3]), class(1, 0.2, &[0.1, 0.9])],
        ),
    ]
}

#[test]
fn small_networks_are_as_their_markov_chain() {
    for network in small_networks() {
        let solution = solve_exactly(&network).unwrap();
        for (found, expect) in solution.classes.iter().zip(chain::throughputs(&network)) {
            assert_near(found.throughput, expect, 1e-9);
        }
        for (found, expect) in solution.stations.iter().zip(chain::present(&network)) {
            assert_near(found.present, expect, 1e-9);
        }
    }
}

#[test]
fn a_network_without_requests_has_no_response() {
    let solution = solve(&network(&[cores(2)], vec![class(0, 1.0, &[1.0]), class(3, 0.5, &[0.0])])).unwrap();
    assert_eq!((solution.classes[0].throughput, solution.classes[0].response_s), (0.0, None));
    assert_eq!((solution.classes[1].throughput, solution.classes[1].response_s), (6.0, Some(0.0)));
    assert_eq!(solution.bottleneck(), None);
    assert_eq!(solve(&network(&[], Vec::new())).unwrap().classes, []);
}

#[test]
fn populations_that_are_too_large_are_approximated_and_said_to_be() {
    let of = |clients: u32| {
        network(
            &[cores(8), disk()],
            vec![
                class(clients, 2.0, &[0.01, 0.002]),
                class(clients, 0.0, &[0.3, 0.1]),
                class(clients, 1.0, &[0.1, 0.4]),
            ],
        )
    };
    assert_eq!(solve(&of(20)).unwrap().method, Method::Exact);
    let large = solve(&of(2_000)).unwrap();
    assert_eq!(large.method, Method::Approximate);
    // The load of the busier station is near 1.
    assert_near(large.stations[0].utilisation.unwrap().max(large.stations[1].utilisation.unwrap()), 1.0, 0.01);
}

#[test]
fn the_approximation_meets_closed_forms_of_large_populations() {
    for (clients, servers, think_s) in [(4_000, 16, 200.0), (4_000, 16, 300.0), (4_000, 16, 500.0), (3_000, 1, 4_000.0)]
    {
        let solution = solve_approximately(&network(&[cores(servers)], vec![class(clients, think_s, &[1.0])])).unwrap();
        assert_near(solution.classes[0].throughput, repaired_per_s(clients, servers, think_s, 1.0), 0.01);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Little's law for clients: all of them are at a station or think.
    #[test]
    fn every_client_is_somewhere(network in networks()) {
        for solution in [solve_exactly(&network).unwrap(), solve_approximately(&network).unwrap()] {
            let thinks: f64 =
                network.classes().iter().zip(&solution.classes).map(|(class, figures)| class.think_s * figures.throughput).sum();
            let present: f64 = solution.stations.iter().map(|station| station.present).sum();
            prop_assert!((thinks + present - network.population() as f64).abs() < 1e-6 * network.population() as f64);
            for (class, figures) in network.classes().iter().zip(&solution.classes) {
                let found = figures.throughput * (class.think_s + figures.response_s.unwrap());
                prop_assert!((found - f64::from(class.population)).abs() < 1e-9 * found);
            }
        }
    }

    /// No station serves more than it can; the approximation is near the exact solution.
    #[test]
    fn the_approximation_is_near_also_for_few_clients(network in networks()) {
        let (exact, near) = (solve_exactly(&network).unwrap(), solve_approximately(&network).unwrap());
        for (exact, near) in exact.classes.iter().zip(&near.classes) {
            let error = (near.throughput / exact.throughput - 1.0).abs();
            prop_assert!(error < 0.35, "{} {}", exact.throughput, near.throughput);
        }
        prop_assert!(exact.stations.iter().all(|station| station.utilisation.unwrap() < 1.0 + 1e-9));
    }
}

/// Two classes on cores and a disk.
pub(crate) fn networks() -> impl Strategy<Value = Network> {
    let one = || (1..12_u32, prop_oneof![Just(0.0), 0.01..20.0_f64], 0.01..2.0_f64, 0.01..2.0_f64);
    (1..6_u32, one(), one()).prop_map(|(servers, one, two)| {
        let of = |(clients, think_s, cpu_s, disk_s): (u32, f64, f64, f64)| class(clients, think_s, &[cpu_s, disk_s]);
        network(&[cores(servers), disk()], vec![of(one), of(two)])
    })
}
