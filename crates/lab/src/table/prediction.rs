//! Predicted mixes as text.

use super::{sweep, wrap};
use crate::predict::{Accuracy, PredictedMix, PredictedWorkload, Predictions};
use crate::results::Interval;
use crate::units::{MISSING, duration_us, percent, rate, significant};

/// Columns for the mix.
const WIDTH: usize = 24;

/// The whole text, ending in a line break.
pub fn render(predictions: &Predictions) -> String {
    let mut out = vec![format!("{:<WIDTH$}{:>10}{:>10}{:>20}{:>16}", "", "per s", "mean", "95 %", "measured")];
    for mix in &predictions.mixes {
        out.extend(lines(mix));
    }
    let notes = predictions.cautions();
    if predictions.mixes.iter().any(|mix| mix.is_extrapolated) {
        out.push(String::new());
        out.extend(wrap("* beyond what was measured of a workload alone, or of a mix", "", "  "));
    }
    if !notes.is_empty() {
        out.push(String::new());
        out.push("To know of it".to_owned());
        out.extend(notes.iter().flat_map(|note| wrap(note, "  - ", "    ")));
    }
    if !predictions.accuracy.is_empty() {
        out.push(String::new());
        out.push(format!(
            "{:<WIDTH$}{:>10}{:>10}{:>10}{:>12}",
            "Mean responses", "error", "largest", "bias", "covered"
        ));
        out.extend(predictions.accuracy.iter().map(errors));
    }
    out.push(String::new());
    out.join("\n")
}

fn lines(mix: &PredictedMix) -> Vec<String> {
    let who: Vec<String> = mix.workloads.iter().map(|one| format!("{} x {}", one.clients, one.name)).collect();
    let setting = sweep::setting(&mix.setting);
    let mut head =
        [who.join(" + "), setting].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    if let Some(why) = &mix.refused {
        let head = if head.is_empty() { "mix".to_owned() } else { head };
        return wrap(&format!("{head}: not predicted: {why}"), "", "  ");
    }
    if let Some(station) = mix.bottleneck {
        head.push_str(&format!("; bottleneck {station}"));
    }
    if mix.is_calibration {
        head.push_str("; measured, and used to adjust the model");
    }
    let mark = if mix.is_extrapolated { " *" } else { "" };
    let mut out = wrap(&format!("{head}{mark}"), "", "  ");
    out.extend(mix.workloads.iter().map(workload));
    out
}

fn workload(one: &PredictedWorkload) -> String {
    let time = |ms: f64| duration_us(ms * 1e3);
    let mean = one.response_ms.map_or_else(|| MISSING.to_owned(), |response| time(response.value));
    let bounds = |interval: Interval| interval.low.zip(interval.high);
    let range = one.response_ms.and_then(bounds);
    let range = range.map_or_else(|| MISSING.to_owned(), |(low, high)| format!("{} to {}", time(low), time(high)));
    let measured = one.measured.and_then(|measured| measured.response_ms);
    let measured = measured.map_or_else(|| MISSING.to_owned(), |response| time(response.value));
    let throughput = rate(one.throughput_per_s.value);
    let mut line = format!("{:<WIDTH$}{throughput:>10}{mean:>10}{range:>20}{measured:>16}", format!("  {}", one.name));
    for (name, percentile) in one.percentiles_ms.iter().flatten() {
        let told = percentile.map_or_else(|| MISSING.to_owned(), |percentile| time(percentile.value));
        line.push_str(&format!("\n{:<WIDTH$}{:>10}{told:>10}", "", name));
    }
    line
}

fn errors(accuracy: &Accuracy) -> String {
    let covered = accuracy.covered.map_or_else(|| MISSING.to_owned(), percent);
    let sign = if accuracy.bias < 0.0 { "-" } else { "+" };
    format!(
        "{:<WIDTH$}{:>10}{:>10}{:>10}{covered:>12}",
        format!("  {} ({} figures)", accuracy.model, accuracy.count),
        percent(accuracy.mean_absolute),
        percent(accuracy.largest),
        format!("{sign}{} %", significant(accuracy.bias.abs() * 100.0)),
    )
}
