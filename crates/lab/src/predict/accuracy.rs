//! How far predictions are from measurements, by what they rest on.
//!
//! Errors are summed for each workload, for the mean response of any request of a mix ([`MIX`], the thesis' `T_mix`), and for all
//! workloads together. The models are [`MODELS`]. Simpler ways to predict are beside them:
//! - `idd-thesis uncounted`: the thesis' network and its bound, where instructions were not counted;
//! - `asymptotic bounds`: the least response that any schedule can give (its bounds are its interval);
//! - `linear interference`: the response alone, and a fixed time for each client of others, as pairs have shown;
//! - `no change`: the response alone.

use plimsoll_model::bounds;
use plimsoll_model::idd::{self, Lesson, Machine, Mix, Prediction, thesis};
use serde::Serialize;

use super::Mixes;
use super::inputs::Inputs;
use super::points::RequestedMix;
use plimsoll_display::distinct;

/// The thesis' procedure, with instructions counted.
const THESIS: &str = "idd-thesis";
/// The queueing network with demands as alone.
pub(super) const MVA: &str = "mva";
/// The same with waits for cores that follow from the kernel's slice.
pub(super) const ISOLATED: &str = "isolation-only";
/// Taught by mixes of the same workloads.
const TAUGHT: &str = "taught";

/// The models, each with what it rests on.
pub(crate) const MODELS: [(&str, &str); 4] = [
    (THESIS, "each workload alone, with counters of instructions: the thesis' procedure, step by step"),
    (MVA, "each workload alone: a queueing network with demands as alone"),
    (ISOLATED, "each workload alone, and the kernel's slice: the network, and waits for turns at the cores"),
    (TAUGHT, "each workload alone, and mixes of the same workloads with other loads"),
];

/// Why waits for turns are not predicted.
pub(super) const NO_SLICE: &str = "waits for turns at the cores are left out, because the run does not say how long the \
                                   kernel's slices are (Linux 6.12 and later do)";

/// The error of a model over all workloads, and how often its 95 % intervals were right.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelAccuracy {
    /// `idd-thesis`, `mva`, `isolation-only` or `taught`.
    pub model: &'static str,
    /// What it rests on.
    pub rests_on: &'static str,
    /// Mean responses compared. A count.
    pub count: usize,
    /// Mean of absolute errors, 0.1 for 10 %; `None` if none was compared.
    pub mean_error: Option<f64>,
    /// Share of measured means within the 95 % interval, 0 to 1; `None` if predictions have none.
    pub coverage: Option<f64>,
    /// Why a figure is `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

/// Errors of one way to predict mean responses, over measured mixes that were not used to adjust the model. All are
/// relative: 0.1 is 10 %.
#[derive(Debug, Clone, Serialize)]
pub struct Accuracy {
    /// One of [`ModelAccuracy::model`], or the name of a baseline.
    pub model: &'static str,
    /// Whether measured mixes adjusted the model, so that it does not follow from workloads alone.
    pub is_calibrated: bool,
    /// The subject of the responses: a workload, `any request` of each mix, or `all` workloads.
    pub of: String,
    /// Figures compared. A count.
    pub count: usize,
    /// Mean of absolute errors (MAPE).
    pub mean_absolute: f64,
    /// The largest absolute error.
    pub largest: f64,
    /// Mean error: above 0 if predictions are too long.
    pub bias: f64,
    /// Share of measured means within the predicted 95 % interval; `None` if predictions have none.
    pub covered: Option<f64>,
}

/// The thesis' procedure where instructions were not counted, so that demands are as alone: its network and its bound.
const UNCOUNTED: &str = "idd-thesis uncounted";

/// All workloads, as [`Accuracy::of`].
pub(crate) const ALL: &str = "all";
/// The mean response of any request of a mix, as [`Accuracy::of`].
pub(crate) const MIX: &str = "any request";

