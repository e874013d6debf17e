//! The copy that queries read, arm by arm, in words for the table and the report.

use plimsoll_model::freshness::Rates;
use plimsoll_workload::freshness::{ChangeUnit, Freshness};

use crate::analysis::cells::SettingValues;
use crate::results::Results;
use plimsoll_display::{duration_us, significant};

/// A load of propagation that leaves room for bursts.
const LOAD_MAX: f64 = 0.8;

/// From this load on, a copy cannot keep up although changes are applied all the time: commits wait for it.
const LOAD_FULL: f64 = 0.95;

/// The option for the number of threads that apply changes.
const THREADS: &str = "propagation_threads";

/// An arm at a setting, and the state of its copy, mean over runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArmCopy<'a> {
    pub arm: &'a str,
    pub setting: &'a SettingValues,
    pub freshness: Freshness,
    /// Threads that apply changes; `None` if their number is not an option.
    pub threads: Option<u32>,
}

/// Every arm and setting with a copy, each once: the figures are of the run, not of a workload.
pub(crate) fn copied(results: &Results) -> Vec<ArmCopy<'_>> {
    let mut all: Vec<ArmCopy<'_>> = Vec::new();
    for estimate in &results.estimates {
        let is_known = |one: &ArmCopy<'_>| one.arm == estimate.arm && *one.setting == estimate.setting;
        let Some(freshness) = estimate.device.freshness.filter(|_| !all.iter().any(is_known)) else { continue };
        let threads = threads(results, &estimate.setting);
        all.push(ArmCopy { arm: &estimate.arm, setting: &estimate.setting, freshness, threads });
    }
    all
}

/// How many threads apply changes at a setting.
fn threads(results: &Results, setting: &SettingValues) -> Option<u32> {
    let is_meant = |key: &str| key.split('+').any(|part| part.trim_start_matches("target.") == THREADS);
    let swept = setting.iter().find(|(key, _)| is_meant(key)).map(|(_, value)| value);
    let value = swept.or_else(|| results.experiment.settings.get(&format!("target.{THREADS}")))?;
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).and_then(|threads| u32::try_from(threads).ok())
}

/// An amount of changes: `3.20 MB`, `12.3 k tuples`.
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

/// Why the copy cannot keep up, with a remedy; `None` if it can, or if that is not known.
pub(crate) fn overload(copied: &ArmCopy<'_>) -> Option<String> {
    let freshness = &copied.freshness;
    let rates = rates(freshness)?;
    let load = rates.propagation_load();
    if rates.folded == 0.0 && rates.published > 0.0 {
        return Some(
            "the copy cannot keep up: nothing was applied to it, though there was something to apply".to_owned(),
        );
    }
    let is_full = load >= LOAD_FULL && freshness.busy.is_some_and(|busy| busy >= LOAD_FULL);
    let found = match (load >= 1.0, is_full, rates.merge_load() >= 1.0) {
        (true, ..) => {
            format!("the copy cannot keep up: changes come {} times as fast as they are applied", significant(load))
        }
        (_, true, _) => {
            "the copy just keeps up: changes are applied all the time, and commits may wait for it".to_owned()
        }
        (.., true) => {
            return Some(
                "queries cannot keep up: changes come faster than they merge them, and each takes longer than the one before"
                    .to_owned(),
            );
        }
        _ => return None,
    };
    let more = significant(load / LOAD_MAX);
    let remedy = match (freshness.unit, copied.threads) {
        (ChangeUnit::Tuples, Some(threads @ 1..)) => {
            let needed = rates.threads_needed(threads, LOAD_MAX).max(threads + 1);
            format!("{THREADS}={needed} would be enough, if each thread has a core and brings as much as now")
        }
        (ChangeUnit::Tuples, _) => format!("propagation {more} times as fast would, as by more threads"),
        (ChangeUnit::LogBytes, _) => {
            format!("replay, which is one process, would have to be {more} times as fast: let fewer clients write")
        }
    };
    Some(format!("{found}; {remedy}"))
}

/// The age of answers if it differs from that of the copy; `None` if it does not, or if that is not known.
pub(crate) fn answers(freshness: &Freshness) -> Option<String> {
    let age = freshness.staleness_us.filter(|age| Some(*age) != freshness.lag_us)?;
    let most = age.max?;
    Some(match age.p95 {
        _ if most == 0.0 => "queries merge what the copy lacks: they miss no commit".to_owned(),
        Some(p95) => format!(
            "queries merge some of what the copy lacks: they miss commits of the last {} for 95 % of the time, of {} at most",
            duration_us(p95),
            duration_us(most)
        ),
        None => format!(
            "queries merge some of what the copy lacks: they miss commits of the last {} at most",
            duration_us(most)
        ),
    })
}

