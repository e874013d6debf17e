//! The history of query templates: the degrees and the times of their runs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::{
    Assigned, Convergence, DegreeHistory, ParallelismFacts, ParallelismPolicy, PipelineCost, PipelineFacts, QueryRun,
};

/// The most templates that are remembered; beyond that, the one that was requested least recently is forgotten.
const TEMPLATES_MAX: usize = 1024;

/// The most plans with different pipelines that are remembered of one template: literals may change the order of joins.
const SHAPES_MAX: usize = 8;

/// The weight of the newest sample of the load. One sample counts the threads that are runnable at one moment, which
/// says little.
const NEWEST: f64 = 0.2;

/// The limits of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParallelismLimits {
    /// The threads or processes that queries run on; at least 1.
    pub cores: u32,
    /// The most partitions of a pipeline; at least 1.
    pub degree_max: u32,
}

/// Decides the degrees of queries by a policy, and learns from their runs. The host reports when queries begin and end.
#[derive(Debug)]
pub struct DegreeLearner {
    policy: Arc<dyn ParallelismPolicy>,
    limits: ParallelismLimits,
    /// Queries that are running.
    active: u32,
    /// Runnable threads, smoothed.
    threads: Option<f64>,
    /// Numbers the requests, to find the template that was requested least recently.
    asked: u64,
    templates: HashMap<String, Template>,
    unknown: BTreeMap<String, u64>,
}

#[derive(Debug, Default)]
struct Template {
    asked_at: u64,
    /// By the pipelines of the plan.
    histories: BTreeMap<String, DegreeHistory>,
    /// The operator for which its plan cannot be made parallel by pipelines.
    unknown: Option<String>,
}

/// The decision about one run.
#[derive(Debug, Clone)]
pub struct Decision {
    /// The degrees.
    pub assigned: Assigned,
    shape: String,
}

/// The results of learning, for all templates.
#[derive(Debug, Clone, PartialEq)]
pub struct ParallelismFigures {
    /// The policy's name.
    pub policy: String,
    /// Templates that have repeated, by their text.
    pub templates: Vec<TemplateFigures>,
    /// Templates that have run only once.
    pub once: usize,
    /// Runs of plans that could not be made parallel by pipelines, by the operator that prevented it. The whole plan
    /// ran at one degree.
    pub unknown: BTreeMap<String, u64>,
}

/// The results of learning, for one template.
#[derive(Debug, Clone, PartialEq)]
pub struct TemplateFigures {
    /// Its text without literals.
    pub template: String,
    /// Where its pipelines begin.
    pub pipelines: String,
    /// The searches, one for each load.
    pub searches: Vec<Convergence>,
}

impl DegreeLearner {
    /// A learner that has seen nothing.
    pub fn new(policy: Arc<dyn ParallelismPolicy>, limits: ParallelismLimits) -> Self {
        DegreeLearner {
            policy,
            limits,
            active: 0,
            threads: None,
            asked: 0,
            templates: HashMap::new(),
            unknown: BTreeMap::new(),
        }
    }

    /// A query has begun.
    pub fn begun(&mut self) {
        self.active += 1;
    }

    /// A query has ended, whether it had an answer or not.
    pub fn ended(&mut self) {
        self.active = self.active.checked_sub(1).expect("a query that ends has begun");
    }

    /// Queries that have begun and not ended.
    pub fn active(&self) -> u32 {
        self.active
    }

    /// Whether the template's plans are known not to run in parallel by pipelines. If so, counts one more such run.
    pub fn is_unknown(&mut self, template: &str) -> bool {
        let Some(operator) = self.templates.get(template).and_then(|known| known.unknown.clone()) else { return false };
        *self.unknown.entry(operator).or_default() += 1;
        true
    }

    /// Notes that the template's plan cannot be made parallel by pipelines because of this operator.
    pub fn note_unknown(&mut self, template: &str, operator: &str) {
        *self.unknown.entry(operator.to_owned()).or_default() += 1;
        self.template(template).unknown = Some(operator.to_owned());
    }

