//! Which arm runs when: interleaved in blocks, in a random order that the seed fixes.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg32;

/// One run of one arm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    /// `alone:NAME` or `together`.
    pub arm: String,
    /// Who runs: positions in the list of workloads.
    pub members: Vec<usize>,
    /// 1 in the first block.
    pub repeat: u32,
}

/// Every run of a study, in order.
pub(super) fn schedule(workloads: &[&str], blocks: u32, seed: u64) -> Vec<Run> {
    let mut random = Pcg32::seed_from_u64(seed);
    let mut runs = Vec::new();
    for repeat in 1..=blocks {
        let mut block = arms(workloads, repeat);
        block.shuffle(&mut random);
        runs.extend(block);
    }
    runs
}

/// Each workload alone, and all of them together where there are several.
fn arms(workloads: &[&str], repeat: u32) -> Vec<Run> {
    let alone = workloads.iter().enumerate();
    let mut arms: Vec<Run> =
        alone.map(|(member, name)| Run { arm: format!("alone:{name}"), members: vec![member], repeat }).collect();
    if workloads.len() > 1 {
        arms.push(Run { arm: "together".to_owned(), members: (0..workloads.len()).collect(), repeat });
    }
    arms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_every_arm_once() {
        let runs = schedule(&["oltp", "olap"], 4, 7);
        assert_eq!(runs.len(), 12);
        for (block, repeat) in runs.chunks(3).zip(1..) {
            let mut arms: Vec<&str> = block.iter().map(|run| run.arm.as_str()).collect();
            arms.sort_unstable();
            assert_eq!(arms, ["alone:olap", "alone:oltp", "together"]);
            assert!(block.iter().all(|run| run.repeat == repeat));
        }
        let together = runs.iter().find(|run| run.arm == "together").expect("one in each block");
        assert_eq!(together.members, [0, 1]);
        assert_eq!(schedule(&["oltp"], 2, 7).len(), 2);
    }

    #[test]
    fn the_seed_fixes_the_order_and_blocks_differ() {
        let order = |seed| schedule(&["a", "b", "c"], 8, seed).into_iter().map(|run| run.arm).collect::<Vec<_>>();
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(8));
        let blocks: std::collections::BTreeSet<Vec<String>> = order(7).chunks(4).map(<[_]>::to_vec).collect();
        assert!(blocks.len() > 1, "{blocks:?}");
    }
}
