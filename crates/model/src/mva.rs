//! Mean value analysis of a [`Network`]: throughput and response time of each class, and the load of each station.
//!
//! [`solve`] chooses between two methods by the size of the network and reports which it used:
//! - [`exact`](Method::Exact): the recursion over populations of Reiser and Lavenberg (1980), with marginal probabilities for
//!   stations whose rate depends on the number of requests. Probabilities of an empty station follow from the throughput of
//!   the network without it (Reiser 1981), not from the complement to 1, which loses all digits at high loads.
//! - [`approximate`](Method::Approximate): the fixed point of Bard and Schweitzer (1979) for populations whose recursion costs
//!   too much, extended to rates that depend on the number of requests (see `mva/approximate.rs`).
//!
//! Open classes, alone or beside closed ones, are taken into the rates of the stations, as closed classes see them. What is left is a closed
//! network (see `mva/open.rs`), so either method serves for both.
//!
//! Product form is assumed: processor sharing without priorities. The network of McWherter's thesis (4.6.3) has it,
//! too, contrary to the thesis: its stations share, so rates may differ by class. Its `T_mod` is therefore this
//! solution with one server for each station.

use thiserror::Error;

use crate::network::{Class, Network, Saturated};

mod approximate;
mod exact;
mod open;
#[cfg(test)]
pub(crate) mod tests;

/// The exact recursion is used up to this many multiplications. It keeps fewer numbers than that, so this bounds
/// memory, too.
const EXACT_STEPS_MAX: f64 = 1e7;

/// How a solution was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Exact for networks of product form.
    Exact,
    /// The fixed point of Bard and Schweitzer. Tests hold throughputs within 35 % of exact ones for a few clients, and within 1 % of
    /// closed forms for thousands.
    Approximate,
}

/// The figures of a class.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassFigures {
    /// Requests per second, of all clients together; of an open class those that arrive.
    pub throughput: f64,
    /// Mean seconds from request to answer; `None` without requests.
    pub response_s: Option<f64>,
    /// Mean seconds of a request at each station, waiting included; zeros without requests.
    pub residence_s: Vec<f64>,
}

/// The load of a station.
#[derive(Debug, Clone, PartialEq)]
pub struct StationFigures {
    /// Requests present on average, of all classes.
    pub present: f64,
    /// Seconds of demand served per second: busy processors on average.
    pub served: f64,
    /// `served` of the highest rate, 0 to 1; `None` for a delay.
    pub utilisation: Option<f64>,
}

/// The result of mean value analysis for a network.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// How it was found.
    pub method: Method,
    /// Figures of each class, in the order of the network.
    pub classes: Vec<ClassFigures>,
    /// Figures of each station, in the order of the network.
    pub stations: Vec<StationFigures>,
}

impl Solution {
    /// The station with the highest utilisation; `None` if there are only delays, or no load.
    pub fn bottleneck(&self) -> Option<usize> {
        let busy = |at: usize| self.stations[at].utilisation.filter(|utilisation| *utilisation > 0.0);
        (0..self.stations.len())
            .filter_map(|at| Some((at, busy(at)?)))
            .max_by(|left, right| left.1.total_cmp(&right.1))
            .map(|(at, _)| at)
    }

    /// From the time that a request of each class spends at each station.
    fn of(network: &Network, method: Method, residences_s: Vec<Vec<f64>>) -> Self {
        let of_class = |(class, residence_s): (&Class, Vec<f64>)| {
            let response_s: f64 = residence_s.iter().sum();
            let throughput = match class.arrivals_per_s {
                Some(per_s) => per_s,
                None if class.population > 0 => f64::from(class.population) / (class.think_s + response_s),
                None => 0.0,
            };
            ClassFigures { throughput, response_s: class.has_requests().then_some(response_s), residence_s }
        };
        let classes: Vec<_> = network.classes().iter().zip(residences_s).map(of_class).collect();
        let of_station = |at: usize| {
            let sum =
                |of: &dyn Fn(usize) -> f64| (0..classes.len()).map(|c| classes[c].throughput * of(c)).sum::<f64>();
            let served = sum(&|c| network.classes()[c].demands_s[at]);
            let utilisation = network.stations()[at].service.rate_max().map(|most| served / most);
            StationFigures { present: sum(&|c| classes[c].residence_s[at]), served, utilisation }
        };
        let stations = (0..network.stations().len()).map(of_station).collect();
        Self { method, classes, stations }
    }
}

/// Why there is no solution.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Unsolved {
    /// A queue grows without end.
    #[error(transparent)]
    Saturated(#[from] Saturated),
    /// The approximation took too many steps.
    #[error("the approximate mean value analysis did not converge in {steps} steps")]
    NotConverged {
        /// Steps that were made.
        steps: usize,
    },
}

/// Solves a network, exactly if that is cheap enough.
pub fn solve(network: &Network) -> Result<Solution, Unsolved> {
    if exact::steps(network) <= EXACT_STEPS_MAX { solve_exactly(network) } else { solve_approximately(network) }
}

/// Solves a network exactly, at any cost: steps grow with the product of populations, and double with each station whose
/// rate depends on the number of requests.
pub fn solve_exactly(network: &Network) -> Result<Solution, Unsolved> {
    let closed = open::as_clients_see_it(network)?;
    Ok(Solution::of(network, Method::Exact, exact::residences_s(&closed)))
}

/// Solves a network approximately, in time that hardly depends on populations.
pub fn solve_approximately(network: &Network) -> Result<Solution, Unsolved> {
    let closed = open::as_clients_see_it(network)?;
    Ok(Solution::of(network, Method::Approximate, approximate::residences_s(&closed)?))
}
