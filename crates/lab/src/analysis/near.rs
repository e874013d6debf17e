//! Our figures beside published ones.

use super::middle;
use crate::claim::{Claim, Figures};
use crate::plan::Plan;
use crate::results::NearResult;

/// Our figure beside the published one of a claim, if it has one. `others` are the same figures from other drawings of the
/// runs, for the interval.
pub(super) fn near<F: Figures>(claim: &Claim, plan: &Plan, figures: &F, others: &[F]) -> Option<NearResult> {
    let (expression, scale) = claim.scale()?;
    let ours = claim.ours(plan, figures)?;
    let interval = match &ours {
        Ok(_) => middle(others.iter().map(|other| claim.ours(plan, other)?.ok())),
        Err(_) => None,
    };
    Some(NearResult {
        expression: expression.to_owned(),
        published: scale.published,
        factor: scale.factor,
        no_effect: scale.no_effect,
        ours: ours.as_ref().ok().copied(),
        interval,
        why_not: ours.err(),
    })
}
