//! `/metrics`: counters, gauges and histograms in the text form that Prometheus reads. Times are in seconds.

#![allow(clippy::type_complexity, reason = "a list of functions by name needs no name for its type")]

use std::fmt::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use plimsoll_policy::{ClassIndex, TargetPhase, TargetView};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::governor::{Governor, Health};
use crate::own_process::OwnProcess;
use crate::registry::Phase;
use crate::settings::{ClassSettings, Settings};
use crate::statistics::{ClassCounter, ClassStatistics, Counts, Histogram, Statistics};

/// The content type of the text.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Bounds of histograms: powers of two of microseconds, from 64 us to 67 s. They coincide with bounds of our buckets,
/// so the counts are exact.
const BOUND_LOGS: std::ops::RangeInclusive<u32> = 6..=26;

/// A metric: its name without `plimsoll_` and `_total`, its meaning, and its source.
type Of<From> = (&'static str, &'static str, From);

/// Gauges and histograms of a governor in the connection path only; beside a server they are unknown.
const IN_PATH_ONLY: [&str; 5] =
    ["transaction_seconds", "unit_seconds", "queue_seconds", "class_queued", "class_paused"];

/// Histograms of each class.
const CLASS_HISTOGRAMS: [Of<fn(&ClassStatistics) -> &Histogram>; 3] = [
    ("transaction_seconds", "Times of transactions, queueing included.", |class| &class.times.transaction),
    ("unit_seconds", "Times of units (a query, or all messages up to a Sync).", |class| &class.times.unit),
    ("queue_seconds", "Times in the queue, of transactions that were queued.", |class| &class.times.queue),
];

