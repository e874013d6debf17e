//! The engine's side of learning: the policy's learner behind a lock, and how busy the machine is.

use std::fmt;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use plimsoll_policy::{Decision, DegreeLearner, ParallelismLimits, ParallelismPolicy};

use crate::query::pipelines::parallelize::Pipelines;

/// Reports how many threads are runnable now on the whole machine, the calling one not included; `None` if unknown. A
/// value, because the engine does not ask the kernel and tests have no machine.
#[derive(Clone)]
pub struct LoadProbe(Arc<dyn Fn() -> Option<u32> + Send + Sync>);

impl LoadProbe {
    /// Asks like this.
    pub fn new(ask: impl Fn() -> Option<u32> + Send + Sync + 'static) -> Self {
        LoadProbe(Arc::new(ask))
    }

    /// Knows nothing, so that only the engine's own queries count.
    pub fn blind() -> Self {
        LoadProbe::new(|| None)
    }
}

impl fmt::Debug for LoadProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoadProbe")
    }
}

/// Decides the degrees of queries, and learns.
#[derive(Debug)]
pub struct Learner {
    known: Mutex<DegreeLearner>,
    probe: LoadProbe,
}

/// A query that runs; it counts as active until this is dropped.
#[derive(Debug)]
pub struct Active<'a>(&'a Learner);

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.known.lock().ended();
    }
}

impl Learner {
    /// A learner that has seen nothing. Its queries have at most `degree_max` partitions for each pipeline, on `cores` threads.
    pub fn new(policy: Arc<dyn ParallelismPolicy>, degree_max: usize, cores: usize, probe: LoadProbe) -> Self {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).max(1);
        let limits = ParallelismLimits { cores: count(cores), degree_max: count(degree_max) };
        Learner { known: Mutex::new(DegreeLearner::new(policy, limits)), probe }
    }

    /// Notes that a query begins.
    pub fn begin(&self) -> Active<'_> {
        self.known.lock().begun();
        Active(self)
    }

    /// Everything learned so far.
    pub fn known(&self) -> MutexGuard<'_, DegreeLearner> {
        self.known.lock()
    }

    /// The degrees of a run that is about to begin.
    pub fn decide(&self, template: &str, pipelines: &Pipelines) -> Decision {
        // Before the lock, because it asks the kernel.
        let runnable = (self.probe.0)();
        self.known.lock().decide(template, &pipelines.shape, &pipelines.facts, runnable)
    }
}
