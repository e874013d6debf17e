//! Experiments measured on a target whose response is known, for tests: made-up records of runs.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use plimsoll_workload::database::Database;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::Value;

use crate::document::{Provenance, document, settings};
use crate::experiment::{Terms, parse, resolve};
use crate::histograms::{Latencies, LockHistograms, WorkloadHistograms, merged};
use crate::plan::{Plan, Setting};
use crate::record::{RunId, RunRecord};
use crate::report::fixture;
use crate::results::{Latency, Part, Point, Results, WorkloadMeasurement, WorkloadResult};
use crate::targets::{Target, Targets};

/// A target that accepts any option and opens nothing.
pub(crate) struct Paper;

impl Targets for Paper {
    fn target(&self, url: &str, options: &BTreeMap<String, String>) -> Result<Box<dyn Target>, String> {
        Ok(Box::new(PaperTarget { url: url.to_owned(), options: options.clone() }))
    }

    fn option_names(&self, _: &str) -> Vec<&'static str> {
        vec!["dop", "memory", "policy", "lock_policy", "cpu_policy", "governor", "governor_low_share", "governor_mpl"]
    }
}

struct PaperTarget {
    url: String,
    options: BTreeMap<String, String>,
}

impl Target for PaperTarget {
    fn settings(&self) -> BTreeMap<String, Value> {
        let options = self.options.iter().map(|(name, value)| (format!("target.{name}"), value.clone().into()));
        [("target.url".to_owned(), self.url.clone().into())].into_iter().chain(options).collect()
    }

    fn open(&self) -> Result<Box<dyn Database>, String> {
        Err("paper holds no rows".to_owned())
    }
}

pub(crate) fn plan(text: &str) -> Plan {
    let resolved = parse(text, "x.toml").and_then(|experiment| resolve(&experiment, &Terms::here(&Paper, false)));
    resolved.unwrap_or_else(|error| panic!("{error}"))
}

/// Normally distributed relative noise with this standard deviation.
pub(crate) struct Noise {
    random: Pcg64,
    deviation: f64,
}

impl Noise {
    pub(crate) fn new(seed: u64, deviation: f64) -> Self {
        Noise { random: Pcg64::seed_from_u64(seed), deviation }
    }

    /// The next factor, by Box and Muller's transform.
    pub(crate) fn factor(&mut self) -> f64 {
        let (radius, angle): (f64, f64) = (1.0 - self.random.random::<f64>(), self.random.random());
        1.0 + self.deviation * (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }
}

/// Length of every window, seconds.
pub(crate) const WINDOW_S: f64 = 10.0;

/// How many latencies each run keeps.
pub(crate) const LATENCIES: u64 = 200;

/// The record of a run in which each workload of the arm, by name, has this throughput per second.
pub(crate) fn record(plan: &Plan, id: RunId, throughput: impl Fn(&str) -> f64) -> RunRecord {
    let arm = &plan.arms[id.arm];
    let setting = plan.setting(id.setting);
    let done: Vec<(WorkloadResult, WorkloadHistograms)> = arm
        .members
        .iter()
        .map(|member| {
            let name = &setting.workloads[*member].name;
            result(&setting, *member, throughput(name))
        })
        .collect();
    let (workloads, histograms) = done.into_iter().unzip();
    let point = Point { valid: true, window_s: WINDOW_S, workloads, ..Point::new(id, &setting, arm, 0.0) };
    RunRecord { id, point, histograms, samples: Vec::new(), warnings: Vec::new(), notes: Vec::new() }
}

/// Clients that never pause: the mean latency follows from the throughput; latencies range from half to one and a half
/// times the mean. The throughput of requests that arrive at a rate is that rate, and `throughput` is one over their
/// mean latency in seconds.
fn result(setting: &Setting, member: usize, throughput: f64) -> (WorkloadResult, WorkloadHistograms) {
    let workload = &setting.workloads[member];
    let (clients, throughput) = match workload.clients.rate {
        Some(rate) => (rate / throughput.max(1e-3), rate),
        None => (workload.clients.clients as f64, throughput),
    };
    let mean_us = clients / throughput.max(1e-3) * 1e6;
    let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("sound bounds");
    for number in 0..LATENCIES {
        let latency = mean_us * (0.5 + (number as f64 + 0.5) / LATENCIES as f64);
        histogram.saturating_record(latency as u64);
    }
    let completed = (throughput * WINDOW_S).round() as u64;
    let part = Part { completed, throughput_per_s: throughput, latency_us: Latency::of(&histogram), ..Part::default() };
    let kind = if workload.kind == "tpch" { "q6" } else { "new_order" };
    let histograms = WorkloadHistograms {
        workload: workload.name.clone(),
        transactions: [(kind.to_owned(), Latencies::of(&histogram))].into(),
        classes: [("low".to_owned(), Latencies::of(&histogram))].into(),
        locks: LockHistograms::default(),
    };
    let driven = WorkloadMeasurement {
        name: workload.name.clone(),
        kind: workload.kind.clone(),
        analytical: workload.kind == "tpch",
        clients: workload.clients.clients,
        all: part.clone(),
        latency_distribution: Latency::distribution(&histogram),
        classes: [("low".to_owned(), part.clone())].into(),
        transactions: [(kind.to_owned(), part)].into(),
        ..WorkloadMeasurement::default()
    };
    (WorkloadResult { driven, ..WorkloadResult::default() }, histograms)
}

/// Every run of a plan, block by block; the first setting runs twice in each block if there are several. `throughput`
/// gives the requests per second of each workload of each run.
pub(crate) fn measure(plan: &Plan, mut throughput: impl FnMut(RunId, &Setting, &str) -> f64) -> Vec<RunRecord> {
    let count = plan.setting_count().expect("few");
    let mut records = Vec::new();
    for repeat in 1..=plan.run.repeats {
        for setting in 0..count {
            for arm in 0..plan.arms.len() {
                for is_again in [false, true] {
                    if is_again && (setting > 0 || count == 1 || !plan.run.again) {
                        continue;
                    }
                    let id = RunId { setting, arm, repeat, is_again };
                    let at = plan.setting(setting);
                    let members = plan.arms[arm].members.iter().map(|member| at.workloads[*member].name.as_str());
                    let figures: BTreeMap<&str, f64> = members.map(|name| (name, throughput(id, &at, name))).collect();
                    records.push(record(plan, id, |name| figures[name]));
                }
            }
        }
    }
    records
}

/// The document of these runs, as it is written to `results.json`.
pub(crate) fn results(plan: &Plan, records: &[RunRecord]) -> Results {
    let provenance = Provenance {
        version: "0.1.0".to_owned(),
        commit: None,
        started: "2026-03-14T09:26:53Z".to_owned(),
        elapsed_s: 1.0,
    };
    document(plan, settings(plan, &Paper), provenance, fixture::study().machine, records, Vec::new())
}

/// The joint latencies of some runs of a workload.
pub(crate) fn pooled(records: &[RunRecord], runs: &[usize], workload: &str) -> Histogram<u64> {
    let of_runs = runs.iter().flat_map(|run| &records[*run].histograms).filter(|one| one.workload == workload);
    merged(of_runs.flat_map(|one| one.transactions.values())).expect("there are some")
}
