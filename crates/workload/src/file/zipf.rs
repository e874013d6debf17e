//! Zipf's distribution: rank k is drawn with a probability in proportion to k to the power of minus the exponent.

use rand::RngExt;
use rand_pcg::Pcg64;

/// Draws ranks from 1 to n by rejection from the integral of the density, which takes the same short time for every n and
/// exponent (Hörmann and Derflinger, *Rejection-inversion to generate variates from monotone discrete distributions*, 1996).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Zipf {
    n: f64,
    exponent: f64,
    /// The integral of the density up to half a rank after the first, less the probability of the first.
    low: f64,
    /// The integral up to half a rank after the last.
    high: f64,
    /// Closer to its rank than this a point is always under the hat.
    squeeze: f64,
}

impl Zipf {
    /// Ranks from 1 to `n`. An exponent of 0 makes all of them alike.
    pub(super) fn new(n: u64, exponent: f64) -> Self {
        let n = n as f64;
        let unfinished = Zipf { n, exponent, low: 0.0, high: 0.0, squeeze: 0.0 };
        Zipf {
            low: unfinished.integral(1.5) - 1.0,
            high: unfinished.integral(n + 0.5),
            squeeze: 2.0 - unfinished.inverse(unfinished.integral(2.5) - unfinished.density(2.0)),
            ..unfinished
        }
    }

    /// The next rank.
    pub(super) fn draw(&self, random: &mut Pcg64) -> u64 {
        loop {
            // From the upper end down, so that it is never the lower one.
            let area = self.high + random.random::<f64>() * (self.low - self.high);
            let point = self.inverse(area);
            let rank = point.round().clamp(1.0, self.n);
            if rank - point <= self.squeeze || area >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u64;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// The integral of the density from 1: (x^(1 - s) - 1) / (1 - s), and the logarithm where s is 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let power = (1.0 - self.exponent) * log;
        if power.abs() < 1e-12 { log } else { power.exp_m1() / power * log }
    }

    fn inverse(&self, area: f64) -> f64 {
        let product = area * (1.0 - self.exponent);
        if product.abs() < 1e-12 {
            return area.exp();
        }
        // Below -1 only by rounding.
        let log = product.max(-1.0).ln_1p();
        (log / product * area).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each rank occurs, compared with its probability.
    #[test]
    fn ranks_come_as_often_as_they_must() {
        const DRAWS: usize = 200_000;
        for (n, exponent) in
            [(1_u64, 1.0), (2, 0.5), (10, 0.0), (10, 0.99), (10, 1.0), (100, 1.2), (1000, 0.5), (5, 3.0)]
        {
            let zipf = Zipf::new(n, exponent);
            let mut random = Pcg64::new(7, 11);
            let mut counts = vec![0_u32; n as usize];
            for _ in 0..DRAWS {
                counts[zipf.draw(&mut random) as usize - 1] += 1;
            }
            let weights: Vec<f64> = (1..=n).map(|rank| (rank as f64).powf(-exponent)).collect();
            let sum: f64 = weights.iter().sum();
            for (rank, (count, weight)) in counts.iter().zip(&weights).enumerate() {
                let expect = DRAWS as f64 * weight / sum;
                // Five standard deviations of a count; the seed is fixed.
                let tolerance = 5.0 * expect.sqrt().max(1.0);
                let differs = (f64::from(*count) - expect).abs();
                assert!(differs <= tolerance, "n {n}, s {exponent}, rank {}: {count}, expected {expect:.0}", rank + 1);
            }
        }
    }

    #[test]
    fn the_largest_ranges_are_drawn_from() {
        let mut random = Pcg64::new(1, 1);
        for exponent in [0.1, 0.99, 1.001, 2.0, 50.0, 1000.0] {
            let zipf = Zipf::new(1 << 62, exponent);
            for _ in 0..1000 {
                assert!((1..=1 << 62).contains(&zipf.draw(&mut random)));
            }
        }
    }
}