/// A mix with several ways to predict it.
pub(super) struct MixComparison {
    /// The measured means, seconds, by workload; then of any request.
    measured: Vec<(String, Option<f64>)>,
    ways: Vec<Predictor>,
    /// Models that did not predict it, and why.
    missing: Vec<(&'static str, String)>,
}

/// A predicted mean in seconds, and the ends of its interval.
type PredictedMean = (f64, Option<(f64, f64)>);

/// One way to predict a mix.
struct Predictor {
    name: &'static str,
    is_calibrated: bool,
    /// In the order of the measured means.
    predicted: Vec<Option<PredictedMean>>,
}

/// The known figures of a mix, for the ways that need no model.
struct KnownFigures<'a> {
    asked: &'a RequestedMix,
    mix: &'a Mix,
}

impl KnownFigures<'_> {
    /// The mean response of any request, given those of the workloads: each client sends requests as fast as it gets
    /// answers, unless they arrive at a rate.
    fn of_any(&self, responses_s: &[Option<f64>]) -> Option<f64> {
        let (mut seconds, mut requests) = (0.0, 0.0);
        for (member, response_s) in self.mix.members.iter().zip(responses_s).filter(|(member, _)| member.has_requests())
        {
            let response_s = (*response_s)?;
            let per_s = member.per_s(response_s);
            seconds += per_s * response_s;
            requests += per_s;
        }
        (requests > 0.0).then(|| seconds / requests)
    }

    /// The measured means. The mean of any request needs all of them.
    fn measured(&self) -> Vec<(String, Option<f64>)> {
        let of = |member: &super::points::RequestedWorkload| Some(member.measured?.response_ms?.value * 1e-3);
        let members = &self.asked.members;
        let mut measured: Vec<_> = members.iter().map(|member| (member.name.clone(), of(member))).collect();
        let (mut seconds, mut requests) = (0.0, Some(0.0));
        for (member, (_, response_s)) in members.iter().zip(&measured) {
            let per_s = member.measured.map(|measured| measured.throughput_per_s.value);
            let both = per_s.zip(*response_s);
            seconds += both.map_or(0.0, |(per_s, response_s)| per_s * response_s);
            requests = requests.zip(both).map(|(sum, (per_s, _))| sum + per_s);
        }
        measured.push((MIX.to_owned(), requests.filter(|sum| *sum > 0.0).map(|sum| seconds / sum)));
        measured
    }

    fn plain_way(&self, name: &'static str, responses_s: Vec<Option<f64>>) -> Predictor {
        let of_any = self.of_any(&responses_s);
        let predicted = responses_s.into_iter().chain([of_any]).map(|seconds| Some((seconds?, None))).collect();
        Predictor { name, is_calibrated: false, predicted }
    }

    fn of_prediction(&self, name: &'static str, is_calibrated: bool, prediction: &Prediction) -> Predictor {
        let all = prediction.classes.iter().map(|class| class.response_s).chain([prediction.response_s]);
        let predicted = all.map(|response| response.map(|one| (one.value, one.low.zip(one.high)))).collect();
        Predictor { name, is_calibrated, predicted }
    }

    /// By the network, for a mix by what is known about it.
    fn predicted(&self, name: &'static str, mix: &Mix, machine: &Machine) -> Result<Predictor, String> {
        let prediction = idd::predict(mix, machine).map_err(|refused| refused.to_string())?;
        Ok(self.of_prediction(name, mix.is_adjusted(), &prediction))
    }

    fn alone_s(&self) -> Vec<Option<f64>> {
        self.mix.members.iter().map(|member| member.alone.demand(None).ok().map(|demand| demand.response_s)).collect()
    }

    fn bounds(&self, plain: &Prediction) -> Predictor {
        let mut bounds = bounds::asymptotic(&plain.network);
        // After its classes the network has upkeep.
        bounds.truncate(self.mix.members.len());
        let mut way =
            self.plain_way("asymptotic bounds", bounds.iter().map(|one| Some(one.as_ref()?.response_s_min)).collect());
        for (predicted, bounds) in way.predicted.iter_mut().zip(bounds) {
            *predicted =
                predicted.zip(bounds).map(|((least_s, _), one)| (least_s, Some((least_s, one.response_s_max))));
        }
        way
    }

    /// An error unless the mix is of two workloads of clients.
    fn thesis(&self, machine: &Machine) -> Result<Predictor, String> {
        let found = thesis::predict(self.mix, machine.cores).map_err(|refused| refused.to_string())?;
        let found = found.ok_or_else(|| "it is for two workloads of clients".to_owned())?;
        let predicted = found.responses_s.into_iter().chain([found.response_s]);
        let name = if found.is_counted { THESIS } else { UNCOUNTED };
        Ok(Predictor {
            name,
            is_calibrated: false,
            predicted: predicted.map(|seconds| Some((seconds, None))).collect(),
        })
    }

    /// `None` if a workload was never paired with one of the others.
    fn linear(&self, lessons: &[Lesson]) -> Option<Predictor> {
        let alone_s = self.alone_s();
        let of = |at: usize| {
            let others = self.mix.members.iter().enumerate().filter(|(other, _)| *other != at);
            let own = &self.mix.members[at].alone.name;
            let added = others.map(|(_, other)| {
                Some(f64::from(other.population) * per_client_s(lessons, own, &other.alone.name, alone_s[at]?)?)
            });
            Some(alone_s[at]? + added.sum::<Option<f64>>()?)
        };
        let responses_s: Vec<Option<f64>> = (0..self.mix.members.len()).map(of).collect();
        let is_known = responses_s.iter().any(Option::is_some);
        is_known.then(|| Predictor { is_calibrated: true, ..self.plain_way("linear interference", responses_s) })
    }
}

