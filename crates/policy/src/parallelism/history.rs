//! The history of one query template: a search for each level of load.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::search::DegreeSearch;
use super::{ParallelismFacts, QueryRun, uniform};

/// Where levels of load begin, in runnable threads per core: alone, and then each about twice the one before. Up to 1.5
/// threads per core count as alone, because the query's own threads and its client are among them.
const LOAD_EDGES: [f64; 4] = [1.5, 3.0, 6.0, 12.0];

/// The load must be beyond an edge by this share before the level changes, so that it does not change back and forth.
const LOAD_MARGIN: f64 = 0.2;

/// A level of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoadBucket(u8);

impl LoadBucket {
    /// The level of a load in runnable threads per core, where the level has been `before`.
    fn of(load: f64, before: Option<LoadBucket>) -> Self {
        let level = |load: f64| LoadBucket(LOAD_EDGES.iter().filter(|edge| load >= **edge).count() as u8);
        let Some(before) = before else { return level(load) };
        if level(load) > before {
            level(load / (1.0 + LOAD_MARGIN)).max(before)
        } else {
            level(load * (1.0 + LOAD_MARGIN)).min(before)
        }
    }
}

impl fmt::Display for LoadBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = usize::from(self.0);
        match (place.checked_sub(1).map(|below| LOAD_EDGES[below]), LOAD_EDGES.get(place)) {
            (None, Some(to)) => write!(f, "below {to} threads per core"),
            (Some(from), Some(to)) => write!(f, "{from} to {to} threads per core"),
            (from, None) => write!(f, "{} or more threads per core", from.unwrap_or_default()),
        }
    }
}

/// Degrees for one run, and the load at which they were chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assigned {
    /// One for each pipeline.
    pub degrees: Vec<u32>,
    /// `None` if the run is not used for learning.
    load: Option<LoadBucket>,
}

impl Assigned {
    /// Degrees of a run that is not used for learning.
    pub fn fixed(degrees: Vec<u32>) -> Self {
        Assigned { degrees, load: None }
    }
}

/// The progress of the search for a template's degrees at one level of load.
#[derive(Debug, Clone, PartialEq)]
pub struct Convergence {
    /// The level of load.
    pub load: LoadBucket,
    /// The best degrees so far, one for each pipeline.
    pub best: Vec<u32>,
    /// Whether the search has ended.
    pub is_settled: bool,
    /// Runs at this load.
    pub runs: u64,
    /// The number of the run in which the best was first tried, from 1 since the search began or began again; `None` before
    /// the first run.
    pub runs_to_best: Option<u64>,
    /// The typical time of the best: the geometric mean of its last runs.
    pub typical: Option<Duration>,
    /// The serial run's time over that of the best.
    pub speed_up: Option<f64>,
    /// The time that all runs took beyond the time that they would have taken with the best degrees.
    pub regret: Option<Duration>,
    /// How often the search began again because the times of the best degrees had changed.
    pub reopened: u32,
}

/// The history of one query template.
#[derive(Debug, Clone, Default)]
pub struct DegreeHistory {
    asked: u64,
    pipelines: usize,
    load: Option<LoadBucket>,
    searches: BTreeMap<LoadBucket, DegreeSearch>,
}

impl DegreeHistory {
    /// How often degrees were requested.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    /// Degrees for the next run. The first run gets the largest degree: a query that never repeats must not pay for a
    /// search.
    pub(super) fn next(&mut self, facts: &ParallelismFacts<'_>) -> Assigned {
        self.asked += 1;
        let widest = uniform(facts, facts.degree_max);
        if self.pipelines != facts.pipelines.len() {
            *self = DegreeHistory { asked: self.asked, pipelines: facts.pipelines.len(), ..DegreeHistory::default() };
        }
        let load = LoadBucket::of(facts.load, self.load);
        self.load = Some(load);
        if self.asked == 1 {
            return Assigned::fixed(widest);
        }
        if !self.searches.contains_key(&load) {
            let mut candidates = vec![widest.clone()];
            candidates.extend(self.nearest(load).map(|search| search.best().to_vec()));
            candidates.dedup();
            self.searches.insert(load, DegreeSearch::new(widest.clone(), candidates));
        }
        let search = self.searches.get_mut(&load).expect("it was just put there");
        Assigned { degrees: search.next(&widest), load: Some(load) }
    }

    fn nearest(&self, load: LoadBucket) -> Option<&DegreeSearch> {
        self.searches.iter().min_by_key(|(other, _)| other.0.abs_diff(load.0)).map(|(_, search)| search)
    }

    /// A run has ended with an answer. One that failed or was cancelled says nothing about its degrees and is not reported.
    pub fn ran(&mut self, run: &QueryRun<'_>) {
        let search = run.assigned.load.and_then(|load| self.searches.get_mut(&load));
        // The plan may have changed while the query ran.
        if let Some(search) = search.filter(|search| search.best().len() == run.assigned.degrees.len()) {
            search.ran(&run.assigned.degrees, run.time, run.pipelines);
        }
    }

    /// The progress of the search at each load that occurred.
    pub fn convergence(&self) -> Vec<Convergence> {
        self.searches.iter().map(|(load, search)| search.convergence(*load)).collect()
    }
}
