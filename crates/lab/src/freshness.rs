//! What the copy did that queries read, arm by arm, in words for the table and the report.

use plimsoll_model::freshness::Rates;
use plimsoll_workload::freshness::{ChangeUnit, Freshness};

use crate::analysis::cells::SettingValues;
use crate::results::Results;
use crate::units::significant;

/// A load of propagation that leaves room for bursts.
const LOAD_MAX: f64 = 0.8;

/// An arm at a setting, and what the copy did there, mean over runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Copied<'a> {
    pub arm: &'a str,
    pub setting: &'a SettingValues,
    pub freshness: Freshness,
}

/// Every arm and setting in which there was a copy, each once: the figures are of the run, not of a workload.
pub(crate) fn copied(results: &Results) -> Vec<Copied<'_>> {
    let mut all: Vec<Copied<'_>> = Vec::new();
    for estimate in &results.estimates {
        let is_known = |one: &Copied<'_>| one.arm == estimate.arm && *one.setting == estimate.setting;
        let Some(freshness) = estimate.device.freshness.filter(|_| !all.iter().any(is_known)) else { continue };
        all.push(Copied { arm: &estimate.arm, setting: &estimate.setting, freshness });
    }
    all
}

/// So many changes: `3.20 MB`, `12.3 k tuples`.
pub(crate) fn amount(unit: ChangeUnit, changes: f64) -> String {
    let (large, thousand, one) = match unit {
        ChangeUnit::LogBytes => ("MB", "kB", "B"),
        ChangeUnit::Tuples => ("M tuples", "k tuples", "tuples"),
    };
    match changes {
        changes if changes < 999.5 => format!("{} {one}", significant(changes)),
        changes if changes < 999_500.0 => format!("{} {thousand}", significant(changes / 1e3)),
        changes => format!("{} {large}", significant(changes / 1e6)),
    }
}

/// Why the copy cannot keep up, with what would help; `None` if it can, or that is not known.
pub(crate) fn overload(freshness: &Freshness) -> Option<String> {
    let rates = rates(freshness).filter(|rates| !rates.is_stable())?;
    let load = rates.propagation_load();
    if rates.folded == 0.0 {
        return Some(
            "the copy cannot keep up: nothing was applied to it, though there was something to apply".to_owned(),
        );
    }
    Some(if load < 1.0 {
        "queries cannot keep up: changes come faster than they merge them, and each takes longer than the one before"
            .to_owned()
    } else {
        let more = significant(load / LOAD_MAX);
        let remedy = match freshness.unit {
            ChangeUnit::Tuples => format!("propagation {more} times as fast would, as by more threads"),
            ChangeUnit::LogBytes => {
                format!("replay, which is one process, would have to be {more} times as fast: let fewer clients write")
            }
        };
        format!(
            "the copy cannot keep up: changes come {} times as fast as they are applied; {remedy}",
            significant(load)
        )
    })
}

/// As the model has them; a copy whose queries merge nothing is not held up by that.
fn rates(freshness: &Freshness) -> Option<Rates> {
    let merged = freshness.mu_merge.unwrap_or(f64::INFINITY);
    Some(Rates { published: freshness.lambda?, folded: freshness.mu?, merged })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn a_copy_that_cannot_keep_up_is_told_with_a_remedy() {
        let check = |unit, lambda, mu, mu_merge, expect: Option<&str>| {
            let freshness = Freshness { unit, lambda: Some(lambda), mu, mu_merge, ..fixture::copy::standby() };
            let told = overload(&freshness);
            assert_eq!(told.is_some(), expect.is_some(), "{told:?}");
            assert!(told.unwrap_or_default().contains(expect.unwrap_or_default()), "{expect:?}");
        };
        check(ChangeUnit::LogBytes, 1e6, Some(4e6), None, None);
        check(ChangeUnit::LogBytes, 1e6, None, None, None);
        check(ChangeUnit::LogBytes, 1e6, Some(0.0), None, Some("nothing was applied to it"));
        check(ChangeUnit::LogBytes, 2e6, Some(1e6), None, Some("2.00 times as fast as they are applied; replay"));
        check(ChangeUnit::Tuples, 1.6e6, Some(1e6), Some(1e9), Some("propagation 2.00 times as fast would"));
        check(ChangeUnit::Tuples, 1e6, Some(4e6), Some(5e5), Some("queries cannot keep up"));
    }

    #[test]
    fn amounts_have_a_unit_that_fits() {
        assert_eq!(amount(ChangeUnit::LogBytes, 3_200_000.0), "3.20 MB");
        assert_eq!(amount(ChangeUnit::LogBytes, 0.0), "0 B");
        assert_eq!(amount(ChangeUnit::Tuples, 12_300.0), "12.3 k tuples");
    }

    #[test]
    fn an_arm_is_told_once_for_all_of_its_workloads() {
        let mut results = fixture::study();
        assert_eq!(copied(&results).len(), 0, "there is no copy");
        results.estimates.iter_mut().for_each(|cell| cell.device.freshness = Some(fixture::copy::standby()));
        let arms: std::collections::BTreeSet<&str> = results.estimates.iter().map(|cell| cell.arm.as_str()).collect();
        assert!(results.estimates.len() > arms.len());
        assert_eq!(copied(&results).len(), arms.len());
    }
}
