//! The answer to "is it slower?": yes or no with an interval that shows it, or undecided with what remains possible.

use schemars::JsonSchema;
use serde::Serialize;

use crate::results::Interval;
use plimsoll_display::percent;

/// The difference that is small enough to be called none, unless another is given: 5 %.
pub const MARGIN: f64 = 0.05;

/// The answer of a comparison at one point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// Better: the interval excludes "equal" and everything worse.
    Faster,
    /// Worse: the interval excludes "equal" and everything better.
    Slower,
    /// No difference larger than the margin: all of the interval lies within it.
    NoLargerDifference,
    /// Neither a difference nor its absence is shown.
    Undecided {
        /// The largest loss that is not excluded, 0 to 1 for a throughput; `None` if none is, because there are no repeats.
        loss_max: Option<f64>,
        /// The largest gain that is not excluded.
        gain_max: Option<f64>,
    },
}

impl Answer {
    /// Judges a ratio of throughputs. `margin` is 0.05 for 5 %: the interval must lie between 1/1.05 and 1.05, so that the
    /// inverse comparison has the inverse answer. Windows that hold few requests cannot show less than `resolution`, which is
    /// one of these requests.
    pub(super) fn of_speed(ratio: Option<Interval>, margin: f64, resolution: f64) -> Answer {
        let ends = ratio.and_then(|ratio| Some((ratio.value, ratio.low?, ratio.high?)));
        let Some((value, low, high)) = ends else { return Answer::Undecided { loss_max: None, gain_max: None } };
        let is_resolved = (1.0 - value).abs() > resolution;
        match () {
            () if high < 1.0 && is_resolved => Answer::Slower,
            () if low > 1.0 && is_resolved => Answer::Faster,
            () if low >= 1.0 / (1.0 + margin) && high <= 1.0 + margin && resolution <= margin => {
                Answer::NoLargerDifference
            }
            () => Answer::Undecided {
                loss_max: Some((1.0 - low).max(resolution).min(1.0)),
                gain_max: Some((high - 1.0).max(resolution)),
            },
        }
    }

    /// Judges a ratio of latencies: more of it is a loss.
    pub(super) fn of_latency(ratio: Option<Interval>, margin: f64) -> Answer {
        match Answer::of_speed(ratio, margin, 0.0) {
            Answer::Faster => Answer::Slower,
            Answer::Slower => Answer::Faster,
            Answer::Undecided { loss_max, gain_max } => Answer::Undecided { loss_max: gain_max, gain_max: loss_max },
            Answer::NoLargerDifference => Answer::NoLargerDifference,
        }
    }

    /// In at most 18 characters: `slower`, `within 5 %`, `undecided (-41 %)`.
    pub(crate) fn words(self, margin: f64) -> String {
        match self {
            Answer::Faster => "faster".to_owned(),
            Answer::Slower => "slower".to_owned(),
            Answer::NoLargerDifference => format!("within {}", percent(margin)),
            Answer::Undecided { loss_max: Some(loss), .. } if loss > margin / (1.0 + margin) => {
                format!("undecided (-{})", percent(loss))
            }
            Answer::Undecided { gain_max: Some(gain), .. } => format!("undecided (+{})", percent(gain)),
            Answer::Undecided { .. } => "undecided".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: f64, ends: Option<(f64, f64)>, resolution: f64, expect: &str) {
        let ratio = Interval { value, low: ends.map(|ends| ends.0), high: ends.map(|ends| ends.1) };
        assert_eq!(Answer::of_speed(Some(ratio), MARGIN, resolution).words(MARGIN), expect, "{ratio:?}");
    }

    /// A run that reached 0.59 (0.38 to 0.92) was "no difference seen", although its interval excludes equality.
    #[test]
    fn an_interval_beyond_equality_is_a_difference() {
        check(0.59, Some((0.38, 0.92)), 0.0, "slower");
        check(1.50, Some((1.01, 2.20)), 0.0, "faster");
        check(0.98, Some((0.97, 0.99)), 0.0, "slower");
    }

    /// Noise is no evidence of equality: only an interval within the margin is.
    #[test]
    fn what_is_not_excluded_is_named() {
        check(1.00, Some((0.96, 1.04)), 0.0, "within 5 %");
        check(0.80, Some((0.59, 1.08)), 0.0, "undecided (-41 %)");
        check(1.02, Some((0.98, 1.06)), 0.0, "undecided (+6 %)");
        check(0.80, None, 0.0, "undecided");
    }

    /// Three windows with ten requests each have no spread at all, and one request is a tenth.
    #[test]
    fn one_request_is_no_difference_and_no_proof_of_equality() {
        check(1.0, Some((1.0, 1.0)), 0.1, "undecided (-10 %)");
        check(0.9, Some((0.9, 0.9)), 0.11, "undecided (-11 %)");
        check(0.7, Some((0.7, 0.7)), 0.1, "slower");
    }
}