/// Gauges of each class.
const CLASS_GAUGES: [Of<fn(&Facts<'_>, ClassIndex) -> f64>; 5] = [
    ("class_sessions", "Sessions.", |facts, class| facts.count(class, |_| true)),
    ("class_inside", "Transactions that run now.", |facts, class| {
        facts.governor.statistics.class(class).inside.load(Relaxed) as f64
    }),
    ("class_queued", "Transactions in the queue.", |facts, class| facts.count(class, |phase| phase == Phase::Queued)),
    ("class_idle_in_transaction", "Transactions that wait for their client.", |facts, class| {
        facts.count(class, |phase| phase == Phase::IdleInTransaction)
    }),
    ("class_paused", "1 while an operator has paused the class.", |facts, class| {
        facts.settings.classes.get(usize::from(class.0)).is_some_and(|class| class.is_paused).into()
    }),
];

/// Gauges of each class that has a target; `None` if unknown.
const TARGET_GAUGES: [Of<fn(&TargetView) -> Option<f64>>; 3] = [
    ("target_seconds", "The bound of the class's target.", |view| view.bound.map(|bound| bound.as_secs_f64())),
    ("target_now_seconds", "That percentile of the last 10 seconds.", |view| view.now.map(|now| now.as_secs_f64())),
    ("target_cannot_be_held", "1 while the target is exceeded and nothing is left to limit.", |view| {
        Some((view.phase == TargetPhase::CannotHold).into())
    }),
];

/// The current limits of each class; `None` if unlimited.
const CLASS_LIMITS: [Of<fn(&ClassSettings) -> Option<u32>>; 2] = [
    ("class_mpl", "How many of the class's transactions may run at once now, where that is limited.", |class| {
        class.mpl_in_force()
    }),
    (
        "class_workers_max",
        "How many parallel workers a plan of the class may have at a node now, where that is limited.",
        |class| class.workers_in_force(),
    ),
];

/// Counters of the governor as a whole.
const COUNTERS: [Of<fn(&Statistics) -> &AtomicU64>; 9] = [
    ("clients", "Clients that connected, including those refused.", |all| &all.clients),
    ("clients_refused", "Clients that were refused.", |all| &all.clients_refused),
    ("client_cancels", "Cancels of clients that were passed on.", |all| &all.client_cancels),
    ("looks", "Looks at the server's locks.", |all| &all.looks),
    ("sessions_pinned", "Sessions that have kept their connection of a pool for what they had left in it.", |all| {
        &all.pinned
    }),
    ("desyncs", "Sessions that continue ungoverned after an answer without a request.", |all| &all.desyncs),
    ("console_refused", "Logins to the console that were refused.", |all| &all.console_refused),
    ("config_reload", "Reloads of the settings that succeeded.", |all| &all.reloads),
    ("config_reload_failed", "Reloads of the settings that were refused.", |all| &all.reloads_failed),
];

/// Counters of the governor as a whole that are computed.
const COMPUTED: [Of<fn(&Facts<'_>) -> f64>; 7] = [
    ("capture_units", "Units that were recorded.", |facts| facts.captured.units as f64),
    ("capture_bytes", "Bytes of captures that were written.", |facts| facts.captured.bytes as f64),
    ("capture_lost", "Units that are missing in captures.", |facts| facts.captured.lost as f64),
    ("awake_seconds", "Time for which idle cores were kept awake.", |facts| {
        facts.governor.awake.held(facts.now).as_secs_f64()
    }),
    ("look_seconds", "Time spent on looks at the server's locks.", |facts| {
        facts.governor.statistics.look_nanos.load(Relaxed) as f64 / 1e9
    }),
    ("watch_cpu_seconds", "CPU time of the thread that looks at the server's locks.", |facts| {
        facts.governor.statistics.watch_cpu_nanos.load(Relaxed) as f64 / 1e9
    }),
    ("process_cpu_seconds", "CPU time of the governor.", |facts| facts.own.cpu.as_secs_f64()),
];

/// Gauges of the governor as a whole; `None` for a value that the kernel does not report.
const GAUGES: [Of<fn(&Facts<'_>) -> Option<f64>>; 11] = [
    ("uptime_seconds", "Time since the governor started.", |facts| Some(facts.governor.clock(facts.now).as_secs_f64())),
    ("sessions", "Sessions, of all classes.", |facts| Some(facts.sessions.len() as f64)),
    ("sessions_max", "The limit of sessions.", |facts| {
        (!facts.settings.is_beside).then(|| facts.settings.listen.clients_max.into())
    }),
    ("draining", "1 while the governor waits for its sessions to end.", |facts| {
        Some(facts.governor.is_draining.load(Relaxed).into())
    }),
    ("control_up", "1 while the governor's own connection to the server is up.", |facts| {
        Some(facts.health.control_up.is_some().into())
    }),
    (
        "disk_limit_bytes_per_second",
        "The limit of what classes that yield the disk read together; 0 while they are not limited.",
        |facts| Some(facts.health.disk_limit.unwrap_or(0) as f64),
    ),
    ("cache_confined_processes", "Server processes that are confined to a part of the last-level cache.", |facts| {
        Some(facts.health.cache_confined as f64)
    }),
    ("process_resident_memory_bytes", "Memory of the governor that is in RAM.", |facts| {
        facts.own.resident_bytes.map(|bytes| bytes as f64)
    }),
    ("process_open_fds", "Files and sockets that the governor has open.", |facts| {
        facts.own.files_open.map(|files| files as f64)
    }),
    ("process_max_fds", "The limit of files and sockets.", |facts| facts.own.files_max.map(|files| files as f64)),
    ("process_threads", "Threads of the governor.", |facts| facts.own.threads.map(|threads| threads as f64)),
];

/// The facts that are looked up once for each text.
#[derive(Debug)]
struct Facts<'a> {
    governor: &'a Governor,
    settings: Arc<Settings>,
    health: Health,
    sessions: Vec<(ClassIndex, Phase)>,
    targets: Vec<TargetView>,
    captured: crate::capture::Counts,
    own: OwnProcess,
    now: Instant,
}

impl<'a> Facts<'a> {
    fn of(governor: &'a Governor) -> Self {
        let of_card = |card: Arc<crate::registry::SessionCard>| {
            let state = card.state();
            (state.class, state.phase)
        };
        Facts {
            governor,
            settings: governor.settings(),
            health: governor.health.lock().clone(),
            sessions: governor.registry.all().into_iter().map(of_card).collect(),
            targets: governor.targets.lock().views(),
            captured: governor.capture.totals(),
            own: OwnProcess::read(),
            now: Instant::now(),
        }
    }

    /// Whether a gauge or histogram of classes is known in this mode.
    fn tells(&self, name: &str) -> bool {
        !self.settings.is_beside || !IN_PATH_ONLY.contains(&name)
    }

    fn count(&self, class: ClassIndex, is_it: impl Fn(Phase) -> bool) -> f64 {
        self.sessions.iter().filter(|(of, phase)| *of == class && is_it(*phase)).count() as f64
    }
}

/// The text of all metrics.
pub fn text(governor: &Arc<Governor>) -> String {
    let mut registry = Registry::with_prefix("plimsoll");
    registry.register_collector(Box::new(Metrics(Arc::clone(governor))));
    let mut text = String::new();
    encode(&mut text, &registry).expect("writing to memory does not fail");
    text
}

/// Every metric as Prometheus names it, with its meaning, in the order of the text.
pub fn names() -> Vec<(String, &'static str)> {
    type Head = (&'static str, &'static str);
    fn heads<From>(metrics: &[Of<From>]) -> impl Iterator<Item = Head> {
        metrics.iter().map(|(name, about, _)| (*name, *about))
    }
    let of_class = |counter: &ClassCounter| (counter.name, counter.about);
    let mut names = Vec::new();
    let mut add = |ending: &str, heads: &mut dyn Iterator<Item = Head>| {
        names.extend(heads.map(|(name, about)| (format!("plimsoll_{name}{ending}"), about)));
    };
    add("_total", &mut ClassStatistics::COUNTERS.iter().map(of_class).chain([ABORTS]));
    add("_total", &mut ClassStatistics::SECONDS.iter().map(of_class));
    add("", &mut heads(&CLASS_GAUGES).chain(heads(&TARGET_GAUGES)));
    add("", &mut heads(&CLASS_LIMITS).chain(heads(&CLASS_HISTOGRAMS)));
    add("_total", &mut heads(&COUNTERS).chain(heads(&COMPUTED)));
    add("", &mut heads(&GAUGES).chain([LEVER, FAILING, UNTOUCHABLE]));
    names
}

/// The outcomes of transactions that were aborted.
const ABORTS: (&str, &str) = (
    "aborts",
    "Transactions that the server failed (deadlock, serialization) or that were rolled back to break a cycle, by outcome.",
);
/// Whether each lever works.
const LEVER: (&str, &str) = ("lever_works", "1 for each lever that works, by its name.");
/// Whether each lever fails.
const FAILING: (&str, &str) =
    ("lever_failing", "1 for each lever that the settings ask for and that does not work, by its name.");
/// Server processes whose CPU share cannot be changed.
const UNTOUCHABLE: (&str, &str) =
    ("untouchable_processes", "Server processes whose share of the cores cannot be changed.");

/// Encodes the counts at the time of each request.
#[derive(Debug)]
struct Metrics(Arc<Governor>);

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let facts = Facts::of(&self.0);
        let encoder = &mut encoder;
        self.classes(&facts, encoder)?;
        let statistics = &self.0.statistics;
        for (name, about, of) in COUNTERS {
            let mut metric = encoder.encode_descriptor(name, about, None, MetricType::Counter)?;
            metric.encode_counter::<NoLabelSet, _, u64>(&of(statistics).load(Relaxed), None)?;
        }
        for (name, about, of) in COMPUTED {
            let mut metric = encoder.encode_descriptor(name, about, None, MetricType::Counter)?;
            metric.encode_counter::<NoLabelSet, _, u64>(&of(&facts), None)?;
        }
        for (name, about, of) in GAUGES {
            if let Some(value) = of(&facts) {
                encoder.encode_descriptor(name, about, None, MetricType::Gauge)?.encode_gauge(&value)?;
            }
        }
        let mut metric = encoder.encode_descriptor(LEVER.0, LEVER.1, None, MetricType::Gauge)?;
        for lever in self.0.levers() {
            metric.encode_family(&[("lever", lever.name)])?.encode_gauge(&f64::from(lever.is_on))?;
        }
        let mut metric = encoder.encode_descriptor(FAILING.0, FAILING.1, None, MetricType::Gauge)?;
        for lever in self.0.levers() {
            let is_failing = lever.is_wanted && !lever.is_on;
            metric.encode_family(&[("lever", lever.name)])?.encode_gauge(&f64::from(is_failing))?;
        }
        let mut metric = encoder.encode_descriptor(UNTOUCHABLE.0, UNTOUCHABLE.1, None, MetricType::Gauge)?;
        metric.encode_gauge(&(facts.health.untouchable.len() as f64))
    }
}

