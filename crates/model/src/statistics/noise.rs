//! How much runs of the same setting differ, pooled over all settings.

use super::samples::Samples;
use super::student;

/// The noise of runs, relative to the mean of their setting, so that 0.05 is 5 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Of one run, the drift that its block shares included: what the mean of a setting suffers from.
    pub run: Deviation,
    /// Of one run beside the others of its block, the shared drift taken out: what the comparison of two settings that ran
    /// in the same blocks suffers from.
    pub within_block: Deviation,
}

/// A standard deviation and how well it is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deviation {
    /// Relative standard deviation.
    pub relative: f64,
    /// Degrees of freedom, at least 1. Not whole where two variances are added (Satterthwaite).
    pub degrees_of_freedom: f64,
}

impl Deviation {
    /// Half the width, in logarithms, of the interval of `confidence` for a figure whose variance is `share` times that of
    /// one run: 1/n for the mean of n runs, 1/n + 1/m for the ratio of two means.
    pub fn half_width(&self, confidence: f64, share: f64) -> f64 {
        student::quantile(f64::midpoint(1.0, confidence), self.degrees_of_freedom) * self.relative * share.sqrt()
    }
}

impl Noise {
    /// The noise of `samples`; `None` where no setting has two runs and completed anything.
    ///
    /// The residuals of runs from their setting's mean are split into block and error as in a two-way analysis of variance.
    /// The variance of a run is the pooled mean square; its degrees of freedom are Satterthwaite's for
    /// `(blocks' mean square + (settings - 1) error mean square) / settings`.
    pub fn of(samples: &Samples) -> Option<Self> {
        let residuals = Residuals::of(samples);
        let free = residuals.count.checked_sub(residuals.rows.len()).filter(|free| *free > 0)? as f64;
        let total = residuals.squares(|_, _, residual| residual) / free;
        let Some(parts) = residuals.split() else {
            let run = Deviation { relative: total.sqrt(), degrees_of_freedom: free };
            return Some(Self { run, within_block: run });
        };
        let per_block = residuals.count as f64 / parts.blocks;
        let from_blocks = parts.block_square / per_block;
        let from_errors = parts.error_square * (per_block - 1.0) / per_block;
        let uncertainty = from_blocks.powi(2) / (parts.blocks - 1.0) + from_errors.powi(2) / parts.error_freedom;
        let freedom = if uncertainty > 0.0 { (from_blocks + from_errors).powi(2) / uncertainty } else { free };
        let run = Deviation { relative: total.sqrt(), degrees_of_freedom: freedom.clamp(1.0, free) };
        let within_block = if parts.block_square <= parts.error_square {
            // Blocks do not differ more than runs within them: there is no drift to take out, and the residuals of all
            // runs know the spread better.
            run
        } else {
            Deviation { relative: parts.error_square.sqrt(), degrees_of_freedom: parts.error_freedom }
        };
        Some(Self { run, within_block })
    }
}

/// Runs relative to the mean of their setting, less 1. Settings with one run or nothing completed are not there.
struct Residuals {
    /// By setting, `(block, residual)`.
    rows: Vec<Vec<(usize, f64)>>,
    blocks: usize,
    count: usize,
}

/// Mean squares of an analysis of variance.
struct Parts {
    /// How many blocks have runs.
    blocks: f64,
    block_square: f64,
    error_square: f64,
    error_freedom: f64,
}

impl Residuals {
    fn of(samples: &Samples) -> Self {
        let rows: Vec<Vec<(usize, f64)>> = (0..samples.settings())
            .filter(|setting| samples.repeats(*setting) >= 2)
            .filter_map(|setting| Some((setting, samples.mean(setting).filter(|mean| *mean > 0.0)?)))
            .map(|(setting, mean)| samples.runs(setting).map(|(block, value)| (block, value / mean - 1.0)).collect())
            .collect();
        let count = rows.iter().map(Vec::len).sum();
        Self { rows, blocks: samples.blocks(), count }
    }

    /// The sum of squares of what `part` makes of `(row, block, residual)`.
    fn squares(&self, part: impl Fn(usize, usize, f64) -> f64) -> f64 {
        let runs = self.rows.iter().enumerate().flat_map(|(row, runs)| runs.iter().map(move |run| (row, run)));
        runs.map(|(row, (block, residual))| part(row, *block, *residual).powi(2)).sum()
    }

    /// The analysis of variance; `None` where no error is left beside blocks, as with a single setting.
    fn split(&self) -> Option<Parts> {
        let mut per_block = vec![0_usize; self.blocks];
        for (block, _) in self.rows.iter().flatten() {
            per_block[*block] += 1;
        }
        let blocks = per_block.iter().filter(|count| **count > 0).count();
        let error_freedom =
            (self.count + 1).checked_sub(self.rows.len() + blocks).filter(|freedom| *freedom > 0)? as f64;
        let (row_effects, block_effects) = self.effects(&per_block);
        let error = self.squares(|row, block, residual| residual - row_effects[row] - block_effects[block]);
        let block: f64 =
            per_block.iter().zip(&block_effects).map(|(count, effect)| *count as f64 * effect * effect).sum();
        let blocks = blocks as f64;
        Some(Parts { blocks, block_square: block / (blocks - 1.0), error_square: error / error_freedom, error_freedom })
    }

    /// What rows and blocks add to residuals, by least squares. Where every setting ran in every block, rows add nothing and
    /// the first pass is exact; otherwise passes approach the solution geometrically.
    fn effects(&self, per_block: &[usize]) -> (Vec<f64>, Vec<f64>) {
        let mut rows = vec![0.0; self.rows.len()];
        let mut blocks = vec![0.0; self.blocks];
        for _ in 0..25 {
            let mut sums = vec![0.0; self.blocks];
            for (row, (block, residual)) in
                self.rows.iter().enumerate().flat_map(|(row, runs)| runs.iter().map(move |r| (row, r)))
            {
                sums[*block] += residual - rows[row];
            }
            for ((effect, sum), count) in blocks.iter_mut().zip(&sums).zip(per_block) {
                *effect = sum / (*count).max(1) as f64;
            }
            for (effect, runs) in rows.iter_mut().zip(&self.rows) {
                *effect =
                    runs.iter().map(|(block, residual)| residual - blocks[*block]).sum::<f64>() / runs.len() as f64;
            }
        }
        (rows, blocks)
    }
}
