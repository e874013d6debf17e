//! One solution of a mix: demands that depend on throughputs, which depend on demands, until both agree.

use super::isolated::{self, AtCores};
use super::pool::{self, Pooled};
use super::slowdown::{Own, others_shares};
use super::{Caution, Disk, LOCK_SHARE_MAX, Machine, Member, Mix, Refused, Slowdown, Turn};
use crate::demand::{Demand, Figure};
use crate::mva::{self, Solution};
use crate::network::{Class, Network, Service, Station};

/// The stations of every mix. From the log on they are delays; turns are waits for the cores, threads those for one of the database's.
pub(super) const STATIONS: [&str; 6] = ["cpu", "disk", "log", "turns", "threads", "round trips"];
/// Positions among them.
pub(super) const CPU: usize = 0;
pub(super) const THREADS: usize = 4;
pub(super) const ROUND_TRIPS: usize = 5;

/// Upkeep of the machine is a class of its own behind those of the mix. Its one client needs a core for this long at a
/// time.
const UPKEEP_S: f64 = 0.01;
/// Less upkeep than this, in cores, is left out.
const UPKEEP_MIN: f64 = 0.001;

const STEPS_MAX: usize = 1_000;
/// CPU seconds, and delays over response times, have settled if they change by at most this share.
const TOLERANCE: f64 = 1e-8;
/// If a whole step does not bring demands nearer to each other by this factor, later steps are half as long. A shorter step has to bring
/// its part of that: where some demands swing and others do not, the latter come no nearer than by the step's length.
const PROGRESS: f64 = 0.7;
/// From this ratio of CPU seconds to response time on, a request must have run on several cores. The CPU seconds also
/// include upkeep, our own clients and work after the answer: 8 % for transactions on PostgreSQL.
const PARALLEL_MIN: f64 = 1.1;

/// A solved mix.
pub(super) struct Solved {
    pub(super) network: Network,
    pub(super) solution: Solution,
    /// CPU seconds of a request in the mix, relative to alone.
    pub(super) cpu_factors: Vec<f64>,
    /// How busy the database's threads for queries are, 0 to 1; `None` if no request waits for one.
    threads_utilisation: Option<f64>,
    state: MixState,
    demands: Vec<Demand>,
    others: Vec<f64>,
}

impl Solved {
    /// Mean seconds of a response of a class; 0 without clients.
    pub(super) fn response_s(&self, class: usize) -> f64 {
        let figures = &self.solution.classes[class];
        let Some(cycle_s) = figures.response_s else { return 0.0 };
        let between_s = self.demands[class].between_share() * figures.residence_s[CPU];
        cycle_s - between_s - figures.residence_s[THREADS] + self.state.pooled[class].wait_s
    }

    /// Mean seconds of a response of any class.
    pub(super) fn mean_response_s(&self) -> f64 {
        let of = |class: usize| self.solution.classes[class].throughput;
        // Upkeep answers no requests.
        let classes = 0..self.demands.len();
        let throughput: f64 = classes.clone().map(of).sum();
        classes.map(|class| of(class) * self.response_s(class)).sum::<f64>() / throughput
    }

    /// How many times as long as its CPU seconds a request of a class is at the cores; 1 if it needs none.
    pub(super) fn stretch(&self, class: usize) -> f64 {
        stretch(&self.network, &self.solution, class)
    }

    /// The network with every client, where waiting for a thread is a delay.
    pub(super) fn network_of_all_clients(self, mix: &Mix) -> Network {
        let mut classes = self.network.classes().to_vec();
        for ((class, member), pooled) in classes.iter_mut().zip(&mix.members).zip(&self.state.pooled) {
            class.population = if member.arrivals_per_s.is_some() { 0 } else { member.population };
            class.demands_s[THREADS] = pooled.wait_s;
        }
        Network::new(self.network.stations().to_vec(), classes)
            .expect("the same demands, and delays that were solved for")
    }

    /// The station, or the threads, of the highest utilisation; `None` without load.
    pub(super) fn bottleneck(&self) -> Option<&'static str> {
        let station = self.solution.bottleneck();
        let busy = station.and_then(|at| self.solution.stations[at].utilisation).unwrap_or(0.0);
        match self.threads_utilisation {
            Some(threads) if threads > busy => Some(STATIONS[THREADS]),
            _ => station.map(|at| STATIONS[at]),
        }
    }
}

fn stretch(network: &Network, solution: &Solution, class: usize) -> f64 {
    let demand_s = network.classes()[class].demands_s[CPU];
    if demand_s > 0.0 { solution.classes[class].residence_s[CPU] / demand_s } else { 1.0 }
}

/// The quantities that depend on the solution of the network that they define.
#[derive(Clone)]
struct MixState {
    cpu_s: Vec<f64>,
    turns_s: Vec<f64>,
    pooled: Vec<Pooled>,
}

impl MixState {
    /// Moves a part of the way to another state.
    fn approach(&mut self, next: &MixState, step: f64) {
        let go = |now: &mut f64, next: f64| *now += step * (next - *now);
        for class in 0..self.cpu_s.len() {
            go(&mut self.cpu_s[class], next.cpu_s[class]);
            go(&mut self.turns_s[class], next.turns_s[class]);
            go(&mut self.pooled[class].delay_s, next.pooled[class].delay_s);
            go(&mut self.pooled[class].wait_s, next.pooled[class].wait_s);
        }
    }

