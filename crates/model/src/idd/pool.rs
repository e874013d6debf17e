//! Threads that requests of some classes share: a query of the embedded engine runs on one of the engine's threads for
//! queries. It waits for one while all of them run other queries, even if cores are idle.
//!
//! A request holds two things at once, a thread and a part of the cores. The network knows only one station at a time,
//! so two networks are solved until they agree (the method of surrogate delays; Jacobson and Lazowska 1982). In the
//! first, threads are the servers, and the service of a request is its time at the cores, which the second network
//! gives. In the second, at most as many requests of a class as there are threads come to the cores. A delay represents
//! the time that they spend without a thread, or a thread without them; it makes throughputs equal. The thread is taken
//! to be held at the cores only.
//!
//! Requests that arrive at a rate wait for a thread, too, but any number of them may be at the cores: their throughput
//! is given, so that no delay has to make it equal.

use super::{Machine, Mix, Refused};
use crate::mva::{self, Solution};
use crate::network::{Class, Network, Service, Station};

/// The effect of the threads on a class.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Pooled {
    /// Seconds of its delay in the network of the cores.
    pub(super) delay_s: f64,
    /// Seconds that a request waits for a thread.
    pub(super) wait_s: f64,
}

/// Clients of a class in the network of the cores; none if its requests arrive at a rate.
pub(super) fn population(mix: &Mix, machine: &Machine, class: usize) -> u32 {
    let member = &mix.members[class];
    if member.arrivals_per_s.is_some() {
        return 0;
    }
    match threads(machine).filter(|_| member.needs_thread) {
        Some(threads) => member.population.min(threads),
        None => member.population,
    }
}

fn threads(machine: &Machine) -> Option<u32> {
    machine.query_threads.filter(|threads| *threads > 0)
}

/// Waits for threads, by class, and the utilisation of the threads, if requests spend these times at the stations of
/// the cores' network. `None` if no class needs to wait for a thread.
pub(super) fn solve(mix: &Mix, machine: &Machine, solution: &Solution) -> Result<Option<(Vec<Pooled>, f64)>, Refused> {
    let Some(threads) = threads(machine) else { return Ok(None) };
    let needs = |at: &usize| mix.members[*at].needs_thread && mix.members[*at].has_requests();
    let members: Vec<usize> = (0..mix.members.len()).filter(needs).collect();
    let is_open = members.iter().any(|at| mix.members[*at].arrivals_per_s.is_some());
    let clients: u32 = members.iter().map(|at| mix.members[*at].population).sum();
    if clients <= threads && !is_open {
        return Ok(None);
    }
    let cores_s = |at: usize| solution.classes[at].residence_s[super::mix::CPU];
    // The time that a request spends elsewhere, without the delay itself.
    let elsewhere_s = |at: usize| {
        let residences_s = &solution.classes[at].residence_s;
        residences_s.iter().sum::<f64>() - cores_s(at) - residences_s[super::mix::THREADS]
    };
    let class = |at: &usize| Class {
        name: mix.members[*at].alone.name.clone(),
        arrivals_per_s: mix.members[*at].arrivals_per_s,
        population: if mix.members[*at].arrivals_per_s.is_some() { 0 } else { mix.members[*at].population },
        think_s: mix.members[*at].think_s + elsewhere_s(*at),
        demands_s: vec![cores_s(*at)],
    };
    let station = Station { name: "threads".to_owned(), service: Service::Processors { servers: threads } };
    let of_threads = mva::solve(&Network::new(vec![station], members.iter().map(class).collect())?)?;
    let mut pooled = vec![Pooled::default(); mix.members.len()];
    for (at, figures) in members.iter().zip(&of_threads.classes) {
        let wait_s = (figures.residence_s[0] - cores_s(*at)).max(0.0);
        let cycle_s = f64::from(population(mix, machine, *at)) / figures.throughput;
        let delay_s = match mix.members[*at].arrivals_per_s {
            Some(_) => wait_s,
            None => (cycle_s - mix.members[*at].think_s - elsewhere_s(*at) - cores_s(*at)).max(0.0),
        };
        pooled[*at] = Pooled { delay_s, wait_s };
    }
    Ok(Some((pooled, of_threads.stations[0].utilisation.unwrap_or(0.0))))
}
