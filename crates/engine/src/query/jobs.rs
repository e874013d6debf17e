//! Jobs: the parts of a plan that run on threads of a separate cache class, so that scans do not evict data that others
//! reuse.
//!
//! A job is the part of a plan between two places where rows change tasks anyhow: an exchange, or the build side of a
//! join. Its class is that of its most sensitive operator ([`plimsoll_policy::cache_class`]); a scan with its partial
//! aggregation is one job. Where the class changes, a [`JobExec`](exec::JobExec) is inserted in the plan and runs the
//! part below it on the pool of that class. Tasks that this work starts are on the same pool. Queries begin on the pool
//! of the sensitive class, which has the whole cache; transactions run on the threads of their clients, which are in no
//! pool.
//!
//! Threads are bound to a class by a [`CacheBinder`]: the engine does not ask the kernel. With [`CacheSwitch::PerTask`]
//! a thread is bound again when it polls a job of another class than the last one. With [`CacheSwitch::PerPool`], the
//! study's way, there is a pool of threads for each class, which are bound once, when they start; all pools together
//! have more threads than there are cores, and which of them waits for a core is up to the kernel.
//!
//! The size of a join's structure is [estimated](sizes) when the query is planned, and corrected by its size in the
//! last run of the same template. A join of unknown size counts as sensitive.
//!
//! The jobs of Noll et al., *Accelerating Concurrent Workloads with CPU Cache Partitioning*, V.

pub mod classify;
pub mod exec;
pub mod sizes;
pub mod switch;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use plimsoll_policy::cache_class::CacheClass;
use tokio::runtime::Handle;

use crate::query::jobs::classify::Classifier;
use crate::query::jobs::sizes::BuildSizes;
use crate::query::jobs::switch::{Switch, Switched};

/// Binds threads to the part of the cache that a class may fill.
pub trait CacheBinder: fmt::Debug + Send + Sync {
    /// Binds a thread of this process, by the kernel's id, from now on. If that fails the thread is not bound. The
    /// binder reports that, not the engine.
    fn bind(&self, thread: i32, class: CacheClass);

    /// Bytes of the last-level cache that may be used, for comparison with sizes of structures; `None` if unknown.
    fn cache_bytes(&self) -> Option<u64>;
}

/// When a thread is bound to its class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CacheSwitch {
    /// Once, when it starts: each class has a pool.
    PerPool,
    /// Before it polls a job of another class than the last one: all classes share a pool. The default: there are no more
    /// threads than without classes, and rows that go from job to job wake no other thread.
    #[default]
    PerTask,
}

impl CacheSwitch {
    /// Every choice.
    pub const ALL: [CacheSwitch; 2] = [CacheSwitch::PerPool, CacheSwitch::PerTask];

    /// Its name in options.
    pub fn name(self) -> &'static str {
        match self {
            CacheSwitch::PerPool => "per_pool",
            CacheSwitch::PerTask => "per_task",
        }
    }
}

/// How queries are divided into jobs.
#[derive(Debug, Clone)]
pub struct CacheJobs {
    /// Binds the threads.
    pub binder: Arc<dyn CacheBinder>,
    /// When.
    pub switch: CacheSwitch,
}

/// Counts of jobs since the engine was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobFigures {
    /// Tasks that were handed to another class than that of the work above them, by class in the order of [`CacheClass::ALL`].
    pub started: [u64; 3],
    /// How often a thread was bound to another class, with [`CacheSwitch::PerTask`].
    pub switches: u64,
    /// The total time of binding.
    pub switch_time: Duration,
}

pub(crate) type JobCounts = Mutex<JobFigures>;

/// Divides the plans of an engine into jobs, and remembers how large their structures were.
#[derive(Debug)]
pub(crate) struct JobPlanner {
    pub(crate) options: CacheJobs,
    pub(crate) counts: Arc<JobCounts>,
    sizes: BuildSizes,
}

impl JobPlanner {
    pub(crate) fn new(options: CacheJobs) -> Self {
        JobPlanner { options, counts: Arc::default(), sizes: BuildSizes::default() }
    }

    pub(crate) fn figures(&self) -> JobFigures {
        *self.counts.lock()
    }

    /// The plan with its jobs.
    pub(crate) fn split(&self, template: &str, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        Classifier::new(self.options.binder.cache_bytes(), self.sizes.of(template)).split(plan)
    }

    /// A run of the plan has ended with an answer.
    pub(crate) fn ran(&self, template: &str, plan: &Arc<dyn ExecutionPlan>) {
        self.sizes.learn(template, plan);
    }
}

/// Runs the jobs of a query on the pools that it was given. Operators find it among the extensions of their context.
#[derive(Debug)]
pub struct JobRunner {
    /// By class, in the order of [`CacheClass::ALL`].
    pools: [Handle; 3],
    counts: Arc<JobCounts>,
    /// With [`CacheSwitch::PerTask`].
    switch: Option<Arc<Switch>>,
}

impl JobRunner {
    /// Runs jobs of each class on its pool. With `PerTask` these are all the same.
    pub(crate) fn new(pools: [Handle; 3], options: &CacheJobs, counts: &Arc<JobCounts>) -> Self {
        let switch = (options.switch == CacheSwitch::PerTask)
            .then(|| Arc::new(Switch::new(Arc::clone(&options.binder), Arc::clone(counts))));
        JobRunner { pools, counts: Arc::clone(counts), switch }
    }

    /// The pool of a class, on which a job is about to begin.
    fn begin(&self, class: CacheClass) -> &Handle {
        self.counts.lock().started[class as usize] += 1;
        &self.pools[class as usize]
    }

    /// The work as part of this class: with `PerTask`, a thread that polls it or tasks that it starts is bound to the
    /// class.
    pub(crate) fn stay<T: Send + 'static>(
        &self,
        class: CacheClass,
        work: impl Future<Output = T> + Send + 'static,
    ) -> BoxFuture<'static, T> {
        match &self.switch {
            Some(switch) => Switched::new(class, Arc::clone(switch), work.boxed()).boxed(),
            None => work.boxed(),
        }
    }
}

#[cfg(test)]
mod tests;
