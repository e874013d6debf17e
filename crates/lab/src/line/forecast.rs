//! Predicts the effect of each lever by the fluid model of [`plimsoll_model::shares`], and the order in which levers
//! are worth measuring.
//!
//! A workload demands as many cores as it used alone. The predicted share of its throughput is the ratio of the cores
//! it gets to its demand, times a factor for the loss in the study that dividing cores does not explain (caches, locks,
//! disks). Only cache classes are assumed to change that factor, to 1: the most that they can achieve. Without CPU
//! figures nothing is predicted, and levers come in the order of their list.
//!
//! First come the levers that are predicted to let the protected workload keep its required share, ordered by the
//! shares that the others keep. The rest follow, ordered by the share that the protected workload keeps.

use std::collections::BTreeMap;

use plimsoll_model::shares::{Demand, divided};

use super::levers::{Effect, Lever, own};
use crate::results::{Estimate, Results};
use crate::summary::TOGETHER;

/// Each workload's predicted part of its throughput alone.
type PredictedShares = BTreeMap<String, f64>;

/// Levers with their predictions, the most promising first.
pub(super) fn ranked(results: &Results, protect: &str, slo: f64, levers: Vec<Lever>) -> Vec<(Lever, PredictedShares)> {
    let machine = Machine::of(results, protect);
    let told = |effect: &Effect| machine.as_ref().map(|machine| machine.keeps(effect)).unwrap_or_default();
    let mut all: Vec<(Lever, PredictedShares)> =
        levers.into_iter().map(|lever| (told(&lever.effect), lever)).map(|(a, b)| (b, a)).collect();
    let worth = |predicted: &PredictedShares| {
        let own = predicted.get(protect).copied().unwrap_or(0.0);
        let others: f64 = predicted.iter().filter(|(name, _)| *name != protect).map(|(_, keeps)| keeps).sum();
        (own >= slo, if own >= slo { others } else { own })
    };
    // The sort is stable: equals stay in the order of the list.
    all.sort_by(|a, b| {
        let ((kept_a, a), (kept_b, b)) = (worth(&a.1), worth(&b.1));
        kept_b.cmp(&kept_a).then(b.total_cmp(&a))
    });
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
    fn of(results: &Results, protect: &str) -> Option<Self> {
        let cores = results.machine.cores_usable as f64;
        let dop = own(results, "dop").and_then(|dop| dop.parse::<f64>().ok()).unwrap_or(1.0);
        let find = |name: &str, arm: &str| -> Option<&Estimate> {
            results.estimates.iter().find(|one| one.workload == name && one.arm == arm)
        };
        let class = |name: &String| {
            let alone = find(name, &format!("alone:{name}"))?;
            let used = alone.device.cpu_busy? * cores;
            let is_analytical = alone.measured.analytical;
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