/// Seconds that a client of `other` adds to a response of `own`, by least squares of relative errors over pairs.
fn per_client_s(lessons: &[Lesson], own: &str, other: &str, alone_s: f64) -> Option<f64> {
    let (mut product, mut square) = (0.0, 0.0);
    for lesson in lessons.iter().filter(|lesson| lesson.members.len() == 2) {
        let at = |name: &str| lesson.members.iter().position(|member| member.alone.name == name);
        let Some((at, beside)) = at(own).zip(at(other)) else { continue };
        let Some(response_s) = lesson.response_s(at, None) else { continue };
        let clients = f64::from(lesson.members[beside].population) / response_s;
        product += clients * (response_s - alone_s) / response_s;
        square += clients * clients;
    }
    (square > 0.0).then(|| product / square)
}

/// The measurements of a mix with every prediction of it; `None` if there are none.
pub(super) fn judged(
    inputs: &Inputs<'_>,
    asked: &RequestedMix,
    mixes: &Mixes,
    lessons: &[Lesson],
    machine: &Machine,
) -> Option<MixComparison> {
    if asked.members.iter().all(|member| member.measured.is_none()) {
        return None;
    }
    let known = KnownFigures { asked, mix: &mixes.plain };
    let mut comparison = MixComparison { measured: known.measured(), ways: Vec::new(), missing: Vec::new() };
    let seen =
        || "every measured mix has taught it; hold some out (--hold-out), or measure others (--against)".to_owned();
    let taught = match &mixes.taught {
        // A mix that taught the model is no test of it.
        Some(_) if asked.is_calibration => Err(seen()),
        Some(taught) => known.predicted(TAUGHT, taught, machine),
        None => Err("no measured mix of these workloads has taught it".to_owned()),
    };
    comparison.add(TAUGHT, taught);
    let isolated = match inputs.core_slice() {
        Some(_) => known.predicted(ISOLATED, &mixes.isolated, machine),
        None => Err(NO_SLICE.to_owned()),
    };
    comparison.add(ISOLATED, isolated);
    let plain = idd::predict(&mixes.plain, machine);
    comparison.add(MVA, known.predicted(MVA, &mixes.plain, machine));
    comparison.add(THESIS, known.thesis(machine));
    comparison.ways.extend(plain.ok().map(|plain| known.bounds(&plain)));
    comparison.ways.extend(known.linear(lessons).filter(|_| !asked.is_calibration));
    comparison.ways.push(known.plain_way("no change", known.alone_s()));
    Some(comparison)
}

