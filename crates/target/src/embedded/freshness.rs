//! How fresh the column copy is, as the lab watches it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use plimsoll_engine::query::QueryEngine;
use plimsoll_engine::table_set::TableSet;
use plimsoll_policy::WaitCounts;
use plimsoll_workload::database::DatabaseError;
use plimsoll_workload::freshness::{ChangeUnit, CopyState, CopyWatch, MergedChanges};

/// Looks at the delta of all sets of tables that had one when the watch was opened.
pub(super) struct DeltaWatch {
    /// Not held: a set that is dropped ends its propagation.
    sets: Vec<Weak<TableSet>>,
    queries: Arc<QueryEngine>,
    dop: u32,
}

impl DeltaWatch {
    /// A watch of these sets and of the queries on them, each with `dop` workers; `None` if changes reach none of the
    /// sets.
    pub(super) fn open<'a>(
        sets: impl Iterator<Item = &'a Arc<TableSet>>,
        queries: Arc<QueryEngine>,
        dop: usize,
    ) -> Option<Self> {
        let sets: Vec<_> = sets.filter(|set| set.freshness().is_some()).map(Arc::downgrade).collect();
        (!sets.is_empty()).then(|| DeltaWatch { sets, queries, dop: dop.max(1) as u32 })
    }
}

impl CopyWatch for DeltaWatch {
    fn look(&mut self) -> Result<CopyState, DatabaseError> {
        let usage = self.queries.usage();
        let merged = MergedChanges { changes: usage.merged_tuples, time: usage.merge_time / self.dop };
        let mut state = CopyState {
            unit: ChangeUnit::Tuples,
            published: 0,
            applied: 0,
            readable: 0,
            applying: Some(Duration::ZERO),
            merged: Some(merged),
            delta_bytes: Some(0),
            // The current one.
            versions: Some(1),
            blocked: Some(WaitCounts::default()),
        };
        for set in &self.sets {
            let freshness = set.upgrade().and_then(|set| set.freshness());
            let freshness = freshness.ok_or_else(|| DatabaseError::Failed("the tables were dropped".to_owned()))?;
            state.published += freshness.published;
            state.applied += freshness.published - freshness.lag_tuples;
            state.readable += freshness.readable;
            if let Some(blocked) = &mut state.blocked {
                blocked.add_all(&freshness.waits);
            }
            // Threads that fold in parallel count as one that is as many times as fast.
            let applying = freshness.fold_time / freshness.threads.max(1) as u32;
            state.applying = state.applying.map(|time| time + applying);
            state.delta_bytes = state.delta_bytes.map(|bytes| bytes + freshness.delta_bytes);
            // Of each chunk that a snapshot still holds an old version of.
            state.versions = state.versions.map(|versions| versions + freshness.old_versions as u64);
        }
        Ok(state)
    }
}
