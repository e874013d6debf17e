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
    /// Fitted means over the fitted mean of the full allocation, by curve and allocation.
    ratios: Vec<Vec<f64>>,
    /// The largest drop of the measured means, if it is beyond noise.
    pub(super) fall: Option<Fall>,
}

impl Resampled {
    /// Draws curves around the measured means. Each curve draws its own deviation too, since that is known from few
    /// degrees of freedom only, which makes tails as long as Student's; then it is fitted like the measured one.
    pub(super) fn of(curve: &Curve, noise: &Noise, seed: u64) -> Self {
        let mut random = Pcg64::seed_from_u64(seed);
        let deviation = curve.deviation(noise);
        let freedom = deviation.degrees_of_freedom;
        let weights = curve.weights();
        let measured = Drop::largest(&curve.means, &weights);
        let mut steeper = 0_usize;
        let mut ratios = Vec::with_capacity(DRAWS);
        for _ in 0..DRAWS {
            let relative = deviation.relative * (freedom / chi_square(freedom, &mut random)).sqrt();
            let factors: Vec<f64> =
                weights.iter().map(|weight| (relative / weight.sqrt() * normal(&mut random)).exp()).collect();
            steeper += usize::from(Drop::largest(&factors, &weights).scaled >= measured.scaled);
            let means: Vec<f64> = curve.means.iter().zip(&factors).map(|(mean, factor)| mean * factor).collect();
            let fitted = isotonic::fit(&means, &weights);
            let full = fitted[fitted.len() - 1];
            ratios.push(fitted.iter().map(|mean| mean / full).collect());
        }
        let is_beyond_noise = (steeper as f64) < FALL_PROBABILITY * DRAWS as f64;
        Self { ratios, fall: is_beyond_noise.then_some(measured.fall) }
    }

    /// For each allocation the share of curves in which it reaches `share` of the full allocation's mean. It never falls
    /// with the allocation, and is 1 at the full one.
    pub(super) fn reached(&self, share: f64) -> Vec<f64> {
        let mut counts = vec![0_usize; self.ratios[0].len()];
        for ratios in &self.ratios {
            for (count, ratio) in counts.iter_mut().zip(ratios) {
                *count += usize::from(*ratio >= share);
            }
        }
        counts.into_iter().map(|count| count as f64 / self.ratios.len() as f64).collect()
    }
}

/// The largest drop from an allocation to a larger one.
struct Drop {
    /// In logarithms, over the square root of the sum of both variances: comparable between pairs of unequal repeats.
    scaled: f64,
    fall: Fall,
}

impl Drop {
    fn largest(means: &[f64], weights: &[f64]) -> Self {
        let mut largest = Self { scaled: 0.0, fall: Fall { from: 0, to: 0, drop: 0.0 } };
        for to in 1..means.len() {
            for from in 0..to {
                if means[to] < means[from] {
                    let scaled = (means[from] / means[to]).ln() / (1.0 / weights[from] + 1.0 / weights[to]).sqrt();
                    if scaled > largest.scaled {
                        largest = Self { scaled, fall: Fall { from, to, drop: 1.0 - means[to] / means[from] } };
                    }
                }
            }
        }
        largest
    }
}
