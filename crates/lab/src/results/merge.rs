//! Several runs of a workload as one measurement.
//!
//! The result has the type of a single run's measurement, so every figure is read from both in the same way. Counts and times are
//! added up, means are weighted by their numbers of requests, and percentiles are taken from the joined histograms; throughputs,
//! shares and figures of devices are averaged over runs. A figure that one run lacks is missing, because a figure of some runs
//! would be taken for that of all.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_workload::database::NetworkBytes;
use plimsoll_workload::driver::Histogram;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{
    Aborted, Counters, FailedRequests, Latency, Lengths, LockStatistics, LockWait, MeanLength, Part, TimeShare,
    WindowCheck, WorkloadMeasurement, WorkloadResult,
};
use crate::histograms::{Latencies, LockHistograms, WorkloadHistograms, merged};

impl WorkloadResult {
    /// The runs as one; `None` without any. `histograms` are those of the same runs; if some are missing, so are
    /// percentiles of several runs.
    pub fn merged(runs: &[&WorkloadResult], histograms: &[&WorkloadHistograms]) -> Option<WorkloadResult> {
        let (first, rest) = runs.split_first()?;
        if rest.is_empty() {
            return Some((*first).clone());
        }
        let known = if histograms.len() == runs.len() { histograms } else { &[] };
        let joined = merged(known.iter().flat_map(|one| one.transactions.values()));
        let whole: Vec<&Part> = runs.iter().map(|run| &run.all).collect();
        let mut all = merged_part(&whole, runs.len(), joined.as_ref(), &at_locks(known, |_| true));
        // Threads are watched all the time, so each run has the same weight. Parts rest on few looks, so their weight
        // is the count.
        let shares: Option<Vec<_>> = runs.iter().map(|run| Some((run.all.time_share?, 1.0))).collect();
        all.time_share = shares.and_then(|shares| TimeShare::mean(&shares));
        let driven = WorkloadMeasurement {
            name: first.name.clone(),
            kind: first.kind.clone(),
            analytical: first.analytical,
            clients: first.clients,
            all,
            aborted: aborted(runs),
            failed: FailedRequests::merged(runs.iter().flat_map(|run| &run.failed)),
            run_again: FailedRequests::merged(runs.iter().flat_map(|run| &run.run_again)),
            latency_distribution: joined.as_ref().map(Latency::distribution).unwrap_or_default(),
            classes: parts(runs, known, |run| &run.classes, |one| &one.classes, true),
            transactions: parts(runs, known, |run| &run.transactions, |one| &one.transactions, false),
            round_trip_share: average(runs.iter().map(|run| run.round_trip_share)),
            window: WindowCheck::merged(runs.iter().map(|run| &run.window)),
            lock_wait: lock_wait(runs),
        };
        Some(WorkloadResult {
            driven,
            block_io_s: runs.iter().map(|run| run.block_io_s).sum(),
            counters: runs.iter().map(|run| run.counters).reduce(|sum, one| Some(sum?.and(&one?))).flatten(),
            top_down: mean(runs.iter().map(|run| run.top_down.as_ref())),
            cache_misses: mean(runs.iter().map(|run| run.cache_misses.as_ref())),
            server: None,
            simulated: runs.iter().map(|run| run.simulated).reduce(|sum, one| Some(sum?.and(&one?))).flatten(),
        })
    }
}

