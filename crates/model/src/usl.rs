//! The universal scalability law: throughput over the number of clients,
//! `X(N) = gamma N / (1 + sigma (N - 1) + kappa N (N - 1))` with gamma > 0 and sigma, kappa >= 0 (Gunther 2007).
//!
//! gamma is the throughput of one client, sigma the contention (the serial share of work), kappa the coherency (the
//! cost of each pair of clients). Without kappa it is Amdahl's law, without both it is a line. `fit` finds the
//! parameters; this file determines how well they are known and when they are not.

use rand::SeedableRng;
use rand_pcg::Pcg64;
use thiserror::Error;

use crate::statistics::student::{chi_square, normal};
use crate::statistics::{Deviation, Interval, Noise, Samples};

mod fit;
#[cfg(test)]
mod tests;

/// Three parameters can be tested only with a fourth number of clients.
pub const CLIENT_COUNTS_LEAST: usize = 4;

/// Beyond this root mean square of relative deviations from the law, its parameters mean nothing.
const MISFIT_MOST: f64 = 0.15;
/// How many curves are drawn for the intervals.
const DRAWS: usize = 500;
/// The share that a 95 % interval leaves out on either side.
const TAIL: f64 = 0.025;
/// The same for sigma where kappa is near its bound, and the reverse: fits are then cut off at the bound, which pushes the other
/// parameter to one side, in drawn curves as in the measured one. Without the margin the interval of sigma covers 89 % for
/// curves that follow Amdahl's law.
const TAIL_BESIDE_BOUND: f64 = 0.01;

/// The parameters of the law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Law {
    /// Throughput of one client, in the unit of the samples.
    pub gamma: f64,
    /// Contention, at least 0.
    pub sigma: f64,
    /// Coherency, at least 0.
    pub kappa: f64,
}

impl Law {
    /// Throughput of `clients`.
    pub fn throughput(&self, clients: f64) -> f64 {
        let others = clients - 1.0;
        self.gamma * clients / (1.0 + self.sigma * others + self.kappa * clients * others)
    }

    /// The number of clients, not less than one, with the highest throughput: `sqrt((1 - sigma) / kappa)`. `None` where
    /// throughput grows without end.
    pub fn peak_clients(&self) -> Option<f64> {
        if self.sigma >= 1.0 {
            return Some(1.0);
        }
        (self.kappa > 0.0).then(|| ((1.0 - self.sigma) / self.kappa).sqrt().max(1.0))
    }
}

/// The law fitted to measurements, with 95 % intervals. Intervals lack their ends where neither repeats nor numbers of
/// clients beyond four show the noise.
#[derive(Debug, Clone, PartialEq)]
pub struct Scalability {
    /// The parameters with the best fit.
    pub law: Law,
    /// Throughput of one client.
    pub gamma: Interval,
    /// Contention.
    pub sigma: Interval,
    /// Coherency.
    pub kappa: Interval,
    /// The number of clients with the highest throughput; `None` where the law has no peak. Without `high` if it may well have
    /// none. A peak beyond the numbers of clients that ran is extrapolated. As a ratio of two parameters it has an interval that is
    /// too narrow with few repeats: of 95 % at two repeats and 5 % noise, 87 %.
    pub peak_clients: Option<Interval>,
    /// Root mean square of the relative deviations of measured means from the law.
    pub misfit: f64,
    /// `(clients, throughput)` of the law at the measured numbers of clients, ascending.
    pub fit: Vec<(f64, f64)>,
}

/// Why the law is not fitted.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum WhyNot {
    /// Too few numbers of clients at which anything completed.
    #[error("{0} numbers of clients completed anything; the law needs at least {CLIENT_COUNTS_LEAST}")]
    FewCounts(usize),
    /// Throughput does not follow the law.
    #[error("throughput deviates by {:.0} % from the law (root mean square), which says nothing then", misfit * 100.0)]
    Misfit {
        /// Relative root mean square.
        misfit: f64,
    },
}

/// Fits the law. Row `i` of `samples` has the runs of `clients[i]` clients, in any order; rows without runs are left
/// out, and equal numbers of clients count as further runs of one number. `noise` is [`Noise::of`] all settings of the
/// workload; without it, the deviations from the law are used, given at least five numbers of clients. `seed` is for
/// resampling.
///
/// Intervals are of the parametric bootstrap: curves are drawn around the fitted one and fitted again. Each curve's
/// deviation is drawn too, because it is known from few degrees of freedom. Where the law itself deviates from the
/// means by more than noise, that deviation is drawn, so that a law that fits badly has wide intervals.
///
/// # Errors
/// [`WhyNot`] states why the law is not fitted.
///
/// # Panics
/// If there are fewer rows than numbers of clients, or a number of clients is below 1.
pub fn scalability(
    clients: &[f64],
    samples: &Samples,
    noise: Option<&Noise>,
    seed: u64,
) -> Result<Scalability, WhyNot> {
    let curve = Curve::of(clients, samples);
    let law = curve.fit(&curve.means).ok_or(WhyNot::FewCounts(curve.clients.len()))?;
    let misfit = curve.misfit(&law);
    if misfit > MISFIT_MOST.max(3.0 * noise.map_or(0.0, |noise| noise.run.relative)) {
        return Err(WhyNot::Misfit { misfit });
    }
    let fit = curve.clients.iter().map(|clients| (*clients, law.throughput(*clients))).collect();
    let drawn = curve.draws(&law, noise, seed);
    let cut_off = |of: fn(&Law) -> f64| drawn.iter().filter(|law| of(law) == 0.0).count() as f64 > TAIL * DRAWS as f64;
    let gamma = interval(&drawn, law.gamma, TAIL, |law| law.gamma);
    let sigma =
        interval(&drawn, law.sigma, if cut_off(|law| law.kappa) { TAIL_BESIDE_BOUND } else { TAIL }, |law| law.sigma);
    let kappa =
        interval(&drawn, law.kappa, if cut_off(|law| law.sigma) { TAIL_BESIDE_BOUND } else { TAIL }, |law| law.kappa);
    let peak = |law: &Law| law.peak_clients().unwrap_or(f64::INFINITY);
    Ok(Scalability {
        law,
        gamma,
        sigma,
        kappa,
        peak_clients: law.peak_clients().map(|value| interval(&drawn, value, TAIL, peak)),
        misfit,
        fit,
    })
}

