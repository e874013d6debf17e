//! Failed requests and invalid runs of two runs against each other: a difference in failures is a difference.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::failed::{FailureCounts, reason};
use crate::results::{FailedRequests, Point, Results};

/// The least difference of two shares of failed requests that is shown.
const DIFFERENCE_MIN: f64 = 0.001;

/// How many standard errors the difference has at least. Requests of one run fail together, so that fewer mean little.
const ERRORS_MIN: f64 = 3.0;

/// A workload of which requests fail more often in one of the two runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ComparedFailures {
    /// The swept settings.
    pub setting: BTreeMap<String, Value>,
    /// The arm.
    pub arm: String,
    /// The workload.
    pub workload: String,
    /// The failures of the base.
    pub base: FailedShare,
    /// Those of the other.
    pub other: FailedShare,
}

/// How many requests failed in all runs of a workload, the invalid ones included.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FailedShare {
    /// Requests that failed. A count.
    pub failed: u64,
    /// Requests that ended. A count.
    pub ended: u64,
    /// Why, the most frequent reason first.
    pub reasons: Vec<FailedRequests>,
}

/// A setting and arm that ran in both, and of which one of the two has no valid run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WithoutValidRun {
    /// The swept settings.
    pub setting: BTreeMap<String, Value>,
    /// The arm.
    pub arm: String,
    /// Why no run of the base is valid; `None` if one is.
    pub base: Option<String>,
    /// The same for the other.
    pub other: Option<String>,
}

impl FailedShare {
    fn of(cell: &FailureCounts<'_>) -> Self {
        FailedShare { failed: cell.aborted.error, ended: cell.ended(), reasons: cell.reasons.clone() }
    }

    /// 0 to 1.
    pub(crate) fn share(&self) -> f64 {
        self.failed as f64 / self.ended.max(1) as f64
    }

    /// The most frequent reason, if it was recorded.
    pub(crate) fn reason(&self) -> Option<String> {
        self.reasons.first().map(reason)
    }

    /// Whether two shares differ beyond chance: a test of two proportions.
    fn differs_from(&self, other: &FailedShare) -> bool {
        if self.ended == 0 || other.ended == 0 {
            return false;
        }
        let difference = (self.share() - other.share()).abs();
        let joint = (self.failed + other.failed) as f64 / (self.ended + other.ended) as f64;
        let error = (joint * (1.0 - joint) * (1.0 / self.ended as f64 + 1.0 / other.ended as f64)).sqrt();
        difference > DIFFERENCE_MIN && difference > ERRORS_MIN * error
    }
}

/// The workloads of which more requests failed in one of the two, the largest difference first.
pub(super) fn failures(base: &Results, other: &Results) -> Vec<ComparedFailures> {
    let others = FailureCounts::all(&other.points);
    let all = FailureCounts::all(&base.points);
    let compared = all.iter().filter_map(|cell| {
        let (base, other) =
            (FailedShare::of(cell), FailedShare::of(others.iter().find(|of| of.cell() == cell.cell())?));
        base.differs_from(&other).then(|| ComparedFailures {
            setting: cell.setting.clone(),
            arm: cell.arm.to_owned(),
            workload: cell.workload.to_owned(),
            base,
            other,
        })
    });
    let mut compared: Vec<ComparedFailures> = compared.collect();
    let difference = |one: &ComparedFailures| (one.base.share() - one.other.share()).abs();
    compared.sort_by(|a, b| difference(b).total_cmp(&difference(a)));
    compared
}

/// The settings and arms that cannot be compared, because one of the two has no valid run.
pub(super) fn without_valid_run(base: &Results, other: &Results) -> Vec<WithoutValidRun> {
    let is_of = |one: &Point, of: &Point| one.arm == of.arm && one.setting == of.setting;
    let why = |results: &Results, of: &Point| {
        let runs = || results.points.iter().filter(|point| is_of(point, of));
        let is_valid = runs().any(|point| point.valid);
        let why = runs().find_map(|point| point.why_invalid.clone());
        (!is_valid).then(|| why.unwrap_or_else(|| "the reason was not recorded".to_owned()))
    };
    let mut found: Vec<WithoutValidRun> = Vec::new();
    for point in &base.points {
        let is_in_both = other.points.iter().any(|of| is_of(of, point));
        let is_known = found.iter().any(|known| known.arm == point.arm && known.setting == point.setting);
        if is_known || !is_in_both {
            continue;
        }
        let (base, other) = (why(base, point), why(other, point));
        if base.is_some() || other.is_some() {
            found.push(WithoutValidRun { setting: point.setting.clone(), arm: point.arm.clone(), base, other });
        }
    }
    found
}
