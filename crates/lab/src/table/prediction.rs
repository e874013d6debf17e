//! Predicted mixes as text.

use super::advice::listed;
use super::sweep;
use crate::predict::cache::cautions;
use crate::predict::{
    ALL, Accuracy, CachePair, CacheShared, MIX, ModelAccuracy, PredictedMix, PredictedWorkload, Predictions,
};
use crate::results::Interval;
use plimsoll_display::wrap;
use plimsoll_display::{MISSING, duration_us, joined, percent, rate, significant};

/// Columns for the mix.
const WIDTH: usize = 24;

/// The whole text, ending in a line break.
pub fn render(predictions: &Predictions) -> String {
    let mut out = seen(predictions);
    out.push(format!(
        "{:<WIDTH$}{:>10}{:>10}{:>20}{:>16}",
        "",
        "per s",
        "mean",
        "95 %",
        if predictions.seen.is_some() { "seen" } else { "measured" }
    ));
    for mix in &predictions.mixes {
        out.extend(lines(mix));
    }
    out.extend(cache(&predictions.cache));
    let mut notes = predictions.cautions();
    let of_cache = cautions(&predictions.cache);
    notes.extend(of_cache.iter().chain(&predictions.failed));
    if predictions.mixes.iter().any(|mix| mix.is_extrapolated) {
        out.push(String::new());
        let beyond = match &predictions.seen {
            Some(_) => "* beyond what was seen",
            None => "* beyond what was measured of a workload alone, or of a mix",
        };
        out.extend(wrap(beyond, "", "  "));
    }
    out.extend(listed("To know of it", &notes));
    if !predictions.accuracy.is_empty() {
        out.push(String::new());
        out.extend(models(&predictions.models));
        out.push(String::new());
        out.extend(errors(&predictions.accuracy));
    }
    out.push(String::new());
    out.join("\n")
}

/// What an observation says before its mixes.
fn seen(predictions: &Predictions) -> Vec<String> {
    let Some(seen) = &predictions.seen else { return Vec::new() };
    let mut out: Vec<String> = seen.sentences.iter().flat_map(|sentence| wrap(sentence, "", "  ")).collect();
    if !out.is_empty() {
        out.push(String::new());
    }
    let time = |ms: f64| duration_us(ms * 1e3);
    out.push(format!(
        "{:<WIDTH$}{:>10}{:>10}{:>12}{:>12}{:>12}",
        "A request, as seen", "per s", "mean", "CPU", "disk", "think"
    ));
    for one in &seen.demands {
        let disk = one.disk_ms.map_or_else(|| MISSING.to_owned(), |disk| time(disk.value));
        out.push(format!(
            "{:<WIDTH$}{:>10}{:>10}{:>12}{disk:>12}{:>12}",
            format!("  {} x {}", one.sessions, one.class),
            rate(one.requests_per_s),
            time(one.response_ms),
            time(one.cpu_ms.value + one.helpers_ms.value),
            time(one.think_ms)
        ));
    }
    out.push(String::new());
    out
}

/// The cost of sharing the cache.
pub(super) fn cache(pairs: &[CachePair]) -> Vec<String> {
    if pairs.is_empty() {
        return Vec::new();
    }
    let head = format!(
        "{:<WIDTH$}{:>8}{:>9}{:>16}{:>13}{:>10}",
        "Sharing the cache", "share", "of alone", "within", "measured", "error"
    );
    let mut out = vec![String::new(), head];
    for pair in pairs {
        let names: Vec<&str> = pair.workloads.iter().map(|one| one.name.as_str()).collect();
        out.extend(wrap(&joined([names.join(" + "), sweep::setting(&pair.setting)]), "", "  "));
        out.extend(pair.workloads.iter().map(cache_shared));
    }
    out.extend(cache_accuracy(pairs));
    out
}