/// The interval of a figure of laws that leaves out `tail` of the drawn ones on either side.
fn interval(drawn: &[Law], value: f64, tail: f64, of: impl Fn(&Law) -> f64) -> Interval {
    let mut values: Vec<f64> = drawn.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    let at = |probability: f64| {
        let last = values.len().checked_sub(1)?;
        Some(values[(probability * last as f64).round() as usize]).filter(|value| value.is_finite())
    };
    // The fit itself may lie at a bound of the parameters, outside the range of the drawn curves.
    Interval { value, low: at(tail).map(|low| low.min(value)), high: at(1.0 - tail).map(|high| high.max(value)) }
}

/// The measurements, by ascending number of clients, where anything completed.
struct Curve {
    clients: Vec<f64>,
    means: Vec<f64>,
    repeats: Vec<f64>,
}

impl Curve {
    fn of(clients: &[f64], samples: &Samples) -> Self {
        assert!(
            samples.settings() >= clients.len(),
            "{} numbers of clients, {} rows",
            clients.len(),
            samples.settings()
        );
        assert!(clients.iter().all(|clients| *clients >= 1.0), "fewer than one client: {clients:?}");
        let mut order: Vec<usize> =
            (0..clients.len()).filter(|row| samples.mean(*row).is_some_and(|m| m > 0.0)).collect();
        order.sort_by(|a, b| clients[*a].total_cmp(&clients[*b]));
        let mut curve = Self { clients: Vec::new(), means: Vec::new(), repeats: Vec::new() };
        for row in order.chunk_by(|a, b| clients[*a] == clients[*b]) {
            let (sum, count) = row
                .iter()
                .flat_map(|row| samples.runs(*row))
                .fold((0.0, 0.0), |(sum, count), (_, value)| (sum + value, count + 1.0));
            curve.clients.push(clients[row[0]]);
            curve.means.push(sum / count);
            curve.repeats.push(count);
        }
        curve
    }

    fn fit(&self, means: &[f64]) -> Option<Law> {
        (self.clients.len() >= CLIENT_COUNTS_LEAST).then(|| fit::fit(&self.clients, means, &self.repeats))
    }

    /// Root mean square of relative deviations from `law`.
    fn misfit(&self, law: &Law) -> f64 {
        let squares = self.deviations(law).map(|deviation| deviation.powi(2)).sum::<f64>();
        (squares / self.clients.len() as f64).sqrt()
    }

    /// Deviations of means from `law`, in logarithms.
    fn deviations(&self, law: &Law) -> impl Iterator<Item = f64> {
        self.clients.iter().zip(&self.means).map(|(clients, mean)| (mean / law.throughput(*clients)).ln())
    }

    /// The deviation of one run from the law, in place of noise or where it is larger: means deviate from the law by
    /// `deviation / sqrt(repeats)`.
    fn run_deviation(&self, law: &Law) -> Option<Deviation> {
        let freedom = self.clients.len().checked_sub(3).filter(|freedom| *freedom > 0)? as f64;
        let squares: f64 = self.deviations(law).zip(&self.repeats).map(|(deviation, n)| deviation.powi(2) * n).sum();
        Some(Deviation { relative: (squares / freedom).sqrt(), degrees_of_freedom: freedom })
    }

    /// Laws fitted to curves drawn around `law`; none if no deviation is known.
    fn draws(&self, law: &Law, noise: Option<&Noise>, seed: u64) -> Vec<Law> {
        let misfit = self.run_deviation(law);
        let own = match (noise.map(|noise| noise.within_block), misfit) {
            // Twice the noise is more than chance explains in deviations from a law that holds.
            (Some(noise), Some(misfit)) if misfit.relative > 2.0 * noise.relative => Some(misfit),
            (noise, misfit) => noise.or(misfit),
        };
        let Some(own) = own else { return Vec::new() };
        // Drift that all runs of a block share moves gamma alone.
        let shared = noise.map_or(0.0, Noise::shared_variance);
        let blocks = self.repeats.iter().copied().fold(1.0, f64::max);
        let shared_freedom = (blocks - 1.0).max(1.0);
        let mut random = Pcg64::seed_from_u64(seed);
        let draw = |_| {
            let relative =
                own.relative * (own.degrees_of_freedom / chi_square(own.degrees_of_freedom, &mut random)).sqrt();
            let drift = (shared / blocks * shared_freedom / chi_square(shared_freedom, &mut random)).sqrt();
            let drift = drift * normal(&mut random);
            let run = |(clients, repeats): (&f64, &f64)| {
                law.throughput(*clients) * (drift + relative / repeats.sqrt() * normal(&mut random)).exp()
            };
            let means: Vec<f64> = self.clients.iter().zip(&self.repeats).map(run).collect();
            fit::fit(&self.clients, &means, &self.repeats)
        };
        (0..DRAWS).map(draw).collect()
    }
}
