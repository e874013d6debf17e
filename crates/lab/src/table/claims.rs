//! Claims as lines of text.

use crate::claim::shown;
use crate::results::{CHANGED, ClaimInterval, ClaimResult, ClaimVerdict, IntervalOf, NearResult};
use plimsoll_display::wrap;

/// `holds`, `FAILS`, `undecided` or `not judged`, then the claim, then the numbers behind it.
pub(crate) fn lines(claim: &ClaimResult) -> Vec<String> {
    let verdict = if claim.verdict == ClaimVerdict::Fails { "FAILS" } else { claim.verdict.words() };
    let mut lines = wrap(&claim.text, &format!("  {verdict:<12}"), "              ");
    let mut facts = Vec::new();
    let told = match claim.verdict {
        ClaimVerdict::Fails => "ours: not ",
        ClaimVerdict::Undecided => "is it so that ",
        _ => "ours: ",
    };
    let asked = if claim.verdict == ClaimVerdict::Undecided { "?" } else { "" };
    facts.extend(claim.value.as_ref().map(|value| format!("{told}{value}{asked}")));
    facts.extend(claim.interval.as_ref().and_then(interval));
    facts.extend(claim.published.as_ref().map(|published| format!("published: {published}")));
    facts.extend(claim.near.as_ref().map(NearResult::told));
    facts.extend(claim.is_changed.then(|| CHANGED.to_owned()));
    facts.extend(claim.why_not.clone());
    facts.extend(more(claim));
    if !facts.is_empty() {
        lines.extend(wrap(&facts.join("; "), "              ", "              "));
    }
    lines
}

/// An interval in words; `None` if it has no ends.
pub(crate) fn interval(interval: &ClaimInterval) -> Option<String> {
    let of = match interval.of {
        IntervalOf::Left => "left side",
        IntervalOf::Ratio => "left over right",
        IntervalOf::Difference => "left less right",
    };
    let ends = match (interval.low, interval.high) {
        (Some(low), Some(high)) => format!("{} to {}", shown(low, 3), shown(high, 3)),
        (Some(low), None) => format!("at least {}", shown(low, 3)),
        (None, Some(high)) => format!("at most {}", shown(high, 3)),
        (None, None) => return None,
    };
    Some(format!("{of} {ends} (95 %)"))
}

/// The means of deciding an undecided claim.
pub(crate) fn more(claim: &ClaimResult) -> Option<String> {
    if claim.verdict != ClaimVerdict::Undecided {
        return None;
    }
    Some(match claim.blocks_more {
        Some(1) => "one more repeat may decide it".to_owned(),
        Some(more) => format!("about {more} more repeats would likely decide it"),
        None => "more repeats alone are not likely to decide it".to_owned(),
    })
}
