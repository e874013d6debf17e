//! Runs that lie far from the others of their setting.

use super::samples::Samples;

/// Beyond this many robust standard deviations a run is far from the others; the usual 3.5 of Iglewicz and Hoaglin (1993).
const FAR: f64 = 3.5;
/// The median absolute deviation of a normal distribution times this is its standard deviation.
const NORMAL: f64 = 1.4826;
/// With fewer runs than this there is no majority to be far from: of two runs that differ, neither is the outlier.
const RUNS_LEAST: usize = 3;
/// Deviations below this, relative, are never far: where repeats agree to the last digits, the next digit is no news.
const DEVIATION_LEAST: f64 = 0.001;

/// The runs that lie far from the others of their setting, as `(setting, block)`, ascending.
///
/// A run's distance is from the median of its setting; its measure is the median absolute deviation pooled over all settings
/// with at least three runs, corrected for how much smaller deviations from the median of few are. Outliers are to be
/// shown and counted: to drop them would be to choose the result.
pub fn outliers(samples: &Samples) -> Vec<(usize, usize)> {
    let mut distances = Vec::new();
    let mut pooled = Vec::new();
    for setting in 0..samples.settings() {
        let runs: Vec<(usize, f64)> = samples.runs(setting).collect();
        let Some(middle) = median(runs.iter().map(|run| run.1).collect()).filter(|middle| *middle > 0.0) else {
            continue;
        };
        if runs.len() < RUNS_LEAST {
            continue;
        }
        let absolute = |run: &(usize, f64)| (setting, run.0, (run.1 / middle - 1.0).abs());
        distances.extend(runs.iter().map(absolute));
        // The middle run of an odd number has distance 0 by construction and would pull the pooled median down.
        let mut of_setting: Vec<f64> = runs.iter().map(absolute).map(|distance| distance.2).collect();
        of_setting.sort_by(f64::total_cmp);
        pooled.extend_from_slice(&of_setting[runs.len() % 2..]);
    }
    let Some(scale) = median(pooled).map(|deviation| (deviation * NORMAL).max(DEVIATION_LEAST)) else {
        return Vec::new();
    };
    distances
        .into_iter()
        .filter(|distance| distance.2 > FAR * scale)
        .map(|(setting, block, _)| (setting, block))
        .collect()
}

/// The median; `None` of nothing.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    Some(if values.len() % 2 == 1 { upper } else { f64::midpoint(values[values.len() / 2 - 1], upper) })
}
