//! Histograms of runs, of latency and of time at locks: kept whole, so that percentiles over several runs are percentiles of
//! all their requests.
//!
//! On disk they are `requests.hdr`, a log in the text format of HdrHistogram that its viewers open. Its tags name the
//! run, workload and part of a line, as in `run=12;workload=oltp;transaction=new_order` or
//! `run=12;workload=oltp;queue_time=high`.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use plimsoll_workload::driver::{DrivenWorkload, WaitHistograms};
use serde::{Deserialize, Serialize};

/// Latency, in microseconds, of one workload in one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadHistograms {
    pub workload: String,
    /// By kind of transaction or query, for completed requests.
    pub transactions: BTreeMap<String, Latencies>,
    pub classes: BTreeMap<String, Latencies>,
    /// Histograms of lock waits, by priority class.
    #[serde(default)]
    pub locks: LockHistograms,
}

/// Lengths of time, in microseconds, that requests spent at locks, for classes that have any.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LockHistograms {
    /// [`LockStatistics::queue_time_us`](crate::results::LockStatistics::queue_time_us) by class.
    pub queue_time: BTreeMap<String, Latencies>,
    /// [`LockStatistics::wait_excess_us`](crate::results::LockStatistics::wait_excess_us) by class.
    pub wait_excess: BTreeMap<String, Latencies>,
    /// [`LockStatistics::wait_remainder_us`](crate::results::LockStatistics::wait_remainder_us) by class.
    pub wait_remainder: BTreeMap<String, Latencies>,
    /// [`LockStatistics::work_lost_us`](crate::results::LockStatistics::work_lost_us) by class.
    pub work_lost: BTreeMap<String, Latencies>,
}

/// A packed histogram of microseconds: unpacked it takes up to 200 KiB, and an experiment keeps tens of thousands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Latencies(Vec<u8>);

impl Latencies {
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(histogram, &mut bytes).expect("memory takes any histogram");
        Latencies(bytes)
    }

    pub fn histogram(&self) -> Histogram<u64> {
        Deserializer::new().deserialize(&mut self.0.as_slice()).expect("it was packed here, or tried when it was read")
    }
}

impl WorkloadHistograms {
    /// The histograms of a run that has just been measured.
    pub fn of(driven: &DrivenWorkload) -> Self {
        let kept = |name: &str, histogram: &Histogram<u64>| {
            (!histogram.is_empty()).then(|| (name.to_owned(), Latencies::of(histogram)))
        };
        let at_locks = |of: fn(&WaitHistograms) -> &Histogram<u64>| {
            let classes = driven.classes.iter();
            classes.filter_map(|(class, part)| kept(&class.name(), of(part.at_locks.as_ref()?))).collect()
        };
        WorkloadHistograms {
            workload: driven.measured.name.clone(),
            transactions: driven.transactions.iter().filter_map(|(name, part)| kept(name, &part.latency_us)).collect(),
            classes: driven.classes.iter().filter_map(|(class, part)| kept(&class.name(), &part.latency_us)).collect(),
            locks: LockHistograms {
                queue_time: at_locks(|locks| &locks.queue_time_us),
                wait_excess: at_locks(|locks| &locks.wait_excess_us),
                wait_remainder: at_locks(|locks| &locks.wait_remainder_us),
                work_lost: at_locks(|locks| &locks.work_lost_us),
            },
        }
    }

    /// The histogram of all requests.
    pub fn all(&self) -> Option<Histogram<u64>> {
        merged(self.transactions.values())
    }
}

/// All histograms merged; `None` without any.
pub fn merged<'a>(latencies: impl IntoIterator<Item = &'a Latencies>) -> Option<Histogram<u64>> {
    let mut latencies = latencies.into_iter();
    let mut sum = latencies.next()?.histogram();
    for next in latencies {
        sum.add(next.histogram()).expect("all latencies are recorded within the same bounds");
    }
    Some(sum)
}

impl Serialize for Latencies {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Latencies {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = STANDARD.decode(text).map_err(serde::de::Error::custom)?;
        let tried: Result<Histogram<u64>, _> = Deserializer::new().deserialize(&mut bytes.as_slice());
        tried.map_err(serde::de::Error::custom)?;
        Ok(Latencies(bytes))
    }
}

/// The histograms of one run, and the time of its window.
#[derive(Debug, Clone, Copy)]
pub struct LoggedRun<'a> {
    /// When the window opened, seconds since the experiment began.
    pub at_s: f64,
    /// The window's length, seconds.
    pub window_s: f64,
    pub workloads: &'a [WorkloadHistograms],
}

