//! Claims judged by the blocks of an experiment.

use std::collections::BTreeSet;

use plimsoll_model::statistics::verdict::{Levels, Verdict};

use super::figures::{MeanResponse, RunFigures};
use super::near::near;
use crate::claim::{Claim, Evidence, Figures};
use crate::plan::Plan;
use crate::record::RunRecord;
use crate::results::{ClaimResult, ClaimVerdict, NearResult, Results};

/// Why a claim is undecided, other than noise: the verdict depends on the choice of the mean of responses.
const TOO_SHORT: &str = "responses that ended within the windows and the time that requests spent there (Little's law) lead to different \
     verdicts; make the windows longer";

/// Judges the claims of a plan. `results` is complete except for the claims.
///
/// If windows deviate slightly from Little's law, the mean response of the requests that ended is not quite that of the
/// requests that ran. A claim then needs the same verdict by both means.
pub fn judge(plan: &Plan, results: &Results, records: &[RunRecord]) -> Vec<ClaimResult> {
    let figures = |mean| RunFigures::new(plan, results, records, mean);
    let of_ended = figures(MeanResponse::OfEnded);
    let claims = judged_by(&of_ended, plan, records);
    if !of_ended.break_littles_law() {
        return claims;
    }
    let by_spent = judged_by(&figures(MeanResponse::BySpent), plan, records);
    claims.into_iter().zip(by_spent).map(|(claim, by_spent)| agreed(claim, by_spent)).collect()
}

fn judged_by(all: &RunFigures<'_>, plan: &Plan, records: &[RunRecord]) -> Vec<ClaimResult> {
    let blocks: BTreeSet<u32> = records.iter().map(|record| record.id.repeat).collect();
    let of_blocks = |is_again| blocks.iter().map(|block| all.of_block(records, *block, is_again)).collect::<Vec<_>>();
    let (blocks, again) = (of_blocks(false), of_blocks(true));
    fn figures<'a>(blocks: &'a [RunFigures<'_>]) -> Vec<&'a dyn Figures> {
        blocks.iter().map(|block| block as &dyn Figures).collect()
    }
    let levels = Levels::of_looks(plan.run.looks);
    let evidence = Evidence { all, blocks: figures(&blocks), again: figures(&again), levels };
    plan.claims.iter().map(|claim| judged(claim, plan, &evidence)).collect()
}

/// A claim judged by both means of responses. Its intervals contain both.
fn agreed(mut claim: ClaimResult, by_spent: ClaimResult) -> ClaimResult {
    if claim.verdict != by_spent.verdict {
        claim.verdict = ClaimVerdict::Undecided;
        claim.blocks_more = None;
        claim.why_not = Some(TOO_SHORT.to_owned());
    }
    if let Some((interval, other)) = claim.interval.as_mut().zip(by_spent.interval) {
        interval.low = interval.low.zip(other.low).map(|(low, other)| low.min(other));
        interval.high = interval.high.zip(other.high).map(|(high, other)| high.max(other));
    }
    if let Some((near, other)) = claim.near.as_mut().zip(by_spent.near) {
        near.interval =
            near.interval.zip(other.interval).map(|(one, other)| [one[0].min(other[0]), one[1].max(other[1])]);
        if claim.grade != by_spent.grade {
            (near.ours, near.why_not, claim.grade) = (None, Some(TOO_SHORT.to_owned()), None);
        }
    }
    claim
}

fn judged(claim: &Claim, plan: &Plan, evidence: &Evidence<'_>) -> ClaimResult {
    let judged = claim.judge(plan, evidence);
    let verdict = match judged.verdict {
        Some(Verdict::Holds) => ClaimVerdict::Holds,
        Some(Verdict::Fails) => ClaimVerdict::Fails,
        Some(Verdict::Undecided) => ClaimVerdict::Undecided,
        None => ClaimVerdict::NotJudged,
    };
    let near = near(claim, plan, evidence.all, &evidence.blocks);
    ClaimResult {
        text: claim.text.clone(),
        expression: claim.expression.clone(),
        verdict,
        value: judged.value,
        interval: judged.interval,
        blocks_more: judged.blocks_more,
        published: claim.published.clone(),
        why_not: judged.why_not,
        grade: near.as_ref().and_then(NearResult::grade),
        near,
        hash: claim.hash(),
        is_changed: false,
    }
}
