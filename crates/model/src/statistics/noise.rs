//! How much runs of the same setting differ, pooled over all settings.

use super::samples::Samples;
use super::student;

/// The noise of runs, relative to the mean of their setting, so that 0.05 is 5 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Of one run, the drift that its block shares included: the noise in the mean of a setting.
    pub run: Deviation,
    /// Of one run beside the others of its block, the shared drift taken out: the noise in the comparison of two
    /// settings that ran in the same blocks.
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

    /// The same deviation from two estimates of it, each counted by its degrees of freedom.
    pub(crate) fn pooled(self, other: Deviation) -> Deviation {
        let degrees_of_freedom = self.degrees_of_freedom + other.degrees_of_freedom;
        let squares = |one: Deviation| one.degrees_of_freedom * one.relative.powi(2);
        Deviation { relative: ((squares(self) + squares(other)) / degrees_of_freedom).sqrt(), degrees_of_freedom }
    }

    /// That of another figure, whose variance is `share` times that of one run.
    pub(crate) fn of_share(self, share: f64) -> Deviation {
        Deviation { relative: self.relative * share.sqrt(), ..self }
    }
}

impl Noise {
    /// The noise of `samples`; `None` where no setting has two runs and completed anything.
    ///
    /// The residuals of runs from their setting's mean are split into block and error as in a two-way analysis of variance.
    /// The variance of a run is the pooled mean square, which is `(blocks' + (settings - 1) * error's) / settings`; its
    /// degrees of freedom are Satterthwaite's for this sum, with the blocks' mean square put at its upper 80 % limit. Two or
    /// three blocks may by luck show little of the drift there is, and the plain formula would then trust the many runs:
    /// with two blocks and strong drift its intervals cover 85 %, those with the limit 93 %.
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
        let cautious = from_blocks * upper_limit(parts.blocks - 1.0);
        let uncertainty = cautious.powi(2) / (parts.blocks - 1.0) + from_errors.powi(2) / parts.error_freedom;
        let freedom = if uncertainty > 0.0 { (cautious + from_errors).powi(2) / uncertainty } else { free };
        let run = Deviation { relative: total.sqrt(), degrees_of_freedom: freedom.clamp(1.0, free) };
        let within_block = if parts.block_square <= parts.error_square {
            // Blocks do not differ more than runs within them: there is no drift to take out, and all residuals show
            // the spread. The larger mean square is kept, because to choose the smaller would choose too small a
            // spread.
            Deviation { relative: parts.error_square.sqrt(), degrees_of_freedom: free }
        } else {
            Deviation { relative: parts.error_square.sqrt(), degrees_of_freedom: parts.error_freedom }
        };
        Some(Self { run, within_block })
    }

    /// The variance that runs of a block share, relative to the square of the mean: 0 where no drift was seen.
    pub(crate) fn shared_variance(&self) -> f64 {
        (self.run.relative.powi(2) - self.within_block.relative.powi(2)).max(0.0)
    }
}

/// The upper 80 % confidence limit of a variance over its estimate: degrees of freedom over the 20 % quantile of chi-square
/// (Wilson and Hilferty's approximation, which errs to the safe side at one degree of freedom: 18 for 15.6).
fn upper_limit(degrees_of_freedom: f64) -> f64 {
    const QUANTILE_20: f64 = -0.8416;
    let variance = 2.0 / (9.0 * degrees_of_freedom);
    (1.0 - variance + QUANTILE_20 * variance.sqrt()).powi(-3)
}

/// Runs relative to the mean of their setting, less 1. Settings with one run or nothing completed are left out.
struct Residuals {
    /// By setting, `(block, residual)`.
    rows: Vec<Vec<(usize, f64)>>,
    blocks: usize,
    count: usize,
}

/// Mean squares of an analysis of variance.
struct MeanSquares {
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

    /// The sum of the squares of `part` over `(row, block, residual)`.
    fn squares(&self, part: impl Fn(usize, usize, f64) -> f64) -> f64 {
        let runs = self.rows.iter().enumerate().flat_map(|(row, runs)| runs.iter().map(move |run| (row, run)));
        runs.map(|(row, (block, residual))| part(row, *block, *residual).powi(2)).sum()
    }

