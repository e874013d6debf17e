//! Chooses which allocations to measure, so that the knees are found with few runs.

use super::resample::Resampled;
use super::{BOUND_CONFIDENCE, Curve, Knee, knee};
use crate::statistics::{Noise, Samples};

/// The search spends at most this share of the runs of the full grid, rounded down.
const BUDGET: f64 = 0.4;
/// Smaller grids are run in full: 40 % of them would be the ends and little else.
const GRID_LEAST: usize = 8;
/// An allocation that reaches the share in fewer of the drawn curves than this is not sufficient, and needs no more runs.
const CLEARLY_NOT: f64 = 0.05;

/// A search for the smallest sufficient allocations on a grid, as a state machine: [`KneeSearch::next`] returns what to
/// run and [`KneeSearch::record`] takes the results, until no runs are left and [`KneeSearch::answer`] is final.
///
/// It runs the full and the smallest allocation first, then halves the bracket around each knee: from the largest allocation
/// that is clearly not sufficient to the smallest that is. An allocation is run again, up to `repeats` times, only while the
/// answer about it is unclear. Every bracket is first narrowed to two steps, so that the larger end is within one step of the
/// knee, and then to one, while runs are left: 40 % of `allocations * repeats`. Runs that are left then repeat the full
/// allocation and those that are still unclear, up to twice `repeats` each. Grids of fewer than eight allocations are run
/// in full, all of them `repeats` times, in interleaved blocks.
///
/// ```
/// use plimsoll_model::knee::search::KneeSearch;
///
/// let mut search = KneeSearch::new((1..=20).map(f64::from).collect(), 3, vec![0.9], None, 7);
/// while let Some(batch) = search.next() {
///     for index in batch {
///         let noise = 1.0 + 0.001 * (search.spent() % 3) as f64;
///         search.record(index, &[100.0 * ((index + 1) as f64 / 8.0).min(1.0) * noise]);
///     }
/// }
/// assert_eq!(search.answer().levels[0].allocation, Some(8.0));
/// assert!(search.spent() <= 24);
/// ```
#[derive(Debug, Clone)]
pub struct KneeSearch {
    allocations: Vec<f64>,
    repeats: usize,
    shares: Vec<f64>,
    noise: Option<Noise>,
    seed: u64,
    /// The results of each allocation's runs.
    runs: Vec<Vec<f64>>,
}

/// The bracket around the knee for one share.
struct Bracket {
    /// The smallest allocation known to be sufficient.
    high: usize,
    /// The largest allocation below it that is not; `None` if the smallest allocation is sufficient.
    low: Option<usize>,
    /// How often `low` ran, if more runs might show that it is sufficient after all.
    unclear: Option<usize>,
}

impl KneeSearch {
    /// A search over `allocations`, ascending, for `shares` of full performance. Each allocation may run `repeats`
    /// times. `noise` comes from other settings of the workload; without it the search relies on its own runs, and
    /// `repeats` must be at least 2 for an answer. `seed` is for resampling.
    ///
    /// # Panics
    /// If allocations do not ascend.
    pub fn new(allocations: Vec<f64>, repeats: usize, shares: Vec<f64>, noise: Option<Noise>, seed: u64) -> Self {
        assert!(allocations.windows(2).all(|pair| pair[0] < pair[1]), "allocations must ascend: {allocations:?}");
        let runs = vec![Vec::new(); allocations.len()];
        Self { allocations, repeats: repeats.max(1), shares, noise, seed, runs }
    }

    /// The number of runs that it may spend.
    pub fn budget(&self) -> usize {
        let grid = self.allocations.len() * self.repeats;
        if self.allocations.len() < GRID_LEAST { grid } else { (grid as f64 * BUDGET) as usize }
    }

    /// The number of runs that it has spent.
    pub fn spent(&self) -> usize {
        self.runs.iter().map(Vec::len).sum()
    }

    /// The next runs, as positions in `allocations`, one run each, in this order; `None` when the search is over. The
    /// same until something is recorded.
    pub fn next(&self) -> Option<Vec<usize>> {
        let left = self.budget().saturating_sub(self.spent());
        let mut batch = self.wanted();
        batch.truncate(left);
        (!batch.is_empty()).then_some(batch)
    }

