//! The whole of `results.json` from what a study measured.

use std::collections::BTreeMap;
use std::hash::Hasher;

use plimsoll_machine::MachineFacts;
use serde_json::Value;

use super::{StudyMeasurement, StudyPlan, StudyWorkload};
use crate::results::{Experiment, Results};
use crate::summary::Summary;

/// Where and when something was measured, by what.
#[derive(Debug, Clone)]
pub struct Provenance {
    /// Version of the program.
    pub version: String,
    /// Commit the program was built from.
    pub commit: Option<String>,
    /// UTC, ISO 8601, when the experiment began.
    pub started: String,
    /// Seconds it took, loading included.
    pub elapsed_s: f64,
}

/// Every setting of a study by name, the target's included.
pub fn settings(
    workloads: &[StudyWorkload<'_>],
    plan: &StudyPlan,
    target: BTreeMap<String, Value>,
) -> BTreeMap<String, Value> {
    let mut settings = target;
    let mut set = |name: String, value: Value| settings.insert(name, value);
    set("run.warmup_s".to_owned(), plan.window.warmup.as_secs_f64().into());
    set("run.measure_s".to_owned(), plan.window.measure.as_secs_f64().into());
    set("run.blocks".to_owned(), plan.blocks.into());
    set("run.seed".to_owned(), plan.seed.into());
    for workload in workloads {
        set(format!("{}.kind", workload.name), workload.benchmark.name().into());
        let options = serde_json::to_value(workload.options).expect("plain data");
        for (name, value) in options.as_object().into_iter().flatten() {
            set(format!("{}.{name}", workload.name), value.clone());
        }
    }
    settings
}

/// A hash of the settings that is the same on every machine and in every version of the standard library.
fn settings_hash(settings: &BTreeMap<String, Value>) -> String {
    let mut hash = Fnv(0xCBF2_9CE4_8422_2325);
    for (name, value) in settings {
        hash.write(format!("{name}={value}\n").as_bytes());
    }
    format!("{:016x}", hash.finish())
}

/// FNV-1a, 64 bits: not for keeping secrets but for telling settings apart.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }
}

/// The document. Noise floor, interference and advice follow from the points.
pub fn document(
    name: &str,
    provenance: Provenance,
    machine: MachineFacts,
    settings: BTreeMap<String, Value>,
    measured: StudyMeasurement,
) -> Results {
    let summary = Summary::of(&measured.points);
    let is_compared = summary.workloads.len() > 1;
    let (noise_floor, interference) = (summary.noise_floor(), summary.interference());
    let advice = if is_compared { summary.advice() } else { Vec::new() };
    let mut warnings = measured.warnings;
    warnings.push("no top-down breakdown: this version has no method for it".to_owned());
    Results {
        plimsoll: provenance.version,
        commit: provenance.commit,
        started: provenance.started,
        elapsed_s: provenance.elapsed_s,
        machine,
        experiment: Experiment { name: name.to_owned(), settings_hash: settings_hash(&settings), settings },
        noise_floor,
        interference,
        advice,
        points: measured.points,
        knees: Vec::new(),
        claims: Vec::new(),
        checks: None,
        warnings,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_depends_on_every_setting_and_on_nothing_else() {
        let settings = |entries: &[(&str, Value)]| {
            settings_hash(&entries.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
        };
        let one = settings(&[("a", 1.into()), ("b", "x".into())]);
        assert_eq!(one, settings(&[("b", "x".into()), ("a", 1.into())]));
        assert_ne!(one, settings(&[("a", 2.into()), ("b", "x".into())]));
        assert_ne!(one, settings(&[("a", 1.into())]));
        // Pinned: a run of today must be comparable with one of next year.
        assert_eq!(settings(&[("run.seed", 7.into())]), "9208c9bcb8fe5f11");
    }
}
