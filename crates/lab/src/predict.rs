//! How the workloads of a run will perform together, from their measurements alone: `plimsoll predict`.
//!
//! `inputs` reads the demands of each workload from its `alone:` arms, `loads` their loads, `points` lists the requested mixes, and
//! [`plimsoll_model::idd`] predicts them. Where a mix was measured too, the prediction is put beside it, and `accuracy`
//! says how far off this model and simpler ones are.

mod accuracy;
pub(crate) mod alone;
pub(crate) mod cache;
mod cautions;
mod inputs;
mod loads;
mod points;
#[cfg(test)]
pub(crate) mod tests;
mod window;

use std::collections::BTreeMap;
use std::str::FromStr;

use plimsoll_model::des;
use plimsoll_model::idd::{self, Lesson, Mix, Prediction, Refused, Turns};
use plimsoll_model::mva::Method;
use plimsoll_model::statistics::Interval as ModelInterval;
use plimsoll_notation::{choices, did_you_mean};
use serde::Serialize;
use serde_json::Value;

pub(crate) use accuracy::{ALL, MIX};
pub use accuracy::{Accuracy, ModelAccuracy};
pub use cache::{CachePair, CacheShared};
use inputs::{Inputs, Setting};
use points::RequestedMix;
pub(crate) use points::without;
pub use points::{MeasuredWorkload, Vary, VaryError, hold_out};
pub(crate) use window::own_cpu_s;

use crate::results::{Interval, Results};
use crate::seen::SeenSummary;
use crate::{failed, others};
use plimsoll_display::distinct;

/// How mixes are predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Model {
    /// Demands as in the mix, from the measurements of arms with several workloads, and a queueing network (MW 4.6).
    Idd,
    /// From each workload alone: demands as alone, or by counters, and waits for cores by the kernel's slice. That is also
    /// what [`Model::Idd`] is where no mix has taught it.
    #[serde(rename = "isolation-only")]
    Isolated,
    /// The queueing network with demands as alone.
    Mva,
    /// As [`Model::Idd`], with the network simulated for percentiles.
    Des,
}

impl Model {
    const ALL: [Model; 4] = [Model::Idd, Model::Isolated, Model::Mva, Model::Des];

    /// Its name.
    fn name(self) -> &'static str {
        match self {
            Model::Idd => "idd",
            Model::Isolated => accuracy::ISOLATED,
            Model::Mva => accuracy::MVA,
            Model::Des => "des",
        }
    }
}

impl FromStr for Model {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Model::ALL.into_iter().find(|model| model.name() == text);
        found.ok_or_else(|| format!("`{text}` is not a model; say idd, isolation-only, mva or des"))
    }
}

/// The percentiles that the simulation reports, in the order of [`des::PERCENTILES`].
pub(crate) const PERCENTILES: [&str; des::PERCENTILES.len()] = ["p50", "p95", "p99"];

/// A request for predictions.
#[derive(Debug, Clone)]
pub struct Request {
    /// The key to vary and its values; without it, the measured mixes are predicted.
    pub vary: Option<Vary>,
    /// The workloads in the mixes of `vary`; all if empty.
    pub workloads: Vec<String>,
    /// The model.
    pub model: Model,
}

/// The output of `plimsoll predict`.
#[derive(Debug, Clone, Serialize)]
pub struct Predictions {
    /// The requested model.
    pub model: Model,
    /// Every mix, in the order in which they were asked for.
    pub mixes: Vec<PredictedMix>,
    /// Each model, by what it rests on, with its error and the coverage of its intervals over all workloads.
    pub models: Vec<ModelAccuracy>,
    /// How far predictions are from measurements, by subject and model; empty if there were no measurements.
    pub accuracy: Vec<Accuracy>,
    /// The cost of sharing the cache for every pair of workloads; empty unless each was measured alone with shrinking
    /// shares of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cache: Vec<CachePair>,
    /// What failed in the runs on which this rests, in sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
    /// What an observation of a live server says beside its mixes; `None` of a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<SeenSummary>,
}

impl Predictions {
    /// The cautions about all mixes together, each sentence once.
    pub(crate) fn cautions(&self) -> Vec<&String> {
        distinct(self.mixes.iter().flat_map(|mix| &mix.cautions))
    }
}

