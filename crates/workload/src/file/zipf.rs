//! Zipf's distribution: rank k is drawn with a probability in proportion to k to the power of minus the exponent.

use rand::RngExt;
use rand_distr::Zipf as Ranks;
use rand_pcg::Pcg64;

/// Draws ranks from 1 to n, in the same short time for every n and exponent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Zipf {
    n: u64,
    ranks: Ranks<f64>,
}

impl Zipf {
    /// Ranks from 1 to `n`, which is at least 1. An exponent of 0 makes all of them alike; none is negative.
    pub(super) fn new(n: u64, exponent: f64) -> Self {
        Zipf { n, ranks: Ranks::new(n as f64, exponent).expect("there is a rank, and no negative exponent") }
    }

    /// The next rank.
    pub(super) fn draw(&self, random: &mut Pcg64) -> u64 {
        // Rounding may lead beyond the last one.
        (random.sample(self.ranks) as u64).min(self.n)
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