impl Metrics {
    fn classes(&self, facts: &Facts<'_>, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let classes = || self.0.statistics.classes();
        let known = |counter: &&ClassCounter| !facts.settings.is_beside || !counter.in_path_only;
        for ClassCounter { name, about, of, .. } in ClassStatistics::COUNTERS.iter().filter(known) {
            let values = classes().map(|class| (class.name.as_str(), of(class).load(Relaxed)));
            counters_by_class((name, about), values, encoder)?;
        }
        let mut metric = encoder.encode_descriptor(ABORTS.0, ABORTS.1, None, MetricType::Counter)?;
        for class in classes() {
            for (cause, outcome, count) in class.aborts.counted() {
                let labels = [("class", class.name.as_str()), ("cause", cause.name()), ("outcome", outcome.name())];
                metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
            }
        }
        for ClassCounter { name, about, of, .. } in ClassStatistics::SECONDS {
            let values = classes().map(|class| (class.name.as_str(), of(class).load(Relaxed) as f64 / 1e9));
            counters_by_class((name, about), values, encoder)?;
        }
        for (name, about, of) in CLASS_GAUGES.into_iter().filter(|(name, ..)| facts.tells(name)) {
            let values = (0..).map(ClassIndex).zip(classes());
            let values = values.map(|(index, class)| (class.name.as_str(), of(facts, index)));
            gauges_by_class((name, about), values, encoder)?;
        }
        for (name, about, of) in TARGET_GAUGES {
            let class = |view: &TargetView| self.0.statistics.class(view.class).name.as_str();
            let values = facts.targets.iter().filter_map(|view| Some((class(view), of(view)?)));
            gauges_by_class((name, about), values, encoder)?;
        }
        for (name, about, of) in CLASS_LIMITS {
            let classes = facts.settings.classes.iter();
            let values = classes.filter_map(|class| Some((class.name.as_str(), of(class)?.into())));
            gauges_by_class((name, about), values, encoder)?;
        }
        for (name, about, of) in CLASS_HISTOGRAMS.into_iter().filter(|(name, ..)| facts.tells(name)) {
            let mut metric = encoder.encode_descriptor(name, about, None, MetricType::Histogram)?;
            for class in classes() {
                let counts = of(class).counts();
                let labels = [("class", class.name.as_str())];
                let mut family = metric.encode_family(&labels)?;
                let (sum, count) = (counts.sum().as_secs_f64(), counts.count());
                family.encode_histogram::<NoLabelSet>(sum, count, &buckets(&counts), None)?;
            }
        }
        Ok(())
    }
}

