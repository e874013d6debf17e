//! Student's t distribution, and draws from the distributions that resampling needs.

use std::f64::consts::PI;

use rand::{Rng, RngExt};

/// The value that Student's t with `degrees_of_freedom` (a real number of at least 1) is below with `probability`.
pub(crate) fn quantile(probability: f64, degrees_of_freedom: f64) -> f64 {
    debug_assert!((0.0..1.0).contains(&probability) && degrees_of_freedom > 0.0);
    if probability < 0.5 {
        return -quantile(1.0 - probability, degrees_of_freedom);
    }
    let v = degrees_of_freedom;
    let peak = (ln_gamma(f64::midpoint(v, 1.0)) - ln_gamma(v / 2.0)).exp() / (v * PI).sqrt();
    // Newton's method from 0: the cumulative distribution is concave there, so every step stays below the root.
    let mut t = 0.0;
    for _ in 0..200 {
        let density = peak * (1.0 + t * t / v).powf(-f64::midpoint(v, 1.0));
        let step = (probability - cumulative(t, v)) / density;
        t += step;
        if step < 1e-10 * t {
            break;
        }
    }
    t
}

/// The probability that Student's t is below `t >= 0`: `1 - I(df / (df + t^2); df/2, 1/2) / 2`.
fn cumulative(t: f64, degrees_of_freedom: f64) -> f64 {
    let x = degrees_of_freedom / (degrees_of_freedom + t * t);
    1.0 - incomplete_beta(x, degrees_of_freedom / 2.0, 0.5) / 2.0
}

/// The regularised incomplete beta function, by its continued fraction (Abramowitz and Stegun 26.5.8), evaluated by the
/// method of Lentz on the side where it converges fast.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp() / a;
    let away_from_zero = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let (mut numerator, mut denominator) = (1.0, away_from_zero(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = 1.0 / denominator;
    for step in 1..300 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = fraction;
        for coefficient in [even, odd] {
            denominator = away_from_zero(1.0 + coefficient / denominator);
            numerator = away_from_zero(1.0 + coefficient / numerator);
            fraction *= numerator / denominator;
        }
        if (fraction - before).abs() < 1e-14 * fraction.abs() {
            break;
        }
    }
    front * fraction
}

/// The logarithm of the gamma function for positive arguments, by Lanczos' approximation (g = 7, nine terms; relative error
/// below 1e-13).
fn ln_gamma(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        return (PI / (PI * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let series: f64 = COEFFICIENTS[1..].iter().zip(1..).map(|(c, i)| c / (x + f64::from(i))).sum();
    let t = x + 7.5;
    (2.0 * PI).sqrt().ln() + (x + 0.5) * t.ln() - t + (COEFFICIENTS[0] + series).ln()
}

/// A draw from the standard normal distribution (Box and Muller).
pub(crate) fn normal(random: &mut impl Rng) -> f64 {
    // The first uniform is kept from 0, whose logarithm is infinite.
    let (radius, angle): (f64, f64) = (1.0 - random.random::<f64>(), random.random());
    (-2.0 * radius.ln()).sqrt() * (2.0 * PI * angle).cos()
}

/// A draw from chi-square with `degrees_of_freedom` (a real number of at least 1), by the method of Marsaglia and Tsang.
pub(crate) fn chi_square(degrees_of_freedom: f64, random: &mut impl Rng) -> f64 {
    let shape = degrees_of_freedom / 2.0;
    if shape < 1.0 {
        // Their rule for small shapes: draw with a shape larger by one and shrink.
        let shrink = (1.0 - random.random::<f64>()).powf(1.0 / shape);
        return chi_square(degrees_of_freedom + 2.0, random) * shrink;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let z = normal(random);
        let v = (1.0 + c * z).powi(3);
        let u = 1.0 - random.random::<f64>();
        if v > 0.0 && u.ln() < 0.5 * z * z + d - d * v + d * v.ln() {
            return 2.0 * d * v;
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_pcg::Pcg64;

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

    #[test]
    fn draws_have_the_moments_of_their_distributions() {
        let mut random = Pcg64::seed_from_u64(1);
        let draws = 40_000;
        let moments = |values: Vec<f64>| {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            (mean, values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64)
        };
        let (mean, variance) = moments((0..draws).map(|_| normal(&mut random)).collect());
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
        for degrees_of_freedom in [1.0, 1.7, 4.0, 30.0] {
            let (mean, variance) = moments((0..draws).map(|_| chi_square(degrees_of_freedom, &mut random)).collect());
            assert!((mean / degrees_of_freedom - 1.0).abs() < 0.03, "{degrees_of_freedom}: mean {mean}");
            assert!(
                (variance / degrees_of_freedom / 2.0 - 1.0).abs() < 0.1,
                "{degrees_of_freedom}: variance {variance}"
            );
        }
    }
}
