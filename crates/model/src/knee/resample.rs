//! Curves that could have been measured as well, drawn by chance.

use rand::SeedableRng;
use rand_pcg::Pcg64;

use super::{Curve, Fall, isotonic};
use crate::statistics::Noise;
use crate::statistics::student::{chi_square, normal};

/// How many curves are drawn. The bound at 95 % is then known to half a percent of probability.
const DRAWS: usize = 1_000;
/// A drop is beyond noise if fewer than this share of flat curves show one as large.
const FALL_PROBABILITY: f64 = 0.01;

/// Drawn curves.
pub(super) struct Resampled {
    /// Fitted means by curve and allocation.
    fitted: Vec<Vec<f64>>,
    /// The measured mean of the full allocation.
    full: f64,
    /// The largest drop of the measured means, if it is beyond noise.
    pub(super) fall: Option<Fall>,
}

impl Resampled {
    /// Draws curves around the measured means. Each curve draws its own deviation too, because that is known from few
    /// degrees of freedom only, which makes tails as long as Student's. Then it is fitted like the measured one.
    pub(super) fn of(curve: &Curve, noise: &Noise, seed: u64) -> Self {
        let mut random = Pcg64::seed_from_u64(seed);
        let deviation = curve.deviation(noise);
        let freedom = deviation.degrees_of_freedom;
        let weights = curve.weights();
        let drops = Drops::between(&weights);
        let (measured, fall) = drops.largest(&curve.means.iter().map(|mean| mean.ln()).collect::<Vec<_>>());
        let mut steeper = 0_usize;
        let mut fitted = Vec::with_capacity(DRAWS);
        for _ in 0..DRAWS {
            let relative = deviation.relative * (freedom / chi_square(freedom, &mut random)).sqrt();
            let errors: Vec<f64> =
                weights.iter().map(|weight| relative / weight.sqrt() * normal(&mut random)).collect();
            steeper += usize::from(drops.largest(&errors).0 >= measured);
            let means: Vec<f64> = curve.means.iter().zip(&errors).map(|(mean, error)| mean * error.exp()).collect();
            fitted.push(isotonic::fit(&means, &weights));
        }
        let is_beyond_noise = (steeper as f64) < FALL_PROBABILITY * DRAWS as f64;
        Self { fitted, full: curve.means[weights.len() - 1], fall: fall.filter(|_| is_beyond_noise) }
    }

    /// For each allocation the share of curves in which its mean reaches `share` of the measured mean of the full
    /// allocation. It never falls with the allocation.
    pub(super) fn reached(&self, share: f64) -> Vec<f64> {
        self.shares(|_| share * self.full)
    }

    /// For each allocation the share of curves in which it suffices: its mean reaches `share` of the full allocation's in
    /// the same curve. It never falls with the allocation, and is 1 at the full one.
    pub(super) fn sufficient(&self, share: f64) -> Vec<f64> {
        self.shares(|curve| share * curve[curve.len() - 1])
    }

    fn shares(&self, threshold: impl Fn(&[f64]) -> f64) -> Vec<f64> {
        let mut counts = vec![0_usize; self.fitted[0].len()];
        for curve in &self.fitted {
            let threshold = threshold(curve);
            for (count, mean) in counts.iter_mut().zip(curve) {
                *count += usize::from(*mean >= threshold);
            }
        }
        counts.into_iter().map(|count| count as f64 / self.fitted.len() as f64).collect()
    }
}

/// Drops from an allocation to a larger one.
struct Drops {
    /// `(from, to, scale)`: the scale divides a drop in logarithms by the noise of a pair with these repeats.
    pairs: Vec<(usize, usize, f64)>,
}

impl Drops {
    fn between(weights: &[f64]) -> Self {
        let pair = |from: usize, to: usize| (from, to, (1.0 / weights[from] + 1.0 / weights[to]).sqrt().recip());
        Self { pairs: (1..weights.len()).flat_map(|to| (0..to).map(move |from| pair(from, to))).collect() }
    }

    /// The largest scaled drop of a curve of logarithms, and where it is; `None` if the curve never falls.
    fn largest(&self, logarithms: &[f64]) -> (f64, Option<Fall>) {
        let mut largest = (0.0, None);
        for (from, to, scale) in &self.pairs {
            let scaled = (logarithms[*from] - logarithms[*to]) * scale;
            if scaled > largest.0 {
                largest = (scaled, Some((*from, *to)));
            }
        }
        let fall = |(from, to): (usize, usize)| {
            let drop = -(logarithms[to] - logarithms[from]).exp_m1();
            Fall { from, to, drop }
        };
        (largest.0, largest.1.map(fall))
    }
}
