//! What a target that chooses degrees of parallelism itself has learned, in the form for results.

use std::collections::BTreeMap;

use plimsoll_policy::{Convergence, ParallelismFigures, TemplateFigures};
use serde::{Deserialize, Serialize};

/// What the target has learned since the database was opened, or since its policy was changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parallelism {
    /// How degrees are chosen, as in the option `parallelism`.
    pub policy: String,
    /// Query templates (queries without their literals) that have run more than once.
    pub templates: Vec<TemplateParallelism>,
    /// How many templates have run only once. They had the largest degree.
    pub templates_once: usize,
    /// Runs with one degree because their plan could not be cut into pipelines, by the operator that prevented it.
    pub unknown_plans: BTreeMap<String, u64>,
}

/// The result of learning, in a few figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Learning {
    /// The part of all searches that has ended, 0 to 1.
    pub settled: f64,
    /// Of those, the mean number of the run in which the best was first tried, since the search began or began again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_to_best: Option<f64>,
    /// Of those, the geometric mean of the time of serial runs over that of the best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_up: Option<f64>,
    /// The part of the time of all searches' runs that was lost compared with always running the best, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regret: Option<f64>,
    /// How often a search began again because the times of its best had changed, mean over all searches.
    #[serde(default)]
    pub reopened: f64,
}

impl Parallelism {
    /// The figures; `None` if there was no search, because no query repeated or the policy does not learn.
    pub fn learning(&self) -> Option<Learning> {
        let searches = || self.templates.iter().flat_map(|template| &template.searches);
        let count = searches().count();
        let settled: Vec<&DegreeSearch> = searches().filter(|search| search.is_settled).collect();
        let runs_to_best = mean(settled.iter().filter_map(|search| search.runs_to_best).map(|runs| runs as f64));
        let speed_up = mean(settled.iter().filter_map(|search| search.speed_up).map(f64::ln)).map(f64::exp);
        let lost: f64 = searches().filter_map(|search| search.regret_s).sum();
        let best: f64 = searches().filter_map(|search| Some(search.best_s? * search.runs as f64)).sum();
        let regret = (lost + best > 0.0).then(|| lost / (lost + best));
        let reopened = mean(searches().map(|search| f64::from(search.reopened)))?;
        let settled = settled.len() as f64 / count as f64;
        Some(Learning { settled, runs_to_best, speed_up, regret, reopened })
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// What was learned about one template.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TemplateParallelism {
    /// Its text.
    pub template: String,
    /// Where its pipelines begin: tables, aggregations, sorts.
    pub pipelines: Vec<String>,
    /// One search for each level of load.
    pub searches: Vec<DegreeSearch>,
}

/// A search for the best degrees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DegreeSearch {
    /// The level of load, in words.
    pub load: String,
    /// The best degrees so far, one for each pipeline.
    pub best: Vec<u32>,
    /// Whether the search has ended.
    pub is_settled: bool,
    /// Runs at this load.
    pub runs: u64,
    /// The number of the run in which the best was first tried, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_to_best: Option<u64>,
    /// The typical time of the best, seconds: the geometric mean of its last runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_s: Option<f64>,
    /// The time of serial runs over that of the best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_up: Option<f64>,
    /// The total time of all runs beyond that of as many runs with the best degrees, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regret_s: Option<f64>,
    /// How often the search began again because the times of the best had changed.
    pub reopened: u32,
}

impl From<ParallelismFigures> for Parallelism {
    fn from(figures: ParallelismFigures) -> Self {
        Parallelism {
            policy: figures.policy,
            templates: figures.templates.into_iter().map(TemplateParallelism::from).collect(),
            templates_once: figures.once,
            unknown_plans: figures.unknown,
        }
    }
}

impl From<TemplateFigures> for TemplateParallelism {
    fn from(figures: TemplateFigures) -> Self {
        TemplateParallelism {
            template: figures.template,
            pipelines: figures.pipelines.split(", ").map(str::to_owned).collect(),
            searches: figures.searches.into_iter().map(DegreeSearch::from).collect(),
        }
    }
}

impl From<Convergence> for DegreeSearch {
    fn from(found: Convergence) -> Self {
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
}

/// A warning about templates from which nothing could be learned; `None` if there are none.
pub fn untaught(figures: &ParallelismFigures) -> Option<String> {
    let once = figures.once;
    (figures.policy == "adaptive" && once > 0).then(|| {
        format!(
            "{once} query templates have run only once, with the largest degree: `parallelism=adaptive` learns from templates that repeat"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(
        is_settled: bool,
        runs: u64,
        runs_to_best: u64,
        best_s: f64,
        speed_up: f64,
        regret_s: f64,
    ) -> DegreeSearch {
        DegreeSearch {
            load: "below 1.5 threads per core".to_owned(),
            best: vec![2],
            is_settled,
            runs,
            runs_to_best: Some(runs_to_best),
            best_s: Some(best_s),
            speed_up: Some(speed_up),
            regret_s: Some(regret_s),
            reopened: u32::from(!is_settled) * 3,
        }
    }

    #[test]
    fn figures_are_of_searches_that_have_ended_and_regret_of_all() {
        let searches = vec![
            search(true, 10, 3, 1.0, 1.0, 2.0),
            search(true, 20, 7, 0.5, 4.0, 0.0),
            search(false, 5, 5, 2.0, 9.0, 8.0),
        ];
        let template =
            TemplateParallelism { template: "select ?".to_owned(), pipelines: vec!["t".to_owned()], searches };
        let mut known = Parallelism {
            policy: "adaptive".to_owned(),
            templates: vec![template],
            templates_once: 0,
            unknown_plans: BTreeMap::new(),
        };
        let learning = known.learning().unwrap();
        assert_eq!((learning.runs_to_best, learning.regret, learning.reopened), (Some(5.0), Some(0.25), 1.0));
        assert!((learning.settled - 2.0 / 3.0).abs() < 1e-12 && (learning.speed_up.unwrap() - 2.0).abs() < 1e-12);
        known.templates.clear();
        assert_eq!(known.learning(), None);
    }
}