/// One mix.
#[derive(Debug, Clone, Serialize)]
pub struct PredictedMix {
    /// Swept settings that are not loads.
    pub setting: BTreeMap<String, Value>,
    /// The workloads.
    pub workloads: Vec<PredictedWorkload>,
    /// Mean response of any request, milliseconds; `None` without clients.
    pub response_ms: Option<Interval>,
    /// `cpu`, `disk` or `log`; `None` without load.
    pub bottleneck: Option<&'static str>,
    /// Whether some figure lies outside the measured range: a number of clients or a rate, or a load beside others.
    pub is_extrapolated: bool,
    /// Whether this mix was measured and used to adjust demands: its errors are then not a test of the model.
    pub is_calibration: bool,
    /// `exact`, or `approximate` if populations are too large for exact mean value analysis.
    pub solution: &'static str,
    /// Cautions about the mix, in sentences.
    pub cautions: Vec<String>,
    /// Why it is not predicted; the other fields are then empty.
    pub refused: Option<String>,
}

/// One workload in a mix.
#[derive(Debug, Clone, Serialize)]
pub struct PredictedWorkload {
    /// Its name.
    pub name: String,
    /// Its clients.
    pub clients: u32,
    /// Requests that arrive per second, whatever the clients; absent if these wait for answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Requests per second, with a 95 % interval from the blocks of the measurements alone; the rate itself, if there is one.
    pub throughput_per_s: Interval,
    /// Mean response, milliseconds; `None` without clients.
    pub response_ms: Option<Interval>,
    /// Median and 95th and 99th percentiles of response times, milliseconds, with exponentially distributed demands;
    /// only by `des`, and if the simulation had enough requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentiles_ms: Option<BTreeMap<&'static str, Option<Interval>>>,
    /// CPU seconds of a request, relative to alone.
    pub cpu_factor: f64,
    /// The measurement; `None` if this mix was not measured.
    pub measured: Option<MeasuredWorkload>,
}

impl PredictedWorkload {
    /// Its load in words: `40 x shop`, `shop at 100 /s`.
    pub(crate) fn load(&self) -> String {
        match self.rate {
            Some(rate) => format!("{} at {}", self.name, plimsoll_display::rate(rate)),
            None => format!("{} x {}", self.clients, self.name),
        }
    }
}

/// Why nothing is predicted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PredictError {
    /// The key to vary is wrong.
    #[error(transparent)]
    Vary(#[from] VaryError),
    /// A workload did not run alone.
    #[error(
        "`{workload}` was not measured alone{at}: add \"alone:{workload}\" to the experiment's arms and run it again"
    )]
    NotAlone {
        /// The workload.
        workload: String,
        /// The settings, as text after the name; empty if no other key is swept.
        at: String,
    },
    /// A workload ran alone, but none of these runs is valid.
    #[error("every run of `{workload}` alone{at} is invalid: {why}. Run it again without that")]
    Invalid {
        /// The workload.
        workload: String,
        /// As above.
        at: String,
        /// The most frequent reason.
        why: String,
    },
    /// A workload that the run does not have.
    #[error("the run has no workload `{name}`{hint}; it has {known}")]
    NoWorkload {
        /// Its name.
        name: String,
        /// ` (did you mean …?)`, or nothing.
        hint: String,
        /// The known workloads.
        known: String,
    },
    /// The run has no mix to predict.
    #[error("no arm has several workloads; say which mix you mean, as in --vary {0}.clients=1..10")]
    NoMix(String),
    /// The run has mixes, but none of their runs is valid.
    #[error("every run of several workloads together is invalid: {0}. Run it again without that")]
    InvalidMixes(String),
    /// The other run has no mix of these workloads.
    #[error("no arm of the run given by --against has several of these workloads: {0}")]
    NothingAgainst(String),
}

/// Refuses the name of a workload that a run does not have.
pub(crate) fn check_workload(results: &Results, name: &str) -> Result<(), PredictError> {
    let names = &results.experiment.workloads;
    if names.iter().any(|known| known == name) {
        return Ok(());
    }
    let hint = did_you_mean(name, names.iter().map(String::as_str));
    Err(PredictError::NoWorkload { name: name.to_owned(), hint, known: choices(names) })
}

/// The requests of a workload that arrive per second in a run; `None` if its clients wait for answers.
pub(crate) fn usual_rate(results: &Results, workload: &str) -> Option<f64> {
    Inputs::of(results).usual(workload).rate
}

