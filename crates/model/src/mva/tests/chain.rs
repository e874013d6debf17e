//! The Markov chain of a small network, solved state by state. Every class thinks and then visits its stations one
//! after the other. It repeats the visits with probability one half, so that a request has two rounds on average.
//!
//! Steady states are found by the elimination of Grassmann, Taksar and Heyman (1985), which subtracts nothing.

use std::collections::BTreeMap;

use crate::network::{Class, Network};

/// The places of the clients of each class: thinking (place 0), or at station `place - 1`.
type State = Vec<Vec<usize>>;

/// Probability that a request ends after a round.
const ENDS: f64 = 0.5;

/// Requests per second of each class.
pub(super) fn throughputs(network: &Network) -> Vec<f64> {
    let (states, probabilities) = steady(network);
    let of_class = |at: usize| {
        let class = &network.classes()[at];
        let last = *places(class).last().unwrap();
        let ends = if last == 0 { 1.0 } else { ENDS };
        states.iter().zip(&probabilities).map(|(state, p)| p * leave_per_s(network, state, at, last) * ends).sum()
    };
    (0..network.classes().len()).map(of_class).collect()
}

/// Requests at each station on average.
pub(super) fn present(network: &Network) -> Vec<f64> {
    let (states, probabilities) = steady(network);
    let at_station = |station: usize| {
        let count = |state: &State| state.iter().map(|places| places[station + 1]).sum::<usize>() as f64;
        states.iter().zip(&probabilities).map(|(state, p)| p * count(state)).sum()
    };
    (0..network.stations().len()).map(at_station).collect()
}

/// The places that a class visits, in order; thinking first, if it thinks.
fn places(class: &Class) -> Vec<usize> {
    let stations = (1..=class.demands_s.len()).filter(|place| class.demands_s[place - 1] > 0.0);
    (class.think_s > 0.0).then_some(0).into_iter().chain(stations).collect()
}

/// Clients of a class that leave a place, per second.
fn leave_per_s(network: &Network, state: &State, class: usize, place: usize) -> f64 {
    let here = state[class][place] as f64;
    if here == 0.0 {
        return 0.0;
    }
    let needs = &network.classes()[class];
    if place == 0 {
        return here / needs.think_s;
    }
    let all: usize = state.iter().map(|places| places[place]).sum();
    let visit_s = needs.demands_s[place - 1] * ENDS;
    network.stations()[place - 1].service.rate(all) * here / all as f64 / visit_s
}

/// Where a client goes from a place, with probabilities.
fn next(class: &Class, place: usize) -> Vec<(usize, f64)> {
    let places = places(class);
    let at = places.iter().position(|other| *other == place).unwrap();
    if at + 1 < places.len() {
        return vec![(places[at + 1], 1.0)];
    }
    let first_station = *places.iter().find(|place| **place > 0).unwrap();
    vec![(places[0], ENDS), (first_station, 1.0 - ENDS)]
}

fn steady(network: &Network) -> (Vec<State>, Vec<f64>) {
    let states = states(network);
    let index: BTreeMap<&State, usize> = states.iter().enumerate().map(|(at, state)| (state, at)).collect();
    let mut rates = vec![vec![0.0; states.len()]; states.len()];
    for (from, state) in states.iter().enumerate() {
        for (class, needs) in network.classes().iter().enumerate() {
            for place in places(needs).into_iter().filter(|place| state[class][*place] > 0) {
                let leave = leave_per_s(network, state, class, place);
                for (to, share) in next(needs, place).into_iter().filter(|(to, _)| *to != place) {
                    let mut after = state.clone();
                    after[class][place] -= 1;
                    after[class][to] += 1;
                    rates[from][index[&after]] += leave * share;
                }
            }
        }
    }
    let probabilities = eliminate(rates);
    (states, probabilities)
}

/// All ways to distribute the clients of each class over its places.
fn states(network: &Network) -> Vec<State> {
    let mut states: Vec<State> = vec![Vec::new()];
    for class in network.classes() {
        let mut ways = vec![(vec![0; class.demands_s.len() + 1], class.population as usize)];
        let places = places(class);
        for (at, place) in places.iter().enumerate() {
            let is_last = at + 1 == places.len();
            ways = ways
                .into_iter()
                .flat_map(|(way, left)| {
                    (if is_last { left } else { 0 }..=left).map(move |here| {
                        let mut way = way.clone();
                        way[*place] = here;
                        (way, left - here)
                    })
                })
                .collect();
        }
        states = states
            .into_iter()
            .flat_map(|state| ways.iter().map(move |(way, _)| [state.clone(), vec![way.clone()]].concat()))
            .collect();
    }
    states
}

fn eliminate(mut rates: Vec<Vec<f64>>) -> Vec<f64> {
    let count = rates.len();
    // By state, from the last: the rates from each state before it, relative to the rate at which it is left for those.
    let mut shares = Vec::new();
    for last in (1..count).rev() {
        let onward = rates.pop().unwrap();
        let leaves: f64 = onward[..last].iter().sum();
        let of_last: Vec<f64> = rates.iter().map(|row| row[last] / leaves).collect();
        // Transitions through the last state now go directly.
        for (row, share) in rates.iter_mut().zip(&of_last) {
            row[..last].iter_mut().zip(&onward).for_each(|(rate, onward)| *rate += share * onward);
        }
        shares.push(of_last);
    }
    let mut probabilities = vec![1.0];
    for of_state in shares.iter().rev() {
        probabilities.push(probabilities.iter().zip(of_state).map(|(p, share)| p * share).sum());
    }
    let sum: f64 = probabilities.iter().sum();
    probabilities.iter().map(|p| p / sum).collect()
}
