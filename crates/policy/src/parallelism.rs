//! How many partitions each pipeline of a query is given.
//!
//! A query plan is cut into pipelines: chains of operators through which rows flow without waiting for the last one.
//! The host gives a policy the facts of each pipeline and of the machine, and the times of earlier runs of the same
//! query template. The policy answers with a degree of parallelism for each pipeline.
//!
//! | name | degree of a pipeline |
//! |---|---|
//! | `static(n)` | n, whatever else runs |
//! | `adaptive` | learned from runs of the same template: another partition for the most expensive pipeline as long as that pays |
//! | `cost` | cores divided by active queries, and no more than the rows are worth |
//!
//! The three are those compared by "Multi-core column-store parallelization under concurrent workload". No degree is above what
//! the pipeline allows, or below 1. [`DegreeLearner`] is all that a host of a policy needs: it keeps the histories of templates and
//! counts the queries that run.

mod adaptive;
mod cost;
mod history;
mod judge;
mod learner;
mod search;
mod static_degree;
mod template;

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

pub use history::{Assigned, Convergence, DegreeHistory, LoadBucket};
pub use learner::{Decision, DegreeLearner, ParallelismFigures, ParallelismLimits, TemplateFigures};
pub use template::template as query_template;

/// The largest degree that can be requested.
pub const DEGREE_MAX: u32 = 1024;

/// The facts of a pipeline before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PipelineFacts {
    /// The expected number of rows that enter it; `None` if it is not known.
    pub rows: Option<u64>,
    /// The most partitions that its source can be cut into; at least 1.
    pub degree_max: u32,
}

/// The facts when a query is about to run.
#[derive(Debug, Clone, Copy)]
pub struct ParallelismFacts<'a> {
    /// Its pipelines, always in the same order for the same template.
    pub pipelines: &'a [PipelineFacts],
    /// The threads that queries run on.
    pub cores: u32,
    /// The most partitions of any pipeline under `adaptive` and `cost`, and the degree of a template that has not repeated yet.
    pub degree_max: u32,
    /// Queries that are running, this one included; at least 1.
    pub active_queries: u32,
    /// Runnable threads per core.
    pub load: f64,
}

/// The cost of a pipeline in one run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PipelineCost {
    /// CPU time of its own operators, all partitions together.
    pub cpu: Duration,
    /// The time from poll to answer of its own operators in the partition that took longest: waiting for a core included, waiting for
    /// other pipelines not.
    pub wall: Duration,
}

/// One run of a query.
#[derive(Debug, Clone, Copy)]
pub struct QueryRun<'a> {
    /// The degrees that it ran with.
    pub assigned: &'a Assigned,
    /// How long it took.
    pub time: Duration,
    /// The cost of each pipeline.
    pub pipelines: &'a [PipelineCost],
}

/// Decides the degree of parallelism of each pipeline.
///
/// Implementations are pure: equal facts and histories give equal answers.
pub trait ParallelismPolicy: Debug + Send + Sync {
    /// The name used in experiment files and results, parameters included: `static(4)`.
    fn name(&self) -> Cow<'static, str>;

    /// A degree for each pipeline. The history is that of the query's template; a policy that does not learn leaves it alone.
    fn degrees(&self, facts: &ParallelismFacts<'_>, history: &mut DegreeHistory) -> Assigned;

    /// The most partitions that it gives any pipeline where `dop` is the largest degree.
    fn degree_max(&self, dop: u32) -> u32 {
        dop
    }

    /// Whether runs have to be measured and reported to the history.
    fn learns(&self) -> bool {
        false
    }
}

/// One line of the list of policies.
#[derive(Debug)]
pub struct ParallelismKind {
    /// The name, with a placeholder for the parameter: `static(n)`.
    pub name: &'static str,
    /// A short description, for people.
    pub about: &'static str,
    /// An example of a complete name.
    pub example: &'static str,
    /// Makes the policy from its name; `None` for other names.
    make: fn(&str) -> Option<Arc<dyn ParallelismPolicy>>,
}

/// All policies, in the order of the table in the module documentation.
pub static PARALLELISM_POLICIES: &[ParallelismKind] = &[static_degree::KIND, adaptive::KIND, cost::KIND];

/// The policy of that name, if there is one. A degree is between 1 and [`DEGREE_MAX`].
pub fn parallelism_policy(name: &str) -> Option<Arc<dyn ParallelismPolicy>> {
    PARALLELISM_POLICIES.iter().find_map(|kind| (kind.make)(name))
}

/// The same degree for every pipeline that allows it.
fn uniform(facts: &ParallelismFacts<'_>, degree: u32) -> Vec<u32> {
    facts.pipelines.iter().map(|pipeline| degree.clamp(1, pipeline.degree_max.max(1))).collect()
}

#[cfg(test)]
mod tests;
