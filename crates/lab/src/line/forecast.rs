//! Predicts the effect of each lever by the fluid model of [`plimsoll_model::shares`], and the order in which levers
//! are worth measuring.
//!
//! A workload demands as many cores as it used alone. The predicted share of its throughput is the ratio of the cores
//! it gets to its demand, times a factor for the loss in the study that dividing cores does not explain (caches, locks,
//! disks). Only cache classes are assumed to change that factor, to 1: the most that they can achieve. Without CPU
//! figures nothing is predicted, and levers come in the order of their list.
//!
//! First comes the lever that leaves the others most of those that are predicted to let the protected workload keep its
//! required share with a margin, then the one with which that workload keeps most of all: a price worth paying, and the
//! answer to whether any price is enough. The rest follow, those that are predicted to be enough first.

use std::collections::BTreeMap;

use plimsoll_model::shares::{Demand, divided};

use super::LineRequest;
use super::levers::{Effect, Lever, own};
use crate::results::{Estimate, Results};
use crate::summary::TOGETHER;

/// Each workload's predicted part of its throughput alone.
type PredictedShares = BTreeMap<String, f64>;

/// What a prediction must exceed the required share by: half of a usual interval, and what the model leaves out.
const MARGIN: f64 = 0.05;

/// The least share that a setting must leave the others. Less stops them, which needs no measurement: it isolates, at the
/// highest price.
const OTHERS_MIN: f64 = 0.01;

/// Predictions that differ by less are the same.
const SAME: f64 = 1e-6;

/// The largest part of the cores that others count as taking: something is always left to divide.
const OTHERS_PART_MAX: f64 = 0.9;

/// Levers with their predictions, the most promising first.
pub(super) fn ranked(
    results: &Results,
    wanted: &LineRequest,
    protect: &str,
    levers: Vec<Lever>,
) -> Vec<(Lever, PredictedShares)> {
    let machine = Machine::of(results, protect, wanted.queries.as_deref());
    let told = |effect: &Effect| machine.as_ref().map(|machine| machine.keeps(effect)).unwrap_or_default();
    let all = levers.into_iter().map(|lever| (told(&lever.effect), lever)).map(|(a, b)| (b, a)).collect();
    in_order(all, protect, wanted.slo)
}

/// The same levers in the order in which they are worth measuring.
fn in_order(mut all: Vec<(Lever, PredictedShares)>, protect: &str, slo: f64) -> Vec<(Lever, PredictedShares)> {
    let keeps = |predicted: &PredictedShares| predicted.get(protect).copied().unwrap_or(0.0);
    let others = |predicted: &PredictedShares| -> f64 {
        predicted.iter().filter(|(name, _)| *name != protect).map(|(_, keeps)| keeps).sum()
    };
    let stops = |predicted: &PredictedShares| !predicted.is_empty() && others(predicted) < OTHERS_MIN;
    let worth = |predicted: &PredictedShares| match keeps(predicted) {
        own if stops(predicted) => (0, own),
        own if own >= (slo + MARGIN).min(1.0) => (2, others(predicted)),
        own => (1, own),
    };
    // The sort is stable: equals stay in the order of the list.
    all.sort_by(|a, b| {
        let ((rank_a, a), (rank_b, b)) = (worth(&a.1), worth(&b.1));
        rank_b.cmp(&rank_a).then(b.total_cmp(&a))
    });
    let rest = all.iter().enumerate().skip(1).filter(|(_, one)| !stops(&one.1));
    // Where cores explain nothing, a thread of little weight still wakes later, and leaves its core sooner.
    let strength = |one: &(Lever, PredictedShares)| (keeps(&one.1), -one.0.effect.weight);
    let strongest = rest.reduce(|best, one| {
        let (own, weight) = strength(one.1);
        let (most, least) = strength(best.1);
        if own > most + SAME || (own > most - SAME && weight > least) { one } else { best }
    });
    if let Some((at, _)) = strongest {
        all[1..=at].rotate_right(1);
    }
    all
}

/// The protected workload and the others, as the study has measured them.
struct Machine {
    cores: f64,
    classes: Vec<Class>,
}

struct Class {
    name: String,
    is_protected: bool,
    clients: f64,
    /// Cores of each client that has work, at most.
    dop: f64,
    /// Cores used alone.
    used: f64,
    /// The part of its throughput alone that it kept in the study, over the part that dividing cores alone would leave.
    unexplained: f64,
}

