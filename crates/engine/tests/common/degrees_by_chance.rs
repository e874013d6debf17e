//! A policy that draws.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_policy::{Assigned, DegreeHistory, ParallelismFacts, ParallelismPolicy};

/// The largest degree.
pub const DEGREE_MAX: u32 = 16;

/// A degree for each pipeline by chance; equal seeds give equal degrees.
#[derive(Debug)]
pub struct DegreesByChance(AtomicU64);

impl DegreesByChance {
    pub fn policy(seed: u64) -> Arc<dyn ParallelismPolicy> {
        Arc::new(DegreesByChance(AtomicU64::new(seed)))
    }

    /// SplitMix64.
    fn next(&self) -> u64 {
        let mut z = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl ParallelismPolicy for DegreesByChance {
    fn name(&self) -> Cow<'static, str> {
        "chance".into()
    }

    fn degrees(&self, facts: &ParallelismFacts<'_>, _: &mut DegreeHistory) -> Assigned {
        let degree = |most: u32| 1 + (self.next() % u64::from(most.min(DEGREE_MAX))) as u32;
        Assigned::fixed(facts.pipelines.iter().map(|pipeline| degree(pipeline.degree_max)).collect())
    }
}
