//! The threads of a query: shared by all queries, or private; with cache classes, those of each class.

use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;
use plimsoll_policy::cache_class::CacheClass;

use crate::query::QueryError;
use crate::query::jobs::{CacheJobs, CacheSwitch, JobCounts, JobRunner};
pub use crate::query::workers::ThreadStart;
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
    count: usize,
    name: String,
    on_start: ThreadStart,
    /// With cache classes.
    jobs: Option<(CacheJobs, Arc<JobCounts>)>,
    /// Every pool that was started. There are as many as queries ran at the same time, or one if it is shared.
    all: Mutex<Vec<Arc<Pool>>>,
    /// Pools on which no query runs.
    idle: Mutex<Vec<Arc<Pool>>>,
}

/// Threads that a query runs on.
#[derive(Debug)]
pub struct Pool {
    /// The pool on which queries begin and, if each class has its own pool, those of the other classes.
    workers: Vec<Workers>,
    /// With cache classes.
    jobs: Option<Arc<JobRunner>>,
}

impl Pool {
    fn start(
        count: usize,
        name: &str,
        on_start: &ThreadStart,
        jobs: Option<&(CacheJobs, Arc<JobCounts>)>,
    ) -> Result<Self, QueryError> {
        let Some((options, counts)) = jobs else {
            return Ok(Pool { workers: vec![Workers::start(count, name, on_start)?], jobs: None });
        };
        let workers = match options.switch {
            CacheSwitch::PerTask => vec![Workers::start(count, name, on_start)?],
            CacheSwitch::PerPool => {
                // The sensitive first: there queries begin.
                let bound = CacheClass::ALL.into_iter().rev().map(|class| {
                    let (binder, on_start) = (Arc::clone(&options.binder), on_start.clone());
                    let bind = ThreadStart::new(move |thread| {
                        on_start.call(thread);
                        binder.bind(thread, class);
                    });
                    Workers::start(count, name, &bind)
                });
                bound.collect::<Result<_, _>>()?
            }
        };
        let of_class = |class: CacheClass| {
            let place = CacheClass::Sensitive as usize - class as usize;
            workers.get(place).unwrap_or(&workers[0]).handle().clone()
        };
        let runner = JobRunner::new(CacheClass::ALL.map(of_class), options, counts);
        Ok(Pool { workers, jobs: Some(Arc::new(runner)) })
    }

    /// Tasks that have begun and not ended.
    #[cfg(test)]
    pub fn tasks(&self) -> usize {
        self.workers.iter().map(Workers::tasks).sum()
    }

    /// The runner of a query's jobs; `None` without cache classes.
    pub fn jobs(&self) -> Option<&Arc<JobRunner>> {
        self.jobs.as_ref()
    }

    /// Runs a task where queries begin while the calling thread sleeps. A panic in the task comes back as its message.
    pub fn run<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Result<T, String> {
        match &self.jobs {
            Some(jobs) => self.workers[0].run(jobs.stay(CacheClass::Sensitive, task)),
            None => self.workers[0].run(task),
        }
    }

    /// The kernel's ids of the threads.
    pub fn thread_ids(&self) -> Vec<i32> {
        self.workers.iter().flat_map(Workers::thread_ids).collect()
    }
}

/// The threads of one query, for as long as it runs.
#[derive(Debug)]
pub struct Lease<'a> {
    pool: Arc<Pool>,
    /// `None` if the threads are shared.
    pools: Option<&'a ThreadPools>,
}

impl std::ops::Deref for Lease<'_> {
    type Target = Pool;

    fn deref(&self) -> &Pool {
        &self.pool
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if let Some(pools) = self.pools {
            pools.idle.lock().push(Arc::clone(&self.pool));
        }
    }
}

impl ThreadPools {
    /// Starts the first pool, with `count` threads of this name, each of which does `on_start` first. With cache classes
    /// that are bound to pools, starts that many for each class.
    pub(crate) fn start(
        whose: QueryThreads,
        count: usize,
        name: &str,
        on_start: ThreadStart,
        jobs: Option<(CacheJobs, Arc<JobCounts>)>,
    ) -> Result<Self, QueryError> {
        let first = Arc::new(Pool::start(count, name, &on_start, jobs.as_ref())?);
        let (all, idle) = (Mutex::new(vec![Arc::clone(&first)]), Mutex::new(vec![first]));
        Ok(ThreadPools { whose, count, name: name.to_owned(), on_start, jobs, all, idle })
    }

    /// Threads for a query. A pool that another query has left is taken first.
    pub fn lease(&self) -> Result<Lease<'_>, QueryError> {
        if self.whose == QueryThreads::Shared {
            return Ok(Lease { pool: Arc::clone(&self.all.lock()[0]), pools: None });
        }
        let idle = self.idle.lock().pop();
        let pool = match idle {
            Some(pool) => pool,
            None => {
                let pool = Arc::new(Pool::start(self.count, &self.name, &self.on_start, self.jobs.as_ref())?);
                self.all.lock().push(Arc::clone(&pool));
                pool
            }
        };
        Ok(Lease { pool, pools: Some(self) })
    }

    /// The kernel's ids of all threads.
    pub fn thread_ids(&self) -> Vec<i32> {
        self.all.lock().iter().flat_map(|pool| pool.thread_ids()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_threads_are_the_same_for_all_and_own_ones_are_used_again() {
        let shared = ThreadPools::start(QueryThreads::Shared, 2, "shared", ThreadStart::default(), None).unwrap();
        let (a, b) = (shared.lease().unwrap(), shared.lease().unwrap());
        assert_eq!((a.thread_ids(), shared.thread_ids().len()), (b.thread_ids(), 2));

        let own = ThreadPools::start(QueryThreads::Own, 2, "own", ThreadStart::default(), None).unwrap();
        let (a, b) = (own.lease().unwrap(), own.lease().unwrap());
        let of_a = a.thread_ids();
        assert!(b.thread_ids().iter().all(|id| !of_a.contains(id)));
        assert_eq!(own.thread_ids().len(), 4);
        drop(a);
        assert_eq!(own.lease().unwrap().thread_ids(), of_a);
        assert_eq!(own.thread_ids().len(), 4, "as many pools as queries at the same time");
    }
}
