//! Event simulation of a [`Network`], for questions that means do not answer: percentiles, priorities, a lock.
//!
//! A request needs its demands at the stations in their order; each is exponential, or at some stations always the mean. Stations share evenly, or serve more important classes
//! first: important classes get the service that they would get alone, the others get the rest. Requests of some classes may hold
//! the network's only lock from their beginning to their end.
//!
//! Figures come from independent runs with seeds of their own, without the beginning of each; intervals are Student's t on the runs.
//! Without priorities and the lock means agree with [`mva`](crate::mva), which tests show.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::network::Network;
use crate::statistics::{Interval, student};

mod check;
#[cfg(test)]
pub(crate) mod fair_cores;
mod simulation;
mod station;
#[cfg(test)]
mod tests;

pub use check::Invalid;
#[cfg(test)]
pub(crate) use simulation::{WindowOfClass, windows};

/// The percentiles that are reported, 0 to 1.
pub const PERCENTILES: [f64; 3] = [0.5, 0.95, 0.99];

/// A percentile is reported only if every run has this many requests beyond it.
const BEYOND_LEAST: f64 = 10.0;

/// Requests of a run of [`Settings::plain`]: without open classes, and at most.
const REQUESTS: u64 = 2_000;
const REQUESTS_MAX: u64 = 200_000;

/// Requests that a run needs so that its first part, which it does not measure, hides that it began without requests. A
/// single server at the load `u` forgets its beginning within `1 / (1 - sqrt(u))^2` services, or about `4 / (1 - u)^2`
/// (the relaxation time of M/M/1; Cohen, *The Single Server Queue*, II.2). That part is to last three times as long.
fn requests_least(network: &Network) -> f64 {
    3.0 * 4.0 / simulation::WARM_UP / (1.0 - network.open_load()).powi(2)
}

/// How requests of a class behave.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Behaviour {
    /// Larger is more important.
    pub priority: u8,
    /// Whether they take the lock before the first station, in the order in which they come, and keep it until their end.
    pub holds_lock: bool,
}

/// The settings and the length of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// How each class of the network behaves.
    pub behaviours: Vec<Behaviour>,
    /// Whether each station serves more important classes first. Delays serve all classes alike.
    pub by_priority: Vec<bool>,
    /// Whether all demands of a class at each station are its mean, instead of exponential.
    pub is_constant: Vec<bool>,
    /// Requests of all classes together that each run measures, after a quarter of as many that it does not.
    pub requests: u64,
    /// Independent runs, at least 2.
    pub runs: u32,
    /// The seed.
    pub seed: u64,
}

impl Settings {
    /// Without priorities and the lock: ten runs of 2000 requests, or of more if open classes load a station so much that
    /// its queue changes slowly.
    pub fn plain(network: &Network, seed: u64) -> Self {
        let requests = (requests_least(network).ceil() as u64).clamp(REQUESTS, REQUESTS_MAX);
        Self {
            behaviours: vec![Behaviour::default(); network.classes().len()],
            by_priority: vec![false; network.stations().len()],
            is_constant: vec![false; network.stations().len()],
            requests,
            runs: 10,
            seed,
        }
    }
}

/// Figures of a class, each with a 95 % interval over the runs.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassFigures {
    /// Requests answered per second, of all clients together.
    pub throughput: Interval,
    /// Mean seconds from request to answer; `None` if some run answered none.
    pub response_s: Option<Interval>,
    /// Requests in the system on average, those waiting for the lock included.
    pub present: Interval,
    /// Seconds that the share [`PERCENTILES`] of responses does not exceed; `None` if some run has too few beyond it.
    pub percentiles_s: [Option<Interval>; PERCENTILES.len()],
    /// Responses measured, of all runs.
    pub requests: u64,
}

/// Observations of a class in one run.
struct Observed {
    seconds: f64,
    /// Ascending.
    responses_s: Vec<f64>,
    /// Integral of requests in the system over time.
    presence_s: f64,
}

/// Simulates a network. Equal arguments give equal figures.
pub fn simulate(network: &Network, settings: &Settings) -> Result<Vec<ClassFigures>, Invalid> {
    check::check(network, settings)?;
    // Each run has a generator of its own, seeded by draws, so that neither neighbouring runs nor neighbouring seeds are alike.
    let mut seeds = Pcg64::seed_from_u64(settings.seed);
    let run = |_| simulation::run(network, settings, Pcg64::seed_from_u64(seeds.random()));
    let runs: Vec<Vec<Observed>> = (0..settings.runs).map(run).collect();
    Ok((0..network.classes().len()).map(|class| figures(&runs, class)).collect())
}

fn figures(runs: &[Vec<Observed>], class: usize) -> ClassFigures {
    let each = |of: &dyn Fn(&Observed) -> f64| runs.iter().map(|run| of(&run[class])).collect::<Vec<f64>>();
    let count = |run: &Observed| run.responses_s.len() as f64;
    let answered = runs.iter().all(|run| !run[class].responses_s.is_empty());
    let response_s = |run: &Observed| run.responses_s.iter().sum::<f64>() / count(run);
    let percentile = |share: f64| {
        let is_known = runs.iter().all(|run| (1.0 - share) * count(&run[class]) >= BEYOND_LEAST);
        is_known.then(|| mean(&each(&|run| run.responses_s[(share * count(run)).ceil() as usize - 1])))
    };
    ClassFigures {
        throughput: mean(&each(&|run| count(run) / run.seconds)),
        response_s: answered.then(|| mean(&each(&response_s))),
        present: mean(&each(&|run| run.presence_s / run.seconds)),
        percentiles_s: PERCENTILES.map(percentile),
        requests: runs.iter().map(|run| run[class].responses_s.len() as u64).sum(),
    }
}

/// The mean of runs, with Student's t interval.
fn mean(values: &[f64]) -> Interval {
    let count = values.len() as f64;
    let value = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|other| (other - value).powi(2)).sum::<f64>() / (count - 1.0);
    let half = student::quantile(0.975, count - 1.0) * (variance / count).sqrt();
    Interval { value, low: Some(value - half), high: Some(value + half) }
}
