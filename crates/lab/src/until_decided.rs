//! Experiments that run more blocks until their claims are decided, or a limit is reached.
//!
//! Looking at a claim after every block, and stopping when it holds, would find effects that do not exist. Therefore
//! the numbers of blocks after which claims are judged are fixed beforehand: after the repeats of the file, and then
//! after half as many blocks again each time, up to the limit. Each look has its part of the error probability
//! ([`Levels::of_looks`](plimsoll_model::statistics::verdict::Levels::of_looks)), so a false verdict is as rare as in
//! an experiment of fixed length. In return, intervals are wider than those of an experiment that looks once.

use std::time::Duration;

use plimsoll_model::statistics::verdict::looks;

use crate::experiment;
use crate::plan::{Plan, Search};
use crate::record::RunRecord;
use crate::results::{ClaimResult, ClaimVerdict};
use crate::runner::{Outcome, RunError, Runner, Selection, Watch};

/// The default of the largest number of blocks.
pub(crate) const BLOCKS_MAX: u32 = 20;

/// Where an experiment ends that is not decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// After this many blocks.
    Blocks(u32),
    /// After as many blocks as fit into this time, without loading.
    Time(Duration),
}

impl Default for Limit {
    fn default() -> Self {
        Limit::Blocks(BLOCKS_MAX)
    }
}

impl Limit {
    /// As a number of blocks of a plan.
    pub fn blocks(self, plan: &Plan) -> u32 {
        match self {
            Limit::Blocks(count) => count,
            Limit::Time(time) => blocks_within(plan, time),
        }
    }
}

/// Reads a length of time, as `2h`, `30min`.
pub fn duration(text: &str) -> Result<Duration, String> {
    experiment::duration(text)
}

/// The plan for each look, with as many repeats as there are blocks by then; each has the number of looks. An error
/// says why the plan cannot run until it is decided.
pub fn plans(plan: &Plan, blocks_max: u32) -> Result<Vec<Plan>, String> {
    if plan.claims.is_empty() {
        return Err("the experiment claims nothing that could be decided".to_owned());
    }
    if plan.run.search != Search::Grid {
        return Err("the experiment searches for a knee, and the search decides what runs".to_owned());
    }
    if blocks_max < plan.run.repeats.max(2) {
        let least = plan.run.repeats.max(2);
        return Err(format!("{blocks_max} blocks are fewer than the {least} that it begins with"));
    }
    let blocks = looks(plan.run.repeats, blocks_max);
    let count = blocks.len();
    let with = |repeats: u32| {
        let mut plan = plan.clone();
        (plan.run.repeats, plan.run.looks) = (repeats, count);
        plan
    };
    Ok(blocks.into_iter().map(with).collect())
}

/// How many blocks of a plan fit into a length of time, without loading; at least its own number.
fn blocks_within(plan: &Plan, time: Duration) -> u32 {
    let block = plan.estimated_time(plan.run_count() / plan.run.repeats.max(1) as usize).as_secs_f64();
    let fit = if block > 0.0 { time.as_secs_f64() / block } else { 0.0 };
    (fit as u32).max(plan.run.repeats.max(2))
}

/// Runs `plans`, which are the result of [`plans`] or a single plan, one after the other until `claims` reports that
/// all are decided. `done` are the runs of an earlier process; the looks that it has passed are not taken again.
pub fn run<'a>(
    runner: &mut Runner<'a>,
    plans: &'a [Plan],
    selection: &Selection,
    done: Vec<RunRecord>,
    watch: &mut Watch<'_>,
    claims: &dyn Fn(&Plan, &[RunRecord]) -> Vec<ClaimResult>,
) -> Result<Outcome, RunError> {
    let reached = done.iter().map(|record| record.id.repeat).max().unwrap_or(0);
    let passed = plans.iter().filter(|plan| plan.run.repeats < reached).count().min(plans.len() - 1);
    let mut outcome = Outcome { records: done, ..Outcome::default() };
    for (number, plan) in plans.iter().enumerate().skip(passed) {
        runner.go_on_with(plan);
        outcome = runner.run(selection, outcome.records, watch)?;
        let is_last = number + 1 == plans.len();
        if outcome.stopped || outcome.given_up.is_some() || is_last || !may_be_decided(&claims(plan, &outcome.records))
        {
            break;
        }
    }
    Ok(outcome)
}

/// Whether more blocks may decide a claim that is still undecided.
pub(crate) fn may_be_decided(claims: &[ClaimResult]) -> bool {
    let may = |claim: &ClaimResult| claim.verdict == ClaimVerdict::Undecided && claim.blocks_more.is_some();
    claims.iter().any(may)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::made_up::{Noise, measure, plan, results};

    const CLAIM: &str = "[[claim]]\ntext = \"t\"\nholds = \"throughput(dop=2) > 1.05 * throughput(dop=1)\"\n";

    fn with(run: &str, claim: &str) -> Plan {
        plan(&format!(
            "name = \"x\"\n[[workload]]\nname = \"oltp\"\nkind = \"tpcc\"\n[sweep]\ndop = [1, 2]\n[run]\n{run}{claim}"
        ))
    }

    #[test]
    fn blocks_grow_by_half_and_each_plan_knows_the_looks() {
        let all = plans(&with("repeats = 3\n", CLAIM), 10).expect("it claims something");
        let told: Vec<_> = all.iter().map(|plan| (plan.run.repeats, plan.run.looks)).collect();
        assert_eq!(told, [(3, 4), (5, 4), (8, 4), (10, 4)]);
    }

    #[test]
    fn what_cannot_be_decided_is_refused() {
        let refused = |plan: &Plan, blocks_max, why: &str| {
            let error = plans(plan, blocks_max).expect_err(why);
            assert!(error.contains(why), "{error}");
        };
        refused(&with("repeats = 3\n", ""), 10, "claims nothing");
        refused(&with("repeats = 3\n", CLAIM), 2, "2 blocks are fewer than the 3");
        let mut search = with("repeats = 3\n", CLAIM);
        search.run.search = Search::Knee;
        refused(&search, 10, "searches for a knee");
    }

    #[test]
    fn time_is_told_in_blocks() {
        let plan = with("repeats = 3\nwarmup = \"1s\"\nmeasure = \"4s\"\n", CLAIM);
        // Three runs of 5 s in each block: both settings, and the first one again.
        assert_eq!(blocks_within(&plan, Duration::from_secs(100)), 6);
        assert_eq!(blocks_within(&plan, Duration::from_secs(1)), 3);
    }

    /// A claim that is true by 5 % is undecided in three blocks at 3 % noise, and decided before the limit.
    #[test]
    fn more_blocks_decide() {
        let plan = with("repeats = 3\n", CLAIM);
        let mut told = Vec::new();
        for plan in plans(&plan, 60).expect("it claims something") {
            let mut noise = Noise::new(11, 0.03);
            let records = measure(&plan, |_, setting, _| {
                1_000.0 * noise.factor() * if setting.swept["dop"] == 2 { 1.15 } else { 1.0 }
            });
            let claims = results(&plan, &records).claims;
            told.push((plan.run.repeats, claims[0].verdict));
            if !may_be_decided(&claims) {
                break;
            }
        }
        assert_eq!(told.first(), Some(&(3, ClaimVerdict::Undecided)), "{told:?}");
        assert!(matches!(told.last(), Some((4..=60, ClaimVerdict::Holds))), "{told:?}");
    }
}
