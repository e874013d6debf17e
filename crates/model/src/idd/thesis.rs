//! Isolated Demand Decomposition as its thesis defines it (McWherter, 4.6.1 to 4.6.4), for two classes whose clients wait
//! for answers: a baseline, whose errors are to be put beside those of [`predict`](super::predict()).
//!
//! With `N` clients, `IPS` instructions per second and `D` demands of a class alone:
//! ```text
//! IPS_mix   = sum of N IPS / sum of N
//! D_cpu_mix = D_cpu IPS / IPS_mix + D_spin IPS / IPS_mix of the other class       (4.3, 4.4)
//! T_mix     = max(sum of D_i_mix, N D_max_mix - E[Z])                             (4.5)
//! T_loc     = T_mix c / (P c + 1 - P),   T_fed = T_loc / c
//! ```
//! `P`, the share of answers that are of the first class, and `c`, the ratio of the responses of both, are those of a
//! network of a core, a disk and think times.
//!
//! Four remarks. The thesis prints `D_spin = I_spin / I`, which has no unit; that share is of CPU seconds, `D_spin = D_cpu
//! I_spin / I`. Its Markov chain has product form, so that its solution is exact mean value analysis with one server for
//! each device, for any number of visits. Utilisations are shares of all cores together, so that demands are divided by
//! the number of cores, and the core of the network is as fast as all of them. Instructions are per second of the
//! measurement, as its table 4.1 says, not per busy second.
//!
//! Where instructions were not counted, all rates are taken as equal and nothing spins. What remains is its network with
//! its bound ([`Thesis::is_counted`]).

use super::{Member, Mix, Refused};
use crate::demand::Demand;
use crate::mva;
use crate::network::{Class, Network, Service, Station};

/// A mix as the thesis predicts it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thesis {
    /// Whether instructions of both classes were counted, so that demands are those of a mix; else they are as alone.
    pub is_counted: bool,
    /// `IPS_mix`, instructions per second relative to those of each class alone.
    pub slowdowns: [f64; 2],
    /// CPU seconds of a request of each class in the mix, of all cores together.
    pub cpu_s: [f64; 2],
    /// `P`: the share of answers that are of the first class.
    pub first_share: f64,
    /// `T_mod`: mean responses of the network, which the thesis found to be off by more than 26 %.
    pub modelled_s: [f64; 2],
    /// `T_mix`: the mean response of all requests.
    pub response_s: f64,
    /// `T_loc` and `T_fed`.
    pub responses_s: [f64; 2],
}

/// A class alone, per request.
struct Isolated<'a> {
    member: &'a Member,
    /// Seconds of all cores together.
    cpu_s: f64,
    disk_s: f64,
    /// Seconds of all cores together that are spent spinning.
    spin_s: f64,
    /// Instructions per second.
    instructions_per_s: f64,
}

impl<'a> Isolated<'a> {
    fn of(member: &'a Member, demand: &Demand, cores: u32, is_counted: bool) -> Result<Self, Refused> {
        let cpu_s = super::mix::needed(member, "CPU seconds", &demand.cpu_s)? / f64::from(cores);
        let disk_s = super::mix::needed(member, "seconds of the disk", &demand.disk_s)?;
        let (spin_s, instructions_per_s) = match (&demand.instructions, &demand.spin_instructions) {
            (Ok(instructions), Ok(spins)) if is_counted => {
                (cpu_s * spins / instructions, throughput(member, demand) * instructions)
            }
            _ => (0.0, 1.0),
        };
        Ok(Isolated { member, cpu_s, disk_s, spin_s, instructions_per_s })
    }
}

/// Requests per second of a class alone: each of its clients waits, thinks or works between requests (Little's law).
fn throughput(member: &Member, demand: &Demand) -> f64 {
    let between_s = demand.between_s.as_ref().map_or(0.0, |seconds| seconds.max(0.0));
    f64::from(member.alone.population) / (member.think_s + demand.response_s + between_s)
}

