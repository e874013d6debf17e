//! From what clients measured to what `results.json` says.

use std::collections::BTreeMap;

use plimsoll_workload::driver::{AbortCounts, PartMeasurement, WorkloadMeasurement};

use crate::latency;
use crate::record::SampleRow;
use crate::results::{Aborted, Device, Locks, Part, TimeShare, WorkloadResult};
use crate::sensors::Counted;

/// What one workload did, in the words of `results.json`.
pub(super) fn workload_result(
    measured: &WorkloadMeasurement,
    time_share: Option<TimeShare>,
    counted: &Counted,
) -> WorkloadResult {
    let transactions = measured.transactions.iter().map(|(name, part_)| ((*name).to_owned(), part(part_)));
    let classes = measured.classes.iter().map(|(priority, part_)| (priority.to_string(), part(part_)));
    WorkloadResult {
        name: measured.name.clone(),
        kind: measured.benchmark.to_owned(),
        analytical: measured.is_analytical,
        clients: measured.clients,
        completed: measured.all.completed,
        throughput_per_s: measured.all.throughput_per_s,
        aborted: aborted(&measured.aborted),
        latency_us: latency::figures(&measured.all.latency_us),
        latency_distribution: latency::distribution(&measured.all.latency_us),
        classes: classes.collect::<BTreeMap<_, _>>(),
        transactions: transactions.collect::<BTreeMap<_, _>>(),
        time_share,
        locks: measured.lock_wait.map(|wait| Locks { waits: measured.lock_waits, wait_s: wait.as_secs_f64() }),
        counters: counted.counters,
        top_down: counted.top_down.clone(),
        cache_misses: counted.cache_misses.clone(),
    }
}

/// The seconds of a workload, with what the devices did in each; a second that the observer missed has no device figures.
pub(super) fn samples<'a>(
    measured: &'a WorkloadMeasurement,
    devices: &'a [Device],
) -> impl Iterator<Item = SampleRow> + 'a {
    measured.samples.iter().enumerate().map(|(number, sample)| SampleRow {
        workload: measured.name.clone(),
        second: sample.at_s,
        seconds: sample.seconds,
        completed: sample.completed,
        throughput_per_s: sample.throughput_per_s,
        latency_mean_us: sample.latency_mean_us,
        latency_max_us: sample.latency_max_us,
        aborted: aborted(&sample.aborted),
        lock_wait_s: sample.lock_wait_s,
        device: devices.get(number).copied().unwrap_or_default(),
    })
}

fn part(part: &PartMeasurement) -> Part {
    Part {
        completed: part.completed,
        throughput_per_s: part.throughput_per_s,
        latency_us: latency::figures(&part.latency_us),
    }
}

fn aborted(counts: &AbortCounts) -> Aborted {
    let AbortCounts { deadlock, preempted, user, error } = *counts;
    Aborted { deadlock, preempted, user, error }
}