impl MixComparison {
    fn add(&mut self, model: &'static str, way: Result<Predictor, String>) {
        match way {
            Ok(way) => self.ways.push(way),
            Err(why) => self.missing.push((model, why)),
        }
    }
}

/// Each of [`MODELS`] over all workloads.
pub(super) fn of_models(all: &[Accuracy], judged: &[MixComparison]) -> Vec<ModelAccuracy> {
    let of_model = |(model, rests_on): (&'static str, &'static str)| {
        let found = all.iter().find(|one| one.model == model && one.of == ALL);
        let missing = || judged.iter().flat_map(|mix| &mix.missing).find(|(of, _)| *of == model);
        let why_not = match found {
            Some(found) if found.covered.is_some() => None,
            Some(_) => Some("it has no interval".to_owned()),
            None if judged.is_empty() => Some("no mix was measured that it could be compared with".to_owned()),
            None if model == THESIS && missing().is_none() => {
                Some(format!("instructions were not counted; see `{UNCOUNTED}`"))
            }
            None => missing().map(|(_, why)| why.clone()).or_else(|| Some("no response was measured".to_owned())),
        };
        ModelAccuracy {
            model,
            rests_on,
            count: found.map_or(0, |found| found.count),
            mean_error: found.map(|found| found.mean_absolute),
            coverage: found.and_then(|found| found.covered),
            why_not,
        }
    };
    MODELS.into_iter().map(of_model).collect()
}

/// Errors by subject, then by model, then those of the baselines.
pub(super) fn summed(judged: &[MixComparison]) -> Vec<Accuracy> {
    let measured = judged.iter().flat_map(|one| &one.measured).map(|(name, _)| name.as_str());
    let mut names = distinct([ALL].into_iter().chain(measured.filter(|name| *name != MIX)));
    names.push(MIX);
    let ways: Vec<&'static str> = distinct(judged.iter().flat_map(|one| &one.ways).map(|way| way.name));
    let each = |name: &&str| ways.iter().filter_map(|way| summary(judged, way, name)).collect::<Vec<_>>();
    names.iter().flat_map(each).collect()
}

fn summary(judged: &[MixComparison], way: &'static str, of: &str) -> Option<Accuracy> {
    let mut ratios = Vec::new();
    let mut covered = Some((0, 0));
    let mut is_calibrated = false;
    for (mix, way) in judged.iter().filter_map(|mix| Some((mix, mix.ways.iter().find(|one| one.name == way)?))) {
        is_calibrated |= way.is_calibrated;
        for ((name, measured), predicted) in mix.measured.iter().zip(&way.predicted) {
            let is_it = if of == ALL { name != MIX } else { name == of };
            let Some((measured_s, (predicted_s, ends))) = measured.zip(*predicted).filter(|_| is_it) else { continue };
            ratios.push(predicted_s / measured_s);
            let inside = ends.map(|(low, high)| (low..=high).contains(&measured_s));
            covered = covered.zip(inside).map(|((some, all), inside)| (some + usize::from(inside), all + 1));
        }
    }
    let count = ratios.len();
    let mean = |of: &dyn Fn(f64) -> f64| ratios.iter().map(|ratio| of(ratio - 1.0)).sum::<f64>() / count as f64;
    (count > 0).then(|| Accuracy {
        model: way,
        is_calibrated,
        of: of.to_owned(),
        count,
        mean_absolute: mean(&f64::abs),
        largest: ratios.iter().map(|ratio| (ratio - 1.0).abs()).fold(0.0, f64::max),
        bias: mean(&|error| error),
        covered: covered.filter(|(_, all)| *all > 0).map(|(some, all)| some as f64 / all as f64),
    })
}
