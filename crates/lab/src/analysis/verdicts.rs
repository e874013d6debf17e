//! Claims judged by the blocks of an experiment.

use std::collections::BTreeSet;

use plimsoll_model::statistics::verdict::{Levels, Verdict};

use super::figures::RunFigures;
use super::near;
use crate::claim::{Claim, Evidence, Figures};
use crate::plan::Plan;
use crate::record::RunRecord;
use crate::results::{ClaimResult, ClaimVerdict, NearResult, Results};

/// Judges the claims of a plan. `results` is complete but for them.
pub fn judge(plan: &Plan, results: &Results, records: &[RunRecord]) -> Vec<ClaimResult> {
    let all = RunFigures::new(plan, results, records);
    let blocks: BTreeSet<u32> = records.iter().map(|record| record.id.repeat).collect();
    let of_blocks = |is_again| blocks.iter().map(|block| all.of_block(records, *block, is_again)).collect::<Vec<_>>();
    let (blocks, again) = (of_blocks(false), of_blocks(true));
    fn figures<'a>(blocks: &'a [RunFigures<'_>]) -> Vec<&'a dyn Figures> {
        blocks.iter().map(|block| block as &dyn Figures).collect()
    }
    let levels = Levels::of_looks(plan.run.looks);
    let evidence = Evidence { all: &all, blocks: figures(&blocks), again: figures(&again), levels };
    plan.claims.iter().map(|claim| judged(claim, plan, &evidence)).collect()
}

fn judged(claim: &Claim, plan: &Plan, evidence: &Evidence<'_>) -> ClaimResult {
    let judged = claim.judge(plan, evidence);
    let verdict = match judged.verdict {
        Some(Verdict::Holds) => ClaimVerdict::Holds,
        Some(Verdict::Fails) => ClaimVerdict::Fails,
        Some(Verdict::Undecided) => ClaimVerdict::Undecided,
        None => ClaimVerdict::NotJudged,
    };
    let near = near::near(claim, plan, evidence.all, &evidence.blocks);
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
