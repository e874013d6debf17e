//! Mixes as the queueing network predicts them from each workload alone, beside their measurements.

use maud::{Markup, html};

use super::layout::interval;
use super::page::Page;
use crate::predict::{
    ALL, Accuracy, MIX, Model, ModelAccuracy, PredictedMix, PredictedWorkload, Predictions, Request, predict,
};
use plimsoll_display::page::{Cell, number, section, stacked_table, text};
use plimsoll_display::{duration_us, percent};

/// Mixes that are listed; `plimsoll predict` prints all.
const MIXES_MAX: usize = 60;

/// The section; nothing if no mix was measured, or none can be predicted.
pub(super) fn section_of(page: &Page) -> Markup {
    let request = Request { vary: None, workloads: Vec::new(), model: Model::Isolated };
    let Ok(predicted) = predict(page.results, None, &request) else { return html! {} };
    if predicted.mixes.iter().all(|mix| mix.refused.is_some()) {
        return html! {};
    }
    section(
        &page.id("predicted"),
        "Mixes, predicted from each alone",
        html! {
            p class="lead" {
                "Mean responses by a queueing network with the needs of each workload alone. No measured mix adjusts it. A difference is what \
                 sharing costs beyond waiting for cores and the disk, or what the model does not know. "
                code { "plimsoll predict" }
                " predicts other mixes."
            }
            (responses(&predicted))
            details {
                summary { "Errors of each model, and of simpler baselines" }
                (models(&predicted.models))
                (errors(&predicted.accuracy))
            }
            @if predicted.mixes.len() > MIXES_MAX {
                p class="note" { (predicted.mixes.len() - MIXES_MAX) " more mixes are not listed." }
            }
            @for caution in predicted.cautions() { p class="note" { (caution) } }
        },
    )
}

fn responses(predicted: &Predictions) -> Markup {
    let columns =
        [text("Mix"), text("Workload"), number("Predicted"), number("Measured"), number("Error"), text("Bottleneck")];
    let known = predicted.mixes.iter().filter(|mix| mix.refused.is_none()).take(MIXES_MAX);
    let rows = known.flat_map(|mix| mix.workloads.iter().map(move |one| row(mix, one)));
    stacked_table("Mean responses, predicted and measured, with 95 % intervals", &columns, rows)
}

fn row(mix: &PredictedMix, one: &PredictedWorkload) -> Vec<Cell> {
    let who: Vec<String> = mix.workloads.iter().map(PredictedWorkload::load).collect();
    let setting: Vec<String> = mix.setting.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let what = std::iter::once(who.join(" + ")).chain(setting).collect::<Vec<_>>().join(", ");
    let measured = one.measured.and_then(|measured| measured.response_ms);
    let time = |ms: f64| duration_us(ms * 1e3);
    let error = one.response_ms.zip(measured).map(|(predicted, measured)| predicted.value / measured.value - 1.0);
    vec![
        Cell::text(html! { (what) }),
        Cell::text(html! { (one.name) }),
        interval(one.response_ms, time),
        interval(measured, time),
        Cell::figure(error.map(signed)),
        Cell::text(html! { (mix.bottleneck.unwrap_or("")) }),
    ]
}

fn models(all: &[ModelAccuracy]) -> Markup {
    let columns = [
        text("Model"),
        text("Rests on"),
        number("Figures"),
        number("Mean absolute error"),
        number("Covered by intervals"),
        text("Why not"),
    ];
    let row = |one: &ModelAccuracy| {
        vec![
            Cell::text(html! { (one.model) }),
            Cell::text(html! { (one.rests_on) }),
            Cell::figure(Some(one.count.to_string())),
            Cell::figure(one.mean_error.map(percent)),
            Cell::figure(one.coverage.map(percent)),
            Cell::text(html! { (one.why_not.as_deref().unwrap_or("")) }),
        ]
    };
    stacked_table("Each model over all workloads", &columns, all.iter().map(row))
}

fn errors(all: &[Accuracy]) -> Markup {
    let columns = [
        text("Responses of"),
        text("Predicted by"),
        number("Figures"),
        number("Mean absolute error"),
        number("Largest"),
        number("Bias"),
    ];
    let of = |one: &Accuracy| match one.of.as_str() {
        ALL => "all workloads".to_owned(),
        MIX => "any request of a mix".to_owned(),
        name => name.to_owned(),
    };
    let row = |one: &Accuracy| {
        vec![
            Cell::text(html! { (of(one)) }),
            Cell::text(html! { (one.model) @if one.is_calibrated { ", calibrated" } }),
            Cell::figure(Some(one.count.to_string())),
            Cell::figure(Some(percent(one.mean_absolute))),
            Cell::figure(Some(percent(one.largest))),
            Cell::figure(Some(signed(one.bias))),
        ]
    };
    stacked_table("How far predictions are from measurements", &columns, all.iter().map(row))
}

/// `+4.2 %`.
fn signed(share: f64) -> String {
    let sign = if share < 0.0 { "-" } else { "+" };
    format!("{sign}{}", percent(share.abs()))
}
