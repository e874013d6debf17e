//! The inputs of clients, block by block.

use super::*;

/// The inputs of the workload `ints`, with the block of each of its runs.
fn inputs(records: &[RunRecord], seen: &Operations) -> Vec<(u32, Vec<String>)> {
    // Every run opens one session for each of its workloads, in no defined order.
    let mut sessions = seen.sessions.iter();
    let of_run = |record: &RunRecord| {
        let of_run: Vec<_> = sessions.by_ref().take(record.point.workloads.len()).collect();
        let ints = of_run.into_iter().find(|session| session.schema == "rows_bigint")?;
        Some((record.id.repeat, ints.inputs.clone()))
    };
    records.iter().filter_map(of_run).collect()
}

/// Whether two sequences are equal up to the length of the shorter: on a busy machine a run of some milliseconds may
/// not get far.
pub(super) fn begin_alike(one: &[String], other: &[String]) -> bool {
    !one.is_empty() && !other.is_empty() && one.iter().zip(other).all(|(one, other)| one == other)
}

#[test]
fn runs_of_a_block_have_equal_inputs_and_blocks_have_others() {
    let (_, records, seen) = run(TWO);
    let inputs = inputs(&records, &seen);
    assert_eq!(inputs.len(), 12, "alone and together, twice and again, in two blocks");
    let of_block = |block| inputs.iter().filter(move |(of, _)| *of == block).map(|(_, found)| found);
    let longest = |block| of_block(block).max_by_key(|found| found.len()).expect("there is such a block");
    for block in [1, 2] {
        assert!(of_block(block).all(|found| begin_alike(found, longest(block))), "common random numbers: {inputs:?}");
    }
    assert!(!begin_alike(longest(1), longest(2)), "intervals contain what inputs do: {inputs:?}");
    assert_eq!(seen.loaded["rows_bigint"], 1, "the data stay");
}

#[test]
fn an_experiment_that_goes_on_has_the_inputs_that_it_would_have_had() {
    let (_, records, whole) = run(TWO);
    let expect: Vec<_> = inputs(&records, &whole).into_iter().filter(|(block, _)| *block == 2).collect();
    let targets = Watched::default();
    let plan = plan(TWO, &targets);
    let (before, rest): (Vec<_>, Vec<_>) = records.into_iter().partition(|record| record.id.repeat == 1);
    let resumed = go_on(&plan, &targets, "", before, usize::MAX).expect("it goes on").records;
    assert_eq!(ids(&resumed[9..]), ids(&rest));
    for (found, expect) in inputs(&resumed[9..], &targets.seen()).iter().zip(&expect) {
        assert!(found.0 == expect.0 && begin_alike(&found.1, &expect.1), "{found:?} {expect:?}");
    }
}
