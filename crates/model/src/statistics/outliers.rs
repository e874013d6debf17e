//! Runs that lie far from the others of their setting.

use super::samples::Samples;

/// Beyond this many robust standard deviations a run is far from the others; the usual 3.5 of Iglewicz and Hoaglin (1993).
const FAR: f64 = 3.5;
/// The median absolute deviation of a normal distribution times this is its standard deviation.
const NORMAL: f64 = 1.4826;
/// With fewer runs than this there is no majority to be far from: of two runs that differ, neither is the outlier.
const RUNS_LEAST: usize = 3;
/// Deviations below this, relative, are never far: where repeats agree to the last digits, a difference in the next one
/// means nothing.
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

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_pcg::Pcg64;

    use super::super::student::normal;
    use super::*;

    fn check(rows: &[&[f64]], expect: &[(usize, usize)]) {
        let samples = Samples::complete(&rows.iter().map(|row| row.to_vec()).collect::<Vec<_>>());
        assert_eq!(outliers(&samples), expect, "{rows:?}");
    }

    #[test]
    fn the_run_apart_is_the_outlier() {
        check(&[&[100.0, 102.0, 60.0], &[50.0, 51.0, 50.5], &[10.0, 10.2, 9.9]], &[(0, 2)]);
        check(&[&[100.0, 101.0, 99.0, 100.5, 140.0]], &[(0, 4)]);
        check(&[&[100.0, 101.0, 99.0]], &[]);
    }

    #[test]
    fn of_two_runs_neither_is_the_outlier() {
        check(&[&[100.0, 50.0]], &[]);
        check(&[&[100.0]], &[]);
        check(&[], &[]);
    }

    #[test]
    fn equal_runs_have_no_outliers_but_what_differs_from_them_is_one() {
        check(&[&[0.0, 0.0, 0.0], &[7.0, 7.0, 7.0]], &[]);
        check(&[&[7.0, 7.0, 7.0, 7.001]], &[]);
        check(&[&[7.0, 7.0, 7.0, 8.0]], &[(0, 3)]);
    }

    /// Among runs that only have noise few are marked, and most that lie ten deviations off are.
    #[test]
    fn noise_is_seldom_marked_and_what_is_far_is() {
        for repeats in [3, 5, 10] {
            let (mut marked, mut found) = (0, 0);
            for seed in 0..200 {
                let mut random = Pcg64::seed_from_u64(seed);
                let mut rows: Vec<Vec<f64>> = (0..10)
                    .map(|_| (0..repeats).map(|_| 100.0 * (1.0 + 0.03 * normal(&mut random))).collect())
                    .collect();
                marked += outliers(&Samples::complete(&rows)).len();
                rows[4][1] = 70.0;
                found += usize::from(outliers(&Samples::complete(&rows)).contains(&(4, 1)));
            }
            let marked = marked as f64 / (200 * 10 * repeats) as f64;
            assert!(marked < 0.02, "{repeats} repeats: {marked:.4} of the runs are marked");
            assert!(found >= 195, "{repeats} repeats: {found} of 200 found");
        }
    }
}
