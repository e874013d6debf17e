//! The mean of a setting's runs with its interval.

use super::noise::Deviation;
use super::samples::Samples;

/// A figure with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The figure.
    pub value: f64,
    /// Lower end; `None` where no spread is known, as with one run of each setting.
    pub low: Option<f64>,
    /// Upper end; `None` as for `low`, or where there is no upper bound.
    pub high: Option<f64>,
}

/// The confidence of every [`Interval`].
pub(crate) const CONFIDENCE: f64 = 0.95;

impl Interval {
    /// A figure without a known spread.
    pub fn without_spread(value: f64) -> Self {
        Self { value, low: None, high: None }
    }

    /// Whether `other` lies within; a figure without spread contains nothing.
    pub fn contains(&self, other: f64) -> bool {
        self.low.is_some_and(|low| low <= other) && self.high.is_some_and(|high| other <= high)
    }

    /// Around `value`, symmetric in logarithms. This keeps performance above zero and makes the interval of a/b the
    /// inverse of that of b/a. `share` is as in [`Deviation::half_width`].
    pub(crate) fn around(value: f64, deviation: &Deviation, share: f64) -> Self {
        let factor = deviation.half_width(CONFIDENCE, share).exp();
        Self { value, low: Some(value / factor), high: Some(value * factor) }
    }
}

/// The mean of a setting's runs and its 95 % interval; `None` without runs.
///
/// The spread is that of the setting's own runs, the drift of the machine from block to block included. It is not
/// pooled with that of other settings: no test sees in few blocks that one setting has more noise than others, and its
/// interval would be too narrow. A setting with one run has no interval, nor has a setting that completed nothing.
pub fn estimate(samples: &Samples, setting: usize) -> Option<Interval> {
    let mean = samples.mean(setting)?;
    let repeats = samples.repeats(setting) as f64;
    if repeats < 2.0 || mean <= 0.0 {
        return Some(Interval::without_spread(mean));
    }
    let squares: f64 = samples.runs(setting).map(|(_, value)| (value / mean - 1.0).powi(2)).sum();
    let degrees_of_freedom = repeats - 1.0;
    let deviation = Deviation { relative: (squares / degrees_of_freedom).sqrt(), degrees_of_freedom };
    Some(Interval::around(mean, &deviation, 1.0 / repeats))
}