impl Machine {
    /// `queries` is the workload whose requests are queries although the driver counts them as transactions.
    fn of(results: &Results, protect: &str, queries: Option<&str>) -> Option<Self> {
        let all = results.machine.cores_usable as f64;
        let dop = own(results, "dop").and_then(|dop| dop.parse::<f64>().ok()).unwrap_or(1.0);
        let find = |name: &str, arm: &str| -> Option<&Estimate> {
            results.estimates.iter().find(|one| one.workload == name && one.arm == arm)
        };
        let class = |name: &String| {
            let alone = find(name, &format!("alone:{name}"))?;
            let used = alone.device.cpu_busy? * all;
            let is_analytical = alone.measured.analytical || queries == Some(name);
            (used > 0.0).then(|| Class {
                name: name.clone(),
                is_protected: name == protect,
                clients: alone.measured.clients as f64,
                dop: if is_analytical { dop } else { 1.0 },
                used,
                unexplained: 1.0,
            })
        };
        let classes = results.experiment.workloads.iter().map(class).collect::<Option<Vec<Class>>>()?;
        // What others on the machine take is not there to divide.
        let together = results.estimates.iter().find(|one| one.arm == TOGETHER)?;
        let taken = together.device.busy_cores_others.unwrap_or(0.0).min(all * OTHERS_PART_MAX);
        let cores = all - taken;
        let mut machine = Machine { cores, classes };
        let by_cores = machine.keeps(&Effect::NONE);
        for class in &mut machine.classes {
            let ratio = results.interference.iter().find(|one| one.workload == class.name && one.arm == TOGETHER)?;
            class.unexplained = (ratio.ratio.value / by_cores[&class.name]).min(1.0);
        }
        Some(machine)
    }

    fn keeps(&self, effect: &Effect) -> PredictedShares {
        let demand = |class: &Class| {
            let (clients, dop, weight) = match class.is_protected {
                true => (class.clients, class.dop, 1.0),
                false => (
                    effect.clients.map_or(class.clients, |most| class.clients.min(most)),
                    effect.dop.map_or(class.dop, |most| class.dop.min(most)),
                    effect.weight,
                ),
            };
            Demand { cores: class.used.min(clients * dop), weight: (clients * dop).max(1.0) * weight }
        };
        let demands: Vec<Demand> = self.classes.iter().map(demand).collect();
        let got = match effect.split {
            None => divided(self.cores, &demands),
            Some((protected, others)) => self.apart(&demands, protected, others),
        };
        let keeps = |(class, got): (&Class, f64)| {
            let unexplained = if effect.divides_cache { 1.0 } else { class.unexplained };
            (class.name.clone(), (got / class.used * unexplained).min(1.0))
        };
        self.classes.iter().zip(got).map(keeps).collect()
    }

    /// The cores that each workload gets if both sides have cores of their own.
    fn apart(&self, demands: &[Demand], protected: f64, others: f64) -> Vec<f64> {
        let side = |is_protected: bool, cores: f64| {
            let at: Vec<usize> =
                (0..demands.len()).filter(|at| self.classes[*at].is_protected == is_protected).collect();
            let got = divided(cores, &at.iter().map(|at| demands[*at]).collect::<Vec<_>>());
            at.into_iter().zip(got).collect::<Vec<_>>()
        };
        let mut all = side(true, protected);
        all.extend(side(false, others));
        all.sort_by_key(|(at, _)| *at);
        all.into_iter().map(|(_, got)| got).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lever(number: usize, own: f64, other: f64) -> (Lever, PredictedShares) {
        let lever =
            Lever { words: number.to_string(), options: BTreeMap::new(), effect: Effect::NONE, how: Vec::new() };
        (lever, [("oltp".to_owned(), own), ("olap".to_owned(), other)].into())
    }

    proptest! {
        /// Whatever is predicted, no lever is lost, the first is the cheapest that is enough or else the strongest, and the
        /// two that are measured contain the strongest.
        #[test]
        fn the_cheapest_that_is_enough_and_the_strongest_are_measured(
            shares in prop::collection::vec((0.0..1.0_f64, 0.0..1.0_f64), 1..12), slo in 0.3..1.0_f64,
        ) {
            let all: Vec<_> = shares.iter().enumerate().map(|(at, (own, other))| lever(at, *own, *other)).collect();
            let ordered = in_order(all, "oltp", slo);
            let mut words: Vec<usize> = ordered.iter().map(|(lever, _)| lever.words.parse().expect("a number")).collect();
            let two: Vec<usize> = words.iter().take(2).copied().collect();
            words.sort_unstable();
            prop_assert_eq!(words, (0..shares.len()).collect::<Vec<_>>());
            let goes_on = |at: &usize| shares[*at].1 >= OTHERS_MIN;
            let is_enough = |at: &usize| goes_on(at) && shares[*at].0 >= (slo + MARGIN).min(1.0);
            let enough: Vec<usize> = (0..shares.len()).filter(is_enough).collect();
            let alive = (0..shares.len()).filter(|at| goes_on(at) || !(0..shares.len()).any(|at| goes_on(&at)));
            let strongest = alive.map(|at| shares[at].0).fold(0.0, f64::max);
            match enough.is_empty() {
                true => prop_assert!((shares[two[0]].0 - strongest).abs() <= SAME),
                false => {
                    let most = enough.iter().map(|at| shares[*at].1).fold(0.0, f64::max);
                    prop_assert!(is_enough(&two[0]) && shares[two[0]].1 == most);
                }
            }
            prop_assert!(two.iter().any(|at| (shares[*at].0 - strongest).abs() <= SAME));
        }
    }
}