    /// The distance between two states: CPU seconds relative to themselves, delays relative to the whole time of a
    /// request at the stations.
    fn distance(&self, next: &MixState, solution: &Solution) -> f64 {
        let of_class = |class: usize| {
            let cpu_s = (next.cpu_s[class] - self.cpu_s[class]).abs() / self.cpu_s[class].max(f64::MIN_POSITIVE);
            let whole_s = solution.classes[class].residence_s.iter().sum::<f64>().max(f64::MIN_POSITIVE);
            let turns_s = (next.turns_s[class] - self.turns_s[class]).abs() / whole_s;
            let delay_s = (next.pooled[class].delay_s - self.pooled[class].delay_s).abs() / whole_s;
            let wait_s = (next.pooled[class].wait_s - self.pooled[class].wait_s).abs() / whole_s;
            cpu_s.max(turns_s).max(delay_s).max(wait_s)
        };
        (0..self.cpu_s.len()).map(of_class).fold(0.0, f64::max)
    }
}

/// Solves a mix, from all blocks but one, or from all.
pub(super) fn solve(mix: &Mix, machine: &Machine, without: Option<usize>) -> Result<Solved, Refused> {
    let demands: Result<Vec<Demand>, _> = mix.members.iter().map(|member| member.alone.demand(without)).collect();
    let demands = demands?;
    check(mix, &demands)?;
    let each = || mix.members.iter().zip(&demands);
    let own = each().map(|(member, demand)| own(mix, member, demand)).collect::<Result<Vec<Own>, Refused>>()?;
    let disk_s = each().map(|(member, demand)| disk_s(member, demand)).collect::<Result<Vec<f64>, _>>()?;
    let turns: Vec<Turn> = mix.members.iter().map(|member| mix.turns.of(&member.alone.name, without)).collect();
    let cores = f64::from(machine.cores);
    // Each class was alone with all of the machine's upkeep, which mixes do not have twice.
    let upkeep = mix.members.iter().map(|member| member.alone.upkeep_cores(without)).fold(0.0, f64::max);
    let mut state = MixState {
        cpu_s: own.iter().map(|class| class.cpu_s).collect(),
        turns_s: vec![0.0; own.len()],
        pooled: vec![Pooled::default(); own.len()],
    };
    let (mut step, mut last) = (1.0, f64::INFINITY);
    for _ in 0..STEPS_MAX {
        let network = network(mix, machine, &demands, &state, (&disk_s, upkeep))?;
        let solution = mva::solve(&network)?;
        let members = &solution.classes[..own.len()];
        let throughputs: Vec<f64> = members.iter().map(|class| class.throughput).collect();
        let pooled = pool::solve(mix, machine, &solution)?;
        let threads_utilisation = pooled.as_ref().map(|(_, utilisation)| *utilisation);
        let next = MixState {
            cpu_s: mix.slowdown.mixed_cpu_s(&own, &throughputs, &state.cpu_s, cores),
            turns_s: turns_s(mix, machine, &demands, &turns, (&network, &solution)),
            pooled: pooled.map_or_else(|| vec![Pooled::default(); own.len()], |(pooled, _)| pooled),
        };
        let change = state.distance(&next, &solution);
        if change < TOLERANCE {
            let factor = |(class, cpu_s): (&Own, &f64)| if class.cpu_s > 0.0 { cpu_s / class.cpu_s } else { 1.0 };
            let cpu_factors = own.iter().zip(&state.cpu_s).map(factor).collect();
            let others = others_shares(&throughputs, &state.cpu_s, cores);
            return Ok(Solved { network, solution, cpu_factors, threads_utilisation, state, demands, others });
        }
        if change > (1.0 - (1.0 - PROGRESS) * step) * last {
            step *= 0.5;
        }
        last = change;
        state.approach(&next, step);
    }
    Err(Refused::NotSettled(STEPS_MAX))
}

/// How much longer a request of each class waits at the cores than the network says.
fn turns_s(
    mix: &Mix,
    machine: &Machine,
    demands: &[Demand],
    turns: &[Turn],
    (network, solution): (&Network, &Solution),
) -> Vec<f64> {
    let Some(slice) = mix.turns.slice() else {
        let waits = |(class, turn): (usize, &Turn)| turn.wait_s(stretch(network, solution, class));
        return turns.iter().enumerate().map(waits).collect();
    };
    let at_cores = |at: usize| {
        let (class, figures, demand) = (&network.classes()[at], &solution.classes[at], &demands[at]);
        let present = figures.throughput * figures.residence_s[CPU];
        let clients = f64::from(class.population);
        let met_by_own = if clients > 0.0 { present * (clients - 1.0) / clients } else { present };
        let (wakes, workers, stretch) = (demand.wakes, demand.workers, stretch(network, solution, at));
        AtCores { cpu_s: class.demands_s[CPU], wakes, workers, present, met_by_own, stretch }
    };
    let classes: Vec<AtCores> = (0..mix.members.len()).map(at_cores).collect();
    isolated::waits_s(slice, &classes, machine.cores, machine.workers_max)
}

