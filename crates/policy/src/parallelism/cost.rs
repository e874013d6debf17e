//! `cost`: cores divided by active queries, and no more than the rows are worth.
//!
//! Admission control by a cost model, as in Vectorwise: under many queries each is left with one thread, although the
//! system's scheduler would have given it more. The study shows the cost of that (GA fig. 4c and 9).

use std::borrow::Cow;
use std::sync::Arc;

use super::{Assigned, DegreeHistory, ParallelismFacts, ParallelismKind, ParallelismPolicy};

/// Rows that are worth a partition of their own: a scan of fewer takes less time than handing the work to another thread.
const ROWS_PER_PARTITION: u64 = 65_536;

pub(super) const KIND: ParallelismKind = ParallelismKind {
    name: "cost",
    about: "cores divided by active queries, and no more than the rows are worth",
    example: "cost",
    make: |name| (name == "cost").then(|| Arc::new(Cost) as Arc<dyn ParallelismPolicy>),
};

#[derive(Debug)]
struct Cost;

impl ParallelismPolicy for Cost {
    fn name(&self) -> Cow<'static, str> {
        "cost".into()
    }

    fn degrees(&self, facts: &ParallelismFacts<'_>, _: &mut DegreeHistory) -> Assigned {
        let share = (facts.cores / facts.active_queries.max(1)).min(facts.degree_max);
        let worth = |rows: u64| u32::try_from(rows.div_ceil(ROWS_PER_PARTITION)).unwrap_or(u32::MAX);
        let degree = |pipeline: &super::PipelineFacts| {
            let worth = pipeline.rows.map_or(u32::MAX, worth);
            share.min(worth).clamp(1, pipeline.degree_max.max(1))
        };
        Assigned::fixed(facts.pipelines.iter().map(degree).collect())
    }
}
