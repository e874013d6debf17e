//! The fixed point of Bard and Schweitzer, with rates that depend on the number of requests.
//!
//! An arriving request finds the others as they are on average, its own class with one client less: `Q_k - Q_ck / N_c`
//! of them, which use `U_k - U_ck / N_c` seconds per second. For a station with one rate nothing more is needed. Where
//! the rate `a(j)` changes with the number of requests up to `L`, the probabilities of `0 .. L-2` requests are needed,
//! too. They are taken to have the shape that arrivals independent of the number have,
//! `p(j) = p(0) U^j / (a(1) … a(j))`, scaled so that the station serves just `U`:
//! ```text
//! p(0) = (a(L) - U) / sum over j < L of (a(L) - a(j)) U^j / (a(1) … a(j))
//! ```
//! This is exact in the limits: many clients that think for long, requests that never wait, and a station that is always busy. Between
//! them it errs most with few clients, for which the exact recursion is cheap.

use super::Unsolved;
use super::exact::present_max;
use crate::network::{Class, Network, Service};

const STEPS_MAX: usize = 200_000;
/// Requests at stations have settled if they change by at most this share.
const TOLERANCE: f64 = 1e-10;
/// How much of a step is made: whole steps swing around the fixed point near saturation.
const STEP: f64 = 0.5;

/// Mean seconds of a request of each class at each station.
pub(super) fn residences_s(network: &Network) -> Result<Vec<Vec<f64>>, Unsolved> {
    let there: Vec<bool> = network.classes().iter().map(|class| class.population > 0).collect();
    let mut state: Vec<NetworkState> = network.classes().iter().map(NetworkState::spread_evenly).collect();
    for _ in 0..STEPS_MAX {
        let stations = totals(network, &state);
        let mut change: f64 = 0.0;
        let mut next = state.clone();
        for (at, class) in network.classes().iter().enumerate().filter(|(at, _)| there[*at]) {
            change = change.max(next[at].step(network, class, &stations));
        }
        state = next;
        if change < TOLERANCE {
            let stations = totals(network, &state);
            let residences_s = |(class, state): (&Class, NetworkState)| match class.arrivals_per_s {
                Some(_) => residences_of_arrival_s(network, class, &stations),
                None => state.residences_s,
            };
            return Ok(network.classes().iter().zip(state).map(residences_s).collect());
        }
    }
    Err(Unsolved::NotConverged { steps: STEPS_MAX })
}

/// Requests and use of a station, by all classes.
#[derive(Clone, Copy, Default)]
struct Load {
    present: f64,
    used: f64,
}

fn totals(network: &Network, state: &[NetworkState]) -> Vec<Load> {
    let total = |station: usize| {
        state
            .iter()
            .map(|state| state.loads[station])
            .fold(Load::default(), |sum, load| Load { present: sum.present + load.present, used: sum.used + load.used })
    };
    (0..network.stations().len()).map(total).collect()
}

/// The load of a class on each station.
#[derive(Clone)]
struct NetworkState {
    loads: Vec<Load>,
    residences_s: Vec<f64>,
}

impl NetworkState {
    /// The starting state: all clients are at stations, in proportion to their demands.
    fn spread_evenly(class: &Class) -> Self {
        let total_s = class.demand_total_s();
        let present =
            |demand_s: &f64| if total_s > 0.0 { f64::from(class.population) * demand_s / total_s } else { 0.0 };
        let loads = class.demands_s.iter().map(|demand_s| Load { present: present(demand_s), used: 0.0 }).collect();
        Self { loads, residences_s: vec![0.0; class.demands_s.len()] }
    }

    /// One step to the fixed point; returns its length, relative to the clients of the class.
    fn step(&mut self, network: &Network, class: &Class, stations: &[Load]) -> f64 {
        let clients = f64::from(class.population);
        for (at, station) in network.stations().iter().enumerate() {
            let (own, all) = (self.loads[at], stations[at]);
            let others =
                Load { present: all.present - own.present / clients, used: (all.used - own.used / clients).max(0.0) };
            let demand_s = class.demands_s[at];
            self.residences_s[at] =
                if demand_s > 0.0 { demand_s * stretch(&station.service, present_max(network), others) } else { 0.0 };
        }
        let throughput = clients / (class.think_s + self.residences_s.iter().sum::<f64>());
        let mut change: f64 = 0.0;
        for ((load, residence_s), demand_s) in self.loads.iter_mut().zip(&self.residences_s).zip(&class.demands_s) {
            let step = throughput * residence_s - load.present;
            load.present += STEP * step;
            load.used += STEP * (throughput * demand_s - load.used);
            change = change.max(step.abs() / clients);
        }
        change
    }
}

/// Mean seconds at each station of a request of an open class, which finds all clients as they are on average.
fn residences_of_arrival_s(network: &Network, class: &Class, stations: &[Load]) -> Vec<f64> {
    let stations = network.stations().iter().zip(stations).zip(&class.demands_s);
    stations
        .map(|((station, load), demand_s)| demand_s * stretch(&station.service, present_max(network), *load))
        .collect()
}

/// Seconds at a station for each second of demand, for a request that finds `others` present.
fn stretch(service: &Service, population: usize, others: Load) -> f64 {
    if matches!(service, Service::Delay) {
        return 1.0;
    }
    let levels = service.levels(population);
    let last = service.rate(levels);
    let mut weight = 1.0;
    let mut scale = last;
    let mut below = 0.0;
    for j in 1..levels {
        let rate = service.rate(j);
        below += weight * j as f64 * (1.0 / rate - 1.0 / last);
        weight *= others.used / rate;
        scale += weight * (last - rate);
    }
    let empty = ((last - others.used) / scale).max(0.0);
    (1.0 + others.present) / last + empty * below
}
