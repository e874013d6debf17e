//! Isolated Demand Decomposition: predicts how workloads perform together, from measurements of each alone.
//!
//! The queues of a mix are easy ([`mva`](crate::mva)). The hard part is that demands change in a mix, above all CPU seconds: caches are shared,
//! and spinning takes longer. McWherter's thesis (chapter 4) estimates mixed demands from instruction rates, for two
//! classes. [`predict`] takes any number of classes, and adds real cores, the disk's own curve, a choice of what slows requests down
//! ([`Slowdown`]), waits for a turn at the cores ([`Turns`]) and for threads that queries share, response times from the network itself
//! instead of the bound of formula 4.5, and intervals from blocks and from what measured mixes leave unexplained. Without such mixes
//! waits follow from the kernel's slice ([`CoreSlice`]), and intervals from earlier errors ([`ISOLATED_RATIOS`]). [`thesis`] has the
//! thesis' own procedure, as a baseline.
//!
//! A mix whose classes wait for each other's locks is refused ([`Refused::LockBound`]): demands alone do not say how long locks are
//! held in it.

use thiserror::Error;

use crate::demand::{Alone, TooFew};
use crate::des;
use crate::mva::{Method, Unsolved};
use crate::network::{Fault, Network};
use crate::statistics::{Deviation, Interval};

mod isolated;
mod mix;
mod pool;
mod slowdown;
mod spread;
#[cfg(test)]
mod tests;
pub mod thesis;
mod turns;

pub use isolated::{CoreSlice, ISOLATED_RATIOS};
pub use slowdown::{Calibration, Slowdown};
pub use turns::{Lesson, Residual, Turn, Turns};

use spread::Spread;

/// The share of response time, 0 to 1, above which waiting for locks decides a mix with shared tables.
pub const LOCK_SHARE_MAX: f64 = 0.05;

/// The error of a queueing network without adjustment by a measured mix, as a standard deviation of logarithms: the thesis reports
/// more than 26 % (4.6.3). It widens intervals beyond measurements, for each doubling.
pub const UNADJUSTED_ERROR: f64 = 0.26;

/// A response that is not known within this factor, to either side, is not predicted. Within it a reader learns the order of magnitude, and
/// whether a promise is kept or broken by far. Beyond it more measurements are the better answer.
pub const FACTOR_MAX: f64 = 10.0;

/// Standard deviations on either side of a mean that hold 95 % of a normal distribution.
const NORMAL_95: f64 = 1.96;

/// The resources that all classes share.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Cores, hardware threads not counted.
    pub cores: u32,
    /// The data disk.
    pub disk: Disk,
    /// Threads that requests with [`Member::needs_thread`] share; `None` if there are always enough.
    pub query_threads: Option<u32>,
    /// Parallel workers that all requests share; `None` if there are always enough.
    pub workers_max: Option<u32>,
}

/// How the disk is modelled.
#[derive(Debug, Clone, PartialEq)]
pub enum Disk {
    /// One server; a request needs the seconds for which it kept the disk busy alone. The only form without a probe.
    Busy,
    /// Its own curve, probed; a request needs the seconds that its operations take one after the other.
    Curve {
        /// Operations per second at depth 1, 2, … relative to depth 1; never falling.
        rates: Vec<f64>,
    },
}

/// A class in the mix.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Its measurements alone.
    pub alone: Alone,
    /// Clients that it has in the mix.
    pub population: u32,
    /// Mean seconds that they think in the mix.
    pub think_s: f64,
    /// Requests that arrive per second, whether others are answered or not. The class is then open, and neither its clients nor
    /// their think time count.
    pub arrivals_per_s: Option<f64>,
    /// Whether each of its requests runs on one of the machine's [`query_threads`](Machine::query_threads).
    pub needs_thread: bool,
}

impl Member {
    /// Whether it has requests in the mix.
    pub fn has_requests(&self) -> bool {
        self.arrivals_per_s.map_or(self.population > 0, |per_s| per_s > 0.0)
    }

    /// Requests per second, if a response takes this long.
    pub fn per_s(&self, response_s: f64) -> f64 {
        self.arrivals_per_s.unwrap_or_else(|| f64::from(self.population) / (self.think_s + response_s))
    }
}

/// Classes that are to share a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix {
    /// The classes.
    pub members: Vec<Member>,
    /// Whether some class writes tables that another uses.
    pub tables_shared: bool,
    /// The cause of their slowdown.
    pub slowdown: Slowdown,
    /// How much longer they wait at the cores than under even sharing.
    pub turns: Turns,
    /// How much the mean responses of equal runs differ, over everything that was measured; `None` if unknown.
    pub noise: Option<Deviation>,
    /// Its distance beyond the measurements: how many times clients or cores would have to be doubled, or halved, from
    /// the nearest measured ones. 0 within.
    pub doublings_beyond: f64,
}

impl Mix {
    /// Whether several classes have requests, so that they share more than each has shown alone.
    pub fn is_shared(&self) -> bool {
        self.members.iter().filter(|member| member.has_requests()).count() > 1
    }

