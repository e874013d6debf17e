//! From what clients measured to what `results.json` says.

use std::collections::BTreeMap;

use plimsoll_workload::driver::{AbortCounts, PartMeasurement, WorkloadMeasurement};

use crate::latency;
use crate::results::{Aborted, Counters, Locks, Part, TimeShare, WorkloadResult};

/// What one workload did, in the words of `results.json`.
pub(super) fn workload_result(
    measured: &WorkloadMeasurement,
    time_share: Option<TimeShare>,
    counters: Option<Counters>,
) -> WorkloadResult {
    let transactions = measured.transactions.iter().map(|(name, part_)| ((*name).to_owned(), part(part_)));
    let classes = measured.classes.iter().map(|(priority, part_)| (priority.name().to_owned(), part(part_)));
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
        counters,
    }
}

fn part(part: &PartMeasurement) -> Part {
    Part { completed: part.completed, throughput_per_s: part.throughput_per_s, latency_us: latency::figures(&part.latency_us) }
}

fn aborted(counts: &AbortCounts) -> Aborted {
    let AbortCounts { deadlock, preempted, user, error } = *counts;
    Aborted { deadlock, preempted, user, error }
}
