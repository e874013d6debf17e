//! Whether the sweeps of an experiment can be searched for knees or sizes.

use plimsoll_notation::{Problems, choices};

use super::resolve::Resolver;
use super::sweep::PlacedAxis;
use super::typed::TypedSearch;
use crate::plan::{Axis, SweepTarget};

/// Fewer values have no knee between them.
const KNEE_VALUES_MIN: usize = 3;

impl Resolver<'_> {
    /// A knee is searched along one axis of amounts, which ascend.
    pub(super) fn check_search(&self, axes: &[PlacedAxis], problems: &mut Problems) {
        let Some(search) = self.typed.run.search.as_ref() else { return };
        match search.value() {
            TypedSearch::Grid => return,
            TypedSearch::Size => {
                if let Some(fault) = self.faults_of_sizes(axes) {
                    problems.add(search.span(), fault);
                }
                return;
            }
            TypedSearch::Knee => {}
        }
        let axes: Vec<Axis> = axes.iter().map(PlacedAxis::axis).collect();
        let numeric: Vec<(&str, Vec<f64>)> =
            axes.iter().filter_map(|axis| Some((axis.key.as_str(), axis.amounts()?))).collect();
        let message = match &numeric[..] {
            [(key, numbers)] if numbers.len() < KNEE_VALUES_MIN => {
                format!("a knee needs at least {KNEE_VALUES_MIN} values of `{key}`; this sweep has {}", numbers.len())
            }
            [(key, numbers)] if !numbers.is_sorted() => {
                format!("a knee needs the values of `{key}` in ascending order")
            }
            [_] => return,
            [] => "a knee needs a sweep over amounts, such as numbers, \"64MB\" or \"unlimited\"; there is none"
                .to_owned(),
            several => {
                let keys = choices(several.iter().map(|(key, _)| key));
                format!("a knee is searched along one sweep over amounts; these are {}: {keys}", several.len())
            }
        };
        problems.add(search.span(), message);
    }

    /// Sizes are of one workload, along axes of amounts that end with the full one, and at most one load.
    fn faults_of_sizes(&self, axes: &[PlacedAxis]) -> Option<String> {
        if self.typed.workloads.len() != 1 {
            return Some("sizes are of one workload alone; leave one [[workload]]".to_owned());
        }
        let axes: Vec<Axis> = axes.iter().map(PlacedAxis::axis).collect();
        let is_load = |axis: &&Axis| matches!(&axis.place, SweepTarget::Workload(..));
        if let Some(load) = axes.iter().filter(is_load).find(|axis| {
            !matches!(&axis.place, SweepTarget::Workload(_, field) if field == "clients" || field == "rate")
                || axis.values.len() != 2
        }) {
            return Some(format!(
                "`{}` is no amount of a resource; sweep limits and options, and `clients` or `rate` with two values, the usual one last",
                load.key
            ));
        }
        let resources: Vec<&Axis> = axes.iter().filter(|axis| !is_load(axis)).collect();
        if resources.is_empty() {
            return Some("sizes need a sweep over amounts of a resource; there is none".to_owned());
        }
        let wrong = resources
            .into_iter()
            .find(|axis| axis.values.len() < 2 || axis.amounts().is_none_or(|amounts| !amounts.is_sorted()));
        wrong.map(|axis| format!("`{}` needs at least two amounts in ascending order, the full one last", axis.key))
    }
}
