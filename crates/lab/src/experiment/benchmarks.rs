//! The benchmarks behind the workloads of an experiment: whether they can be made at every setting, and share their data.

use std::ops::Range;
use std::sync::Arc;

use plimsoll_notation::{At, Problem};
use plimsoll_workload::benchmark::Benchmark;
use plimsoll_workload::driver::PriorityRule;
use plimsoll_workload::registry::{BENCHMARKS, BenchmarkError, Catalog};

use super::sweep::PlacedAxis;
use super::typed::TypedWorkload;
use crate::plan::{PlannedWorkload, SweepTarget, WORKLOAD_FIELDS, positions};

/// Up to this many combinations of swept scales and parameters are tried before anything runs; beyond it, each value
/// once.
const COMBINATIONS_MAX: usize = 500;

/// The names of a benchmark's parameters; none if the benchmark does not exist.
pub(super) fn parameter_names(kind: &str) -> Vec<&'static str> {
    let entry = BENCHMARKS.iter().find(|entry| entry.name == kind);
    entry.map_or_else(Vec::new, |entry| entry.parameters.iter().map(|parameter| parameter.name).collect())
}

/// The requests of all workloads, as their benchmarks define them.
pub(super) struct Requests {
    /// The kinds of transaction or query of each workload.
    pub transactions: Vec<Vec<String>>,
    /// The priorities that the definition of each workload gives them, in the same order; empty without any.
    pub priorities: Vec<Vec<Option<PriorityRule>>>,
}

/// Makes the benchmarks of all workloads at every combination of swept scales and parameters. Workloads that use the
/// same tables must use the same data.
pub(super) fn check(
    workloads: &[PlannedWorkload],
    typed: &[At<TypedWorkload>],
    axes: &[PlacedAxis],
    catalog: &Catalog,
) -> Result<Requests, Problem> {
    let is_data = |place: &SweepTarget| match place {
        SweepTarget::Workload(_, field) => field == "scale" || !WORKLOAD_FIELDS.contains(&field.as_str()),
        _ => false,
    };
    let axes: Vec<&PlacedAxis> = axes.iter().filter(|axis| axis.place.parts().iter().any(is_data)).collect();
    let mut requests = Requests { transactions: Vec::new(), priorities: Vec::new() };
    for positions in combinations(&axes.iter().map(|axis| axis.values.len()).collect::<Vec<_>>()) {
        let combination = Combination { typed, axes: &axes, positions: &positions };
        let workloads = combination.applied(workloads);
        let mut made = Vec::new();
        for (position, workload) in workloads.iter().enumerate() {
            let benchmark = catalog.get(&workload.kind, Some(workload.scale), &workload.parameters).map_err(|error| {
                let place = combination.place(position, field_at_fault(&error));
                Problem::new(place, format!("workload `{}`: {error}", workload.name))
            });
            made.push(benchmark?.0);
        }
        check_sharing(&workloads, &made)
            .map_err(|(later, message)| Problem::new(combination.place(later, "scale"), message))?;
        requests.transactions =
            made.iter().map(|benchmark| benchmark.transactions().into_iter().map(str::to_owned).collect()).collect();
        requests.priorities = made.iter().map(|benchmark| benchmark.priorities()).collect();
    }
    Ok(requests)
}

/// One combination of swept scales and parameters.
struct Combination<'a> {
    typed: &'a [At<TypedWorkload>],
    axes: &'a [&'a PlacedAxis],
    positions: &'a [usize],
}

impl Combination<'_> {
    /// The workloads with the values of the combination.
    fn applied(&self, workloads: &[PlannedWorkload]) -> Vec<PlannedWorkload> {
        let mut workloads = workloads.to_vec();
        for (axis, position) in self.axes.iter().zip(self.positions) {
            for place in axis.place.parts() {
                if let SweepTarget::Workload(workload, field) = place {
                    workloads[*workload].set(field, &axis.values[*position].0).expect("each value was checked");
                }
            }
        }
        workloads
    }

    /// The place of the value of a workload's field or parameter.
    fn place(&self, workload: usize, field: &str) -> Range<usize> {
        let place = SweepTarget::Workload(workload, field.to_owned());
        let swept = self.axes.iter().zip(self.positions).find(|(axis, _)| axis.place.parts().contains(&place));
        match swept {
            Some((axis, position)) => axis.values[*position].1.clone(),
            None => self.typed[workload].value().place_of(field),
        }
    }
}

/// The field or parameter for which a benchmark cannot be made.
fn field_at_fault(error: &BenchmarkError) -> &str {
    match error {
        BenchmarkError::NoSuchParameter { parameter, .. } => parameter,
        BenchmarkError::ParameterValue { parameter, .. } => parameter,
        BenchmarkError::Unknown { .. } => "kind",
        _ => "scale",
    }
}

/// Refuses two workloads that use the same tables with different data; the error names the later one.
fn check_sharing(workloads: &[PlannedWorkload], made: &[Arc<dyn Benchmark>]) -> Result<(), (usize, String)> {
    for (later, b) in made.iter().enumerate() {
        for (earlier, a) in made[..later].iter().enumerate() {
            // Targets separate tables by the schema's name.
            if a.schema().name == b.schema().name && a.data() != b.data() {
                let [one, two] = [&workloads[earlier].name, &workloads[later].name];
                let tables = &a.schema().name;
                let message = format!(
                    "`{one}` and `{two}` use the same tables of {tables} but not the same data; give both the same scale and parameters"
                );
                return Err((later, message));
            }
        }
    }
    Ok(())
}

/// Positions on each axis: all combinations or, if there are too many, each position once with the others at 0.
pub(super) fn combinations(lengths: &[usize]) -> Vec<Vec<usize>> {
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