/// Writes `requests.hdr`: every run in order, numbered from 0 as in `results.json`.
pub(crate) fn write_log(into: &mut impl Write, runs: &[LoggedRun<'_>]) -> io::Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let mut builder = IntervalLogWriterBuilder::new();
    builder
        .add_comment("Latencies from the intended start of requests; intervals count from the experiment's beginning")
        .with_base_time(UNIX_EPOCH)
        // Values are microseconds; the log's maxima are in milliseconds.
        .with_max_value_divisor(1000.0);
    let mut log = builder.begin_log_with(into, &mut serializer)?;
    for (number, run) in runs.iter().enumerate() {
        for workload in run.workloads {
            let locks = &workload.locks;
            let parts = [
                ("transaction", &workload.transactions),
                ("class", &workload.classes),
                ("queue_time", &locks.queue_time),
                ("wait_excess", &locks.wait_excess),
                ("wait_remainder", &locks.wait_remainder),
                ("work_lost", &locks.work_lost),
            ];
            for (part, histograms) in parts {
                for (name, latencies) in histograms {
                    let tag = tag(&format!("run={number};workload={};{part}={name}", workload.workload));
                    let tag = Tag::new(&tag).expect("what a tag must not hold was replaced");
                    let histogram = latencies.histogram();
                    let written = log.write_histogram(&histogram, time(run.at_s), time(run.window_s), Some(tag));
                    written.map_err(|error| io::Error::other(format!("{error:?}")))?;
                }
            }
        }
    }
    Ok(())
}

/// Seconds as a length of time. A journal that was edited by hand may have invalid ones.
fn time(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// A tag ends at a comma, a space or a line's end.
fn tag(text: &str) -> String {
    text.chars().map(|c| if c == ',' || c.is_whitespace() { '_' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;

    fn latencies(values: impl IntoIterator<Item = u64>) -> Latencies {
        let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("sound bounds");
        values.into_iter().for_each(|value| histogram.record(value).expect("within bounds"));
        Latencies::of(&histogram)
    }

    fn workload() -> WorkloadHistograms {
        WorkloadHistograms {
            workload: "ol tp,1".to_owned(),
            transactions: [("a".to_owned(), latencies(1..=99)), ("b".to_owned(), latencies([5_000]))].into(),
            classes: [("low".to_owned(), latencies((1..=99).chain([5_000])))].into(),
            locks: LockHistograms {
                queue_time: [("low".to_owned(), latencies([0, 7]))].into(),
                ..LockHistograms::default()
            },
        }
    }

    #[test]
    fn percentiles_over_parts_are_those_of_all_requests() {
        let all = workload().all().expect("there are some");
        assert_eq!((all.len(), all.value_at_quantile(0.5), all.max() / 10), (100, 50, 500));
        assert_eq!(WorkloadHistograms::default().all(), None);
    }

    #[test]
    fn what_is_packed_is_small_and_whole() {
        let packed = latencies((0..100_000).map(|number| 100 + number * number % 20_000));
        assert!(packed.0.len() < 10_000, "{} bytes", packed.0.len());
        let histogram = packed.histogram();
        assert_eq!((histogram.len(), histogram.min(), Latencies::of(&histogram)), (100_000, 100, packed));
    }

    #[test]
    fn what_is_written_reads_back() {
        let before = "{\"workload\":\"x\",\"transactions\":{},\"classes\":{}}";
        let before = serde_json::from_str::<WorkloadHistograms>(before).expect("journals without lock waits are read");
        assert_eq!(before.locks, LockHistograms::default());
        let text = serde_json::to_string(&workload()).expect("plain data");
        assert_eq!(serde_json::from_str::<WorkloadHistograms>(&text).expect("as written"), workload());
        let broken = text.replace("HISTF", "????").replace("\"a\":\"", "\"a\":\"!");
        assert!(serde_json::from_str::<WorkloadHistograms>(&broken).is_err());
    }

    #[test]
    fn the_log_is_one_that_others_read() {
        let mut log = Vec::new();
        let workloads = [workload()];
        let runs = [LoggedRun { at_s: 0.5, window_s: 2.0, workloads: &workloads }; 2];
        write_log(&mut log, &runs).expect("memory takes it");
        let entries = IntervalLogIterator::new(&log).map(|entry| entry.expect("it parses"));
        let histograms = entries.filter_map(|entry| match entry {
            LogEntry::Interval(interval) => Some(interval),
            _ => None,
        });
        let histograms = histograms.collect::<Vec<_>>();
        let tags = histograms.iter().map(|h| h.tag().expect("tagged").as_str()).collect::<Vec<_>>();
        assert_eq!(tags[0], "run=0;workload=ol_tp_1;transaction=a");
        assert_eq!((tags.len(), tags[6]), (8, "run=1;workload=ol_tp_1;class=low"));
        assert_eq!(tags[7], "run=1;workload=ol_tp_1;queue_time=low");
        assert_eq!(histograms[0].duration(), Duration::from_secs(2));
        let bytes = STANDARD.decode(histograms[1].encoded_histogram()).expect("base64");
        let read: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).expect("a histogram");
        assert_eq!(read.len(), 1);
    }
}
