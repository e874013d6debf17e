//! Turns the counts of the simulator into the record of a run.

use plimsoll_model::cache_simulator::{Outcome, Simulation, WorkloadFigures};

use crate::plan::{Arm, Setting};
use crate::record::{RunId, RunRecord};
use crate::results::{Device, Part, Point, SimulatedCache, WorkloadMeasurement, WorkloadResult};

/// A steady simulation is as fast in the first half of the counted references as in the second, within this share.
const DRIFT_MAX: f64 = 0.03;

/// A simulation that has ended.
#[derive(Debug)]
pub(crate) struct SimulatedRun<'a> {
    pub id: RunId,
    /// When it began, seconds since the experiment did.
    pub at_s: f64,
    pub setting: &'a Setting,
    pub arm: &'a Arm,
    pub simulation: &'a Simulation,
    pub outcome: &'a Outcome,
}

/// The record of a run. Its window is virtual time; figures that the simulator lacks, such as latencies, are missing.
pub(crate) fn record(run: &SimulatedRun<'_>) -> RunRecord {
    let SimulatedRun { id, at_s, setting, arm, simulation, outcome } = *run;
    let figures = || outcome.workloads.iter();
    let unsteady = figures().filter(|figures| figures.drift.abs() > DRIFT_MAX).map(|figures| {
        let (name, percent) = (&figures.name, figures.drift * 100.0);
        format!(
            "{name}: throughput changed by {percent:+.1} % from the first half of the counted references to the second; raise `warm_up`"
        )
    });
    let idle = figures()
        .find(|figures| figures.total().rows == 0.0)
        .map(|figures| format!("{} finished no row within the counted references; raise `references`", figures.name));
    let members = arm.members.iter().zip(&simulation.workloads).zip(figures());
    let workloads = members.map(|((member, simulated), figures)| {
        result(&setting.workloads[*member].kind, simulated.cores, figures, outcome)
    });
    let point = Point {
        warmup_s: outcome.warm_up_ns / 1e9,
        valid: idle.is_none(),
        why_invalid: idle,
        window_s: outcome.time_ns / 1e9,
        workloads: workloads.collect(),
        device: Device { dram_read_gb_s: Some(outcome.memory_bytes_per_s / 1e9), ..Device::default() },
        ..Point::new(id, setting, arm, at_s)
    };
    let warnings = unsteady.collect();
    RunRecord { id, point, histograms: Vec::new(), samples: Vec::new(), warnings, notes: Vec::new() }
}

fn result(kind: &str, cores: u32, figures: &WorkloadFigures, outcome: &Outcome) -> WorkloadResult {
    let total = figures.total();
    let all = Part { completed: total.rows as u64, throughput_per_s: figures.rows_per_s(), ..Part::default() };
    let (name, kind) = (figures.name.clone(), kind.to_owned());
    WorkloadResult {
        driven: WorkloadMeasurement { name, kind, clients: cores as usize, all, ..WorkloadMeasurement::default() },
        simulated: Some(SimulatedCache {
            references: total.references,
            sampled: total.sampled,
            private_hits: total.private_hits,
            shared_hits: total.shared_hits,
            misses: total.misses,
            memory_wait_ns: outcome.memory_wait_ns,
        }),
        ..WorkloadResult::default()
    }
}
