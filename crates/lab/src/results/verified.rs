//! Advice that was measured: the figures of the advised setting and its neighbour, beside the predicted ones.

use serde::{Deserialize, Serialize};

use super::{ClaimVerdict, Interval};

/// Advice on a promise, measured by an experiment of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verified {
    /// The promise, as written: `oltp.p95 < 20ms`.
    pub slo: String,
    /// The key that was varied.
    pub key: String,
    /// The workload whose throughput is to be high.
    pub maximise: String,
    /// The advised setting, then its neighbour, if there is one.
    pub settings: Vec<VerifiedSetting>,
    /// The conclusion, in one or two sentences.
    pub sentence: String,
}

impl Verified {
    /// Whether the advised setting was measured to keep the promise, beyond noise.
    pub fn is_kept(&self) -> bool {
        self.settings.first().is_some_and(|setting| setting.verdict == ClaimVerdict::Holds)
    }
}

/// A value of the varied key, predicted and measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerifiedSetting {
    /// The value.
    pub value: u32,
    /// The promised percentile as it was predicted, milliseconds; `None` without a prediction.
    pub predicted_ms: Option<Interval>,
    /// The same as measured, with the 95 % interval over blocks; `None` if some window has fewer than ten requests beyond it.
    pub measured_ms: Option<Interval>,
    /// Requests per second of the workload to maximise, as predicted; `None` without a prediction.
    pub predicted_per_s: Option<Interval>,
    /// The same as measured; `None` without a valid run.
    pub measured_per_s: Option<Interval>,
    /// Whether the promise is kept: it holds or fails beyond noise, is undecided, or was not judged.
    pub verdict: ClaimVerdict,
    /// Why it was not judged, or why it is undecided.
    pub why_not: Option<String>,
}
