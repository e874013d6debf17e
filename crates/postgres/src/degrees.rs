//! Degrees of parallelism of a server's queries, decided by a policy instead of the server.
//!
//! A query is one pipeline here: the number of workers is a setting of the session for the whole plan, and a run only
//! yields its duration. A query of degree n has up to n - 1 workers beside the session's own process. It has fewer if
//! the planner deems its tables too small, or if other queries use the available workers.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_machine::host::Host;
use plimsoll_machine::run_queue::runnable_threads;
use plimsoll_policy::{
    Decision, DegreeLearner, ParallelismFigures, ParallelismLimits, PipelineCost, PipelineFacts, query_template,
};

use crate::server::{DOP_MAX, ServerSettings};

/// The only pipeline, as figures name it.
const SHAPE: &str = "query";

/// The whole query. The server is not asked how many rows enter it.
const PIPELINES: [PipelineFacts; 1] = [PipelineFacts { rows: None, degree_max: DOP_MAX }];

/// Decides for all sessions of a database, and learns from all of them.
#[derive(Debug)]
pub struct QueryDegrees {
    policy: String,
    limits: ParallelismLimits,
    /// The most workers that queries may have together: as many as cores, but at least enough for one query.
    workers_max: u32,
    known: Mutex<DegreeLearner>,
}

/// A running query; it counts as active until this is dropped.
#[derive(Debug)]
pub struct QueryRun {
    degrees: Arc<QueryDegrees>,
    template: String,
    decision: Decision,
}

impl QueryDegrees {
    /// The value for these settings: `before` if it already matches them; `None` if the server decides.
    pub fn of(settings: &ServerSettings, before: Option<Arc<QueryDegrees>>) -> Option<Arc<QueryDegrees>> {
        let (policy, limits) = (settings.parallelism()?, settings.parallelism_limits());
        if let Some(before) = before.filter(|before| before.policy == policy.name() && before.limits == limits) {
            return Some(before);
        }
        Some(Arc::new(QueryDegrees {
            policy: policy.name().into_owned(),
            limits,
            workers_max: (policy.degree_max(limits.degree_max) - 1).max(limits.cores),
            known: Mutex::new(DegreeLearner::new(policy, limits)),
        }))
    }

    pub(crate) fn opening(&self) -> String {
        format!("SET max_parallel_workers = {};", self.workers_max)
    }

    pub(crate) fn begin(self: &Arc<Self>, sql: &str) -> QueryRun {
        let (template, runnable) = (query_template(sql), runnable_threads(&Host::real()));
        let mut known = self.known.lock();
        known.begun();
        let decision = known.decide(&template, SHAPE, &PIPELINES, runnable);
        QueryRun { degrees: Arc::clone(self), template, decision }
    }

    pub(crate) fn next(&self, sql: &str) -> u32 {
        self.known.lock().would_decide(&query_template(sql), SHAPE, &PIPELINES)[0]
    }

    /// The figures learned so far.
    pub fn figures(&self) -> ParallelismFigures {
        self.known.lock().figures()
    }
}

impl QueryRun {
    pub(crate) fn degree(&self) -> u32 {
        self.decision.assigned.degrees[0]
    }

    pub(crate) fn answered(&self, time: Duration) {
        // The CPU time of its processes is unknown; with one pipeline nothing is compared with it.
        let cost = PipelineCost { cpu: time, wall: time };
        self.degrees.known.lock().ran(&self.template, &self.decision, time, &[cost]);
    }
}

impl Drop for QueryRun {
    fn drop(&mut self) {
        self.degrees.known.lock().ended();
    }
}

/// The statement that sets the degree of a session's next query.
pub(crate) fn setting(degree: u32) -> String {
    format!("SET max_parallel_workers_per_gather = {}", degree - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(options: &[(&str, &str)]) -> ServerSettings {
        ServerSettings::for_this_machine().with(options).unwrap()
    }

    fn of(options: &[(&str, &str)]) -> Option<Arc<QueryDegrees>> {
        QueryDegrees::of(&settings(options), None)
    }

    #[test]
    fn the_server_decides_unless_a_policy_is_asked_for() {
        assert!(of(&[]).is_none() && of(&[("parallelism", "planner")]).is_none());
        let fixed = of(&[("parallelism", "static(9)"), ("dop", "2")]).unwrap();
        assert_eq!(fixed.begin("select 1").degree(), 9, "whatever `dop` is");
        assert!(fixed.opening().contains("= 8") || fixed.limits.cores > 8, "{}", fixed.opening());
        assert_eq!(setting(9), "SET max_parallel_workers_per_gather = 8");
    }

    #[test]
    fn what_was_learned_stays_until_something_else_is_asked_for() {
        let adaptive = settings(&[("parallelism", "adaptive"), ("dop", "4")]);
        let first = QueryDegrees::of(&adaptive, None);
        let again = QueryDegrees::of(&adaptive, first.clone());
        assert!(Arc::ptr_eq(&again.unwrap(), first.as_ref().unwrap()));
        let wider = settings(&[("parallelism", "adaptive"), ("dop", "5")]);
        assert!(!Arc::ptr_eq(&QueryDegrees::of(&wider, first.clone()).unwrap(), &first.unwrap()));
    }

    #[test]
    fn a_query_is_active_until_it_ends_and_only_answers_are_learned_from() {
        let degrees = of(&[("parallelism", "adaptive"), ("dop", "4")]).unwrap();
        for number in 0..10 {
            let run = degrees.begin(&format!("select {number}"));
            assert_eq!(degrees.known.lock().active(), 1);
            if number % 2 == 0 {
                run.answered(Duration::from_millis(1));
            }
        }
        assert_eq!(degrees.known.lock().active(), 0);
        let figures = degrees.figures();
        let runs: u64 = figures.templates[0].searches.iter().map(|search| search.runs).sum();
        assert_eq!((figures.templates.len(), runs), (1, 4), "all answers but that of the first run: {figures:?}");
    }
}