/// The rates of the model. A copy whose queries merge nothing is not delayed by merging.
fn rates(freshness: &Freshness) -> Option<Rates> {
    let merged = freshness.mu_merge.unwrap_or(f64::INFINITY);
    Some(Rates { published: freshness.lambda?, folded: freshness.mu?, merged })
}

#[cfg(test)]
mod tests {
    use plimsoll_workload::freshness::Spread;

    use super::*;
    use crate::report::fixture;

    #[test]
    fn a_copy_that_cannot_keep_up_is_told_with_a_remedy() {
        let setting = SettingValues::new();
        let check = |unit, lambda, mu, mu_merge, expect: Option<&str>| {
            let freshness = Freshness { unit, lambda: Some(lambda), mu, mu_merge, ..fixture::copy::standby() };
            let told = overload(&ArmCopy { arm: "together", setting: &setting, freshness, threads: None });
            assert_eq!(told.is_some(), expect.is_some(), "{told:?}");
            assert!(told.unwrap_or_default().contains(expect.unwrap_or_default()), "{expect:?}");
        };
        check(ChangeUnit::LogBytes, 1e6, Some(4e6), None, None);
        check(ChangeUnit::LogBytes, 1e6, None, None, None);
        check(ChangeUnit::LogBytes, 1e6, Some(0.0), None, Some("nothing was applied to it"));
        check(ChangeUnit::LogBytes, 2e6, Some(1e6), None, Some("2.00 times as fast as they are applied; replay"));
        check(ChangeUnit::Tuples, 1.6e6, Some(1e6), Some(1e9), Some("propagation 2.00 times as fast would"));
        check(ChangeUnit::Tuples, 1e6, Some(4e6), Some(5e5), Some("queries cannot keep up"));
        check(ChangeUnit::Tuples, 0.99e6, Some(1e6), None, None);
    }

    #[test]
    fn how_many_threads_would_keep_up_is_told_where_their_number_is_an_option() {
        let mut results = fixture::study();
        let busy = Freshness {
            unit: ChangeUnit::Tuples,
            lambda: Some(1.7e6),
            mu: Some(1e6),
            busy: Some(1.0),
            ..fixture::copy::standby()
        };
        let told = |results: &mut Results, freshness: Freshness| {
            results.estimates.iter_mut().for_each(|cell| cell.device.freshness = Some(freshness));
            overload(&copied(results)[0])
        };
        assert!(told(&mut results, busy).is_some_and(|why| why.ends_with("times as fast would, as by more threads")));
        results.experiment.settings.insert("target.propagation_threads".to_owned(), 1.into());
        assert!(told(&mut results, busy).is_some_and(|why| why.contains("; propagation_threads=3 would be enough")));
        let full = Freshness { lambda: Some(0.97e6), ..busy };
        assert!(told(&mut results, full).is_some_and(|why| why.starts_with("the copy just keeps up")));
        assert_eq!(told(&mut results, Freshness { busy: Some(0.5), ..full }), None);
        let swept = |results: &mut Results, key: &str, value: serde_json::Value| {
            results.estimates.iter_mut().for_each(|cell| cell.setting = [(key.to_owned(), value.clone())].into());
        };
        swept(&mut results, "dop+target.propagation_threads", 2.into());
        assert!(told(&mut results, busy).is_some_and(|why| why.contains("; propagation_threads=5 would be enough")));
    }

    #[test]
    fn the_age_of_answers_is_told_where_it_is_not_that_of_the_copy() {
        let standby = fixture::copy::standby();
        assert_eq!(answers(&standby), None, "queries of a standby read what is replayed");
        let age = |p95, max| Some(Spread { p50: Some(0.0), p95, max: Some(max) });
        let told = |staleness_us| answers(&Freshness { staleness_us, ..standby }).unwrap_or_default();
        assert_eq!(told(age(Some(0.0), 0.0)), "queries merge what the copy lacks: they miss no commit");
        assert!(
            told(age(Some(5_000.0), 9_000.0)).ends_with("the last 5.00 ms for 95 % of the time, of 9.00 ms at most")
        );
        assert!(told(age(None, 9_000.0)).ends_with("the last 9.00 ms at most"));
        assert_eq!(told(None), "");
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
