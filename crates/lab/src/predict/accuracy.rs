//! How far predictions are from what was measured, beside what simpler models would have said.

use plimsoll_model::idd::{self, Machine, Mix, Prediction, Slowdown};
use serde::Serialize;

use super::Model;
use super::points::Asked;

/// Errors of one way to predict mean responses, over every workload of every mix that was measured and not used for
/// adjusting the model. All are relative: 0.1 is 10 %.
#[derive(Debug, Clone, Serialize)]
pub struct Accuracy {
    /// `idd`, `mva` or `des`; `no change` takes each response from the workload alone.
    pub model: &'static str,
    /// Figures compared. A count.
    pub count: usize,
    /// Mean of absolute errors (MAPE).
    pub mean_absolute: f64,
    /// The largest absolute error.
    pub largest: f64,
    /// Mean error: above 0 if predictions are too long.
    pub bias: f64,
    /// Share of measured means within the predicted 95 % interval; `None` where predictions have none.
    pub covered: Option<f64>,
}

/// One response, predicted in several ways, over the measured one.
pub(super) struct Judged {
    asked: f64,
    unadjusted: Option<f64>,
    unchanged: Option<f64>,
    is_covered: Option<bool>,
}

/// Every response of a mix that was measured.
pub(super) fn judged(asked: &Asked, mix: &Mix, prediction: &Prediction, machine: &Machine) -> Vec<Judged> {
    let is_seen = asked.is_calibration && mix.slowdown != Slowdown::None;
    if is_seen || asked.members.iter().all(|member| member.measured.is_none()) {
        return Vec::new();
    }
    let plain = idd::predict(&Mix { slowdown: Slowdown::None, ..mix.clone() }, machine).ok();
    let one = |at: usize| {
        let measured = asked.members[at].measured?.response_ms?.value * 1e-3;
        let predicted = prediction.classes[at].response_s?;
        let ratio = |seconds: f64| seconds / measured;
        let unadjusted = plain.as_ref().and_then(|plain| plain.classes[at].response_s);
        let alone = mix.members[at].alone.demand(None).ok();
        Some(Judged {
            asked: ratio(predicted.value),
            unadjusted: unadjusted.map(|response| ratio(response.value)),
            unchanged: alone.map(|demand| ratio(demand.response_s)),
            is_covered: predicted.low.zip(predicted.high).map(|(low, high)| (low..=high).contains(&measured)),
        })
    };
    (0..asked.members.len()).filter_map(one).collect()
}

/// Errors by model: the one that was asked for first, then the baselines.
pub(super) fn summed(model: Model, judged: &[Judged]) -> Vec<Accuracy> {
    let asked: Vec<f64> = judged.iter().map(|one| one.asked).collect();
    let covered: Option<Vec<bool>> = judged.iter().map(|one| one.is_covered).collect();
    let covered = covered.map(|all| all.iter().filter(|inside| **inside).count() as f64 / all.len().max(1) as f64);
    let unadjusted: Vec<f64> = judged.iter().filter_map(|one| one.unadjusted).collect();
    let unchanged: Vec<f64> = judged.iter().filter_map(|one| one.unchanged).collect();
    let mut all = vec![summary(model.name(), &asked, covered)];
    if model != Model::Mva {
        all.push(summary("mva", &unadjusted, None));
    }
    all.push(summary("no change", &unchanged, None));
    all.into_iter().flatten().collect()
}

fn summary(model: &'static str, ratios: &[f64], covered: Option<f64>) -> Option<Accuracy> {
    let count = ratios.len();
    let mean = |of: &dyn Fn(f64) -> f64| ratios.iter().map(|ratio| of(ratio - 1.0)).sum::<f64>() / count as f64;
    (count > 0).then(|| Accuracy {
        model,
        count,
        mean_absolute: mean(&f64::abs),
        largest: ratios.iter().map(|ratio| (ratio - 1.0).abs()).fold(0.0, f64::max),
        bias: mean(&|error| error),
        covered,
    })
}
