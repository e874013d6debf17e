//! The thesis' own procedure, step by step (McWherter, 4.6.1 to 4.6.4), for a class `loc` whose clients think and a class `fed`
//! whose clients do not.
//!
//! Three remarks. The thesis prints `D_spin = I_spin / I`, which has no unit; that share is of CPU seconds,
//! `D_spin = D_cpu I_spin / I`. Its Markov chain has product form, so that its solution is exact mean value analysis
//! with one server for each device, for any number of visits. Utilisations are shares of all cores together, so that
//! demands are normalised by cores once, here.

use thiserror::Error;

use crate::bounds::response_least_s;
use crate::mva::{self, Unsolved};
use crate::network::{Class, Fault, Network, Service, Station};

/// A class alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Isolated {
    /// Clients, at least 1, alone as in the mix.
    pub population: u32,
    /// Share of all cores that are busy, 0 to 1.
    pub cpu_utilisation: f64,
    /// Share of time in which the disk is busy, 0 to 1.
    pub disk_utilisation: f64,
    /// Requests per second, above 0.
    pub throughput: f64,
    /// Instructions per second, above 0.
    pub instructions_per_s: f64,
    /// Instructions of a request, above 0.
    pub instructions: f64,
    /// Instructions of a request spent spinning.
    pub spin_instructions: f64,
}

impl Isolated {
    fn cpu_s(&self) -> f64 {
        self.cpu_utilisation / self.throughput
    }

    fn disk_s(&self) -> f64 {
        self.disk_utilisation / self.throughput
    }

    fn spin_s(&self) -> f64 {
        self.cpu_s() * self.spin_instructions / self.instructions
    }
}

/// Both classes together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Together {
    /// `IPS_mix`, instructions per second.
    pub instructions_per_s: f64,
    /// CPU seconds of a request of `loc` in the mix, of all cores.
    pub cpu_loc_s: f64,
    /// The same of `fed`.
    pub cpu_fed_s: f64,
    /// `P{Loc}`: the share of answers that are of `loc`.
    pub loc_share: f64,
    /// `T_mod` of `loc`: the model's response time, which the thesis found to be off by more than 26 %.
    pub model_loc_s: f64,
    /// `T_mod` of `fed`.
    pub model_fed_s: f64,
    /// `T_mix`: mean response time of all requests.
    pub response_s: f64,
    /// `T_loc`.
    pub loc_s: f64,
    /// `T_fed`.
    pub fed_s: f64,
}

/// Why the procedure does not work.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Failed {
    /// A class without clients, answers or instructions.
    #[error("`{0}` has no clients, no throughput or no instructions")]
    Nothing(&'static str),
    /// The demands do not form a network.
    #[error(transparent)]
    Network(#[from] Fault),
    /// The network was not solved.
    #[error(transparent)]
    Unsolved(#[from] Unsolved),
}

/// Predicts the mix of `loc`, whose clients think for `think_s`, and `fed`.
pub fn predict(loc: &Isolated, think_s: f64, fed: &Isolated) -> Result<Together, Failed> {
    for (name, class) in [("loc", loc), ("fed", fed)] {
        let figures = [class.throughput, class.instructions_per_s, class.instructions];
        if class.population == 0 || figures.iter().any(|figure| *figure <= 0.0) {
            return Err(Failed::Nothing(name));
        }
    }
    // 4.6.2: mixed demands.
    let (loc_clients, fed_clients) = (f64::from(loc.population), f64::from(fed.population));
    let clients = loc_clients + fed_clients;
    let instructions_per_s = (loc_clients * loc.instructions_per_s + fed_clients * fed.instructions_per_s) / clients;
    let (loc_rate, fed_rate) =
        (loc.instructions_per_s / instructions_per_s, fed.instructions_per_s / instructions_per_s);
    let cpu_loc_s = loc.cpu_s() * loc_rate + fed.spin_s() * fed_rate;
    let cpu_fed_s = fed.cpu_s() * fed_rate + loc.spin_s() * loc_rate;
    // 4.6.3: the model.
    let network = network(loc, think_s, fed, [cpu_loc_s, cpu_fed_s])?;
    let solution = mva::solve(&network)?;
    let [loc_figures, fed_figures] = [0, 1].map(|class: usize| &solution.classes[class]);
    let loc_share = loc_figures.throughput / (loc_figures.throughput + fed_figures.throughput);
    let of_model = |figures: &mva::ClassFigures| figures.response_s.expect("both classes have clients");
    let (model_loc_s, model_fed_s) = (of_model(loc_figures), of_model(fed_figures));
    // 4.6.4: the bound of formula 4.5 in place of the model's mean.
    let mixed = |loc_s: f64, fed_s: f64| loc_share * loc_s + (1.0 - loc_share) * fed_s;
    let demands_s = [mixed(cpu_loc_s, cpu_fed_s), mixed(loc.disk_s(), fed.disk_s())];
    let response_s = response_least_s(clients, loc_share * think_s, &demands_s);
    let ratio = model_loc_s / model_fed_s;
    let loc_s = response_s * ratio / (loc_share * ratio + (1.0 - loc_share));
    Ok(Together {
        instructions_per_s,
        cpu_loc_s,
        cpu_fed_s,
        loc_share,
        model_loc_s,
        model_fed_s,
        response_s,
        loc_s,
        fed_s: loc_s / ratio,
    })
}

fn network(loc: &Isolated, think_s: f64, fed: &Isolated, cpu_s: [f64; 2]) -> Result<Network, Fault> {
    let station = |name: &str| Station { name: name.to_owned(), service: Service::Processors { servers: 1 } };
    let class = |name: &str, of: &Isolated, think_s: f64, cpu_s: f64| Class {
        name: name.to_owned(),
        population: of.population,
        think_s,
        demands_s: vec![cpu_s, of.disk_s()],
    };
    let classes = vec![class("loc", loc, think_s, cpu_s[0]), class("fed", fed, 0.0, cpu_s[1])];
    Network::new(vec![station("cpu"), station("disk")], classes)
}
