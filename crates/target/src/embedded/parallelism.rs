//! The policy for degrees of parallelism in the engine, and warnings for readers of its figures.

use std::sync::Arc;

use plimsoll_engine::query::QueryOptions;
use plimsoll_policy::{DEGREE_MAX, PARALLELISM_POLICIES, ParallelismFigures, ParallelismPolicy, parallelism_policy};
use plimsoll_workload::parallelism::untaught;

use super::options::one_of;

/// DataFusion's planner decides, once for a whole plan.
const PLANNER: &str = "planner";

/// The policy for degrees of parallelism; `None` for the planner. `others` are further words of the option.
pub(super) fn parallelism(value: &str, others: &[&'static str]) -> Result<Option<Arc<dyn ParallelismPolicy>>, String> {
    if value == PLANNER {
        return Ok(None);
    }
    parallelism_policy(value).map(Some).ok_or_else(|| {
        let examples = PARALLELISM_POLICIES.iter().map(|kind| kind.example);
        let range =
            if value.starts_with("static") { format!("; a degree is from 1 to {DEGREE_MAX}") } else { String::new() };
        format!("{}{range}", one_of(value, examples.chain([PLANNER]).chain(others.iter().copied())))
    })
}

/// Its name in options.
pub(super) fn parallelism_name(policy: Option<&Arc<dyn ParallelismPolicy>>) -> String {
    policy.map_or(PLANNER.to_owned(), |policy| policy.name().into_owned())
}

/// Warnings for readers of the figures.
pub(super) fn warnings(options: &QueryOptions, figures: Option<&ParallelismFigures>) -> Vec<String> {
    let mut told = Vec::new();
    let degree = match &options.parallelism {
        Some(policy) => policy.degree_max(u32::try_from(options.dop).unwrap_or(u32::MAX)) as usize,
        None => options.dop,
    };
    if degree > options.workers {
        told.push(format!(
            "queries have up to {degree} partitions on {} threads: partitions beyond the threads take turns",
            options.workers
        ));
    }
    let Some(figures) = figures else { return told };
    told.extend(untaught(figures));
    for (operator, runs) in &figures.unknown {
        told.push(format!(
            "{runs} runs had one degree of parallelism for the whole plan, dop={}, because plans with {operator} are not cut into \
             pipelines",
            options.dop
        ));
    }
    told
}
