//! The noise floor: smaller differences are not evidence of an effect.

use super::noise::Noise;
use super::samples::Samples;

/// A difference counts only if the interval of this confidence excludes equality. It is stricter than the 95 % of
/// intervals because an experiment compares tens of settings, and because machines have more kinds of noise than repeats of
/// one afternoon show.
pub(super) const FLOOR_CONFIDENCE: f64 = 0.99;

/// The noise of one workload's figure over the settings of an experiment. All figures are relative, so that 0.05 is 5
/// %. Differences are relative to the larger of two means, so that they are below 1 even if little is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NoiseFloor {
    /// The least relative difference between the means of two settings of this experiment that is not taken for noise (at
    /// 99 %); `None` where no setting was repeated.
    pub floor: Option<f64>,
    /// Standard deviation of one run, relative to its setting's mean, pooled over all settings, drift included; `None` as
    /// for `floor`.
    pub deviation: Option<f64>,
    /// The number of runs beyond the first of each setting on which that is based.
    pub degrees_of_freedom: usize,
    /// The largest relative difference seen between two series of the same setting (A/A); `None` if there are none.
    pub repeated_setting: Option<f64>,
}

/// The noise floor of an experiment. `pairs` are settings (rows of `samples`) that are the same setting run twice (A/A).
///
/// The floor is for settings with as many runs as the median setting has.
pub fn noise_floor(samples: &Samples, noise: Option<&Noise>, pairs: &[(usize, usize)]) -> NoiseFloor {
    let mut repeats: Vec<usize> = (0..samples.settings()).map(|s| samples.repeats(s)).filter(|n| *n > 0).collect();
    repeats.sort_unstable();
    let share = repeats.get(repeats.len() / 2).map_or(0.0, |repeats| 2.0 / *repeats as f64);
    NoiseFloor {
        floor: noise.map(|noise| difference(noise.within_block.half_width(FLOOR_CONFIDENCE, share))),
        deviation: noise.map(|noise| noise.run.relative),
        degrees_of_freedom: repeats.iter().map(|repeats| repeats - 1).sum(),
        repeated_setting: pairs
            .iter()
            .filter_map(|(first, again)| repeated_setting(samples, *first, *again))
            .max_by(f64::total_cmp),
    }
}

/// The difference between the means of two series of the same setting (A/A), relative to the larger. `None` if one has no run
/// or neither completed anything.
pub fn repeated_setting(samples: &Samples, first: usize, again: usize) -> Option<f64> {
    let (first, again) = (samples.mean(first)?, samples.mean(again)?);
    let larger = first.max(again);
    (larger > 0.0).then(|| 1.0 - first.min(again) / larger)
}

/// A distance in logarithms as a difference relative to the larger.
pub(super) fn difference(logarithm: f64) -> f64 {
    -(-logarithm).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_follows_noise_and_repeats() {
        let few = Samples::complete(&[vec![98.0, 100.0, 102.0], vec![51.0, 49.0, 50.0], vec![100.0, 99.0, 103.0]]);
        let noise = Noise::of(&few);
        let floor = noise_floor(&few, noise.as_ref(), &[(0, 2)]);
        assert_eq!(floor.degrees_of_freedom, 6);
        let deviation = floor.deviation.unwrap();
        assert!((0.015..0.025).contains(&deviation), "{floor:?}");
        // Student's t of 99 % with four to six degrees of freedom is 4.6 to 3.7.
        let scale = deviation * (2.0_f64 / 3.0).sqrt();
        assert!((3.0..6.0).contains(&(floor.floor.unwrap() / scale)), "{floor:?}");
        assert!((floor.repeated_setting.unwrap() - 2.0 / 302.0).abs() < 1e-9, "{floor:?}");
    }

    #[test]
    fn without_repeats_there_is_no_floor() {
        let samples = Samples::complete(&[vec![98.0], vec![51.0]]);
        let floor = noise_floor(&samples, None, &[]);
        assert_eq!(floor, NoiseFloor { floor: None, deviation: None, degrees_of_freedom: 0, repeated_setting: None });
        assert_eq!(repeated_setting(&Samples::complete(&[vec![0.0], vec![0.0]]), 0, 1), None);
        assert_eq!(repeated_setting(&Samples::complete(&[vec![0.0], vec![1.0]]), 0, 1), Some(1.0));
    }
}
