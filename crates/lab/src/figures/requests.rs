//! Requests: how many, how fast, how long, how many failed, and where their time went.

use plimsoll_workload::database::NetworkBytes;

use super::{Figure, FigureSource, FigureSubject, FigureValue, Merge, Reading, Unit, by, by_word, known};
use crate::counted::NO_SPEED;
use crate::results::{Latency, TimeShare};

pub(super) const FIGURES: &[Figure] = &[
    Figure {
        key: "completed",
        unit: Unit::Count,
        meaning: "requests that ended within the window, those that rolled themselves back as prescribed included",
        merge: Merge::Sum,
        of: FigureSubject::Transaction,
        claim: None,
        read: FigureSource::Plain(|of| Ok(of.part.completed as f64)),
    },
    Figure {
        key: "throughput_per_s",
        unit: Unit::PerSecond,
        meaning: "completed requests per second; of queries, each credited with the share of its time within the window",
        merge: Merge::Runs,
        of: FigureSubject::Transaction,
        claim: by("throughput"),
        read: FigureSource::Plain(|of| match of.workload.counters {
            Some(counters) if counters.is_simulated => Err(NO_SPEED.to_owned()),
            _ => Ok(of.part.throughput_per_s),
        }),
    },
    Figure {
        key: "latency_us.mean",
        unit: Unit::Microseconds,
        meaning: "mean latency of completed requests, from their intended start",
        merge: Merge::Together,
        of: FigureSubject::Transaction,
        claim: by("mean"),
        read: FigureSource::Plain(|of| known(of.part.latency_us.map(|latency| latency.mean), NOTHING_COMPLETED)),
    },
    percentile("latency_us.p50", "p50", "median latency", |of| of_percentile(of, 0.5, |latency| latency.p50)),
    percentile("latency_us.p90", "p90", "90th percentile of latency", |of| of_percentile(of, 0.9, |one| one.p90)),
    percentile("latency_us.p95", "p95", "95th percentile of latency", |of| of_percentile(of, 0.95, |one| one.p95)),
    percentile("latency_us.p99", "p99", "99th percentile of latency", |of| of_percentile(of, 0.99, |one| one.p99)),
    percentile("latency_us.p999", "p999", "99.9th percentile of latency", |of| {
        of_percentile(of, 0.999, |one| one.p999)
    }),
    Figure {
        key: "latency_us.max",
        unit: Unit::Microseconds,
        meaning: "largest latency",
        merge: Merge::Largest,
        of: FigureSubject::Transaction,
        claim: None,
        read: FigureSource::Plain(|of| known(of.part.latency_us.map(|latency| latency.max as f64), NOTHING_COMPLETED)),
    },
    Figure {
        key: "query_memory_bytes",
        unit: Unit::Bytes,
        meaning: "most memory that the sorts, aggregations and joins of one of its queries kept at a time",
        merge: Merge::Largest,
        of: FigureSubject::Transaction,
        claim: by("query_memory"),
        read: FigureSource::Plain(|of| known(of.part.query_memory_bytes.map(|bytes| bytes as f64), NO_MEMORY)),
    },
    network(
        "network_bytes_per_request.all",
        "all",
        "bytes of rows that the processes which answered it received from each other, compressed",
        |of| bytes(of, NetworkBytes::all),
    ),
    network(
        "network_bytes_per_request.shuffle",
        "shuffle",
        "of these, rows that each went to the process to which its key belongs",
        |of| bytes(of, |one| one.shuffle),
    ),
    network(
        "network_bytes_per_request.broadcast",
        "broadcast",
        "of these, rows of a join's smaller side, which went to every process",
        |of| bytes(of, |one| one.broadcast),
    ),
    network(
        "network_bytes_per_request.gather",
        "gather",
        "of these, rows of several processes that went to one, at last to the coordinator",
        |of| bytes(of, |one| one.gather),
    ),
    aborted("aborted.deadlock", "deadlock", "attempts rolled back as victim of a deadlock, and run again", |of| {
        Ok(of.workload.aborted.deadlock as f64)
    }),
    aborted(
        "aborted.preempted",
        "preempted",
        "attempts rolled back for a more important transaction, and run again",
        |of| Ok(of.workload.aborted.preempted as f64),
    ),
    aborted(
        "aborted.conflict",
        "conflict",
        "attempts rolled back because another transaction had changed what they had read, and run again",
        |of| Ok(of.workload.aborted.conflict as f64),
    ),
    aborted(
        "aborted.user",
        "user",
        "requests rolled back as the benchmark prescribes; counted as completed too",
        |of| Ok(of.workload.aborted.user as f64),
    ),
    aborted("aborted.error", "error", "requests given up", |of| Ok(of.workload.aborted.error as f64)),
    time("time_share.cpu_run", "cpu_run", "part of response time on a core", |of| share(of, |one| one.cpu_run)),
    time("time_share.cpu_wait", "cpu_wait", "part that requests could run in, but every core was taken", |of| {
        share(of, |one| one.cpu_wait)
    }),
    time("time_share.io", "io", "part spent waiting for a device", |of| share(of, |one| one.io)),
    time(
        "time_share.io_latch",
        "io_latch",
        "part spent waiting for another process that reads or writes the same page, or the log",
        |of| share(of, |one| one.io_latch),
    ),
    time("time_share.lock", "lock", "part spent waiting for a database lock", |of| share(of, |one| one.lock)),
    time("time_share.client", "client", "part in which the server waited for its client", |of| {
        share(of, |one| one.client)
    }),
    time("time_share.other", "other", "everything else, and every part that is not known", |of| {
        share(of, |one| Some(one.other))
    }),
    Figure {
        key: "round_trip_share",
        unit: Unit::Share,
        meaning: "part of response time that clients spent on round trips between their statements; within client or other",
        merge: Merge::Runs,
        of: FigureSubject::Workload,
        claim: by_word("share", "round_trip"),
        read: FigureSource::Plain(|of| known(of.workload.round_trip_share, NOT_MEASURED)),
    },
    Figure {
        key: "block_io_s",
        unit: Unit::Seconds,
        meaning: "how long the threads or processes that serve the workload waited for block I/O, added up; null where the kernel does not measure it",
        merge: Merge::Sum,
        of: FigureSubject::Workload,
        claim: None,
        read: FigureSource::Plain(|of| known(of.workload.block_io_s, NOT_MEASURED)),
    },
];

