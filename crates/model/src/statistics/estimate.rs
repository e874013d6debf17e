//! The mean of a setting's runs with its interval.

use super::noise::{Deviation, Noise};
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
    /// A figure of which no spread is known.
    pub fn without_spread(value: f64) -> Self {
        Self { value, low: None, high: None }
    }

    /// Whether `other` lies within; a figure without spread contains nothing.
    pub fn contains(&self, other: f64) -> bool {
        self.low.is_some_and(|low| low <= other) && self.high.is_some_and(|high| other <= high)
    }

    /// Around `value`, symmetric in logarithms, which keeps performance above zero and makes the interval of a/b the
    /// inverse of that of b/a. `share` is as in [`Deviation::half_width`].
    pub(super) fn around(value: f64, deviation: &Deviation, share: f64) -> Self {
        let factor = deviation.half_width(CONFIDENCE, share).exp();
        Self { value, low: Some(value / factor), high: Some(value * factor) }
    }
}

/// The mean of a setting's runs and its 95 % interval; `None` without runs.
///
/// The noise is pooled: [`Noise::of`] all settings of the workload, of which `samples` may be a part. Its drift part is in
/// the interval, since a mean over two or three blocks keeps the drift of these blocks. A setting with a single run has an
/// interval too if other settings were repeated. Where nothing completed the noise, which is relative, says nothing: no
/// interval.
pub fn estimate(samples: &Samples, setting: usize, noise: Option<&Noise>) -> Option<Interval> {
    let mean = samples.mean(setting)?;
    let share = 1.0 / samples.repeats(setting) as f64;
    match noise {
        Some(noise) if mean > 0.0 => Some(Interval::around(mean, &noise.run, share)),
        _ => Some(Interval::without_spread(mean)),
    }
}
