//! Comparison of two settings.

use super::estimate::Interval;
use super::floor::{FLOOR_CONFIDENCE, difference};
use super::noise::{Deviation, Noise};
use super::samples::{Samples, mean};
use super::verdict::{Levels, Margin, Verdict};

/// The result of a comparison of two measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// More than the base, beyond noise.
    Faster,
    /// Less than the base, beyond noise.
    Slower,
    /// No difference beyond noise was seen.
    NoDifference,
    /// Too little was measured to tell.
    NotDetermined,
}

/// A setting against a base.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// Ratio of means, setting over base; `None` if one of them has no run, or the base completed nothing.
    pub ratio: Option<Interval>,
    /// The least difference, relative to the larger, that counts here: the noise floor for as many runs as these two have.
    /// `None` where no spread is known.
    pub floor: Option<f64>,
    /// Whether blocks were compared with themselves, so that drift of the machine cancels.
    pub paired: bool,
    /// The finding: a difference if the ratio's interval excludes 1 and the difference exceeds `floor`.
    pub finding: Finding,
}

impl Comparison {
    /// The relative difference, 0.1 for 10 % more than the base.
    pub fn difference(&self) -> Option<Interval> {
        let less_one = |end: f64| end - 1.0;
        self.ratio.map(|r| Interval { value: r.value - 1.0, low: r.low.map(less_one), high: r.high.map(less_one) })
    }

    fn judge(ratio: Option<f64>, deviation: Option<Deviation>, share: f64, paired: bool) -> Self {
        let (Some(ratio), Some(deviation)) = (ratio, deviation) else {
            let ratio = ratio.map(Interval::without_spread);
            return Self { ratio, floor: None, paired, finding: Finding::NotDetermined };
        };
        let interval = Interval::around(ratio, &deviation, share);
        // A distance in logarithms, so that a over b is judged like b over a.
        let floor = deviation.half_width(FLOOR_CONFIDENCE, share);
        let inside = ratio.ln().abs() <= floor;
        let finding = match ratio {
            _ if interval.contains(1.0) || inside => Finding::NoDifference,
            _ if ratio > 1.0 => Finding::Faster,
            _ => Finding::Slower,
        };
        Self { ratio: Some(interval), floor: Some(difference(floor)), paired, finding }
    }
}

/// Two settings that ran in the same experiment, `setting` over `base`.
///
/// Where at least two blocks have a run of both, only those blocks are compared, and drift of the machine cancels: the
/// interval is Student's t on the logarithm of the ratio in each block, with the spread of these ratios. Otherwise all
/// runs are compared, with the pooled noise. The noise, from which the floor follows, is [`Noise::of`] all settings of
/// the workload.
pub fn compare_settings(samples: &Samples, setting: usize, base: usize, noise: Option<&Noise>) -> Comparison {
    let common: Vec<(f64, f64)> =
        samples.runs(setting).filter_map(|(block, value)| Some((value, samples.value(base, block)?))).collect();
    if common.len() < 2 {
        let share = 1.0 / samples.repeats(setting) as f64 + 1.0 / samples.repeats(base) as f64;
        let ratio = ratio(samples.mean(setting), samples.mean(base));
        return Comparison::judge(ratio, noise.map(|noise| noise.run), share, false);
    }
    let deviation = noise.map(|noise| noise.within_block);
    let share = 2.0 / common.len() as f64;
    if common.iter().any(|(value, base)| *value <= 0.0 || *base <= 0.0) {
        let ratio = ratio(mean(common.iter().map(|pair| pair.0)), mean(common.iter().map(|pair| pair.1)));
        return Comparison::judge(ratio, deviation, share, true);
    }
    let distances: Vec<f64> = common.iter().map(|(value, base)| (value / base).ln()).collect();
    let margin = Margin::of_blocks(&distances, Levels::of_looks(1), 0.0);
    let end = |end: f64| Some(end.exp());
    let interval = Interval { value: margin.value.exp(), low: end(margin.low), high: end(margin.high) };
    let floor = deviation.map_or(0.0, |deviation| deviation.half_width(FLOOR_CONFIDENCE, share));
    let finding = match margin.verdict() {
        _ if margin.value.abs() <= floor => Finding::NoDifference,
        Verdict::Holds => Finding::Faster,
        Verdict::Fails => Finding::Slower,
        Verdict::Undecided => Finding::NoDifference,
    };
    Comparison { ratio: Some(interval), floor: Some(difference(floor)), paired: true, finding }
}

