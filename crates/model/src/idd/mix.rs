//! One solution of a mix: demands that depend on throughputs, which depend on demands, until both agree.

use super::slowdown::{Own, others_shares};
use super::{Caution, Disk, LOCK_SHARE_MAX, Machine, Member, Mix, Refused, Slowdown};
use crate::demand::{Demand, Figure};
use crate::mva::{self, Solution};
use crate::network::{Class, Network, Service, Station};

/// The stations of every mix.
pub(super) const STATIONS: [&str; 3] = ["cpu", "disk", "log"];

const STEPS_MAX: usize = 200;
/// CPU seconds settle to this part of themselves.
const TOLERANCE: f64 = 1e-8;
/// Where a step does not bring demands nearer to each other by this factor, later steps are half as long.
const PROGRESS: f64 = 0.7;
/// CPU seconds of a request over its response time from which on it must have run on several cores. Upkeep, our own clients and
/// work after the answer are in the CPU seconds, too: of transactions on PostgreSQL they were 8 %.
const PARALLEL_MIN: f64 = 1.1;

/// A mix that is solved.
pub(super) struct Solved {
    pub(super) network: Network,
    pub(super) solution: Solution,
    /// CPU seconds of a request in the mix, relative to alone.
    pub(super) cpu_factors: Vec<f64>,
    demands: Vec<Demand>,
    others: Vec<f64>,
}

impl Solved {
    /// Mean seconds of a response of a class; 0 without clients.
    pub(super) fn response_s(&self, class: usize) -> f64 {
        self.solution.classes[class].response_s.unwrap_or(0.0)
    }

    /// Mean seconds of a response of any class.
    pub(super) fn mean_response_s(&self) -> f64 {
        let throughput: f64 = self.solution.classes.iter().map(|class| class.throughput).sum();
        let weighted = |class: usize| self.solution.classes[class].throughput * self.response_s(class);
        (0..self.solution.classes.len()).map(weighted).sum::<f64>() / throughput
    }
}

/// Solves a mix, from all blocks but one, or from all.
pub(super) fn solve(mix: &Mix, machine: &Machine, without: Option<usize>) -> Result<Solved, Refused> {
    let demands: Result<Vec<Demand>, _> = mix.members.iter().map(|member| member.alone.demand(without)).collect();
    let demands = demands?;
    check(mix, &demands)?;
    let own: Result<Vec<Own>, Refused> =
        mix.members.iter().zip(&demands).map(|(member, demand)| own(mix, member, demand)).collect();
    let own = own?;
    let disk_s: Result<Vec<f64>, Refused> =
        mix.members.iter().zip(&demands).map(|(member, demand)| disk_s(machine, member, demand)).collect();
    let disk_s = disk_s?;
    let mut cpu_s: Vec<f64> = own.iter().map(|class| class.cpu_s).collect();
    let (mut step, mut last) = (1.0, f64::INFINITY);
    for _ in 0..STEPS_MAX {
        let network = network(mix, machine, &demands, &cpu_s, &disk_s)?;
        let solution = mva::solve(&network)?;
        let throughputs: Vec<f64> = solution.classes.iter().map(|class| class.throughput).collect();
        let next = mix.slowdown.mixed_cpu_s(&own, &throughputs, &cpu_s, f64::from(machine.cores));
        let changes = cpu_s.iter().zip(&next).map(|(now, next)| (next - now).abs() / now.max(f64::MIN_POSITIVE));
        let change = changes.fold(0.0, f64::max);
        if change < TOLERANCE {
            let factor = |(class, cpu_s): (&Own, &f64)| if class.cpu_s > 0.0 { cpu_s / class.cpu_s } else { 1.0 };
            let cpu_factors = own.iter().zip(&cpu_s).map(factor).collect();
            let others = others_shares(&throughputs, &cpu_s, f64::from(machine.cores));
            return Ok(Solved { network, solution, cpu_factors, demands, others });
        }
        if change > PROGRESS * last {
            step *= 0.5;
        }
        last = change;
        for (now, next) in cpu_s.iter_mut().zip(next) {
            *now += step * (next - *now);
        }
    }
    Err(Refused::NotSettled(STEPS_MAX))
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

fn needed(member: &Member, figure: &'static str, measured: &Figure) -> Result<f64, Refused> {
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
fn disk_s(machine: &Machine, member: &Member, demand: &Demand) -> Result<f64, Refused> {
    match machine.disk {
        Disk::Busy => needed(member, "seconds of a busy disk", &demand.disk_busy_s),
        Disk::Probed { operation_s, .. } => {
            Ok(operation_s * needed(member, "disk operations", &demand.disk_operations)?)
        }
    }
}

fn network(
    mix: &Mix,
    machine: &Machine,
    demands: &[Demand],
    cpu_s: &[f64],
    disk_s: &[f64],
) -> Result<Network, Refused> {
    let disk = match &machine.disk {
        Disk::Busy => Service::Processors { servers: 1 },
        Disk::Probed { rates, .. } => Service::Curve { rates: rates.clone() },
    };
    // Requests that wait for the log share its writes, so that they do not wait for each other.
    let services = [Service::Processors { servers: machine.cores }, disk, Service::Delay];
    let stations = STATIONS.into_iter().zip(services).map(|(name, service)| Station { name: name.to_owned(), service });
    let class = |at: usize| Class {
        name: mix.members[at].alone.name.clone(),
        population: mix.members[at].population,
        think_s: mix.members[at].think_s,
        demands_s: vec![cpu_s[at], disk_s[at], demands[at].log_s.as_ref().copied().unwrap_or(0.0)],
    };
    Ok(Network::new(stations.collect(), (0..mix.members.len()).map(class).collect())?)
}

/// What to know of a prediction.
pub(super) fn cautions(mix: &Mix, solved: &Solved) -> Vec<Caution> {
    let mut cautions = Vec::new();
    if matches!(mix.slowdown, Slowdown::Calibrated(_)) {
        cautions.push(Caution::Calibrated);
    }
    for (at, (member, demand)) in mix.members.iter().zip(&solved.demands).enumerate() {
        let class = || member.alone.name.clone();
        let (measured, predicted) = (member.alone.population, member.population);
        if measured != predicted {
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
