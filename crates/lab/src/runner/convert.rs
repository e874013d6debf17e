//! From what clients measured to what `results.json` says.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_workload::driver::{self, AbortCounts, PartMeasurement, WorkloadMeasurement};

use crate::activity::ServerShares;
use crate::latency;
use crate::record::SampleRow;
use crate::results::{
    Aborted, Device, Lengths, LockStatistics, LockWait, Mark, MeanLength, Part, ResponseByWaits, TimeShare,
    WorkloadResult,
};
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
        all: Part { time_share, ..part(&measured.all) },
        aborted: aborted(&measured.aborted),
        latency_distribution: latency::distribution(&measured.all.latency_us),
        classes: classes.collect::<BTreeMap<_, _>>(),
        transactions: transactions.collect::<BTreeMap<_, _>>(),
        round_trip_share: round_trip_share(measured),
        lock_wait: measured.lock_wait.map(|wait| LockWait { waits: measured.lock_waits, wait_s: wait.as_secs_f64() }),
        counters: counted.counters,
        top_down: counted.top_down.clone(),
        cache_misses: counted.cache_misses.clone(),
        server: None,
    }
}

/// The same with what was seen of the server's processes.
pub(super) fn on_server(mut result: WorkloadResult, shares: ServerShares) -> WorkloadResult {
    result.classes.iter_mut().for_each(|(class, part)| shares.of_class(class, part));
    result.transactions.iter_mut().for_each(|(name, part)| shares.of_transaction(name, part));
    result.server = Some(shares.known);
    result
}

/// The seconds of a workload, with what the devices did in each; a second that the observer missed has no device figures.
pub(super) fn samples<'a>(
    measured: &'a WorkloadMeasurement,
    devices: &'a [Device],
    marks: &'a [Mark],
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
        marks: marks_of(marks, sample),
    })
}

/// What happened in this second.
fn marks_of(marks: &[Mark], sample: &driver::Sample) -> Vec<String> {
    let within = marks.iter().filter(|mark| (sample.at_s..sample.at_s + sample.seconds).contains(&mark.at_s));
    within.map(|mark| mark.what.clone()).collect()
}

fn part(part: &PartMeasurement) -> Part {
    Part {
        completed: part.completed,
        throughput_per_s: part.throughput_per_s,
        latency_us: latency::figures(&part.latency_us),
        locks: part.locks.as_ref().map(lock_statistics),
        time_share: None,
        samples: None,
    }
}

/// Round trips as a share of the time in which a request was under way, which they are part of.
fn round_trip_share(measured: &WorkloadMeasurement) -> Option<f64> {
    let whole = measured.occupied.as_secs_f64();
    (whole > 0.0 && !measured.is_analytical).then(|| (measured.round_trip.as_secs_f64() / whole).min(1.0))
}

fn lock_statistics(measured: &driver::LockStatistics) -> LockStatistics {
    let lengths = |histogram: &driver::Histogram<u64>, total: Duration| Lengths::of(histogram, microseconds(total));
    let mean = |lengths: &driver::Lengths| MeanLength::of(lengths.count, microseconds(lengths.total));
    let [none, one, two, more] = measured.response_by_waits.each_ref().map(mean);
    LockStatistics {
        requests: measured.requests(),
        requests_by_waits: measured.requests_by_waits.clone(),
        requests_by_preemptions: measured.requests_by_preemptions.clone(),
        response_by_waits: ResponseByWaits { none, one, two, more },
        response_s: measured.response_total.as_secs_f64(),
        queue_time_us: lengths(&measured.queue_time_us, measured.queue_time_total),
        wait_excess_us: lengths(&measured.wait_excess_us, measured.wait_excess_total),
        wait_remainder_us: lengths(&measured.wait_remainder_us, measured.wait_remainder_total()),
        rollbacks: measured.rollbacks,
        rollback_s: measured.rollback_time.map(|time| time.as_secs_f64()),
        work_lost_us: lengths(&measured.work_lost_us, measured.work_lost.total),
        successful_attempts: mean(&measured.successful_attempts),
        queue_time_share: None,
        work_lost_share: None,
    }
    .with_shares()
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn aborted(counts: &AbortCounts) -> Aborted {
    let AbortCounts { deadlock, preempted, conflict, user, error } = *counts;
    Aborted { deadlock, preempted, conflict, user, error }
}

#[cfg(test)]
mod tests {
    use plimsoll_workload::driver::Histogram;

    use super::*;

    fn histogram(values: &[u64]) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000, 2).expect("sound bounds");
        values.iter().for_each(|value| histogram.record(*value).expect("within bounds"));
        histogram
    }

    #[test]
    fn lock_statistics_keep_what_the_driver_measured() {
        let lengths = |count, us| driver::Lengths { count, total: Duration::from_micros(us) };
        let measured = driver::LockStatistics {
            queue_time_us: histogram(&[30, 50]),
            wait_excess_us: histogram(&[30, 20]),
            wait_remainder_us: histogram(&[0, 30]),
            queue_time_total: Duration::from_nanos(80_400),
            wait_excess_total: Duration::from_nanos(50_400),
            requests_by_waits: vec![1, 2],
            requests_by_preemptions: vec![2, 1],
            response_by_waits: [lengths(1, 40), lengths(2, 160), lengths(0, 0), lengths(0, 0)],
            response_total: Duration::from_micros(201),
            successful_attempts: lengths(3, 180),
            work_lost_us: histogram(&[45]),
            work_lost: lengths(1, 45),
            rollbacks: 2,
            rollback_time: Some(Duration::from_micros(9)),
        };
        let found = lock_statistics(&measured);
        assert_eq!((found.requests, found.waits(), found.preemptions(), found.rollbacks), (3, 2, 1, 2));
        assert_eq!((found.queue_time_us.mean, found.queue_time_us.max), (Some(40.2), Some(50)));
        assert_eq!((found.wait_excess_us.mean, found.wait_remainder_us.mean), (Some(25.2), Some(15.0)));
        assert_eq!((found.queue_time_us.p50, found.queue_time_us.p90), (Some(30), None));
        assert_eq!((found.queue_time_share, found.work_lost_share), (Some(0.4), Some(0.75)));
        assert_eq!(found.response_by_waits.one, MeanLength { count: 2, mean_us: Some(80.0) });
        assert_eq!(found.response_by_waits.two, MeanLength::default());
        assert_eq!(found.mean_rollback_us(), Some(4.5));
        let text = serde_json::to_string(&found).expect("plain data");
        assert_eq!(serde_json::from_str::<LockStatistics>(&text).expect("as written"), found);
    }
}