    /// Whether mixes that were measured adjust it, so that it does not follow from its classes alone.
    pub fn is_adjusted(&self) -> bool {
        matches!(self.slowdown, Slowdown::Calibrated(_)) || self.turns.error.is_some()
    }
}

/// Why nothing is predicted.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Refused {
    #[error(transparent)]
    TooFew(#[from] TooFew),
    #[error("{figure} of `{class}` alone are missing: {reason}")]
    Missing { class: String, figure: &'static str, reason: String },
    #[error("`{class}` waits for locks for {:.0} % of its response time alone, and tables are shared: demands do not say how long locks will be held", share * 100.0)]
    LockBound { class: String, share: f64 },
    #[error("the slowdown has {found} entries for {expect} classes, or an entry that is impossible")]
    Slowdown { found: usize, expect: usize },
    #[error(transparent)]
    Network(#[from] Fault),
    #[error(transparent)]
    Unsolved(#[from] Unsolved),
    #[error("slowed demands and throughputs did not settle in {0} steps")]
    NotSettled(usize),
    #[error("the response of `{class}` is known to a factor of {factor:.0} only, not {FACTOR_MAX}, because {why}")]
    Unknown { class: String, factor: f64, why: String },
}

/// A caution about a prediction.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Caution {
    /// The class has other numbers of clients than it was measured with.
    Population {
        /// The class.
        class: String,
        /// Clients measured.
        measured: u32,
        /// Clients predicted.
        predicted: u32,
    },
    /// Others use more of the cores than in any mix that was calibrated.
    BeyondCalibration {
        /// The class.
        class: String,
    },
    /// Factors come from calibration mixes, so that this is no prediction from singles alone.
    Calibrated,
    /// Waiting for locks is not in the model, though the class does: its share of response time, or `None` if unknown.
    Locks {
        /// The class.
        class: String,
        /// The share, 0 to 1.
        share: Option<f64>,
    },
    /// Waiting for the log is not in the model, because it was not measured.
    LogUnknown {
        /// The class.
        class: String,
    },
    /// A request uses clearly more CPU seconds than its response time: it runs on several cores at once, which the
    /// model ignores.
    Parallel {
        /// The class.
        class: String,
    },
}

/// A class in the predicted mix, each figure with a 95 % interval if at least two blocks were measured.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassPrediction {
    /// Requests per second, of all clients together; of an open class those that arrive.
    pub throughput: Interval,
    /// Mean seconds of a response; `None` without requests.
    pub response_s: Option<Interval>,
    /// CPU seconds of a request, relative to alone.
    pub cpu_factor: f64,
}

/// A predicted mix.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// By class, in the order of the mix.
    pub classes: Vec<ClassPrediction>,
    /// Mean seconds of a response of any class; `None` without requests.
    pub response_s: Option<Interval>,
    /// `cpu`, `disk`; `None` without load.
    pub bottleneck: Option<&'static str>,
    /// How the network was solved.
    pub method: Method,
    /// The network with demands as in the mix. If the machine has upkeep, one class for it follows the others.
    /// [`des`] finds percentiles or the effect of priorities with it.
    pub network: Network,
    /// Its cautions.
    pub cautions: Vec<Caution>,
}

impl Prediction {
    /// Settings to [simulate](crate::des) the network. Requests need exponential demands, but travel for the mean time: a round trip is as long
    /// as the network makes it, and the sum of several hardly spreads.
    pub fn simulation(&self, seed: u64) -> des::Settings {
        let mut settings = des::Settings::plain(&self.network, seed);
        settings.is_constant[mix::ROUND_TRIPS] = true;
        settings
    }
}

/// Predicts a mix.
pub fn predict(mix: &Mix, machine: &Machine) -> Result<Prediction, Refused> {
    let whole = mix::solve(mix, machine, None)?;
    let spread = Spread::of(mix, machine, &whole);
    let class = |at: usize| {
        let (member, figures) = (&mix.members[at], &whole.solution.classes[at]);
        // An error of the response moves the cycle of a client, and so its throughput, by the response's part of it.
        let part = whole.response_s(at) * figures.throughput / f64::from(member.population.max(1));
        let throughput = match member.arrivals_per_s {
            Some(per_s) => Interval { value: per_s, low: Some(per_s), high: Some(per_s) },
            None => spread.interval(|solved| solved.solution.classes[at].throughput, part.min(1.0)),
        };
        let response_s = member.has_requests().then(|| spread.interval(|solved| solved.response_s(at), 1.0));
        response_s.map_or(Ok(()), |response| spread.check_known(mix, &member.alone.name, response))?;
        Ok(ClassPrediction { throughput, response_s, cpu_factor: whole.cpu_factors[at] })
    };
    let classes = (0..mix.members.len()).map(class).collect::<Result<Vec<ClassPrediction>, Refused>>()?;
    let any_requests = mix.members.iter().any(Member::has_requests);
    Ok(Prediction {
        classes,
        response_s: any_requests.then(|| spread.interval(mix::Solved::mean_response_s, 1.0)),
        bottleneck: whole.bottleneck(),
        method: whole.solution.method,
        cautions: mix::cautions(mix, &whole),
        network: whole.network_of_all_clients(mix),
    })
}
