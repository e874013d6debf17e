//! Student's t distribution, and draws from the distributions that resampling needs.

use rand::Rng;
use rand_distr::{ChiSquared, Distribution, StandardNormal};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The value that Student's t with `degrees_of_freedom` (a real number of at least 1) is below with `probability`.
pub(crate) fn quantile(probability: f64, degrees_of_freedom: f64) -> f64 {
    let distribution = StudentsT::new(0.0, 1.0, degrees_of_freedom).expect("degrees of freedom are above 0");
    distribution.inverse_cdf(probability)
}

/// A draw from the standard normal distribution.
pub(crate) fn normal(random: &mut impl Rng) -> f64 {
    StandardNormal.sample(random)
}

/// A draw from chi-square with `degrees_of_freedom` (a real number of at least 1).
pub(crate) fn chi_square(degrees_of_freedom: f64, random: &mut impl Rng) -> f64 {
    ChiSquared::new(degrees_of_freedom).expect("degrees of freedom are above 0").sample(random)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the tables of Student's t in every textbook.
    #[test]
    fn quantiles_are_the_tables() {
        for (probability, degrees_of_freedom, expect) in [
            (0.975, 1.0, 12.706),
            (0.975, 2.0, 4.303),
            (0.975, 3.0, 3.182),
            (0.975, 10.0, 2.228),
            (0.975, 30.0, 2.042),
            (0.975, 1e6, 1.960),
            (0.995, 1.0, 63.657),
            (0.995, 4.0, 4.604),
            (0.95, 5.0, 2.015),
            (0.025, 10.0, -2.228),
            (0.5, 3.0, 0.0),
        ] {
            let got = quantile(probability, degrees_of_freedom);
            assert!((got - expect).abs() < 0.001, "t({probability}, {degrees_of_freedom}) = {got}, not {expect}");
        }
        let between = quantile(0.975, 1.5);
        assert!(between > 4.303 && between < 12.706, "{between}");
    }
}
