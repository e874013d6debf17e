//! Claims as lines of text.

use super::wrap;
use crate::claim::shown;
use crate::results::{CHANGED, ClaimResult, NearResult};

/// `holds`, `FAILS` or `not judged`, then the claim, then the numbers behind it.
pub(crate) fn lines(claim: &ClaimResult) -> Vec<String> {
    let verdict = match claim.holds {
        Some(true) => "holds",
        Some(false) => "FAILS",
        None => "not judged",
    };
    let mut lines = wrap(&claim.text, &format!("  {verdict:<12}"), "              ");
    let mut facts = Vec::new();
    let denied = if claim.holds == Some(false) { "not " } else { "" };
    facts.extend(claim.value.as_ref().map(|value| format!("ours: {denied}{value}")));
    facts.extend(claim.interval.map(|[low, high]| format!("left side {} to {}", shown(low, 3), shown(high, 3))));
    facts.extend(claim.published.as_ref().map(|published| format!("published: {published}")));
    facts.extend(claim.near.as_ref().map(NearResult::told));
    facts.extend(claim.is_changed.then(|| CHANGED.to_owned()));
    facts.extend(claim.confidence.map(|share| {
        let noise = if (0.05..=0.95).contains(&share) { ", so it may be noise" } else { "" };
        format!("holds in {:.0} % of resampled runs{noise}", share * 100.0)
    }));
    facts.extend(claim.why_not.clone());
    if !facts.is_empty() {
        lines.extend(wrap(&facts.join("; "), "              ", "              "));
    }
    lines
}
