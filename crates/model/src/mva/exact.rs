//! The exact recursion over all populations, from no client to all clients.
//!
//! With `n` the population, `n - c` the same with one client of class `c` less, `D` demands, `Z` think times, `a(j)` the rate of a
//! station with `j` requests, which does not change from `L` on, `Q` the requests there, and `p(j)` the probability of `j`:
//! ```text
//! R_ck(n) = D_ck ((1 + Q_k(n - c)) / a(L) + sum over j = 1 .. L-1 of (j/a(j) - j/a(L)) p_k(j-1, n - c))
//! X_c(n)  = n_c / (Z_c + sum over k of R_ck(n)),   Q_k(n) = sum over c of X_c(n) R_ck(n)
//! p_k(j, n) = sum over c of X_c(n) D_ck / a(j) p_k(j-1, n - c)
//! p_k(0, n) = p_k(0, n - c) X_c(n) / X_c(n without station k)
//! ```
//! The last line is why the network is solved without each set of such stations, too: smaller sets first. All terms are
//! positive because rates never fall, so no digits are lost. A network that lacks all that a class needs has no states
//! (normalising constant 0); then the station that it lacks is never empty in the larger network.

use crate::network::{Network, Service};

/// How a station enters the recursion.
enum Role {
    Delay,
    /// A rate that does not depend on the number of requests.
    Single(f64),
    /// An index into [`Recursion::dependents`].
    Dependent(usize),
}

/// A station whose rate depends on the number of requests.
struct Dependent {
    station: usize,
    /// `rates[j - 1]` is the rate with `j` requests, up to the number from which on it is constant.
    rates: Vec<f64>,
    /// `j/a(j) - j/a(L)` for `j` from 1 to L - 1.
    weights: Vec<f64>,
    /// Where its probabilities begin in a row, one for each weight.
    offset: usize,
}

fn roles(network: &Network) -> (Vec<Role>, Vec<Dependent>) {
    let mut offset = network.stations().len();
    let mut dependents = Vec::new();
    let mut role = |(station, service): (usize, &Service)| {
        let levels = service.levels(present_max(network));
        if matches!(service, Service::Delay) {
            return Role::Delay;
        }
        if levels == 1 {
            return Role::Single(service.rate(1));
        }
        let rates: Vec<f64> = (1..=levels).map(|present| service.rate(present)).collect();
        let last = rates[levels - 1];
        let weights: Vec<f64> = (1..levels).map(|j| j as f64 * (1.0 / rates[j - 1] - 1.0 / last)).collect();
        dependents.push(Dependent { station, rates, weights, offset });
        offset += levels - 1;
        Role::Dependent(dependents.len() - 1)
    };
    let roles = network.stations().iter().map(|station| &station.service).enumerate().map(&mut role).collect();
    (roles, dependents)
}

/// Requests that are present at a station at most, if those of open classes are in its rates. A request of an open class
/// finds all clients there at most.
pub(super) fn present_max(network: &Network) -> usize {
    network.population() + usize::from(network.is_open())
}

/// The approximate number of multiplications of the recursion.
pub(super) fn steps(network: &Network) -> f64 {
    let populations: f64 = network.classes().iter().map(|class| f64::from(class.population) + 1.0).product();
    let levels = network.stations().iter().map(|station| station.service.levels(present_max(network)));
    let dependents = levels.clone().filter(|levels| *levels > 1).count();
    populations * (dependents as f64).exp2() * levels.sum::<usize>() as f64 * network.classes().len() as f64
}

/// Mean seconds of a request of each class at each station.
pub(super) fn residences_s(network: &Network) -> Vec<Vec<f64>> {
    let mut recursion = Recursion::new(network);
    let mut counts = vec![0; network.classes().len()];
    for index in 0..recursion.populations {
        recursion.step(index, &counts);
        let whole = |at: &usize| counts[*at] < network.classes()[*at].population;
        // The last class counts fastest; those behind the one that is counted up start again at 0.
        if let Some(class) = (0..counts.len()).rev().find(whole) {
            counts[class] += 1;
            counts[class + 1..].fill(0);
        }
    }
    for (at, class) in network.classes().iter().enumerate().filter(|(_, class)| class.arrivals_per_s.is_some()) {
        recursion.residences_s[at] = recursion.residences_of_arrival_s(&class.demands_s);
    }
    recursion.residences_s
}

struct Recursion<'a> {
    network: &'a Network,
    roles: Vec<Role>,
    dependents: Vec<Dependent>,
    /// Populations from no client to all clients.
    populations: usize,
    /// How far back a population with one client of a class less is.
    strides: Vec<usize>,
    /// Populations whose rows are kept: the longest stride and the current one.
    kept: usize,
    /// Numbers in a row: requests at each station, then probabilities of dependent stations.
    width: usize,
    /// A row for each kept population and each set of dependent stations.
    rows: Vec<f64>,
    /// Throughputs of the current population with each set of dependent stations; `None` without states.
    throughputs: Vec<Option<Vec<f64>>>,
    /// By class and station, of the current population with all stations.
    residences_s: Vec<Vec<f64>>,
}