    /// The degrees of a run that is about to begin. Plans of the same `shape` have the same pipelines. `runnable` is the number of threads
    /// that are runnable now on the whole machine; `None` if that is not known.
    pub fn decide(
        &mut self,
        template: &str,
        shape: &str,
        pipelines: &[PipelineFacts],
        runnable: Option<u32>,
    ) -> Decision {
        let load = self.look(runnable);
        let (policy, facts) = (Arc::clone(&self.policy), self.facts(pipelines, load));
        let shape = shape.to_owned();
        if !policy.learns() {
            return Decision { assigned: policy.degrees(&facts, &mut DegreeHistory::default()), shape };
        }
        let known = self.template(template);
        if known.histories.len() >= SHAPES_MAX && !known.histories.contains_key(&shape) {
            known.histories.clear();
        }
        let history = known.histories.entry(shape.clone()).or_default();
        Decision { assigned: policy.degrees(&facts, history), shape }
    }

    /// The degrees that the next run would have, at the load that was seen last.
    pub fn would_decide(&self, template: &str, shape: &str, pipelines: &[PipelineFacts]) -> Vec<u32> {
        let known = self.templates.get(template).and_then(|known| known.histories.get(shape));
        let mut history = known.cloned().unwrap_or_default();
        let load = self.threads.unwrap_or(1.0) / f64::from(self.limits.cores.max(1));
        self.policy.degrees(&self.facts(pipelines, load), &mut history).degrees
    }