/// Two settings of two separate experiments, `setting` of `samples` over `base` of `base_samples`. Each brings its own
/// noise, [`Noise::of`] all its settings.
///
/// The variance of the ratio is the sum of both, with Satterthwaite's degrees of freedom. Two experiments are further
/// apart in time than two blocks of one, so each moves as a whole by at least as much as its blocks do: the variance
/// that blocks share counts in full, beside its part in the mean. Where the machine drifts, this shows only large
/// differences between experiments; compare settings within one experiment instead.
///
/// Returns the ratio of means with its interval, which has no ends where one of the two has no repeats; `None` if one has no run,
/// or the base completed nothing.
pub fn compare_runs(
    (samples, setting, noise): (&Samples, usize, Option<&Noise>),
    (base_samples, base, base_noise): (&Samples, usize, Option<&Noise>),
) -> Option<Interval> {
    let ratio = ratio(samples.mean(setting), base_samples.mean(base))?;
    let part = |noise: Option<&Noise>, repeats: usize| {
        let variance = |noise: &Noise| noise.run.relative.powi(2) / repeats as f64 + noise.shared_variance();
        noise.map(|noise| (variance(noise), noise.run.degrees_of_freedom))
    };
    let parts = (part(noise, samples.repeats(setting)), part(base_noise, base_samples.repeats(base)));
    Some(match parts {
        (Some((a, a_freedom)), Some((b, b_freedom))) => Interval::around(ratio, &sum(a, a_freedom, b, b_freedom), 1.0),
        _ => Interval::without_spread(ratio),
    })
}

/// The deviation of the sum of two independent figures with variances `a` and `b`.
fn sum(a: f64, a_freedom: f64, b: f64, b_freedom: f64) -> Deviation {
    let uncertainty = a * a / a_freedom + b * b / b_freedom;
    let degrees_of_freedom = if uncertainty > 0.0 { (a + b).powi(2) / uncertainty } else { a_freedom + b_freedom };
    Deviation { relative: (a + b).sqrt(), degrees_of_freedom }
}

fn ratio(value: Option<f64>, base: Option<f64>) -> Option<f64> {
    base.filter(|base| *base > 0.0).and_then(|base| Some(value? / base))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(rows: &[&[Option<f64>]]) -> Comparison {
        let samples = Samples::new(rows.iter().map(|row| row.to_vec()).collect());
        compare_settings(&samples, 1, 0, Noise::of(&samples).as_ref())
    }

    #[test]
    fn the_inverse_comparison_is_the_inverse() {
        let samples = Samples::complete(&[vec![10.0, 10.4, 9.9], vec![13.0, 13.1, 12.8]]);
        let noise = Noise::of(&samples);
        let more = compare_settings(&samples, 1, 0, noise.as_ref());
        let less = compare_settings(&samples, 0, 1, noise.as_ref());
        assert_eq!((more.finding, less.finding), (Finding::Faster, Finding::Slower));
        let (more, less) = (more.ratio.unwrap(), less.ratio.unwrap());
        assert!((more.low.unwrap() * less.high.unwrap() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn only_common_blocks_are_compared() {
        // The third block was slow for both, but only the base has a run of it.
        let comparison = compare(&[&[Some(10.0), Some(10.1), Some(5.0)], &[Some(10.1), Some(10.0), None]]);
        assert!(comparison.paired);
        assert!((comparison.ratio.unwrap().value - 1.0).abs() < 1e-12, "{comparison:?}");
        assert!(!compare(&[&[Some(10.0), Some(9.0), None], &[None, Some(9.1), Some(9.2)]]).paired);
    }

    #[test]
    fn without_repeats_the_ratio_is_all_there_is() {
        let comparison = compare(&[&[Some(10.0)], &[Some(20.0)]]);
        assert_eq!(comparison.ratio, Some(Interval { value: 2.0, low: None, high: None }));
        assert_eq!((comparison.finding, comparison.floor), (Finding::NotDetermined, None));
        assert_eq!(comparison.difference().unwrap().value, 1.0);
    }

    #[test]
    fn nothing_completed() {
        let stopped = compare(&[&[Some(10.0), Some(10.1)], &[Some(0.0), Some(0.0)]]);
        assert_eq!((stopped.finding, stopped.ratio.unwrap().value), (Finding::Slower, 0.0));
        let idle = compare(&[&[Some(0.0), Some(0.0)], &[Some(10.0), Some(10.1)]]);
        assert_eq!((idle.finding, idle.ratio), (Finding::NotDetermined, None));
        let missing = compare(&[&[None, None], &[Some(10.0), Some(10.1)]]);
        assert_eq!((missing.finding, missing.ratio), (Finding::NotDetermined, None));
    }

    /// Two experiments, one without repeats: its noise is not known, and the other's does not replace it.
    #[test]
    fn a_run_without_repeats_cannot_be_compared() {
        let (many, one) = (Samples::complete(&[vec![10.0, 10.1]]), Samples::complete(&[vec![10.0]]));
        let ratio = compare_runs((&one, 0, Noise::of(&one).as_ref()), (&many, 0, Noise::of(&many).as_ref())).unwrap();
        assert_eq!((ratio.low, ratio.high), (None, None));
    }
}
