//! Claims in a document of results: their verdicts and intervals.

use serde::{Deserialize, Serialize};

use super::NearResult;
use crate::claim::grade::Grade;

/// One claim, judged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClaimResult {
    /// The claim in words.
    pub text: String,
    /// The condition, as written.
    pub expression: String,
    /// The verdict by the blocks.
    pub verdict: ClaimVerdict,
    /// Both sides of the comparison, of all runs together, as numbers for people: `5.6 >= 5.2`. For a `for all`, the
    /// worst case.
    pub value: Option<String>,
    /// The 95 % interval of that comparison. `None` if several comparisons decided together, or if none was judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<ClaimInterval>,
    /// For an undecided claim, how many further blocks (repeats) would likely decide it; `None` if more than a
    /// thousand, or if more blocks do not help. 0 if it is decided.
    pub blocks_more: Option<u32>,
    /// The published result, as written.
    pub published: Option<String>,
    /// Why it could not be judged, or why it is undecided other than by noise.
    pub why_not: Option<String>,
    /// How close our figure is to the published one, independently of the verdict; `None` if the study gives none or
    /// ours was not measured.
    #[serde(default)]
    pub grade: Option<Grade>,
    /// The published figure and ours; `None` if the study gives none.
    #[serde(default)]
    pub near: Option<NearResult>,
    /// [`Claim::hash`](crate::claim::Claim::hash) of the claim as it was judged.
    #[serde(default)]
    pub hash: String,
    /// Whether the claim was changed after its first result.
    #[serde(default)]
    pub is_changed: bool,
}

/// The verdict of an experiment on a claim.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimVerdict {
    /// True, beyond noise.
    Holds,
    /// False, beyond noise.
    Fails,
    /// Within the noise.
    Undecided,
    /// A figure that it needs was not measured.
    #[default]
    NotJudged,
}

impl ClaimVerdict {
    /// Every verdict, in the order in which they are counted.
    pub const ALL: [ClaimVerdict; 4] =
        [ClaimVerdict::Holds, ClaimVerdict::Fails, ClaimVerdict::Undecided, ClaimVerdict::NotJudged];

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            ClaimVerdict::Holds => "holds",
            ClaimVerdict::Fails => "fails",
            ClaimVerdict::Undecided => "undecided",
            ClaimVerdict::NotJudged => "not judged",
        }
    }
}

/// The 95 % interval of a comparison. Its ends are those by which the claim was judged: if a claim has several parts,
/// ends that can err in each part are further out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClaimInterval {
    /// The quantity of the interval.
    pub of: IntervalOf,
    /// The mean over blocks; of ratios, the geometric mean.
    pub value: f64,
    /// Lower end; `None` with fewer than two blocks.
    pub low: Option<f64>,
    /// Upper end; `None` as for `low`.
    pub high: Option<f64>,
}

/// The quantity of a claim's interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IntervalOf {
    /// The left side, if the right side is a constant.
    Left,
    /// Left over right.
    Ratio,
    /// Left minus right, if a side is not above 0.
    Difference,
}
