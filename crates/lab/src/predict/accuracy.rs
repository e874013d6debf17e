//! How far predictions are from measurements, compared with predictions by simpler models.
//!
//! Errors are summed for each workload, for the mean response of any request of a mix ([`MIX`], the thesis' `T_mix`), and for all
//! workloads together. The baselines are:
//! - `mva`: the queueing network with demands as alone, adjusted by nothing;
//! - `idd-thesis`: Isolated Demand Decomposition as its thesis defines it, for two workloads of clients; it needs counters of instructions,
//!   and is called [`UNCOUNTED`] without them;
//! - `asymptotic bounds`: the least response that any schedule can give (its bounds are its interval);
//! - `linear interference`: the response alone, and a fixed time for each client of others, as pairs have shown;
//! - `no change`: the response alone.

use plimsoll_model::bounds;
use plimsoll_model::idd::{self, Lesson, Machine, Mix, Prediction, Slowdown, Turns, thesis};
use serde::Serialize;

use super::Model;
use super::points::RequestedMix;
use plimsoll_display::distinct;

/// Errors of one way to predict mean responses, over measured mixes that were not used to adjust the model. All are
/// relative: 0.1 is 10 %.
#[derive(Debug, Clone, Serialize)]
pub struct Accuracy {
    /// `idd`, `mva` or `des`, or the name of a baseline.
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

    /// `None` unless the mix is of two workloads of clients.
    fn thesis(&self, machine: &Machine) -> Option<Predictor> {
        let found = thesis::predict(self.mix, machine.cores).ok()??;
        let predicted = found.responses_s.into_iter().chain([found.response_s]);
        let name = if found.is_counted { "idd-thesis" } else { UNCOUNTED };
        Some(Predictor {
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

/// The measurements of a mix with every prediction of it; `None` if there are none, or if the model has used them.
pub(super) fn judged(
    model: Model,
    asked: &RequestedMix,
    mix: &Mix,
    lessons: &[Lesson],
    (prediction, machine): (&Prediction, &Machine),
) -> Option<MixComparison> {
    let is_seen = asked.is_calibration && mix.is_adjusted();
    if is_seen || asked.members.iter().all(|member| member.measured.is_none()) {
        return None;
    }
    let known = KnownFigures { asked, mix };
    let mut ways = vec![known.of_prediction(model.name(), mix.is_adjusted(), prediction)];
    let unadjusted = Mix { slowdown: Slowdown::None, turns: Turns::default(), ..mix.clone() };
    if let Ok(plain) = idd::predict(&unadjusted, machine) {
        if model != Model::Mva {
            ways.push(known.of_prediction(Model::Mva.name(), false, &plain));
        }
        ways.extend(known.thesis(machine));
        ways.push(known.bounds(&plain));
    }
    ways.extend(known.linear(lessons));
    ways.push(known.plain_way("no change", known.alone_s()));
    Some(MixComparison { measured: known.measured(), ways })
}

/// Errors by subject, then by model: the requested one first, then the baselines.
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
