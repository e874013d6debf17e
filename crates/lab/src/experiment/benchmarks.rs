//! The benchmarks behind the workloads of an experiment: whether they can be made at every setting, and share their data.

use std::ops::Range;

use plimsoll_workload::benchmark::Benchmark;
use plimsoll_workload::registry::{BENCHMARKS, make};

use super::problem::Problem;
use super::sweep::PlacedAxis;
use crate::plan::{Place, PlannedWorkload, positions};

/// So many combinations of swept scales and parameters are tried before anything runs; of more, each value once.
const COMBINATIONS_MAX: usize = 500;

/// The names of a benchmark's parameters; none, if there is no such benchmark.
pub(super) fn parameter_names(kind: &str) -> Vec<&'static str> {
    let entry = BENCHMARKS.iter().find(|entry| entry.name == kind);
    entry.map_or_else(Vec::new, |entry| entry.parameters.iter().map(|parameter| parameter.name).collect())
}

/// Makes the benchmarks of all workloads at every combination of swept scales and parameters, and returns the kinds of
/// transaction or query of each workload. Workloads that use the same tables must use the same data.
pub(super) fn check(
    workloads: &[PlannedWorkload],
    spans: &[Range<usize>],
    axes: &[PlacedAxis],
    seed: u64,
) -> Result<Vec<&'static [&'static str]>, Problem> {
    let is_data = |place: &Place| match place {
        Place::Option(_) => false,
        Place::Workload(_, field) => !matches!(field.as_str(), "clients" | "think" | "rate" | "priority"),
    };
    let axes: Vec<&PlacedAxis> = axes.iter().filter(|axis| is_data(&axis.place)).collect();
    let mut transactions = Vec::new();
    for positions in combinations(&axes.iter().map(|axis| axis.values.len()).collect::<Vec<_>>()) {
        let mut workloads = workloads.to_vec();
        for (axis, position) in axes.iter().zip(&positions) {
            let Place::Workload(workload, field) = &axis.place else { continue };
            let (value, _) = &axis.values[*position];
            workloads[*workload].set(field, value).expect("each value was checked");
        }
        let place = |workload: usize| {
            let swept = axes.iter().zip(&positions).rev();
            let mine =
                swept.filter(|(axis, _)| matches!(&axis.place, Place::Workload(position, _) if *position == workload));
            mine.map(|(axis, position)| axis.values[*position].1.clone()).next().unwrap_or(spans[workload].clone())
        };
        let mut made = Vec::new();
        for (position, workload) in workloads.iter().enumerate() {
            let benchmark = make(&workload.kind, Some(workload.scale), &workload.parameters, seed);
            let name = &workload.name;
            made.push(
                benchmark.map_err(|error| Problem::new(place(position), format!("workload `{name}`: {error}")))?.0,
            );
        }
        check_sharing(&workloads, &made).map_err(|(later, message)| Problem::new(place(later), message))?;
        transactions = made.iter().map(|benchmark| benchmark.transactions()).collect();
    }
    Ok(transactions)
}

/// Refuses two workloads that use the same tables with different data; the error names the later one.
fn check_sharing(workloads: &[PlannedWorkload], made: &[Box<dyn Benchmark>]) -> Result<(), (usize, String)> {
    for (later, b) in made.iter().enumerate() {
        for (earlier, a) in made[..later].iter().enumerate() {
            // Targets keep tables apart under the schema's name.
            if a.schema().name == b.schema().name && a.data() != b.data() {
                let [one, two] = [&workloads[earlier].name, &workloads[later].name];
                let tables = a.schema().name;
                let message = format!(
                    "`{one}` and `{two}` use the same tables of {tables} but not the same data; give both the same scale and parameters"
                );
                return Err((later, message));
            }
        }
    }
    Ok(())
}

/// Positions on each axis: all combinations or, where these are too many, each position once with the others at 0.
fn combinations(lengths: &[usize]) -> Vec<Vec<usize>> {
    let count = lengths.iter().try_fold(1_usize, |count, length| count.checked_mul(*length));
    if let Some(count) = count.filter(|count| *count <= COMBINATIONS_MAX) {
        return (0..count).map(|number| positions(number, lengths)).collect();
    }
    let one = |axis: usize, position: usize| {
        let mut positions = vec![0; lengths.len()];
        positions[axis] = position;
        positions
    };
    let each = (0..lengths.len()).flat_map(|axis| (0..lengths[axis]).map(move |position| (axis, position)));
    each.map(|(axis, position)| one(axis, position)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_is_tried_or_every_value() {
        assert_eq!(combinations(&[]), [Vec::<usize>::new()]);
        assert_eq!(combinations(&[2, 2]), [[0, 0], [0, 1], [1, 0], [1, 1]]);
        let many = combinations(&[30, 30]);
        assert_eq!(many.len(), 60);
        assert!(many.contains(&vec![29, 0]) && many.contains(&vec![0, 29]));
    }
}
