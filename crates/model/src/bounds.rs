//! Bounds of networks: the best that any schedule can do, and the worst that sharing can cause.
//!
//! [`asymptotic`] bounds each class of a network: a request is never served faster than alone and never slower than with all requests
//! at every station that it visits, and no station serves more than its highest rate. Beside an open class nothing bounds the number of
//! requests, nor the response.
//!
//! The bounds hold for any spread of demands. They are a baseline that a prediction must beat, and need nothing but mean demands.

use crate::network::{Class, Network, Service, Station};

/// The bounds of a class's figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Requests per second, at least.
    pub throughput_min: f64,
    /// Requests per second, at most.
    pub throughput_max: f64,
    /// Mean seconds of a response, at least.
    pub response_s_min: f64,
    /// Mean seconds of a response, at most.
    pub response_s_max: f64,
}

impl Bounds {
    /// Response and throughput bound each other: `clients = throughput (think + response)`.
    fn of(class: &Class, response_s_min: f64, response_s_max: f64) -> Self {
        let throughput = |response_s: f64| match class.arrivals_per_s {
            Some(per_s) => per_s,
            None => f64::from(class.population) / (class.think_s + response_s),
        };
        Self {
            throughput_min: throughput(response_s_max),
            throughput_max: throughput(response_s_min),
            response_s_min,
            response_s_max,
        }
    }
}

/// Bounds of every class; `None` for classes without requests.
pub fn asymptotic(network: &Network) -> Vec<Option<Bounds>> {
    network.classes().iter().map(|class| class.has_requests().then(|| of_class(network, class))).collect()
}

fn of_class(network: &Network, class: &Class) -> Bounds {
    // With open classes any number can be present; from the last level on, more only wait longer.
    let levels = |station: &Station| station.service.levels(usize::MAX);
    let open_levels = || network.stations().iter().map(levels).max().unwrap_or(1);
    let everybody = if network.is_open() { open_levels() } else { network.population() };
    // Seconds at a station for each second of demand, with each number of requests present.
    let stretches =
        |service: &Service| (1..=everybody).map(|present| present as f64 / service.rate(present)).collect::<Vec<_>>();
    let (mut least_s, mut most_s, mut saturated_s) = (0.0, 0.0, 0.0_f64);
    for (at, (station, demand_s)) in network.stations().iter().zip(&class.demands_s).enumerate() {
        let stretches = stretches(&station.service);
        least_s += demand_s * stretches.iter().copied().fold(f64::INFINITY, f64::min);
        most_s += demand_s * stretches.iter().copied().fold(0.0, f64::max);
        let left = station.service.rate_max().map(|rate| rate - network.brought(at));
        let per_request_s = left.map_or(0.0, |rate| demand_s / rate);
        saturated_s = saturated_s.max(f64::from(class.population) * per_request_s - class.think_s);
    }
    Bounds::of(class, least_s.max(saturated_s), if network.is_open() { f64::INFINITY } else { most_s })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mva::{self, solve_exactly};
    use crate::network::tests::{class, station};

    fn single_servers(class: Class) -> Network {
        let cpu = station("cpu", Service::Processors { servers: 1 });
        let disk = station("disk", Service::Curve { rates: vec![2.0] });
        Network::new(vec![cpu, disk, station("wire", Service::Delay)], vec![class]).unwrap()
    }

    #[test]
    fn the_bottleneck_bounds_many_clients_and_demands_bound_one() {
        let found = asymptotic(&single_servers(class(1, 3.0, &[0.5, 0.5, 0.25])))[0].unwrap();
        assert_eq!((found.response_s_min, found.response_s_max), (1.0, 1.0));
        let found = asymptotic(&single_servers(class(100, 3.0, &[0.5, 0.4, 0.1])))[0].unwrap();
        assert_eq!((found.throughput_max, found.response_s_min), (2.0, 47.0));
        assert_eq!(asymptotic(&single_servers(class(0, 3.0, &[0.5, 0.4, 0.1]))), [None]);
    }

    proptest! {
        #[test]
        fn the_exact_solution_is_within_asymptotic_bounds(network in mva::tests::networks()) {
            for (figures, bounds) in solve_exactly(&network).unwrap().classes.iter().zip(asymptotic(&network)) {
                let (found, bounds) = (figures.throughput, bounds.unwrap());
                prop_assert!(bounds.throughput_min <= found * (1.0 + 1e-9) && found <= bounds.throughput_max * (1.0 + 1e-9));
                let found = figures.response_s.unwrap();
                prop_assert!(bounds.response_s_min <= found * (1.0 + 1e-9) && found <= bounds.response_s_max * (1.0 + 1e-9));
            }
        }
    }
}
