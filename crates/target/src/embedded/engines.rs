//! The query engines of a database: one for all clients, or a second one for those of high priority.
//!
//! The second one has its own strategy and threads, so that a query under observation can run beside others with a
//! different strategy: the two instances of "Multi-core column-store parallelization under concurrent workload" (3.2).
//! Both read the same columns.

use std::sync::Arc;

use plimsoll_engine::query::threads::ThreadStart;
use plimsoll_engine::query::{QueryEngine, QueryError, QueryOptions};
use plimsoll_machine::host::Host;
use plimsoll_machine::thread_share::ThreadShare;
use plimsoll_policy::{ParallelismFigures, ParallelismPolicy, Priority};
use plimsoll_postgres::cache_classes::CacheBinding;

use super::EmbeddedOptions;
use super::cache;

/// The policy of parallelism for queries of high priority, if it differs from that of all others.
#[derive(Debug, Clone)]
pub struct HighParallelism {
    /// As [`QueryOptions::parallelism`].
    pub parallelism: Option<Arc<dyn ParallelismPolicy>>,
}

#[derive(Debug, Clone)]
pub(super) struct QueryEngines {
    /// The engine of all clients, or of those without high priority.
    pub(super) common: Arc<QueryEngine>,
    /// The engine of clients of high priority.
    high: Option<Arc<QueryEngine>>,
}

impl QueryEngines {
    pub(super) fn start(options: &EmbeddedOptions, cache: Option<&Arc<CacheBinding>>) -> Result<Self, QueryError> {
        let (cache, thread_start) = (cache::jobs(options, cache), with_share(options.query_share));
        let common = QueryOptions { cache, thread_start, ..options.queries.clone() };
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

    /// What was learned about degrees of parallelism; that of high priority, if it has its own engine.
    pub(super) fn parallelism(&self) -> Option<ParallelismFigures> {
        self.high.as_ref().unwrap_or(&self.common).parallelism()
    }
}

/// Gives each thread of queries this share. The kernel never refuses a smaller one, and a thread that has ended needs
/// none.
fn with_share(share: ThreadShare) -> ThreadStart {
    ThreadStart::new(move |thread| {
        let _ = share.give(&Host::real(), thread);
    })
}
