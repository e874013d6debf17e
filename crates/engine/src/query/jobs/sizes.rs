//! The bytes in which a join looks up at random: estimated from statistics, and remembered from the last run of the
//! template.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use datafusion::common::stats::Precision;
use datafusion::common::utils::memory::estimate_memory_size;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use itertools::Itertools;
use parking_lot::Mutex;

/// Templates that are remembered. When there are more, all are forgotten: the next run of each is estimated again.
const TEMPLATES_MAX: usize = 1024;

/// DataFusion's metric of a hash join: bytes of the rows of its build side and of their hash table.
const BUILD_BYTES: &str = "build_mem_used";

/// The name of a join within its template: its keys.
fn name(join: &HashJoinExec) -> String {
    join.on().iter().map(|(left, right)| format!("{left} = {right}")).join(", ")
}

/// Bytes by the name of the join.
pub(super) type KnownSizes = BTreeMap<String, u64>;

/// The sizes of joins in the last runs of templates.
#[derive(Debug, Default)]
pub(super) struct BuildSizes(Mutex<HashMap<String, KnownSizes>>);

impl BuildSizes {
    /// The known sizes of a template's joins.
    pub(super) fn of(&self, template: &str) -> KnownSizes {
        self.0.lock().get(template).cloned().unwrap_or_default()
    }

    /// Records the sizes of the joins of a plan that has run. A join that was never begun gives no size.
    pub(super) fn learn(&self, template: &str, plan: &Arc<dyn ExecutionPlan>) {
        let mut found = KnownSizes::new();
        collect(plan, &mut found);
        if found.is_empty() {
            return;
        }
        let mut all = self.0.lock();
        if all.len() >= TEMPLATES_MAX && !all.contains_key(template) {
            all.clear();
        }
        all.entry(template.to_owned()).or_default().extend(found);
    }
}

fn collect(plan: &Arc<dyn ExecutionPlan>, found: &mut KnownSizes) {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let bytes = join.metrics().and_then(|metrics| metrics.sum_by_name(BUILD_BYTES)).map(|bytes| bytes.as_usize());
        if let Some(bytes) = bytes.filter(|bytes| *bytes > 0) {
            // Two joins on the same columns cannot be told apart: the larger one counts for both.
            let known = found.entry(name(join)).or_default();
            *known = (*known).max(bytes as u64);
        }
    }
    plan.children().into_iter().for_each(|child| collect(child, found));
}

/// Bytes of the build side's rows and their hash table, in all partitions; `None` if unknown.
pub(super) fn build_bytes(join: &HashJoinExec, known: &KnownSizes) -> Option<u64> {
    known.get(&name(join)).copied().or_else(|| estimate(join))
}

fn estimate(join: &HashJoinExec) -> Option<u64> {
    let statistics = StatisticsContext::new().compute(join.left().as_ref(), &StatisticsArgs::new()).ok()?;
    let number = |precision: &Precision<usize>| precision.get_value().copied();
    let (rows, bytes) = (number(&statistics.num_rows)?, number(&statistics.total_byte_size));
    // As DataFusion reserves it: a hash and the number of a row for each. Rows of unknown size are not counted.
    let table = estimate_memory_size::<(u32, u64)>(rows, 0).ok()?;
    Some((table + bytes.unwrap_or(0)) as u64)
}