/// How far predictions are from measurements; nothing if no pair was measured.
fn cache_accuracy(pairs: &[CachePair]) -> Option<String> {
    let compared =
        pairs.iter().flat_map(|pair| &pair.workloads).filter_map(|one| Some((one, one.error?, one.measured?)));
    let compared: Vec<_> = compared.collect();
    let errors: Vec<f64> = compared.iter().map(|(_, error, _)| error.abs()).collect();
    let largest = errors.iter().copied().reduce(f64::max)?;
    let is_within = |(one, measured): (&CacheShared, Interval)| {
        let (low, high) = (one.shared.low.unwrap_or(f64::NEG_INFINITY), one.shared.high.unwrap_or(f64::INFINITY));
        measured.high.unwrap_or(measured.value) >= low && measured.low.unwrap_or(measured.value) <= high
    };
    let within = compared.iter().filter(|(one, _, measured)| is_within((one, *measured))).count();
    Some(format!(
        "Error of {}: {} on average, {} at most; {within} agree with the interval",
        errors.len(),
        percent(errors.iter().sum::<f64>() / errors.len() as f64),
        percent(largest),
    ))
}

fn cache_shared(one: &CacheShared) -> String {
    let missing = || MISSING.to_owned();
    let two = |value: f64| format!("{value:.2}");
    format!(
        "{:<WIDTH$}{:>8}{:>9}{:>16}{:>13}{:>10}",
        format!("  {}", one.name),
        one.share.map_or_else(missing, two),
        two(one.shared.value),
        sweep::range(Some(one.shared), two),
        one.measured.map_or_else(missing, |measured| two(measured.value)),
        one.error.map_or_else(missing, |error| format!("{:+.0} %", error * 100.0)),
    )
}

fn lines(mix: &PredictedMix) -> Vec<String> {
    let who: Vec<String> = mix.workloads.iter().map(PredictedWorkload::load).collect();
    let mut head = joined([who.join(" + "), sweep::setting(&mix.setting)]);
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
    let range = sweep::range(one.response_ms, time);
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

/// Columns for the name of a way to predict.
const WAY_WIDTH: usize = 38;

/// Each model over all workloads.
fn models(all: &[ModelAccuracy]) -> Vec<String> {
    let share = |share: Option<f64>| share.map_or_else(|| MISSING.to_owned(), percent);
    let mut out =
        vec![format!("{:<WAY_WIDTH$}{:>10}{:>10}", "Models, over all workloads (figures)", "error", "covered")];
    for one in all {
        let name = format!("  {} ({})", one.model, one.count);
        out.push(format!("{name:<WAY_WIDTH$}{:>10}{:>10}", share(one.mean_error), share(one.coverage)));
        out.extend(one.why_not.iter().flat_map(|why| wrap(why, "    ", "    ")));
    }
    out
}

/// The error of each way to predict, by subject.
fn errors(all: &[Accuracy]) -> Vec<String> {
    let mut out = Vec::new();
    for (at, one) in all.iter().enumerate() {
        if at == 0 || all[at - 1].of != one.of {
            let whose = match one.of.as_str() {
                ALL => "Mean responses (figures)".to_owned(),
                MIX => "Mean responses of any request".to_owned(),
                name => format!("Mean responses of {name}"),
            };
            out.push(format!("{whose:<WAY_WIDTH$}{:>10}{:>10}{:>10}{:>10}", "error", "largest", "bias", "covered"));
        }
        out.push(error_line(one));
    }
    out
}

fn error_line(accuracy: &Accuracy) -> String {
    let covered = accuracy.covered.map_or_else(|| MISSING.to_owned(), percent);
    let sign = if accuracy.bias < 0.0 { "-" } else { "+" };
    let calibrated = if accuracy.is_calibrated { ", calibrated" } else { "" };
    format!(
        "{:<WAY_WIDTH$}{:>10}{:>10}{:>10}{covered:>10}",
        format!("  {}{calibrated} ({})", accuracy.model, accuracy.count),
        percent(accuracy.mean_absolute),
        percent(accuracy.largest),
        format!("{sign}{} %", significant(accuracy.bias.abs() * 100.0)),
    )
}
