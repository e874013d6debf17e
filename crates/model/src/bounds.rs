//! Bounds of closed networks: the best that any schedule can do, and the worst that sharing can cause.
//!
//! [`asymptotic`] bounds each class of a network: a request is never served faster than alone and never slower than with all requests
//! at every station that it visits, and no station serves more than its highest rate. [`balanced`] is tighter, for one class and stations
//! with one server: it compares with networks whose stations are equally loaded (Zahorjan, Sevcik, Eager and Galler 1982; Lazowska and
//! others, *Quantitative System Performance*, 5.4).
//!
//! Both hold for any spread of demands. They are the baselines that a prediction must beat, and need nothing but mean demands.

use thiserror::Error;

use crate::network::{Class, Network, Service};

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
        let throughput = |response_s: f64| f64::from(class.population) / (class.think_s + response_s);
        Self {
            throughput_min: throughput(response_s_max),
            throughput_max: throughput(response_s_min),
            response_s_min,
            response_s_max,
        }
    }
}

/// The least mean response time of `clients` with `demands_s` at stations with one second of service per second each,
/// and mean think time `think_s`: the larger of the sum of demands and the wait in the bottleneck's queue (McWherter,
/// formula 4.5).
pub fn response_least_s(clients: f64, think_s: f64, demands_s: &[f64]) -> f64 {
    let most = demands_s.iter().copied().fold(0.0, f64::max);
    demands_s.iter().sum::<f64>().max(clients * most - think_s)
}

/// Bounds of every class; `None` for classes without clients.
pub fn asymptotic(network: &Network) -> Vec<Option<Bounds>> {
    network.classes().iter().map(|class| (class.population > 0).then(|| of_class(network, class))).collect()
}

fn of_class(network: &Network, class: &Class) -> Bounds {
    let everybody = network.population();
    // Seconds at a station for each second of demand, with each number of requests present.
    let stretches =
        |service: &Service| (1..=everybody).map(|present| present as f64 / service.rate(present)).collect::<Vec<_>>();
    let (mut least_s, mut most_s, mut saturated_s) = (0.0, 0.0, 0.0_f64);
    for (station, demand_s) in network.stations().iter().zip(&class.demands_s) {
        let stretches = stretches(&station.service);
        least_s += demand_s * stretches.iter().copied().fold(f64::INFINITY, f64::min);
        most_s += demand_s * stretches.iter().copied().fold(0.0, f64::max);
        let per_request_s = station.service.rate_max().map_or(0.0, |rate| demand_s / rate);
        saturated_s = saturated_s.max(f64::from(class.population) * per_request_s - class.think_s);
    }
    Bounds::of(class, least_s.max(saturated_s), most_s)
}

/// Why there are no balanced-job bounds.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotBalanced {
    /// They are known for one class.
    #[error("{0} classes have clients; balanced-job bounds are of one class")]
    Classes(usize),
    /// They are known for stations with one rate.
    #[error("the rate of station `{0}` depends on the number of requests; balanced-job bounds are of single servers")]
    Rate(String),
    /// Requests wait nowhere.
    #[error("the class needs no station at which requests could wait")]
    NoQueue,
}

/// Balanced-job bounds of the one class with clients. Delays count as think time.
pub fn balanced(network: &Network) -> Result<Bounds, NotBalanced> {
    let there: Vec<&Class> = network.classes().iter().filter(|class| class.population > 0).collect();
    let [class] = there[..] else { return Err(NotBalanced::Classes(there.len())) };
    let (mut delay_s, mut demands_s) = (0.0, Vec::new());
    for (station, demand_s) in network.stations().iter().zip(&class.demands_s).filter(|(_, demand_s)| **demand_s > 0.0)
    {
        match station.service {
            Service::Delay => delay_s += demand_s,
            _ if station.service.levels(network.population()) > 1 => {
                return Err(NotBalanced::Rate(station.name.clone()));
            }
            _ => demands_s.push(demand_s / station.service.rate(1)),
        }
    }
    if demands_s.is_empty() {
        return Err(NotBalanced::NoQueue);
    }
    let (clients, think_s) = (f64::from(class.population), class.think_s + delay_s);
    let sum_s: f64 = demands_s.iter().sum();
    let mean_s = sum_s / demands_s.len() as f64;
    let most_s = demands_s.iter().copied().fold(0.0, f64::max);
    let slowest_s = sum_s + (clients - 1.0) * most_s / (1.0 + think_s / (clients * sum_s));
    let fastest_s = (sum_s + (clients - 1.0) * mean_s / (1.0 + think_s / sum_s)).max(clients * most_s - think_s);
    Ok(Bounds::of(class, delay_s + fastest_s, delay_s + slowest_s))
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
        assert_eq!(response_least_s(100.0, 3.0, &[0.5, 0.4]), 47.0);
        assert_eq!(response_least_s(2.0, 3.0, &[0.5, 0.4]), 0.9);
        assert_eq!(asymptotic(&single_servers(class(0, 3.0, &[0.5, 0.4, 0.1]))), [None]);
    }

    #[test]
    fn networks_without_balanced_job_bounds_say_why() {
        let two = station("cpu", Service::Processors { servers: 2 });
        let of = |classes| balanced(&Network::new(vec![two.clone()], classes).unwrap()).unwrap_err();
        assert_eq!(of(vec![class(2, 0.0, &[1.0]), class(1, 0.0, &[1.0])]), NotBalanced::Classes(2));
        assert_eq!(of(vec![class(2, 0.0, &[1.0])]), NotBalanced::Rate("cpu".to_owned()));
        assert_eq!(of(vec![class(2, 1.0, &[0.0])]), NotBalanced::NoQueue);
    }

    proptest! {
        #[test]
        fn the_exact_solution_is_within_asymptotic_bounds(network in mva::tests::networks()) {
            for (figures, bounds) in solve_exactly(&network).classes.iter().zip(asymptotic(&network)) {
                let (found, bounds) = (figures.throughput, bounds.unwrap());
                prop_assert!(bounds.throughput_min <= found * (1.0 + 1e-9) && found <= bounds.throughput_max * (1.0 + 1e-9));
                let found = figures.response_s.unwrap();
                prop_assert!(bounds.response_s_min <= found * (1.0 + 1e-9) && found <= bounds.response_s_max * (1.0 + 1e-9));
            }
        }

        #[test]
        fn balanced_job_bounds_hold_and_are_tighter(
            clients in 1..40_u32, think_s in 0.0..20.0_f64, cpu_s in 0.01..2.0_f64, disk_s in 0.01..2.0_f64, wire_s in 0.0..1.0_f64,
        ) {
            let network = single_servers(class(clients, think_s, &[cpu_s, disk_s, wire_s]));
            let found = solve_exactly(&network).classes[0].throughput;
            let (tight, wide) = (balanced(&network).unwrap(), asymptotic(&network)[0].unwrap());
            prop_assert!(tight.throughput_min <= found * (1.0 + 1e-9) && found <= tight.throughput_max * (1.0 + 1e-9));
            prop_assert!(wide.throughput_min <= tight.throughput_min * (1.0 + 1e-9));
            prop_assert!(tight.throughput_max <= wide.throughput_max * (1.0 + 1e-9));
        }
    }
}
