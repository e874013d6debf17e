//! What the engine learned about degrees of parallelism, as results show it, and what a reader must know of it.

use std::sync::Arc;

use plimsoll_engine::query::QueryOptions;
use plimsoll_engine::query::pipelines::{ParallelismFigures, TemplateFigures};
use plimsoll_policy::{Convergence, DEGREE_MAX, PARALLELISM_POLICIES, ParallelismPolicy, parallelism_policy};
use plimsoll_workload::parallelism::{DegreeSearch, Parallelism, TemplateParallelism};

use super::options::one_of;

/// DataFusion's planner decides, for all of a plan at once.
const PLANNER: &str = "planner";

/// The engine's figures in the words of results.
pub(super) fn shown(figures: ParallelismFigures) -> Parallelism {
    Parallelism {
        policy: figures.policy,
        templates: figures.templates.into_iter().map(template).collect(),
        templates_once: figures.once,
        unknown_plans: figures.unknown,
    }
}

fn template(figures: TemplateFigures) -> TemplateParallelism {
    TemplateParallelism {
        template: figures.template,
        pipelines: figures.pipelines.split(", ").map(str::to_owned).collect(),
        searches: figures.searches.into_iter().map(search).collect(),
    }
}

fn search(found: Convergence) -> DegreeSearch {
    DegreeSearch {
        load: found.load.to_string(),
        best: found.best,
        is_settled: found.is_settled,
        runs: found.runs,
        runs_to_best: found.runs_to_best,
        best_s: found.typical.map(|time| time.as_secs_f64()),
        speed_up: found.speed_up,
        regret_s: found.regret.map(|time| time.as_secs_f64()),
        reopened: found.reopened,
    }
}

/// Who decides about degrees of parallelism; `None` for the planner. `others` are words that the option knows besides.
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

/// As options write it.
pub(super) fn parallelism_name(policy: Option<&Arc<dyn ParallelismPolicy>>) -> String {
    policy.map_or(PLANNER.to_owned(), |policy| policy.name().into_owned())
}

/// What a reader of figures must know.
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
    if figures.policy == "adaptive" && figures.once > 0 {
        told.push(format!(
            "{} query templates have run only once, with the largest degree: `parallelism=adaptive` learns from templates that repeat",
            figures.once
        ));
    }
    for (operator, runs) in &figures.unknown {
        told.push(format!(
            "{runs} runs had one degree of parallelism for the whole plan, dop={}, because plans with {operator} are not cut into \
             pipelines",
            options.dop
        ));
    }
    told
}
