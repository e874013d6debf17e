//! The query engines of a database: one for all clients, or a second one for those of high priority.
//!
//! With a second one, a query under observation runs by a strategy of its own, on threads of its own, beside others that run by
//! another: the two instances of "Multi-core column-store parallelization under concurrent workload" (3.2). Both read the same
//! columns.

use std::sync::Arc;

use plimsoll_engine::query::{QueryEngine, QueryError, QueryOptions};
use plimsoll_policy::{ParallelismFigures, ParallelismPolicy, Priority};
use plimsoll_postgres::cache_classes::CacheBinding;

use super::EmbeddedOptions;
use super::cache;

/// Who decides about queries of high priority where that is not who decides about all others.
#[derive(Debug, Clone)]
pub struct HighParallelism {
    /// As [`QueryOptions::parallelism`].
    pub parallelism: Option<Arc<dyn ParallelismPolicy>>,
}

#[derive(Debug, Clone)]
pub(super) struct QueryEngines {
    /// That of all clients, or of all others.
    pub(super) common: Arc<QueryEngine>,
    /// That of clients of high priority.
    high: Option<Arc<QueryEngine>>,
}

impl QueryEngines {
    pub(super) fn start(options: &EmbeddedOptions, cache: Option<&Arc<CacheBinding>>) -> Result<Self, QueryError> {
        let common = QueryOptions { cache: cache::jobs(options, cache), ..options.queries.clone() };
        let high = |high: &HighParallelism| {
            let options = QueryOptions { parallelism: high.parallelism.clone(), ..common.clone() };
            QueryEngine::new(options).map(Arc::new)
        };
        let high = options.high_queries.as_ref().map(high).transpose()?;
        Ok(QueryEngines { common: Arc::new(QueryEngine::new(common)?), high })
    }

    /// The engine of a client with this priority.
    pub(super) fn of(&self, priority: Priority) -> &QueryEngine {
        self.high.as_ref().filter(|_| priority > Priority::LOW).unwrap_or(&self.common)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<QueryEngine>> {
        std::iter::once(&self.common).chain(&self.high)
    }

    pub(super) fn thread_ids(&self) -> Vec<i32> {
        self.all().flat_map(|engine| engine.thread_ids()).collect()
    }

    /// What was learned about degrees of parallelism; about those of high priority, if there is an engine for them.
    pub(super) fn parallelism(&self) -> Option<ParallelismFigures> {
        self.high.as_ref().unwrap_or(&self.common).parallelism()
    }
}
