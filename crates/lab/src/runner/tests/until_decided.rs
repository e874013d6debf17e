//! Plans that run until their claims are decided.

use super::*;
use crate::results::{ClaimResult, ClaimVerdict};
use crate::until_decided;

fn claim(verdict: ClaimVerdict) -> ClaimResult {
    let blocks_more = (verdict == ClaimVerdict::Undecided).then_some(3);
    ClaimResult { verdict, blocks_more, ..ClaimResult::default() }
}

/// Runs until the claim is decided, which it is from a number of blocks on. Returns the records and the numbers of
/// blocks after which the claim was judged.
fn last_block(decided_from: u32, done: Vec<RunRecord>) -> (Vec<RunRecord>, Vec<u32>) {
    let claims = "[[claim]]\ntext = \"t\"\nholds = \"throughput(dop=2, together, ints) > 0\"\n";
    let (targets, text) = (Watched::default(), format!("{TWO}{claims}"));
    let plans = until_decided::plans(&plan(&text, &targets), 7).expect("it claims something");
    let mut watch =
        Watch { progress: &mut |_| {}, keep: &mut |_| Ok(()), stop: &AtomicBool::new(false), elapsed_s: &|| 0.0 };
    let looked = std::cell::RefCell::new(Vec::new());
    let judge = |plan: &Plan, records: &[RunRecord]| {
        looked.borrow_mut().push(plan.run.repeats);
        let is_complete = (1..=plan.run.repeats).all(|block| records.iter().any(|record| record.id.repeat == block));
        assert!(is_complete && records.iter().all(|record| record.id.repeat <= plan.run.repeats));
        let decided = plan.run.repeats >= decided_from;
        vec![claim(if decided { ClaimVerdict::Holds } else { ClaimVerdict::Undecided })]
    };
    let mut limits = NoLimits;
    let mut runner = Runner::new(&plans[0], &targets, &mut limits);
    let selection = Selection::default();
    let outcome = until_decided::run(&mut runner, &plans, &selection, done, &mut watch, &judge);
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(!outcome.stopped);
    (outcome.records, looked.into_inner())
}

fn blocks(records: &[RunRecord]) -> u32 {
    records.iter().map(|record| record.id.repeat).max().expect("there are some")
}

#[test]
fn whole_blocks_are_added_until_the_claims_are_decided() {
    let (records, looked) = last_block(1, Vec::new());
    assert_eq!((blocks(&records), looked), (2, vec![2]));
    let (records, looked) = last_block(5, Vec::new());
    assert_eq!((blocks(&records), looked, records.len()), (5, vec![2, 3, 5], 5 * 9));
    // At the limit the experiment ends, decided or not.
    let (records, looked) = last_block(100, Vec::new());
    assert_eq!((blocks(&records), looked), (7, vec![2, 3, 5]));
}

/// A process that was killed in the fourth block has passed two looks; they are not taken again.
#[test]
fn a_killed_experiment_goes_on_at_its_look() {
    let (records, _) = last_block(5, Vec::new());
    let begun: Vec<RunRecord> = records.iter().filter(|record| record.id.repeat <= 3).cloned().collect();
    let mut torn = begun.clone();
    torn.extend(records.iter().find(|record| record.id.repeat == 4).cloned());
    let (resumed, looked) = last_block(5, torn);
    assert_eq!((blocks(&resumed), looked), (5, vec![5]));
    let all = |records: &[RunRecord]| ids(records).into_iter().collect::<BTreeSet<_>>();
    assert_eq!(all(&resumed), all(&records));
    assert_eq!(last_block(5, begun).1, [3, 5]);
}
