//! Predictions from what `plimsoll observe` saw on a live server: no experiment, no isolation.
//!
//! `document` reads the folder of an observation, [`plimsoll_model::seen`] learns from its windows, and `words` puts into sentences what a
//! reader must know. `advice` finds the load that keeps a promise.

mod advice;
mod document;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeMap;
use std::path::PathBuf;

use plimsoll_model::idd::Refused;
use plimsoll_model::mva::Method;
use plimsoll_model::seen::{Asked, Lessons, SeenMix, SeenPrediction, Unfit};
use plimsoll_model::statistics::Interval as ModelInterval;
use plimsoll_notation::{choices, did_you_mean};
use serde::Serialize;

pub use advice::advise;
pub use document::{Observation, is_observation};

use crate::predict::{
    MeasuredWorkload, Model, PredictedMix, PredictedWorkload, Predictions, Request, Vary, VaryError, percentiles,
};
use crate::results::Interval;

/// Why an observation gives no prediction.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SeenError {
    /// A file cannot be read.
    #[error("cannot read {}: {error}", place.display())]
    Io {
        /// The file.
        place: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// A file is not one of an observation.
    #[error("{}{}: not a file of an observation: {error}", place.display(), line.map_or(String::new(), |line| format!(", line {line}")))]
    Content {
        /// The file.
        place: PathBuf,
        /// The line, from 1.
        line: Option<usize>,
        /// What is wrong.
        error: String,
    },
    /// Another version wrote it.
    #[error("{}: an observation in format {format} by plimsoll {version}; this program reads format {}: observe again with this one", place.display(), document::FORMAT)]
    Version {
        /// The file.
        place: PathBuf,
        /// Its format.
        format: u64,
        /// The program's version.
        version: String,
    },
    /// It has no windows.
    #[error("{} has no windows.jsonl: an earlier plimsoll wrote it, or the file is lost; observe again", .0.display())]
    NoWindows(PathBuf),
    /// Something was not visible without which nothing can be predicted.
    #[error("{what} {verb} not visible to the observation{why}; {remedy}")]
    NotVisible {
        /// What.
        what: &'static str,
        /// `is` or `was`.
        verb: &'static str,
        /// Why, with a colon before it; or nothing.
        why: String,
        /// What to do.
        remedy: String,
    },
    /// No class did anything.
    #[error("no session was seen in a transaction: observe while the applications run")]
    NoClass,
    /// The windows do not teach anything.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// The key to vary is wrong.
    #[error(transparent)]
    Vary(#[from] VaryError),
    /// A class that was not seen.
    #[error("no class `{name}` was seen{hint}; these were: {known}")]
    NoClassOf {
        /// Its name.
        name: String,
        /// ` (did you mean …?)`, or nothing.
        hint: String,
        /// The classes that were seen.
        known: String,
    },
    /// An option that is for experiments.
    #[error("{0} is for runs of experiments; an observation has no other measurements")]
    Option(&'static str),
}

/// What an observation says beside the mixes.
#[derive(Debug, Clone, Serialize)]
pub struct SeenSummary {
    /// The predictions in a sentence for each class.
    pub sentences: Vec<String>,
    /// What a request of each class needs.
    pub demands: Vec<SeenDemand>,
    /// The mixes that taught the model.
    pub mixes: Vec<BTreeMap<String, u32>>,
}

/// What a request of a class needs, with 95 % intervals.
#[derive(Debug, Clone, Serialize)]
pub struct SeenDemand {
    /// The class.
    pub class: String,
    /// Sessions in the mean of the time when it had any.
    pub sessions: u32,
    /// Requests per second over the whole observation.
    pub requests_per_s: f64,
    /// Mean response, milliseconds.
    pub response_ms: f64,
    /// CPU time of its processes, milliseconds.
    pub cpu_ms: Interval,
    /// CPU time of clients and helpers, milliseconds.
    pub helpers_ms: Interval,
    /// Time of the disk, milliseconds; null if that was not visible.
    pub disk_ms: Option<Interval>,
    /// Time waiting for locks, milliseconds.
    pub lock_ms: f64,
    /// Time between a session's requests, milliseconds.
    pub think_ms: f64,
}

/// An observation that was learned from.
pub(crate) struct Taught<'a> {
    observation: &'a Observation,
    lessons: Lessons,
}

impl<'a> Taught<'a> {
    pub(crate) fn of(observation: &'a Observation) -> Result<Self, SeenError> {
        Ok(Taught { observation, lessons: observation.seen.learn()? })
    }

    fn names(&self) -> &[String] {
        &self.observation.seen.classes
    }

    /// The place of a class.
    fn class(&self, name: &str) -> Result<usize, SeenError> {
        self.names().iter().position(|known| known == name).ok_or_else(|| SeenError::NoClassOf {
            name: name.to_owned(),
            hint: did_you_mean(name, self.names().iter().map(String::as_str)),
            known: choices(self.names()),
        })
    }

    /// The mixes of a key's values, of the classes that are wanted; all if none is named.
    fn asked(&self, vary: &Vary, wanted: &[String]) -> Result<Vec<Asked>, SeenError> {
        for name in wanted {
            self.class(name)?;
        }
        let is_wanted = |name: &String| wanted.is_empty() || wanted.contains(name);
        let usual: Vec<Option<u32>> =
            self.names().iter().map(|name| if is_wanted(name) { None } else { Some(0) }).collect();
        if vary.key == "cores" {
            if vary.values.contains(&0) {
                return Err(
                    VaryError::Values { key: vary.key.clone(), why: "nothing runs on 0 cores".to_owned() }.into()
                );
            }
            return Ok(vary
                .values
                .iter()
                .map(|cores| Asked { sessions: usual.clone(), cores: Some(*cores) })
                .collect());
        }
        let varied = match vary.key.strip_suffix(".clients") {
            Some(name) => self.class(name)?,
            None => {
                let known: Vec<String> =
                    self.names().iter().map(|name| format!("{name}.clients")).chain(["cores".to_owned()]).collect();
                let hint = did_you_mean(&vary.key, known.iter().map(String::as_str));
                return Err(VaryError::Unknown { key: vary.key.clone(), hint, known: choices(known) }.into());
            }
        };
        let with = |value: &u32| {
            let mut sessions = usual.clone();
            sessions[varied] = Some(*value);
            Asked { sessions, cores: None }
        };
        Ok(vary.values.iter().map(with).collect())
    }

    /// One mix, predicted.
    fn mix(&self, asked: &Asked, model: Model) -> PredictedMix {
        let setting: BTreeMap<String, serde_json::Value> =
            asked.cores.map(|cores| ("cores".to_owned(), cores.into())).into_iter().collect();
        let predicted = match self.lessons.predict(asked) {
            Ok(predicted) => predicted,
            Err(refused) => return self.refusal(asked, setting, &refused),
        };
        let simulated = (model == Model::Des).then(|| percentiles(&predicted.whole)).flatten();
        let seen = self.seen_like(asked, &predicted);
        let workload = |at: usize| {
            let class = &predicted.classes[at];
            PredictedWorkload {
                name: self.names()[at].clone(),
                clients: class.sessions,
                rate: None,
                throughput_per_s: class.throughput.into(),
                response_ms: class.response_s.map(milliseconds),
                percentiles_ms: simulated.as_ref().map(|classes| classes[at].clone()),
                cpu_factor: class.cpu_factor,
                measured: seen.map(|seen| MeasuredWorkload {
                    throughput_per_s: bare(seen.throughputs[at]),
                    response_ms: seen.responses_s[at].map(|response_s| bare(response_s * 1e3)),
                }),
            }
        };
        let present = (0..self.names().len()).filter(|at| predicted.classes[*at].sessions > 0);
        PredictedMix {
            setting,
            workloads: present.map(workload).collect(),
            response_ms: predicted.whole.response_s.map(milliseconds),
            bottleneck: predicted.whole.bottleneck,
            is_extrapolated: predicted.doublings_beyond > 0.0,
            is_calibration: seen.is_some(),
            solution: match predicted.whole.method {
                Method::Exact => "exact",
                Method::Approximate => "approximate",
            },
            cautions: words::of_mix(&predicted.whole.cautions),
            refused: None,
        }
    }

    fn refusal(&self, asked: &Asked, setting: BTreeMap<String, serde_json::Value>, why: &Refused) -> PredictedMix {
        let sessions = |at: usize| asked.sessions[at].unwrap_or_else(|| self.lessons.sessions(at));
        let parts: Vec<String> = (0..self.names().len())
            .filter(|at| sessions(*at) > 0)
            .map(|at| format!("{} x {}", sessions(at), self.names()[at]))
            .collect();
        PredictedMix::refused(setting, format!("{}: {why}", parts.join(" + ")))
    }

    /// The mix as it was seen, if it was.
    fn seen_like(&self, asked: &Asked, predicted: &SeenPrediction) -> Option<&SeenMix> {
        let sessions: Vec<u32> = predicted.classes.iter().map(|class| class.sessions).collect();
        self.lessons.mixes().iter().find(|mix| asked.cores.is_none() && mix.sessions == sessions)
    }
}

/// Predicts mixes of the classes of an observation: those of a key's values, or those that were seen.
pub fn predict(observation: &Observation, request: &Request) -> Result<Predictions, SeenError> {
    if matches!(request.model, Model::Mva | Model::Isolated) {
        return Err(SeenError::Option("--model mva or isolation-only"));
    }
    let taught = Taught::of(observation)?;
    let asked = match &request.vary {
        Some(vary) => taught.asked(vary, &request.workloads)?,
        None => {
            let seen = |mix: &SeenMix| Asked {
                sessions: mix.sessions.iter().map(|count| Some(*count)).collect(),
                cores: None,
            };
            taught.lessons.mixes().iter().map(seen).collect()
        }
    };
    let mut mixes: Vec<PredictedMix> = asked.iter().map(|asked| taught.mix(asked, request.model)).collect();
    let cautions = words::of_all(observation, taught.lessons.cautions());
    if let Some(first) = mixes.first_mut() {
        first.cautions.splice(0..0, cautions);
    }
    let sentences = request.vary.as_ref().map_or_else(Vec::new, |vary| words::sentences(observation, vary, &mixes));
    let seen = Some(SeenSummary {
        sentences,
        demands: taught.demands(),
        mixes: taught
            .lessons
            .mixes()
            .iter()
            .map(|mix| taught.names().iter().cloned().zip(mix.sessions.iter().copied()).collect())
            .collect(),
    });
    Ok(Predictions {
        model: request.model,
        mixes,
        models: Vec::new(),
        accuracy: Vec::new(),
        cache: Vec::new(),
        failed: Vec::new(),
        seen,
    })
}

impl Taught<'_> {
    fn demands(&self) -> Vec<SeenDemand> {
        let seconds: f64 = self.observation.seen.windows.iter().map(|window| window.seconds).sum();
        let demand = |(at, class): (usize, &String)| {
            let sum = |of: fn(&plimsoll_model::seen::Activity) -> f64| {
                self.observation.seen.windows.iter().map(|window| of(&window.classes[at])).sum::<f64>()
            };
            let (requests, found) = (sum(|one| one.requests), &self.lessons.demands()[at]);
            SeenDemand {
                class: class.clone(),
                sessions: self.lessons.sessions(at),
                requests_per_s: requests / seconds,
                response_ms: sum(|one| one.active_s) / requests * 1e3,
                cpu_ms: milliseconds(found.cpu_s),
                helpers_ms: milliseconds(found.helpers_s),
                disk_ms: found.disk_s.map(milliseconds),
                lock_ms: sum(|one| one.lock_s) / requests * 1e3,
                think_ms: found.think_s * 1e3,
            }
        };
        self.names().iter().enumerate().map(demand).collect()
    }
}

fn milliseconds(seconds: ModelInterval) -> Interval {
    Interval::from(seconds).times(1e3)
}

fn bare(value: f64) -> Interval {
    Interval { value, low: None, high: None }
}