/// Predicts a mix of two closed classes; `None` for any other mix.
pub fn predict(mix: &Mix, cores: u32) -> Result<Option<Thesis>, Refused> {
    let [first, second] = &mix.members[..] else { return Ok(None) };
    if [first, second].iter().any(|member| member.arrivals_per_s.is_some() || member.population == 0) {
        return Ok(None);
    }
    let demands = [first.alone.demand(None)?, second.alone.demand(None)?];
    let is_counted = demands.iter().all(|demand| {
        demand.instructions.as_ref().is_ok_and(|instructions| *instructions > 0.0) && demand.spin_instructions.is_ok()
    });
    let first = Isolated::of(first, &demands[0], cores, is_counted)?;
    let second = Isolated::of(second, &demands[1], cores, is_counted)?;
    of_two([first, second], is_counted).map(Some)
}

fn of_two(classes: [Isolated<'_>; 2], is_counted: bool) -> Result<Thesis, Refused> {
    let each = |of: &dyn Fn(&Isolated<'_>) -> f64| [of(&classes[0]), of(&classes[1])];
    let sum = |[first, second]: [f64; 2]| first + second;
    // 4.6.2: mixed demands.
    let clients = each(&|class| f64::from(class.member.population));
    let rates = each(&|class| class.instructions_per_s);
    let mixed_rate = (clients[0] * rates[0] + clients[1] * rates[1]) / sum(clients);
    let spins_s = [0, 1].map(|at: usize| classes[at].spin_s * rates[at] / mixed_rate);
    let cpu_s = [0, 1].map(|at: usize| classes[at].cpu_s * rates[at] / mixed_rate + spins_s[1 - at]);
    // 4.6.3: the network.
    let solution = mva::solve(&network(&classes, cpu_s)?)?;
    let throughputs = [0, 1].map(|at: usize| solution.classes[at].throughput);
    let modelled_s = [0, 1].map(|at: usize| solution.classes[at].response_s.unwrap_or(0.0));
    let first_share = throughputs[0] / sum(throughputs);
    // 4.6.4: the bound in place of the network's mean.
    let mixed = |[first, second]: [f64; 2]| first_share * first + (1.0 - first_share) * second;
    let demands_s = [mixed(cpu_s), mixed(each(&|class| class.disk_s))];
    let think_s = mixed(each(&|class| class.member.think_s));
    let response_s = sum(demands_s).max(sum(clients) * demands_s[0].max(demands_s[1]) - think_s);
    let ratio = modelled_s[0] / modelled_s[1];
    let first_s = response_s * ratio / (first_share * ratio + 1.0 - first_share);
    Ok(Thesis {
        is_counted,
        slowdowns: rates.map(|rate| rate / mixed_rate),
        cpu_s,
        first_share,
        modelled_s,
        response_s,
        responses_s: [first_s, first_s / ratio],
    })
}

fn network(classes: &[Isolated<'_>; 2], cpu_s: [f64; 2]) -> Result<Network, Refused> {
    let station = |name: &str| Station { name: name.to_owned(), service: Service::Processors { servers: 1 } };
    let class = |at: usize| Class {
        name: classes[at].member.alone.name.clone(),
        arrivals_per_s: None,
        population: classes[at].member.population,
        think_s: classes[at].member.think_s,
        demands_s: vec![cpu_s[at], classes[at].disk_s],
    };
    Ok(Network::new(vec![station("cpu"), station("disk")], vec![class(0), class(1)])?)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{member, mix};
    use super::super::{Disk, Machine, Slowdown};
    use super::*;
    use crate::demand::Block;
    use crate::demand::tests::block;

    fn assert_near(found: f64, expect: f64) {
        assert!((found - expect).abs() <= 1e-9 * expect.abs(), "{found} is not {expect}");
    }

    /// 1000 requests alone, each of these seconds of the cores and the disk, and these instructions.
    fn counted(cpu_s: f64, disk_s: f64, instructions: f64, spins: f64) -> Vec<Block> {
        let block = block(1_000, cpu_s, disk_s);
        let instructions = Ok(instructions * block.requests as f64);
        vec![Block { instructions, spin_instructions: Ok(spins * block.requests as f64), ..block }]
    }

    /// Fifty clients that think for 5 s beside fifty that do not. Alone they have rates that the steps are worked out
    /// for by hand.
    fn pair() -> Vec<Member> {
        let mut loc = member("loc", 50, 5.0, counted(0.05, 0.01, 1e8, 0.0));
        let mut fed = member("fed", 50, 0.0, counted(0.5, 0.25, 5e8, 5e7));
        // 10 and 2 requests per second alone, so that 1e9 instructions per second run in each.
        for (member, per_s, think_s) in [(&mut loc, 10.0, 5.0), (&mut fed, 2.0, 0.0)] {
            for block in member.alone.blocks.iter_mut().flatten() {
                block.response_s = (50.0 / per_s - think_s) * block.requests as f64;
                block.between_s = Err("not measured".to_owned());
            }
        }
        vec![loc, fed]
    }

    #[test]
    fn its_steps_are_followed_to_the_letter() {
        // Alone `loc` runs twice as many instructions per second as `fed`.
        let mut members = pair();
        for block in members[0].alone.blocks.iter_mut().flatten() {
            block.instructions = Ok(2e8 * block.requests as f64);
        }
        members[0].population = 25;
        let found = predict(&mix(Slowdown::None, members), 1).unwrap().expect("two classes");
        let rate = (25.0 * 2e9 + 50.0 * 1e9) / 75.0;
        assert!(found.is_counted);
        assert_near(found.slowdowns[0], 2e9 / rate);
        // A tenth of the 0.5 s of `fed` is spent spinning, for which `loc` spins, too.
        assert_near(found.cpu_s[0], 0.05 * 2e9 / rate + 0.05 * 1e9 / rate);
        assert_near(found.cpu_s[1], 0.5 * 1e9 / rate);
        let share = found.first_share;
        let cpu_s = share * found.cpu_s[0] + (1.0 - share) * found.cpu_s[1];
        assert_near(found.response_s, 75.0 * cpu_s - share * 5.0);
        assert_near(found.responses_s[0] / found.responses_s[1], found.modelled_s[0] / found.modelled_s[1]);
        assert_near(found.response_s, share * found.responses_s[0] + (1.0 - share) * found.responses_s[1]);
    }

    /// With equal rates and no spinning, demands are those alone, and its network is ours on one core.
    #[test]
    fn without_counters_it_is_its_network_and_its_bound() {
        let members = vec![
            member("loc", 50, 5.0, vec![block(1_000, 0.05, 0.01)]),
            member("fed", 50, 0.0, vec![block(200, 0.5, 0.25)]),
        ];
        let mix = mix(Slowdown::None, members);
        let found = predict(&mix, 1).unwrap().expect("two classes");
        assert!(!found.is_counted);
        assert_eq!((found.cpu_s, found.slowdowns), ([0.05, 0.5], [1.0, 1.0]));
        let machine = Machine { cores: 1, disk: Disk::Busy, query_threads: None, workers_max: None };
        let ours = super::super::predict(&mix, &machine).unwrap();
        for (ours, modelled_s) in ours.classes.iter().zip(found.modelled_s) {
            assert!((ours.response_s.unwrap().value / modelled_s - 1.0).abs() < 1e-6);
        }
        // On two cores, a core of the network is as fast as both.
        assert_eq!(predict(&mix, 2).unwrap().expect("two classes").cpu_s, [0.025, 0.25]);
    }

    #[test]
    fn it_is_for_two_classes_of_clients() {
        let mut members = pair();
        members.push(member("other", 1, 0.0, counted(0.1, 0.0, 1e8, 0.0)));
        assert_eq!(predict(&mix(Slowdown::None, members), 1), Ok(None));
        let mut members = pair();
        members[0].arrivals_per_s = Some(1.0);
        assert_eq!(predict(&mix(Slowdown::None, members), 1), Ok(None));
        let mut members = pair();
        members[1].alone.blocks = vec![];
        assert!(matches!(predict(&mix(Slowdown::None, members), 1), Err(Refused::TooFew(_))));
    }
}
