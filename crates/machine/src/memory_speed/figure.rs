//! A figure measured several times.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A spread (highest less lowest, by the median) above this is reported as noise.
const NOISY: f64 = 0.2;

/// The median of several rounds, and their range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The unit: `ns`, `GB/s` (10^9 bytes).
    pub unit: String,
    /// The median of the rounds.
    pub median: f64,
    /// The lowest round.
    pub low: f64,
    /// The highest round.
    pub high: f64,
    /// The number of rounds.
    pub rounds: usize,
}

impl Figure {
    /// The figure of these rounds; `None` if there are none, or one of them is not a number.
    pub fn of(unit: &str, rounds: &[f64]) -> Option<Figure> {
        if rounds.is_empty() || rounds.iter().any(|round| !round.is_finite()) {
            return None;
        }
        let mut sorted = rounds.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) };
        let (low, high) = (sorted[0], sorted[sorted.len() - 1]);
        Some(Figure { unit: unit.to_owned(), median, low, high, rounds: sorted.len() })
    }

    /// Highest less lowest, divided by the median; 0 means no spread.
    pub fn spread(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.high - self.low) / self.median }
    }

    /// Whether the rounds differ a lot, as they do beside other work.
    pub fn is_noisy(&self) -> bool {
        self.spread() > NOISY
    }
}

/// `12.3 GB/s (11.9 to 12.4)`.
impl fmt::Display for Figure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:.1} {} ({:.1} to {:.1})", self.median, self.unit, self.low, self.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spreads() {
        let check = |rounds: &[f64], expect: Option<(f64, f64, f64, bool)>| {
            let figure = Figure::of("ns", rounds);
            assert_eq!(figure.map(|one| (one.median, one.low, one.high, one.is_noisy())), expect, "{rounds:?}");
        };
        check(&[], None);
        check(&[1.0, f64::NAN], None);
        check(&[f64::INFINITY], None);
        check(&[3.0], Some((3.0, 3.0, 3.0, false)));
        check(&[10.0, 9.5, 10.5], Some((10.0, 9.5, 10.5, false)));
        check(&[8.0, 12.0, 9.0, 11.0], Some((10.0, 8.0, 12.0, true)));
        assert_eq!(Figure::of("ns", &[1.0, 2.0, 3.0]).unwrap().to_string(), "2.0 ns (1.0 to 3.0)");
    }
}