/// A counter with a value for each of these classes.
fn counters_by_class<'a, Value: EncodeCounterValue>(
    (name, about): (&str, &str),
    values: impl Iterator<Item = (&'a str, Value)>,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), Error> {
    let mut metric = encoder.encode_descriptor(name, about, None, MetricType::Counter)?;
    for (class, value) in values {
        metric.encode_family(&[("class", class)])?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
    }
    Ok(())
}

/// A gauge with a value for each of these classes.
fn gauges_by_class<'a>(
    (name, about): (&str, &str),
    values: impl Iterator<Item = (&'a str, f64)>,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), Error> {
    let mut metric = encoder.encode_descriptor(name, about, None, MetricType::Gauge)?;
    for (class, value) in values {
        metric.encode_family(&[("class", class)])?.encode_gauge(&value)?;
    }
    Ok(())
}

/// Upper bounds in seconds, each with the number of values between it and the bound before.
fn buckets(counts: &Counts) -> Vec<(f64, u64)> {
    let mut told = 0;
    let mut bucket = |bound: f64, below: u64| {
        let within = below - told;
        told = below;
        (bound, within)
    };
    let mut buckets: Vec<(f64, u64)> =
        BOUND_LOGS.map(|log| bucket((1u64 << log) as f64 / 1e6, counts.below(log))).collect();
    buckets.push(bucket(f64::INFINITY, counts.count()));
    buckets
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::statistics::{AbortCause, AbortOutcome, count};
    use crate::testing::governor;

    #[test]
    fn what_was_counted_is_told_by_class() {
        let governor = governor(|_| {});
        let low = governor.statistics.class(ClassIndex(1));
        count(&low.transactions);
        low.times.transaction.record(Duration::from_millis(3));
        low.times.transaction.record(Duration::from_millis(300));
        low.aborts.count(AbortCause::Deadlock, AbortOutcome::Replayed);
        let text = text(&governor);
        let has = |line: &str| assert!(text.lines().any(|other| other == line), "no line `{line}` in\n{text}");
        has("plimsoll_transactions_total{class=\"low\"} 1");
        has("plimsoll_transactions_total{class=\"high\"} 0");
        has("# TYPE plimsoll_transaction_seconds histogram");
        has("plimsoll_transaction_seconds_sum{class=\"low\"} 0.303");
        has("plimsoll_transaction_seconds_count{class=\"low\"} 2");
        has("plimsoll_transaction_seconds_bucket{le=\"0.004096\",class=\"low\"} 1");
        has("plimsoll_transaction_seconds_bucket{le=\"+Inf\",class=\"low\"} 2");
        has("plimsoll_aborts_total{class=\"low\",cause=\"deadlock\",outcome=\"replayed\"} 1");
        has("plimsoll_control_up 0.0");
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn every_metric_that_is_listed_is_told_and_none_else() {
        let text = text(&governor(|_| {}));
        let told = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).map(|line| {
            let (name, kind) = line.split_once(' ').expect("a name and a type");
            if kind == "counter" { format!("{name}_total") } else { name.to_owned() }
        });
        let told: Vec<String> = told.collect();
        let listed: Vec<String> = names().into_iter().map(|(name, _)| name).collect();
        assert_eq!(told, listed);
    }
}
