//! Which threads a query runs on: those that all queries share, or its own.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::query::QueryError;
use crate::query::workers::Workers;

/// Whose threads a query runs on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum QueryThreads {
    /// All queries share the workers, which take turns between their partitions: no more threads than workers are runnable.
    #[default]
    Shared,
    /// Each query has as many threads as there are workers, so that the kernel's scheduler divides the cores between queries.
    Own,
}

impl QueryThreads {
    /// Every choice.
    pub const ALL: [QueryThreads; 2] = [QueryThreads::Own, QueryThreads::Shared];

    /// Its name in options.
    pub fn name(self) -> &'static str {
        match self {
            QueryThreads::Shared => "shared",
            QueryThreads::Own => "own",
        }
    }
}

/// The threads of a query engine.
#[derive(Debug)]
pub struct ThreadPools {
    whose: QueryThreads,
    /// How many threads a pool has.
    count: usize,
    name: String,
    /// Every pool that was started. There are as many as queries ran at the same time, or one if it is shared.
    all: Mutex<Vec<Arc<Workers>>>,
    /// Pools on which no query runs.
    idle: Mutex<Vec<Arc<Workers>>>,
}

/// The threads of one query, for as long as it runs.
#[derive(Debug)]
pub struct Lease<'a> {
    workers: Arc<Workers>,
    /// `None` if the threads are shared.
    pools: Option<&'a ThreadPools>,
}

impl std::ops::Deref for Lease<'_> {
    type Target = Workers;

    fn deref(&self) -> &Workers {
        &self.workers
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if let Some(pools) = self.pools {
            pools.idle.lock().push(Arc::clone(&self.workers));
        }
    }
}

impl ThreadPools {
    /// Starts the first pool of `count` threads of this name.
    pub fn start(whose: QueryThreads, count: usize, name: &str) -> Result<Self, QueryError> {
        let first = Arc::new(Workers::start(count, name)?);
        let (all, idle) = (Mutex::new(vec![Arc::clone(&first)]), Mutex::new(vec![first]));
        Ok(ThreadPools { whose, count, name: name.to_owned(), all, idle })
    }

    /// Threads for a query. A pool that another query has left is taken first.
    pub fn lease(&self) -> Result<Lease<'_>, QueryError> {
        if self.whose == QueryThreads::Shared {
            return Ok(Lease { workers: Arc::clone(&self.all.lock()[0]), pools: None });
        }
        let idle = self.idle.lock().pop();
        let workers = match idle {
            Some(workers) => workers,
            None => {
                let workers = Arc::new(Workers::start(self.count, &self.name)?);
                self.all.lock().push(Arc::clone(&workers));
                workers
            }
        };
        Ok(Lease { workers, pools: Some(self) })
    }

    /// The kernel's ids of all threads.
    pub fn thread_ids(&self) -> Vec<i32> {
        self.all.lock().iter().flat_map(|workers| workers.thread_ids()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_threads_are_the_same_for_all_and_own_ones_are_used_again() {
        let shared = ThreadPools::start(QueryThreads::Shared, 2, "shared").unwrap();
        let (a, b) = (shared.lease().unwrap(), shared.lease().unwrap());
        assert_eq!((a.thread_ids(), shared.thread_ids().len()), (b.thread_ids(), 2));

        let own = ThreadPools::start(QueryThreads::Own, 2, "own").unwrap();
        let (a, b) = (own.lease().unwrap(), own.lease().unwrap());
        let of_a = a.thread_ids();
        assert!(b.thread_ids().iter().all(|id| !of_a.contains(id)));
        assert_eq!(own.thread_ids().len(), 4);
        drop(a);
        assert_eq!(own.lease().unwrap().thread_ids(), of_a);
        assert_eq!(own.thread_ids().len(), 4, "as many pools as queries at the same time");
    }
}