impl<'a> Recursion<'a> {
    fn new(network: &'a Network) -> Self {
        let (roles, dependents) = roles(network);
        let mut populations = 1;
        let mut strides = vec![0; network.classes().len()];
        for (stride, class) in strides.iter_mut().zip(network.classes()).rev() {
            *stride = populations;
            populations *= class.population as usize + 1;
        }
        let kept = strides.first().copied().unwrap_or(0) + 1;
        let width =
            network.stations().len() + dependents.iter().map(|dependent| dependent.weights.len()).sum::<usize>();
        let sets = 1 << dependents.len();
        let residences_s = vec![vec![0.0; network.stations().len()]; network.classes().len()];
        let rows = vec![0.0; kept * sets * width];
        let throughputs = vec![None; sets];
        Self { network, roles, dependents, populations, strides, kept, width, rows, throughputs, residences_s }
    }

    fn row(&self, index: usize, set: usize) -> std::ops::Range<usize> {
        let start = (index % self.kept * self.throughputs.len() + set) * self.width;
        start..start + self.width
    }

    /// The row of the population with one client of `class` less.
    fn before(&self, index: usize, class: usize, set: usize) -> &[f64] {
        &self.rows[self.row(index - self.strides[class], set)]
    }

    /// All rows of a population.
    fn step(&mut self, index: usize, counts: &[u32]) {
        let there: Vec<usize> = (0..counts.len()).filter(|class| counts[*class] > 0).collect();
        for set in 0..self.throughputs.len() {
            let mut row = vec![0.0; self.width];
            let throughputs = self.requests(index, counts, &there, set, &mut row);
            if let Some(throughputs) = &throughputs {
                self.probabilities(index, &there, set, throughputs, &mut row);
            }
            self.throughputs[set] = throughputs;
            let range = self.row(index, set);
            self.rows[range].copy_from_slice(&row);
        }
    }

    /// Puts the requests at each station into `row`; returns throughputs, `None` where some class neither thinks nor
    /// needs any of the set's stations.
    fn requests(
        &mut self,
        index: usize,
        counts: &[u32],
        there: &[usize],
        set: usize,
        row: &mut [f64],
    ) -> Option<Vec<f64>> {
        let mut throughputs = vec![0.0; counts.len()];
        for &class in there {
            let demands_s = &self.network.classes()[class].demands_s;
            let before = self.before(index, class, set);
            let residence_s = |at: usize| match demands_s[at] {
                0.0 => 0.0,
                demand_s => demand_s * self.stretch(at, set, before),
            };
            let residences_s: Vec<f64> = (0..demands_s.len()).map(residence_s).collect();
            let cycle_s = self.network.classes()[class].think_s + residences_s.iter().sum::<f64>();
            if cycle_s <= 0.0 {
                return None;
            }
            throughputs[class] = f64::from(counts[class]) / cycle_s;
            for (present, residence_s) in row.iter_mut().zip(&residences_s) {
                *present += throughputs[class] * residence_s;
            }
            self.residences_s[class] = residences_s;
        }
        Some(throughputs)
    }

    /// Seconds at a station for each second of demand, for a request that arrives when the others are as in `before`.
    fn stretch(&self, station: usize, set: usize, before: &[f64]) -> f64 {
        match self.roles[station] {
            Role::Delay => 1.0,
            Role::Single(rate) => (1.0 + before[station]) / rate,
            Role::Dependent(at) if set & (1 << at) == 0 => 0.0,
            Role::Dependent(at) => {
                let dependent = &self.dependents[at];
                let last = dependent.rates[dependent.rates.len() - 1];
                let probabilities = &before[dependent.offset..];
                let below: f64 = dependent.weights.iter().zip(probabilities).map(|(weight, p)| weight * p).sum();
                (1.0 + before[station]) / last + below
            }
        }
    }

    /// Mean seconds at each station of a request that finds all clients as they are on average. After the last step.
    fn residences_of_arrival_s(&self, demands_s: &[f64]) -> Vec<f64> {
        let every_station = self.throughputs.len() - 1;
        let all = &self.rows[self.row(self.populations - 1, every_station)];
        let demands = demands_s.iter().enumerate();
        demands.map(|(at, demand_s)| demand_s * self.stretch(at, every_station, all)).collect()
    }

    /// Puts the probabilities of dependent stations into `row`.
    fn probabilities(&self, index: usize, there: &[usize], set: usize, throughputs: &[f64], row: &mut [f64]) {
        for (at, dependent) in self.dependents.iter().enumerate().filter(|(at, _)| set & (1 << at) != 0) {
            row[dependent.offset] = match (there.first(), &self.throughputs[set & !(1 << at)]) {
                (None, _) => 1.0,
                (Some(_), None) => 0.0,
                (Some(&class), Some(without)) => {
                    self.before(index, class, set)[dependent.offset] * throughputs[class] / without[class]
                }
            };
            for &class in there {
                let flow = throughputs[class] * self.network.classes()[class].demands_s[dependent.station];
                let before = self.before(index, class, set);
                for j in 1..dependent.weights.len() {
                    row[dependent.offset + j] += flow / dependent.rates[j - 1] * before[dependent.offset + j - 1];
                }
            }
        }
    }
}