    /// Takes the results of runs at the allocation with position `index`. Invalid runs are left out and requested
    /// again.
    pub fn record(&mut self, index: usize, values: &[f64]) {
        self.runs[index].extend_from_slice(values);
    }

    /// The answer from the runs so far: final once [`KneeSearch::next`] is `None`. Its fit has the allocations that
    /// were measured.
    pub fn answer(&self) -> Knee {
        let samples = self.samples();
        let noise = self.noise.or_else(|| Noise::of(&samples));
        knee(&self.allocations, &samples, noise.as_ref(), &self.shares, self.seed)
    }

    /// Each run has its own column: the runs did not share blocks, and none must be paired.
    fn samples(&self) -> Samples {
        let mut column = 0;
        let row = |runs: &Vec<f64>| {
            let mut row = vec![None; column];
            row.extend(runs.iter().copied().map(Some));
            column = row.len();
            row
        };
        Samples::new(self.runs.iter().map(row).collect())
    }

    fn wanted(&self) -> Vec<usize> {
        let Some(full) = self.allocations.len().checked_sub(1) else { return Vec::new() };
        if self.allocations.len() < GRID_LEAST {
            let fewest = self.runs.iter().map(Vec::len).min().unwrap_or(0);
            let lacking = |index: &usize| self.runs[*index].len() == fewest && fewest < self.repeats;
            return (0..=full).filter(lacking).collect();
        }
        if self.runs[full].len() < self.repeats || self.runs[0].is_empty() {
            // All others are compared with the full allocation: it runs as often as it may, with the smallest between,
            // so that its runs are apart in time.
            let lacking = vec![full; self.repeats.saturating_sub(self.runs[full].len())];
            let smallest = self.runs[0].is_empty().then_some(0);
            return lacking.iter().copied().take(1).chain(smallest).chain(lacking.iter().copied().skip(1)).collect();
        }
        let Some(brackets) = self.brackets() else { return Vec::new() };
        let probe = |width: usize, repeats: usize| brackets.iter().find_map(|bracket| bracket.probe(width, repeats));
        // Narrow brackets matter more than certain ends, and two steps more than one. The rest of the budget repeats
        // the full allocation, and then the unclear ones.
        let more = 2 * self.repeats;
        let is_unclear = brackets.iter().any(|bracket| bracket.unclear.is_some());
        let yardstick = || (is_unclear && self.runs[full].len() < more).then_some(full);
        let narrower = probe(2, self.repeats).or_else(|| probe(1, self.repeats));
        narrower.or_else(yardstick).or_else(|| probe(1, more)).into_iter().collect()
    }

    /// The bracket of each share; `None` if noise is not known or nothing completes at the full allocation.
    fn brackets(&self) -> Option<Vec<Bracket>> {
        let samples = self.samples();
        let curve = Curve::of(&self.allocations, &samples);
        let noise = self.noise.or_else(|| Noise::of(&samples)).filter(|_| curve.why_not().is_none())?;
        let resampled = Resampled::of(&curve, &noise, self.seed);
        let measured: Vec<usize> = (0..self.runs.len()).filter(|index| !self.runs[*index].is_empty()).collect();
        Some(self.shares.iter().map(|share| self.bracket(&measured, &resampled.reached(*share))).collect())
    }

    /// `reached` are the probabilities that `measured` allocations reach the share.
    fn bracket(&self, measured: &[usize], reached: &[f64]) -> Bracket {
        let full = measured.len() - 1;
        let high = reached.iter().position(|reached| *reached >= BOUND_CONFIDENCE).unwrap_or(full);
        let low = high.checked_sub(1);
        Bracket {
            high: measured[high],
            low: low.map(|low| measured[low]),
            unclear: low.filter(|low| reached[*low] > CLEARLY_NOT).map(|low| self.runs[measured[low]].len()),
        }
    }
}

impl Bracket {
    /// The next run to narrow the bracket to at most `width` steps: first an unclear allocation that ran less than
    /// `repeats` times, then the middle.
    fn probe(&self, width: usize, repeats: usize) -> Option<usize> {
        let low = self.low?;
        if self.unclear.is_some_and(|runs| runs < repeats) {
            return Some(low);
        }
        (self.high - low > width).then(|| usize::midpoint(low, self.high))
    }
}

#[cfg(test)]
mod tests;