    /// The analysis of variance; `None` where no error is left beside blocks, as with a single setting.
    fn split(&self) -> Option<MeanSquares> {
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
        Some(MeanSquares {
            blocks,
            block_square: block / (blocks - 1.0),
            error_square: error / error_freedom,
            error_freedom,
        })
    }

    /// The effects of rows and blocks on residuals, by least squares. Where every setting ran in every block, rows have
    /// no effect and the first pass is exact; otherwise passes approach the solution geometrically.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn noise(rows: &[&[f64]]) -> Option<Noise> {
        Noise::of(&Samples::complete(&rows.iter().map(|row| row.to_vec()).collect::<Vec<_>>()))
    }

    #[test]
    fn one_setting_shows_its_own_deviation() {
        let noise = noise(&[&[90.0, 100.0, 110.0]]).unwrap();
        assert!((noise.run.relative - 0.1).abs() < 1e-12, "{noise:?}");
        assert_eq!((noise.run.degrees_of_freedom, noise.within_block), (2.0, noise.run));
    }

    #[test]
    fn drift_that_all_settings_share_is_taken_out_within_blocks() {
        let noise = noise(&[&[90.0, 100.0, 110.0], &[9.0, 10.0, 11.0], &[180.0, 200.0, 220.0]]).unwrap();
        assert!((noise.run.relative - 0.1).abs() < 1e-12, "{noise:?}");
        assert!((noise.run.degrees_of_freedom - 2.0).abs() < 1e-9, "three blocks, however many settings: {noise:?}");
        assert!(noise.within_block.relative < 1e-12, "{noise:?}");
    }

    /// With a run missing the effects of blocks are found all the same.
    #[test]
    fn drift_is_taken_out_where_runs_are_missing() {
        let rows = vec![
            vec![Some(90.0), Some(100.0), None],
            vec![Some(9.0), Some(10.0), Some(11.0)],
            vec![None, Some(200.0), Some(220.0)],
        ];
        let noise = Noise::of(&Samples::new(rows)).unwrap();
        assert!(noise.within_block.relative < 0.004, "{noise:?}");
        assert!(noise.run.relative > 0.06, "{noise:?}");
    }

    proptest! {
        /// Noise is relative: neither the unit of a setting nor the order of settings and blocks changes it.
        #[test]
        fn units_and_order_do_not_matter(
            rows in prop::collection::vec(prop::collection::vec(50.0..150.0_f64, 4), 1..6),
            unit in 0.001..1_000.0_f64,
        ) {
            let mut changed = rows.clone();
            changed.reverse();
            changed[0].iter_mut().for_each(|value| *value *= unit);
            changed.iter_mut().for_each(|row| row.reverse());
            let (noise, changed) = (Noise::of(&Samples::complete(&rows)), Noise::of(&Samples::complete(&changed)));
            let (noise, changed) = (noise.unwrap(), changed.unwrap());
            for (a, b) in [(noise.run, changed.run), (noise.within_block, changed.within_block)] {
                prop_assert!((a.relative - b.relative).abs() < 1e-9, "{a:?} {b:?}");
                prop_assert!((a.degrees_of_freedom - b.degrees_of_freedom).abs() < 1e-6, "{a:?} {b:?}");
                prop_assert!(a.degrees_of_freedom >= 1.0);
            }
        }
    }

    #[test]
    fn without_repeats_nothing_is_known() {
        assert_eq!(noise(&[&[1.0], &[2.0]]), None);
        assert_eq!(noise(&[&[0.0, 0.0]]), None);
        assert_eq!(noise(&[]), None);
    }

    #[test]
    fn equal_runs_have_no_noise() {
        let noise = noise(&[&[5.0, 5.0], &[7.0, 7.0]]).unwrap();
        assert_eq!((noise.run.relative, noise.run.degrees_of_freedom), (0.0, 2.0));
    }
}
