//! What the engine remembers of query templates: which degrees their runs had, and what they took.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_policy::{
    Assigned, Convergence, DegreeHistory, ParallelismFacts, ParallelismPolicy, PipelineCost, QueryRun,
};

use crate::query::pipelines::load::{Load, LoadProbe};
use crate::query::pipelines::parallelize::Pipelines;

/// Templates that are remembered. When there are more, the one that was asked for least recently is forgotten.
const TEMPLATES_MAX: usize = 1024;

/// Plans with different pipelines that are remembered of one template: literals may change the order of joins.
const SHAPES_MAX: usize = 8;

/// Decides the degrees of queries, and learns.
#[derive(Debug)]
pub struct Learner {
    policy: Arc<dyn ParallelismPolicy>,
    /// The most partitions of a pipeline.
    degree_max: u32,
    /// Threads that queries run on.
    cores: u32,
    load: Load,
    active: AtomicU32,
    /// Counts queries, to tell which template was asked for last.
    clock: AtomicU64,
    templates: Mutex<HashMap<String, Template>>,
    unknown: Mutex<BTreeMap<String, u64>>,
}

#[derive(Debug, Default)]
struct Template {
    asked_at: u64,
    /// By the pipelines of the plan.
    histories: BTreeMap<String, DegreeHistory>,
    /// The operator for which its plan cannot be made parallel by pipelines.
    unknown: Option<String>,
}

/// What was decided about one run.
#[derive(Debug, Clone)]
pub struct Decision {
    /// The degrees.
    pub assigned: Assigned,
    shape: String,
}

/// A query that runs; it counts as active until this is dropped.
#[derive(Debug)]
pub struct Active<'a>(&'a AtomicU32);

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What was learned of all templates.
#[derive(Debug, Clone, PartialEq)]
pub struct ParallelismFigures {
    /// The policy's name.
    pub policy: String,
    /// Templates that have repeated, by their text.
    pub templates: Vec<TemplateFigures>,
    /// Templates that have run only once.
    pub once: usize,
    /// Runs of plans that could not be made parallel by pipelines, by the operator that was in the way. They ran at the degree of all.
    pub unknown: BTreeMap<String, u64>,
}

/// What was learned of one template.
#[derive(Debug, Clone, PartialEq)]
pub struct TemplateFigures {
    /// Its text without literals.
    pub template: String,
    /// Where its pipelines begin.
    pub pipelines: String,
    /// The searches, one for each load.
    pub searches: Vec<Convergence>,
}

