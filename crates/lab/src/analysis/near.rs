//! Our figures beside published ones.

use plimsoll_model::statistics::verdict::{Levels, Margin};

use crate::claim::{Claim, Figures};
use crate::plan::Plan;
use crate::results::NearResult;

/// Our figure beside the published one of a claim, if it has one: from all runs, with the 95 % interval of its mean over
/// blocks.
pub(super) fn near(claim: &Claim, plan: &Plan, all: &dyn Figures, blocks: &[&dyn Figures]) -> Option<NearResult> {
    let (expression, scale) = claim.scale()?;
    let ours = claim.ours(plan, all)?;
    let of_blocks: Vec<f64> = blocks.iter().filter_map(|block| claim.ours(plan, *block)?.ok()).collect();
    Some(NearResult {
        expression: expression.to_owned(),
        published: scale.published,
        factor: scale.factor,
        no_effect: scale.no_effect,
        interval: ours.is_ok().then(|| interval(&of_blocks)).flatten(),
        ours: ours.as_ref().ok().copied(),
        why_not: ours.err(),
    })
}

/// Student's t interval, of logarithms where all are above 0. `None` without a spread: of one block, and of a figure that
/// is known of all blocks together, as a knee is.
fn interval(blocks: &[f64]) -> Option<[f64; 2]> {
    let is_spread = blocks.iter().any(|block| *block != blocks[0]);
    if !is_spread {
        return None;
    }
    let are_positive = blocks.iter().all(|block| *block > 0.0);
    let scaled: Vec<f64> = blocks.iter().map(|block| if are_positive { block.ln() } else { *block }).collect();
    let Margin { low, high, .. } = Margin::of_blocks(&scaled, Levels::of_looks(1), 0.0);
    Some(if are_positive { [low.exp(), high.exp()] } else { [low, high] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_wide_with_few_blocks_and_missing_without_a_spread() {
        assert_eq!(interval(&[]), None);
        assert_eq!(interval(&[3.0]), None);
        assert_eq!(interval(&[3.0, 3.0]), None);
        // Student's t of two blocks is 12.7, of three 4.3.
        let [low, high] = interval(&[1.0, 1.1]).expect("two blocks");
        assert!((high / low - (0.5_f64 * 12.706 * 2.0 * 1.1_f64.ln()).exp()).abs() < 0.01, "{low} {high}");
        let [low, high] = interval(&[-0.1, 0.0, 0.1]).expect("three blocks");
        assert!((low + 0.2484).abs() < 1e-3 && (high - 0.2484).abs() < 1e-3, "{low} {high}");
    }
}