fn check(mix: &Mix, demands: &[Demand]) -> Result<(), Refused> {
    let expect = mix.members.len();
    match mix.slowdown.entries() {
        Some(None) => {}
        Some(Some(found)) if found == expect => {}
        found => return Err(Refused::Slowdown { found: found.flatten().unwrap_or(0), expect }),
    }
    for (member, demand) in mix.members.iter().zip(demands).filter(|_| mix.tables_shared) {
        let lock_s = needed(member, "seconds waiting for locks", &demand.lock_s)?;
        let share = lock_s / demand.response_s;
        if share > LOCK_SHARE_MAX {
            return Err(Refused::LockBound { class: member.alone.name.clone(), share });
        }
    }
    Ok(())
}

pub(super) fn needed(member: &Member, figure: &'static str, measured: &Figure) -> Result<f64, Refused> {
    let missing =
        |reason: &String| Refused::Missing { class: member.alone.name.clone(), figure, reason: reason.clone() };
    measured.as_ref().copied().map_err(missing)
}

fn own(mix: &Mix, member: &Member, demand: &Demand) -> Result<Own, Refused> {
    let cpu_s = needed(member, "CPU seconds", &demand.cpu_s)?;
    let (mut instructions, mut spin_instructions) = (None, None);
    if mix.slowdown == Slowdown::SharedRate {
        instructions = Some(needed(member, "instructions", &demand.instructions)?);
        spin_instructions = Some(needed(member, "spin instructions", &demand.spin_instructions)?);
    }
    Ok(Own { cpu_s, instructions, spin_instructions })
}

/// Seconds of the disk for a request, at depth 1.
fn disk_s(member: &Member, demand: &Demand) -> Result<f64, Refused> {
    needed(member, "seconds of the disk", &demand.disk_s)
}

fn network(
    mix: &Mix,
    machine: &Machine,
    demands: &[Demand],
    state: &MixState,
    (disk_s, upkeep): (&[f64], f64),
) -> Result<Network, Refused> {
    let disk = match &machine.disk {
        Disk::Busy => Service::Processors { servers: 1 },
        Disk::Curve { rates } => Service::Curve { rates: rates.clone() },
    };
    // Requests that wait for the log share its writes, and so do not wait for each other.
    let cores = Service::Processors { servers: machine.cores };
    let services = [cores, disk, Service::Delay, Service::Delay, Service::Delay, Service::Delay];
    let stations = STATIONS.into_iter().zip(services).map(|(name, service)| Station { name: name.to_owned(), service });
    let class = |at: usize| Class {
        name: mix.members[at].alone.name.clone(),
        arrivals_per_s: mix.members[at].arrivals_per_s,
        population: pool::population(mix, machine, at),
        think_s: mix.members[at].think_s,
        demands_s: vec![
            state.cpu_s[at],
            disk_s[at],
            demands[at].log_s.as_ref().copied().unwrap_or(0.0),
            state.turns_s[at],
            state.pooled[at].delay_s,
            demands[at].round_trip_s,
        ],
    };
    let upkeep = (upkeep >= UPKEEP_MIN).then(|| Class {
        name: "upkeep".to_owned(),
        arrivals_per_s: None,
        population: 1,
        think_s: UPKEEP_S * (1.0 / upkeep.min(1.0) - 1.0),
        demands_s: vec![UPKEEP_S, 0.0, 0.0, 0.0, 0.0, 0.0],
    });
    Ok(Network::new(stations.collect(), (0..mix.members.len()).map(class).chain(upkeep).collect())?)
}

/// The cautions about a prediction.
pub(super) fn cautions(mix: &Mix, solved: &Solved) -> Vec<Caution> {
    let mut cautions = Vec::new();
    if mix.is_adjusted() {
        cautions.push(Caution::Calibrated);
    }
    for (at, (member, demand)) in mix.members.iter().zip(&solved.demands).enumerate() {
        let class = || member.alone.name.clone();
        let (measured, predicted) = (member.alone.population, member.population);
        if measured != predicted && member.arrivals_per_s.is_none() {
            cautions.push(Caution::Population { class: class(), measured, predicted });
        }
        if let Slowdown::Calibrated(points) = &mix.slowdown
            && points[at].iter().all(|point| point.others < solved.others[at])
            && solved.others[at] > 0.0
        {
            cautions.push(Caution::BeyondCalibration { class: class() });
        }
        let share = demand.lock_s.as_ref().ok().map(|lock_s| lock_s / demand.response_s);
        if share.is_none_or(|share| share > LOCK_SHARE_MAX) {
            cautions.push(Caution::Locks { class: class(), share });
        }
        if demand.log_s.is_err() {
            cautions.push(Caution::LogUnknown { class: class() });
        }
        if demand.cpu_s.as_ref().is_ok_and(|cpu_s| *cpu_s > PARALLEL_MIN * demand.response_s) {
            cautions.push(Caution::Parallel { class: class() });
        }
    }
    cautions
}