impl Learner {
    /// A learner that has seen nothing. Its queries have at most `degree_max` partitions for each pipeline, on `cores` threads.
    pub fn new(policy: Arc<dyn ParallelismPolicy>, degree_max: usize, cores: usize, load: LoadProbe) -> Self {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).max(1);
        Learner {
            policy,
            degree_max: count(degree_max),
            cores: count(cores),
            load: Load::new(load),
            active: AtomicU32::new(0),
            clock: AtomicU64::new(0),
            templates: Mutex::default(),
            unknown: Mutex::default(),
        }
    }

    /// Notes that a query begins.
    pub fn begin(&self) -> Active<'_> {
        // A count of its own: nothing else is read by it.
        self.active.fetch_add(1, Ordering::Relaxed);
        Active(&self.active)
    }

    /// Whether the template's plans cannot be made parallel by pipelines, as far as is known. It counts as one more such run.
    pub fn is_unknown(&self, template: &str) -> bool {
        let operator = self.templates.lock().get(template).and_then(|known| known.unknown.clone());
        operator.inspect(|operator| self.count_unknown(operator)).is_some()
    }

    /// Notes that the template's plan cannot be made parallel by pipelines because of this operator.
    pub fn note_unknown(&self, template: &str, operator: &str) {
        self.count_unknown(operator);
        self.with_template(template, |known| known.unknown = Some(operator.to_owned()));
    }

    fn count_unknown(&self, operator: &str) {
        *self.unknown.lock().entry(operator.to_owned()).or_default() += 1;
    }

    /// The degrees of a run that is about to begin.
    pub fn decide(&self, template: &str, pipelines: &Pipelines) -> Decision {
        let active_queries = self.active.load(Ordering::Relaxed).max(1);
        let facts = ParallelismFacts {
            pipelines: &pipelines.facts,
            cores: self.cores,
            degree_max: self.degree_max,
            active_queries,
            load: self.load.look(active_queries, self.cores),
        };
        let shape = pipelines.shape.clone();
        if !self.policy.learns() {
            return Decision { assigned: self.policy.degrees(&facts, &mut DegreeHistory::default()), shape };
        }
        self.with_template(template, |known| {
            if known.histories.len() >= SHAPES_MAX && !known.histories.contains_key(&shape) {
                known.histories.clear();
            }
            let history = known.histories.entry(shape.clone()).or_default();
            Decision { assigned: self.policy.degrees(&facts, history), shape }
        })
    }

    /// A run has ended with an answer.
    pub fn ran(&self, template: &str, decision: &Decision, time: Duration, pipelines: &[PipelineCost]) {
        if !self.policy.learns() {
            return;
        }
        let run = QueryRun { assigned: &decision.assigned, time, pipelines };
        let mut templates = self.templates.lock();
        // It may have been forgotten meanwhile.
        if let Some(history) = templates.get_mut(template).and_then(|known| known.histories.get_mut(&decision.shape)) {
            history.ran(&run);
        }
    }

    fn with_template<T>(&self, template: &str, then: impl FnOnce(&mut Template) -> T) -> T {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let mut templates = self.templates.lock();
        if templates.len() >= TEMPLATES_MAX && !templates.contains_key(template) {
            let oldest = templates.iter().min_by_key(|(_, known)| known.asked_at).map(|(text, _)| text.clone());
            oldest.and_then(|oldest| templates.remove(&oldest));
        }
        let known = templates.entry(template.to_owned()).or_default();
        known.asked_at = now;
        then(known)
    }

    /// What was learned so far.
    pub fn figures(&self) -> ParallelismFigures {
        let templates = self.templates.lock();
        let mut figures = ParallelismFigures {
            policy: self.policy.name().into_owned(),
            templates: Vec::new(),
            once: 0,
            unknown: self.unknown.lock().clone(),
        };
        for (template, known) in templates.iter() {
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
    use plimsoll_policy::{PipelineFacts, parallelism_policy};

    use super::*;

    fn learner() -> Learner {
        Learner::new(parallelism_policy("adaptive").unwrap(), 4, 4, LoadProbe::blind())
    }

    fn pipelines(shape: &str) -> Pipelines {
        Pipelines { facts: vec![PipelineFacts { rows: None, degree_max: 8 }], shape: shape.to_owned() }
    }

    #[test]
    fn a_template_that_runs_once_is_counted_and_one_that_repeats_is_told() {
        let learner = learner();
        for (template, runs) in [("a", 1), ("b", 3)] {
            for _ in 0..runs {
                let decision = learner.decide(template, &pipelines("t"));
                learner.ran(template, &decision, Duration::from_millis(1), &[PipelineCost::default()]);
            }
        }
        let figures = learner.figures();
        assert_eq!((figures.once, figures.templates.len()), (1, 1));
        assert_eq!((figures.templates[0].template.as_str(), figures.templates[0].searches[0].runs), ("b", 2));
    }

    #[test]
    fn memory_is_bounded_and_the_template_asked_for_least_recently_is_forgotten() {
        let learner = learner();
        let ask = |template: &str| learner.decide(template, &pipelines("t"));
        ask("kept");
        for number in 0..3 * TEMPLATES_MAX {
            ask(&format!("other {number}"));
            ask("kept");
        }
        for shape in 0..100 {
            learner.decide("kept", &pipelines(&format!("t{shape}")));
        }
        assert_eq!(learner.templates.lock().len(), TEMPLATES_MAX);
        assert!(learner.templates.lock()["kept"].histories.len() <= SHAPES_MAX);
        // A run that ends after its template was forgotten harms nothing.
        let late = ask("late");
        learner.templates.lock().clear();
        learner.ran("late", &late, Duration::from_millis(1), &[]);
    }

    #[test]
    fn plans_that_cannot_be_made_parallel_are_counted_by_operator() {
        let learner = learner();
        assert!(!learner.is_unknown("a"));
        learner.note_unknown("a", "UnionExec");
        assert!(learner.is_unknown("a") && learner.is_unknown("a"));
        assert_eq!(learner.figures().unknown, BTreeMap::from([("UnionExec".to_owned(), 3)]));
    }

    #[test]
    fn active_queries_are_those_that_have_begun_and_not_ended() {
        let learner = Learner::new(parallelism_policy("cost").unwrap(), 4, 4, LoadProbe::blind());
        let degree = || learner.decide("a", &pipelines("t")).assigned.degrees[0];
        let first = learner.begin();
        assert_eq!(degree(), 4);
        let second = learner.begin();
        assert_eq!(degree(), 2);
        drop((first, second));
        assert_eq!(learner.active.load(Ordering::Relaxed), 0);
    }
}
