//! What an experiment says of its size in words. `{NAME.scale}` in them stands for the scale at which that workload runs, so that
//! they are true of the short form, too.

use plimsoll_notation::{At, Problem, Problems};

use super::sweep::PlacedAxis;
use crate::plan::{PlannedWorkload, SweepTarget};

/// The differences from the study with their figures. An error says which words stand for nothing.
pub(super) fn differs(
    typed: &[At<String>],
    workloads: &[PlannedWorkload],
    axes: &[PlacedAxis],
) -> Result<Vec<String>, Vec<Problem>> {
    let mut problems = Problems::default();
    let mut all = Vec::new();
    for text in typed {
        all.extend(problems.note_at(text.span(), filled(text.value(), workloads, axes)));
    }
    problems.check().map(|()| all)
}

fn filled(text: &str, workloads: &[PlannedWorkload], axes: &[PlacedAxis]) -> Result<String, String> {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some((before, (key, after))) = rest.split_once('{').and_then(|(a, b)| Some((a, b.split_once('}')?))) {
        let place = key.strip_suffix(".scale").and_then(|name| workloads.iter().position(|one| one.name == name));
        let place = place.ok_or_else(|| {
            format!("`{{{key}}}` stands for nothing; `{{NAME.scale}}` stands for the scale of the workload NAME")
        })?;
        filled += before;
        filled += &scales(place, workloads[place].scale, axes);
        rest = after;
    }
    Ok(filled + rest)
}

/// The scales at which the workload at that place runs.
fn scales(place: usize, scale: f64, axes: &[PlacedAxis]) -> String {
    let is_it =
        |part: &SweepTarget| matches!(part, SweepTarget::Workload(at, field) if *at == place && field == "scale");
    let mut swept = axes.iter().filter(|axis| axis.place.parts().iter().any(is_it));
    let all: Vec<f64> = match swept.next() {
        Some(axis) => axis.values.iter().filter_map(|(value, _)| value.as_f64()).collect(),
        None => vec![scale],
    };
    let (low, high) = all.iter().fold((f64::MAX, f64::MIN), |(low, high), one| (low.min(*one), high.max(*one)));
    if low < high { format!("{low} to {high}") } else { low.to_string() }
}
