//! Turns the measurements of clients and sensors in one run into its record.

use std::collections::BTreeMap;

use plimsoll_workload::database::Database;
use plimsoll_workload::driver::{Drive, DriveMeasurement, DrivenWorkload, WorkloadMeasurement};
use plimsoll_workload::schema::Schema;

use super::observer::{SensorReading, ServerReading, WorkloadReading};
use crate::activity::ServedWorkload;
use crate::failed;
use crate::histograms::WorkloadHistograms;
use crate::plan::{Arm, Setting};
use crate::record::{RunId, RunRecord, SampleRow};
use crate::results::{PlannedQuery, Point, WorkloadResult};
use crate::time_share::time_share;

pub(super) fn record(
    id: RunId,
    at_s: f64,
    setting: &Setting,
    arm: &Arm,
    measured: &DriveMeasurement,
    reading: SensorReading,
    plans: Vec<PlannedQuery>,
) -> RunRecord {
    let mut notes = [measured.notes.as_slice(), &reading.warnings].concat();
    let sensed = measured.workloads.iter().zip(&reading.workloads);
    let workloads: Vec<WorkloadResult> = sensed.map(|(driven, sensed)| result(driven, sensed, &mut notes)).collect();
    let idle = measured.workloads.iter().find(|workload| workload.all.work_done == 0.0);
    let idle = idle.map(|workload| failed::idle(&workload.measured));
    let unlimited = reading.limits.iter().find_map(|(limit, verdict)| {
        verdict.why_not.as_ref().map(|why| format!("the limit of {limit} did not take effect: {why}"))
    });
    let achieved = reading.limits.iter().filter_map(|(limit, verdict)| {
        let achieved = verdict.achieved.as_ref()?;
        Some((limit.clone(), serde_json::to_value(achieved).expect("a number or a text")))
    });
    let achieved = achieved.collect();
    let blind = reading.server.as_ref().and_then(|server| server.sampler.ended.as_ref());
    let blind = blind.map(|why| format!("the server could not be watched to the end of the window: {why}"));
    let why_invalid = idle.or(unlimited).or(blind).or(reading.copy_fault);
    let marks = reading.server.as_ref().map_or(&[][..], |server| &server.marks);
    let samples = measured.workloads.iter().enumerate();
    let samples = samples.flat_map(|(place, workload)| SampleRow::of(workload, place, &reading.seconds, marks));
    let samples = samples.collect();
    let point = Point {
        warmup_s: measured.warmup.lasted.as_secs_f64(),
        valid: why_invalid.is_none(),
        why_invalid,
        window_s: measured.window.as_secs_f64(),
        achieved,
        workloads,
        device: reading.device,
        unmeasured: reading.unmeasured,
        counters: reading.counted.counters,
        top_down: reading.counted.top_down,
        server: reading.server,
        governor: reading.governor,
        plans,
        ..Point::new(id, setting, arm, at_s)
    };
    let histograms = measured.workloads.iter().map(WorkloadHistograms::of).collect();
    let clamped = measured.workloads.iter().filter_map(|driven| clamped(&arm.name, driven));
    let warnings = measured.warnings.iter().cloned().chain(clamped).collect();
    RunRecord { id, point, histograms, samples, warnings, notes }
}

/// Makes a run invalid of which a larger share of some workload's requests failed. That is then the reason, because it also
/// explains why nothing completed.
pub(super) fn refuse_failures(point: &mut Point, failed_max: f64) {
    if let Some(why) = point.workloads.iter().find_map(|workload| failed::too_many(workload, failed_max)) {
        (point.valid, point.why_invalid) = (false, Some(why));
    }
}

/// The result of one workload, with the measurements of sensors.
fn result(driven: &DrivenWorkload, sensed: &WorkloadReading, notes: &mut Vec<String>) -> WorkloadResult {
    notes.extend(measure_of_queries(driven));
    let counted = &sensed.counted;
    let mut result = WorkloadResult {
        driven: driven.measured.clone(),
        block_io_s: sensed.block_io.map(|waited| waited.as_secs_f64()),
        counters: counted.counters,
        top_down: counted.top_down.clone(),
        cache_misses: counted.cache_misses.clone(),
        server: None,
        simulated: None,
    };
    match &sensed.on_server {
        Some(of) => {
            let ServerReading { seen, looks, times, clients } = of;
            let window = sensed.serving.window;
            let known = ServedWorkload { seen, looks: *looks, times: *times, clients: *clients, window };
            known.shares(driven, notes).fill_in(&mut result);
        }
        None => result.all.time_share = time_share(driven, &sensed.serving, notes),
    }
    result
}

/// The record of a run that was ended early, because the server was lost or nothing worked.
pub(super) fn without_figures(id: RunId, at_s: f64, setting: &Setting, arm: &Arm, why: String) -> RunRecord {
    let point = Point { why_invalid: Some(why), ..Point::new(id, setting, arm, at_s) };
    RunRecord { id, point, histograms: Vec::new(), samples: Vec::new(), warnings: Vec::new(), notes: Vec::new() }
}

/// The kinds of the indexes of all tables that the workloads use, by schema and table.
pub(super) fn indexes(database: &dyn Database, drives: &[Drive<'_>]) -> BTreeMap<String, String> {
    let of_schema = |schema: &Schema| {
        let named = |(table, kind): (String, &str)| (format!("{}.{table}", schema.name), kind.to_owned());
        database.indexes(schema).into_iter().map(named).collect::<Vec<_>>()
    };
    drives.iter().flat_map(|drive| of_schema(drive.benchmark.schema())).collect()
}

/// What the throughput of queries counts.
fn measure_of_queries(driven: &DrivenWorkload) -> Option<String> {
    let WorkloadMeasurement { name, analytical, .. } = &driven.measured;
    analytical.then(|| {
        format!(
            "{name}: throughput credits each query with the share of its time inside the window; since queries differ in cost, arms are compared at an equal mix of them"
        )
    })
}

/// That some latencies were longer than can be recorded.
fn clamped(arm: &str, driven: &DrivenWorkload) -> Option<String> {
    let (name, clamped) = (&driven.measured.name, driven.clamped);
    (clamped > 0)
        .then(|| format!("{name}: {clamped} latencies in {arm} were above an hour and are recorded as an hour"))
}