/// The classes or kinds of transaction of all runs by name.
fn parts<'a>(
    runs: &[&'a WorkloadResult],
    histograms: &[&'a WorkloadHistograms],
    of: fn(&'a WorkloadResult) -> &'a BTreeMap<String, Part>,
    latencies: fn(&'a WorkloadHistograms) -> &'a BTreeMap<String, Latencies>,
    has_locks: bool,
) -> BTreeMap<String, Part> {
    let names: BTreeSet<&String> = runs.iter().flat_map(|run| of(run).keys()).collect();
    let part = |name: &String| {
        let found: Vec<&Part> = runs.iter().filter_map(|run| of(run).get(name)).collect();
        let joined = merged(histograms.iter().filter_map(|one| latencies(one).get(name)));
        let locks = if has_locks { at_locks(histograms, |class| class == name) } else { LengthsAtLocks::default() };
        merged_part(&found, runs.len(), joined.as_ref(), &locks)
    };
    names.into_iter().map(|name| (name.clone(), part(name))).collect()
}

/// Joined histograms of the times of requests at locks; `None` without any.
#[derive(Debug, Default)]
struct LengthsAtLocks {
    queue_time: Option<Histogram<u64>>,
    wait_excess: Option<Histogram<u64>>,
    wait_remainder: Option<Histogram<u64>>,
    work_lost: Option<Histogram<u64>>,
}

fn at_locks(histograms: &[&WorkloadHistograms], is_wanted: impl Fn(&str) -> bool) -> LengthsAtLocks {
    let joined = |of: fn(&LockHistograms) -> &BTreeMap<String, Latencies>| {
        let classes = histograms.iter().flat_map(|one| of(&one.locks)).filter(|(class, _)| is_wanted(class));
        merged(classes.map(|(_, latencies)| latencies))
    };
    LengthsAtLocks {
        queue_time: joined(|locks| &locks.queue_time),
        wait_excess: joined(|locks| &locks.wait_excess),
        wait_remainder: joined(|locks| &locks.wait_remainder),
        work_lost: joined(|locks| &locks.work_lost),
    }
}

/// The same part in several runs, `runs` in all: a run without such a request had a throughput of 0.
fn merged_part(parts: &[&Part], runs: usize, joined: Option<&Histogram<u64>>, at_locks: &LengthsAtLocks) -> Part {
    let lengths = |part: &&Part| MeanLength { count: part.completed, mean_us: part.latency_us.map(|one| one.mean) };
    let known = parts.iter().filter(|part| part.latency_us.is_some());
    let mean = MeanLength::merged(known.map(lengths));
    let slowest = parts.iter().filter_map(|part| Some(part.latency_us?.max)).max();
    let latency_us = mean.mean_us.zip(slowest).map(|(mean, max)| match joined.and_then(Latency::of) {
        Some(figures) => Latency { mean, ..figures },
        None => Latency { mean, p50: None, p90: None, p95: None, p99: None, p999: None, max },
    });
    let locks: Option<Vec<&LockStatistics>> = parts.iter().map(|part| part.locks.as_ref()).collect();
    let (time_share, samples) = time_share_over(parts);
    Part {
        completed: parts.iter().map(|part| part.completed).sum(),
        throughput_per_s: parts.iter().map(|part| part.throughput_per_s).sum::<f64>() / runs.max(1) as f64,
        latency_us,
        in_flight: None,
        locks: locks.map(|locks| with_percentiles(LockStatistics::merged(&locks), at_locks)),
        time_share,
        samples,
        query_memory_bytes: parts.iter().filter_map(|part| part.query_memory_bytes).max(),
        network_bytes: network_bytes(parts),
    }
}

/// The bytes of all runs; `None` if a run in which such a request completed does not know them.
fn network_bytes(parts: &[&Part]) -> Option<NetworkBytes> {
    let runs = parts.iter().filter(|part| part.completed > 0).map(|part| part.network_bytes);
    runs.reduce(|sum, one| Some(sum? + one?)).flatten()
}

/// The time shares of a part over several runs, each run weighted by its looks, and the number of looks at the part in
/// all; `None` without looks.
fn time_share_over(runs: &[&Part]) -> (Option<TimeShare>, Option<u64>) {
    let samples: Vec<u64> = runs.iter().filter_map(|part| part.samples).collect();
    let shares: Vec<_> = runs.iter().filter_map(|part| Some((part.time_share?, part.samples? as f64))).collect();
    (TimeShare::mean(&shares), (!samples.is_empty()).then(|| samples.iter().sum()))
}

fn with_percentiles(mut locks: LockStatistics, joined: &LengthsAtLocks) -> LockStatistics {
    let fill_in = |lengths: &mut Lengths, joined: &Option<Histogram<u64>>| {
        // Histograms of only some of the runs would give percentiles of those runs only.
        *lengths = lengths.with_percentiles(joined.as_ref().filter(|all| all.len() == lengths.count));
    };
    fill_in(&mut locks.queue_time_us, &joined.queue_time);
    fill_in(&mut locks.wait_excess_us, &joined.wait_excess);
    fill_in(&mut locks.wait_remainder_us, &joined.wait_remainder);
    fill_in(&mut locks.work_lost_us, &joined.work_lost);
    locks
}

/// The sum of all of them.
fn aborted(runs: &[&WorkloadResult]) -> Aborted {
    let mut sum = Aborted::default();
    runs.iter().for_each(|run| sum.add(&run.aborted));
    sum
}

/// The sum of all of them; `None` if one is missing.
fn lock_wait(runs: &[&WorkloadResult]) -> Option<LockWait> {
    let waits: Vec<LockWait> = runs.iter().map(|run| run.lock_wait).collect::<Option<_>>()?;
    Some(LockWait { waits: waits.iter().map(|one| one.waits).sum(), wait_s: waits.iter().map(|one| one.wait_s).sum() })
}

impl Counters {
    /// The sum of both; an event that one lacks is unknown.
    fn and(&self, other: &Counters) -> Counters {
        let sum = |of: fn(&Counters) -> Option<u64>| Some(of(self)? + of(other)?);
        Counters {
            cycles: sum(|one| one.cycles),
            instructions: sum(|one| one.instructions),
            kernel_instructions: sum(|one| one.kernel_instructions),
            spin_instructions: sum(|one| one.spin_instructions),
            l1d_misses: sum(|one| one.l1d_misses),
            llc_misses: sum(|one| one.llc_misses),
            branch_misses: sum(|one| one.branch_misses),
            branches: sum(|one| one.branches),
            l2_misses: sum(|one| one.l2_misses),
            dtlb_misses: sum(|one| one.dtlb_misses),
            dram_read_bytes: sum(|one| one.dram_read_bytes),
            coverage: self.coverage.min(other.coverage),
            is_simulated: self.is_simulated || other.is_simulated,
        }
    }
}

/// The mean; `None` without values, or if one is missing.
fn average(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.collect::<Option<_>>()?;
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Every number is the mean of all of them, or `None` if one lacks it; everything else is as in the first. `None`
/// without any, or if one is missing. It works on the serialised form, so a new number needs no code here.
pub(crate) fn mean<'a, T: Serialize + DeserializeOwned + 'a>(all: impl Iterator<Item = Option<&'a T>>) -> Option<T> {
    let written: Option<Vec<Value>> = all.map(|one| serde_json::to_value(one?).ok()).collect();
    let merged = mean_of_values(&written?)?;
    Some(serde_json::from_value(merged).expect("it is written as each of them was"))
}

/// The same for documents.
pub(crate) fn mean_of_values(all: &[Value]) -> Option<Value> {
    let (first, rest) = all.split_first()?;
    if rest.is_empty() {
        return Some(first.clone());
    }
    Some(match first {
        Value::Object(members) => {
            let names = all.iter().filter_map(Value::as_object).flat_map(Map::keys);
            let names: BTreeSet<&String> = names.chain(members.keys()).collect();
            let of =
                |name: &String| all.iter().map(|one| one.get(name).cloned().unwrap_or_default()).collect::<Vec<_>>();
            Value::Object(
                names.into_iter().filter_map(|name| Some((name.clone(), mean_of_values(&of(name))?))).collect(),
            )
        }
        Value::Number(_) | Value::Null => average(all.iter().map(Value::as_f64)).map_or(Value::Null, Value::from),
        other => other.clone(),
    })
}
