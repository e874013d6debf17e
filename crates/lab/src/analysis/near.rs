//! Our figures beside published ones.

use super::side_by_side::over_blocks;
use crate::claim::{Claim, Figures};
use crate::plan::Plan;
use crate::results::NearResult;

/// Our figure beside the published one of a claim, if it has one. The figure is over all runs, its interval over `blocks`.
pub(super) fn near(claim: &Claim, plan: &Plan, figures: &dyn Figures, blocks: &[&dyn Figures]) -> Option<NearResult> {
    let (expression, scale) = claim.scale()?;
    let ours = claim.ours(plan, figures)?;
    let interval = match &ours {
        Ok(_) => interval(blocks.iter().map(|block| claim.ours(plan, *block)?.ok()).collect()),
        Err(_) => None,
    };
    let why_not = match &ours {
        Ok(ours) => claim.ungraded(*ours, interval, plan, figures),
        Err(why) => Some(why.clone()),
    };
    Some(NearResult {
        expression: expression.to_owned(),
        published: scale.published,
        factor: scale.factor,
        no_effect: scale.no_effect,
        ours: ours.ok(),
        interval,
        why_not,
    })
}

/// Student's interval of the mean over blocks; `None` for a single block, and for figures below 0, whose noise is not
/// relative.
fn interval(blocks: Vec<Option<f64>>) -> Option<[f64; 2]> {
    let is_sound = |figure: &f64| figure.is_finite() && *figure >= 0.0;
    if !blocks.iter().flatten().all(is_sound) {
        return None;
    }
    let interval = over_blocks(blocks)?;
    Some([interval.low?, interval.high?])
}
