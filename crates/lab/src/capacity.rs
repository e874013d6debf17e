//! Checks before loading whether the data fits, and whether the machine has what the options require.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_workload::benchmark::Benchmark;
use plimsoll_workload::database::Room;

use crate::plan::Plan;
use crate::targets::{Targets, own_options};
use crate::units::bytes;

/// Loading briefly needs the data twice: in the form in which it arrives and in the form in which it is stored.
const LOADING_FACTOR: f64 = 1.5;

/// The number of settings that are checked. A plan with more would take years to run, or sweeps keys that do not affect
/// size.
const SETTINGS_MAX: usize = 10_000;

/// The data cannot fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} needs about {} of {} while loading, but only {} are free; use a smaller scale", bytes(*needed), room.place, bytes(room.free_bytes))]
pub struct DoesNotFit {
    /// The data to be loaded.
    pub what: String,
    /// Bytes it needs.
    pub needed: u64,
    /// The space available.
    pub room: Room,
}

/// Whether the data of these benchmarks, each of which loads its own, fits into the free space, if that is known.
pub fn check_fits(benchmarks: &[&dyn Benchmark], room: Option<Room>) -> Result<(), DoesNotFit> {
    let needed = (benchmarks.iter().map(|one| one.estimated_bytes() as f64).sum::<f64>() * LOADING_FACTOR) as u64;
    match room {
        Some(room) if needed > room.free_bytes => {
            let names: Vec<_> = benchmarks.iter().map(|one| one.name()).collect();
            Err(DoesNotFit { what: names.join(" with "), needed, room })
        }
        _ => Ok(()),
    }
}

/// Whether the data of each setting of a plan fits.
pub fn check_plan_fits(plan: &Plan, targets: &dyn Targets) -> Result<(), DoesNotFit> {
    // Checked once for each target: none of the options that can be swept changes the free space.
    let mut rooms: BTreeMap<String, Option<Room>> = BTreeMap::new();
    plan.settings().take(SETTINGS_MAX).try_for_each(|setting| {
        // A setting's workloads may share data.
        let made = setting.workloads.iter().filter_map(|workload| plan.benchmark(workload).ok());
        let by_data: BTreeMap<String, Arc<dyn Benchmark>> = made.map(|one| (one.data(), one)).collect();
        let distinct: Vec<&dyn Benchmark> = by_data.values().map(AsRef::as_ref).collect();
        let room = rooms
            .entry(setting.url.clone())
            .or_insert_with(|| targets.room(&setting.url, &own_options(targets, &setting)));
        check_fits(&distinct, room.clone())
    })
}

/// Whether the machine has what the options of each setting ask for.
pub fn check_machine(plan: &Plan, targets: &dyn Targets) -> Result<(), String> {
    // A simulation has the machine of its file.
    let mut settings = plan.settings().take(if plan.is_simulated() { 0 } else { SETTINGS_MAX });
    settings.try_for_each(|setting| targets.check_machine(&setting.url, &own_options(targets, &setting)))
}

#[cfg(test)]
mod tests {
    use plimsoll_workload::tpcc::Tpcc;

    use super::*;

    #[test]
    fn what_cannot_fit_is_refused_with_both_numbers() {
        let huge = Tpcc::new(100_000, 1);
        let room = || Some(Room { place: "disk (/data)".to_owned(), free_bytes: 8 << 30 });
        let error = check_fits(&[&huge], room()).expect_err("terabytes").to_string();
        assert!(
            error.starts_with("tpcc needs about ")
                && error.contains(" of disk (/data) while loading, but only 8.00 GiB are free"),
            "{error}"
        );
        assert_eq!(check_fits(&[&Tpcc::new(1, 1)], room()), Ok(()));
        assert_eq!(check_fits(&[&huge], None), Ok(()));
    }
}