/// Predicts mixes of the workloads of a run, and compares them with those that it, or `against`, has measured.
pub fn predict(results: &Results, against: Option<&Results>, request: &Request) -> Result<Predictions, PredictError> {
    let inputs = Inputs::of(results);
    let cache = cache::pairs(results, &inputs.cells, against);
    let asked = match points::asked(&inputs, against, request) {
        // Predictions for the cache alone are an answer, unless `vary` asks for mixes.
        Err(PredictError::NoMix(_) | PredictError::InvalidMixes(_) | PredictError::NothingAgainst(_))
            if !cache.is_empty() && request.vary.is_none() =>
        {
            Vec::new()
        }
        asked => asked?,
    };
    let mut mixes = Vec::new();
    let mut judged = Vec::new();
    let mut taught: Vec<Lessons> = Vec::new();
    let others = others::of_runs(&results.points, results.machine.cores_usable);
    for asked in &asked {
        let taught = Lessons::at(&mut taught, &inputs, &asked.base);
        let mixes_of = match Mixes::of(&inputs, asked, taught) {
            Err(error) if !cache.is_empty() => {
                mixes.push(PredictedMix::refused(asked.base.clone(), error.to_string()));
                continue;
            }
            mixes_of => mixes_of?,
        };
        let mix = mixes_of.of_model(request.model);
        let machine = inputs.machine(asked);
        judged.extend(accuracy::judged(&inputs, asked, &mixes_of, &taught.lessons, &machine));
        mixes.push(match idd::predict(mix, &machine) {
            Ok(prediction) => shown(asked, &inputs, (mix, &prediction), request.model),
            Err(refused) => PredictedMix::refused(asked.base.clone(), why_refused(refused, others.as_deref())),
        });
    }
    let others = others.map(|others| format!("{others}; the model does not know how long requests waited for them"));
    mixes.iter_mut().for_each(|mix| mix.cautions.extend(others.clone()));
    let failed = failed::cautions(&results.points);
    let accuracy = accuracy::summed(&judged);
    let models = accuracy::of_models(&accuracy, &judged);
    Ok(Predictions { model: request.model, mixes, models, accuracy, cache, failed, seen: None })
}

/// A mix by what is known about it.
struct Mixes {
    /// With demands as alone.
    plain: Mix,
    /// As far as each workload alone shows it.
    isolated: Mix,
    /// As far as measured mixes have shown; `None` if none was measured that shows anything.
    taught: Option<Mix>,
}

impl Mixes {
    fn of(inputs: &Inputs<'_>, asked: &RequestedMix, taught: &Lessons) -> Result<Self, PredictError> {
        let adjusted = inputs.mix(asked, Some(&taught.turns))?;
        Ok(Mixes {
            plain: inputs.mix(asked, None)?,
            isolated: inputs.isolated_mix(asked)?,
            taught: Some(adjusted).filter(Mix::is_adjusted),
        })
    }

    fn of_model(&self, model: Model) -> &Mix {
        match model {
            Model::Idd | Model::Des => self.taught.as_ref().unwrap_or(&self.isolated),
            Model::Isolated => &self.isolated,
            Model::Mva => &self.plain,
        }
    }
}

/// The lessons from arms with several workloads at some settings.
struct Lessons {
    base: Setting,
    lessons: Vec<Lesson>,
    turns: Turns,
}

impl Lessons {
    /// Learns once at each setting.
    fn at<'a>(all: &'a mut Vec<Self>, inputs: &Inputs<'_>, base: &Setting) -> &'a Self {
        let known = all.iter().position(|taught| taught.base == *base);
        let at = known.unwrap_or_else(|| {
            let lessons = inputs.lessons(base);
            let noise = inputs.noise.map(|noise| noise.within_block);
            let turns = Turns::learn(&lessons, &inputs.machine_of(base), noise);
            all.push(Lessons { base: base.clone(), lessons, turns });
            all.len() - 1
        });
        &all[at]
    }
}

/// Why a mix is not predicted. Others who kept cores busy explain what is otherwise unexplained: more measurements beside them
/// would not help.
fn why_refused(refused: Refused, others: Option<&str>) -> String {
    match (refused, others) {
        (Refused::Unknown { class, factor, .. }, Some(others)) => {
            let why = format!("{others}; stop them, and run it again");
            Refused::Unknown { class, factor, why }.to_string()
        }
        (refused, _) => refused.to_string(),
    }
}