    fn facts<'a>(&self, pipelines: &'a [PipelineFacts], load: f64) -> ParallelismFacts<'a> {
        let ParallelismLimits { cores, degree_max } = self.limits;
        ParallelismFacts { pipelines, cores, degree_max, active_queries: self.active.max(1), load }
    }

    /// Runnable threads per core: those of the machine, or one for each active query if that is more, because queries
    /// may wait for threads where the kernel does not see them.
    fn look(&mut self, runnable: Option<u32>) -> f64 {
        let seen = f64::from(runnable.unwrap_or(0).max(self.active).max(1));
        let smoothed = self.threads.map_or(seen, |before| before + NEWEST * (seen - before));
        self.threads = Some(smoothed);
        smoothed / f64::from(self.limits.cores.max(1))
    }

    /// A run has ended with an answer.
    pub fn ran(&mut self, template: &str, decision: &Decision, time: Duration, pipelines: &[PipelineCost]) {
        if !self.policy.learns() {
            return;
        }
        let run = QueryRun { assigned: &decision.assigned, time, pipelines };
        // The template may have been forgotten since.
        let known = self.templates.get_mut(template);
        if let Some(history) = known.and_then(|known| known.histories.get_mut(&decision.shape)) {
            history.ran(&run);
        }
    }

    fn template(&mut self, template: &str) -> &mut Template {
        if self.templates.len() >= TEMPLATES_MAX && !self.templates.contains_key(template) {
            let oldest = self.templates.iter().min_by_key(|(_, known)| known.asked_at).map(|(text, _)| text.clone());
            oldest.and_then(|oldest| self.templates.remove(&oldest));
        }
        self.asked += 1;
        let known = self.templates.entry(template.to_owned()).or_default();
        known.asked_at = self.asked;
        known
    }

    /// The results of learning so far.
    pub fn figures(&self) -> ParallelismFigures {
        let mut figures = ParallelismFigures {
            policy: self.policy.name().into_owned(),
            templates: Vec::new(),
            once: 0,
            unknown: self.unknown.clone(),
        };
        for (template, known) in &self.templates {
            for (pipelines, history) in &known.histories {
                match history.asked() {
                    0 | 1 => figures.once += 1,
                    _ => figures.templates.push(TemplateFigures {
                        template: template.clone(),
                        pipelines: pipelines.clone(),
                        searches: history.convergence(),
                    }),
                }
            }
        }
        figures.templates.sort_by(|a, b| (&a.template, &a.pipelines).cmp(&(&b.template, &b.pipelines)));
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::super::parallelism_policy;
    use super::*;

    const ONE: [PipelineFacts; 1] = [PipelineFacts { rows: None, degree_max: 8 }];

    fn learner(policy: &str, cores: u32) -> DegreeLearner {
        DegreeLearner::new(parallelism_policy(policy).unwrap(), ParallelismLimits { cores, degree_max: 4 })
    }

    #[test]
    fn a_template_that_runs_once_is_counted_and_one_that_repeats_is_told() {
        let mut learner = learner("adaptive", 4);
        for (template, runs) in [("a", 1), ("b", 3)] {
            for _ in 0..runs {
                let decision = learner.decide(template, "t", &ONE, None);
                learner.ran(template, &decision, Duration::from_millis(1), &[PipelineCost::default()]);
            }
        }
        let figures = learner.figures();
        assert_eq!((figures.once, figures.templates.len()), (1, 1));
        assert_eq!((figures.templates[0].template.as_str(), figures.templates[0].searches[0].runs), ("b", 2));
    }

    #[test]
    fn what_would_be_decided_is_what_is_decided_next_and_asking_changes_nothing() {
        let mut learner = learner("adaptive", 4);
        for _ in 0..30 {
            let told = learner.would_decide("a", "t", &ONE);
            assert_eq!(learner.would_decide("a", "t", &ONE), told);
            let decision = learner.decide("a", "t", &ONE, None);
            assert_eq!(decision.assigned.degrees, told);
            learner.ran("a", &decision, Duration::from_millis(1), &[PipelineCost::default()]);
        }
    }

    #[test]
    fn memory_is_bounded_and_the_template_asked_for_least_recently_is_forgotten() {
        let mut learner = learner("adaptive", 4);
        learner.decide("kept", "t", &ONE, None);
        for number in 0..3 * TEMPLATES_MAX {
            learner.decide(&format!("other {number}"), "t", &ONE, None);
            learner.decide("kept", "t", &ONE, None);
        }
        for shape in 0..100 {
            learner.decide("kept", &format!("t{shape}"), &ONE, None);
        }
        assert_eq!(learner.templates.len(), TEMPLATES_MAX);
        assert!(learner.templates["kept"].histories.len() <= SHAPES_MAX);
        // A run that ends after its template was forgotten does no harm.
        let late = learner.decide("late", "t", &ONE, None);
        learner.templates.clear();
        learner.ran("late", &late, Duration::from_millis(1), &[]);
    }

    #[test]
    fn plans_that_cannot_be_made_parallel_are_counted_by_operator() {
        let mut learner = learner("adaptive", 4);
        assert!(!learner.is_unknown("a"));
        learner.note_unknown("a", "UnionExec");
        assert!(learner.is_unknown("a") && learner.is_unknown("a"));
        assert_eq!(learner.figures().unknown, BTreeMap::from([("UnionExec".to_owned(), 3)]));
    }

    #[test]
    fn active_queries_are_those_that_have_begun_and_not_ended() {
        let mut learner = learner("cost", 4);
        for degree in [4, 2] {
            learner.begun();
            assert_eq!(learner.decide("a", "t", &ONE, None).assigned.degrees, [degree]);
        }
        learner.ended();
        learner.ended();
        assert_eq!(learner.active(), 0);
    }

    #[test]
    fn the_load_follows_looks_slowly_and_queries_count_where_the_kernel_sees_nothing() {
        let mut seen = learner("adaptive", 2);
        assert_eq!(seen.look(Some(8)), 4.0);
        (0..28).for_each(|_| seen.begun());
        assert_eq!(seen.look(Some(3)), 6.0, "a fifth of the way from 8 to 28 threads");
        let mut blind = learner("adaptive", 2);
        (0..6).for_each(|_| blind.begun());
        assert_eq!(blind.look(None), 3.0);
    }
}
