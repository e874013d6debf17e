//! Claims as lines of text.

use super::wrap;
use crate::results::ClaimResult;

/// `holds`, `FAILS` or `not judged`, then the claim, then the numbers behind it.
pub(super) fn lines(claim: &ClaimResult) -> Vec<String> {
    let verdict = match claim.holds {
        Some(true) => "holds",
        Some(false) => "FAILS",
        None => "not judged",
    };
    let mut lines = wrap(&claim.text, &format!("  {verdict:<12}"), "              ");
    let mut facts = Vec::new();
    facts.extend(claim.value.as_ref().map(|value| format!("ours: {value}")));
    facts.extend(claim.published.as_ref().map(|published| format!("published: {published}")));
    facts.extend(claim.confidence.map(|share| format!("holds in {:.0} % of resampled runs", share * 100.0)));
    facts.extend(claim.why_not.clone());
    if !facts.is_empty() {
        lines.extend(wrap(&facts.join("; "), "              ", "              "));
    }
    lines
}