impl PredictedMix {
    /// A mix at a setting that is not predicted, for this reason.
    pub(crate) fn refused(setting: BTreeMap<String, Value>, why: String) -> Self {
        PredictedMix {
            setting,
            workloads: Vec::new(),
            response_ms: None,
            bottleneck: None,
            is_extrapolated: false,
            is_calibration: false,
            solution: "none",
            cautions: Vec::new(),
            refused: Some(why),
        }
    }
}

fn shown(
    asked: &RequestedMix,
    inputs: &Inputs<'_>,
    (mix, prediction): (&Mix, &Prediction),
    model: Model,
) -> PredictedMix {
    let ranks = inputs.ranks(asked);
    let known = ranks.as_ref().and_then(|ranks| ranks.as_ref().ok());
    let simulated = (model == Model::Des).then(|| simulate(prediction, known)).flatten();
    let is_ranked = simulated.is_some() && known.is_some();
    let workload = |at: usize| {
        let (member, class) = (&asked.members[at], &prediction.classes[at]);
        let simulated = simulated.as_ref().map(|classes| &classes[at]);
        let percentiles = simulated.map(by_percentile);
        let response_s = match simulated.filter(|_| is_ranked) {
            Some(ranked) => class.response_s.zip(ranked.response_s).map(|(mean, ranked)| moved(mean, ranked.value)),
            None => class.response_s,
        };
        let throughput = match simulated.filter(|_| is_ranked && member.rate.is_none()) {
            Some(ranked) => moved(class.throughput, ranked.throughput.value),
            None => class.throughput,
        };
        PredictedWorkload {
            name: member.name.clone(),
            clients: member.clients,
            rate: member.rate,
            throughput_per_s: throughput.into(),
            response_ms: response_s.map(milliseconds),
            percentiles_ms: percentiles,
            cpu_factor: class.cpu_factor,
            measured: member.measured,
        }
    };
    let is_measured = inputs.has_measured(asked);
    PredictedMix {
        setting: asked.base.clone(),
        workloads: (0..asked.members.len()).map(workload).collect(),
        response_ms: prediction.response_s.map(milliseconds),
        bottleneck: prediction.bottleneck,
        is_extrapolated: !is_measured
            && (mix.doublings_beyond > 0.0 || prediction.cautions.iter().any(cautions::is_beyond_calibration)),
        is_calibration: asked.is_calibration && mix.is_adjusted(),
        solution: match prediction.method {
            Method::Exact => "exact",
            _ => "approximate",
        },
        cautions: cautions::of(mix, prediction, ranks.as_ref(), (model, is_measured)),
        refused: None,
    }
}

/// The percentiles of a simulated class, in milliseconds.
fn by_percentile(class: &des::ClassFigures) -> BTreeMap<&'static str, Option<Interval>> {
    PERCENTILES.into_iter().zip(class.percentiles_s.iter().map(|one| one.map(milliseconds))).collect()
}

/// The percentiles of the classes of a predicted network by simulation, in milliseconds; `None` if it cannot be simulated.
pub(crate) fn percentiles(prediction: &Prediction) -> Option<Vec<BTreeMap<&'static str, Option<Interval>>>> {
    simulate(prediction, None).map(|classes| classes.iter().map(by_percentile).collect())
}

/// Simulates a predicted network, with classes that go first at the cores if ranks are given.
fn simulate(prediction: &Prediction, ranks: Option<&Vec<u8>>) -> Option<Vec<des::ClassFigures>> {
    let mut settings = prediction.simulation(SEED);
    if let Some(ranks) = ranks {
        settings.by_priority[0] = true;
        settings.behaviours.iter_mut().zip(ranks).for_each(|(behaviour, rank)| behaviour.priority = *rank);
    }
    des::simulate(&prediction.network, &settings).ok()
}

/// An interval around another figure, as wide in proportion.
fn moved(interval: ModelInterval, to: f64) -> ModelInterval {
    let end = |end: f64| end * to / interval.value;
    ModelInterval { value: to, low: interval.low.map(end), high: interval.high.map(end) }
}

/// The simulation's seed: equal runs give equal predictions.
const SEED: u64 = 7;

fn milliseconds(seconds: ModelInterval) -> Interval {
    Interval::from(seconds).times(1e3)
}