const NO_MEMORY: &str = "the target does not report the memory of queries, or there were none";

const NO_NETWORK: &str =
    "the target is one process or does not report bytes between processes, or they are unknown of one of its queries";

const NOTHING_COMPLETED: &str = "no request completed";

const NOT_MEASURED: &str = "it was not measured";

const fn percentile(
    key: &'static str,
    claim: &'static str,
    meaning: &'static str,
    read: fn(&Reading<'_>) -> FigureValue,
) -> Figure {
    let (unit, merge, of) = (Unit::Microseconds, Merge::Joined, FigureSubject::Transaction);
    Figure { key, unit, meaning, merge, of, claim: by(claim), read: FigureSource::Plain(read) }
}

fn of_percentile(of: &Reading<'_>, quantile: f64, which: fn(&Latency) -> Option<u64>) -> FigureValue {
    let latency = of.part.latency_us.as_ref().ok_or_else(|| NOTHING_COMPLETED.to_owned())?;
    let (completed, needed) = (of.part.completed, Latency::completed_min(quantile));
    which(latency).map(|us| us as f64).ok_or_else(|| match completed {
        enough if enough >= needed => "the histograms of all its runs are needed, and some are missing".to_owned(),
        few => format!("it needs {needed} completed requests, so that ten lie beyond it, and there are {few}"),
    })
}

const fn network(
    key: &'static str,
    part: &'static str,
    meaning: &'static str,
    read: fn(&Reading<'_>) -> FigureValue,
) -> Figure {
    let (unit, merge, of) = (Unit::Bytes, Merge::Together, FigureSubject::Transaction);
    Figure { key, unit, meaning, merge, of, claim: by_word("network_bytes", part), read: FigureSource::Plain(read) }
}

fn bytes(of: &Reading<'_>, which: fn(&NetworkBytes) -> u64) -> FigureValue {
    let known = of.part.network_bytes.as_ref().ok_or_else(|| NO_NETWORK.to_owned())?;
    Ok(which(known) as f64 / of.part.completed as f64)
}

/// The causes are counted for whole workloads.
const fn aborted(
    key: &'static str,
    cause: &'static str,
    meaning: &'static str,
    read: fn(&Reading<'_>) -> FigureValue,
) -> Figure {
    let (unit, merge, of) = (Unit::Count, Merge::Sum, FigureSubject::Workload);
    Figure { key, unit, meaning, merge, of, claim: by_word("aborted", cause), read: FigureSource::Plain(read) }
}

const fn time(
    key: &'static str,
    part: &'static str,
    meaning: &'static str,
    read: fn(&Reading<'_>) -> FigureValue,
) -> Figure {
    let (unit, merge, of) = (Unit::Share, Merge::Runs, FigureSubject::Transaction);
    Figure { key, unit, meaning, merge, of, claim: by_word("share", part), read: FigureSource::Plain(read) }
}

fn share(of: &Reading<'_>, which: fn(&TimeShare) -> Option<f64>) -> FigureValue {
    known(of.part.time_share.as_ref().and_then(which), NOT_MEASURED)
}
